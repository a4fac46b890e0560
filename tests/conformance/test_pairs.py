"""Every sentence of the manual pages, on every pair."""

import pytest
from amoeba.testing import NEEDS, checks, select
from pairs import AUTOMATIC_RTL, PAIRS

ABOUT_PROGRESS = ("fi_cq", "fi_cntr", "fi_trigger", "fi_eq", "fi_msg.long_*", "fi_endpoint.cl*")


def hold(one, check):
    """Run a check on a pair, which is not used again if it fails."""
    pair = one.get()
    try:
        assert check.missing(pair) == frozenset()
        check.run(pair)
    except BaseException:
        one.spoil()
        raise


@pytest.mark.parametrize("check", checks(), ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_the_manual_pages_hold(shared, name, check):
    hold(shared(name), check)


@pytest.mark.parametrize("check", select(*ABOUT_PROGRESS), ids=str)
def test_what_progress_is_about_holds_on_rtl_that_makes_it_by_itself(shared, check):
    hold(shared(AUTOMATIC_RTL), check)


@pytest.mark.parametrize("name", ["model,model", "rtl,rtl"])
def test_pairs_offer_all_that_a_check_may_need(shared, name):
    assert shared(name).get().offers == set(NEEDS)
