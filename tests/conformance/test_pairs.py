"""Every sentence of the manual pages, on every pair."""

import pytest
from amoeba.testing import NEEDS, checks
from pairs import PAIRS

NOT_OFFERED = frozenset({"messages", "tagged", "triggered"})
"""What no device of this project does yet. Checks that need it are listed, so that none is left out unseen."""
LEFT_OUT = frozenset(check.id for check in checks() if check.needs & NOT_OFFERED)


@pytest.mark.parametrize("check", [check for check in checks() if check.id not in LEFT_OUT], ids=str)
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
def test_what_pairs_offer_is_all_but_what_is_not_there_yet(shared, name):
    assert shared(name).get().offers == set(NEEDS) - NOT_OFFERED
