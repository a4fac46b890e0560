"""The atomic unit has executed every cell on every class of operand that exists, and the published page says so."""

import pytest

from tests.hw.atomic.coverage import PAGE, measure, page

pytestmark = pytest.mark.long


def test_no_possible_bin_is_missed():
    cover = measure()
    assert cover.holes() == {}
    assert PAGE.read_text() == page(cover), "run `python tests/hw/atomic/coverage.py` and commit the page"
