"""Every sentence of the manual pages, on every pair."""

import pytest
from amoeba.testing import NEEDS, checks
from pairs import PAIRS


@pytest.mark.parametrize("check", checks(), ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_the_manual_pages_hold(shared, name, check):
    one = shared(name)
    pair = one.get()
    try:
        assert check.missing(pair) == frozenset()
        check.run(pair)
    except BaseException:
        one.spoil()
        raise


@pytest.mark.parametrize("name", ["model,model", "rtl,rtl"])
def test_pairs_offer_all_that_a_check_may_need(shared, name):
    assert shared(name).get().offers == set(NEEDS)
