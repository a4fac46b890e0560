"""The bench of what losses leave of a rate."""

import pytest
from amoeba.core.errno import Errno

from bench import loss, nic


def test_without_loss_it_is_the_link_s_rate_and_equal_seeds_give_equal_cycles():
    rate = loss.rate("write", 0.0, seed=0, count=32)
    assert 0.9 * nic.link_rate("write") <= rate <= nic.link_rate("write")
    lossy = loss.rate("read", 0.01, seed=5, count=16)
    assert lossy == loss.rate("read", 0.01, seed=5, count=16)
    assert 0 < lossy < loss.rate("read", 0.0, seed=5, count=16)


def test_a_row_says_what_is_left_and_where_a_pdc_was_given_up():
    steps = []
    found = loss.curve((0.0, 0.01), seeds=2, count=16, progress=lambda: steps.append(None))
    assert len(steps) == 4
    found["write"][0.05], found["read"][0.05] = found["write"][0.0] / 4, 0.0
    rows = loss.grid(found).rows
    assert [row[0] for row in rows] == ["0", "1", "5"]
    assert [row[-1] for row in rows] == ["", 80, 50]
    assert rows[0][2] == rows[0][4] == 100
    assert 0 < rows[1][2] < 100
    assert rows[2][2] == 25.0
    assert rows[2][3:5] == (0.0, "given up")
    titles = [loss.grid(found, kind).title for kind in loss.KINDS]
    assert [title.split("(")[1] for title in titles] == ["model, exact)", "RTL, exact)"]


def test_the_kind_of_nic_is_the_one_that_was_asked_for(monkeypatch):
    kinds = []
    monkeypatch.setattr(loss, "rate", lambda operation, share, seed, count, kind: kinds.append(kind) or 1.0)
    loss.curve((0.0, 0.01), seeds=2, kind="rtl")
    assert kinds == ["rtl"] * 6


def test_of_rtl_nics_half_the_rate_is_left_when_one_frame_in_twenty_is_lost():
    """As published: of fewer transfers, and of one seed, what is left differs by a quarter with any cycle."""
    for operation, rates in loss.curve((0.0, 0.05), kind="rtl").items():
        assert rates[0.0] / 2 <= rates[0.05] < rates[0.0], operation


def test_what_fails_for_another_reason_is_no_loss(monkeypatch):
    def refused(*arguments):
        raise loss.FabricError(Errno.FI_EINVAL, "no such file")

    monkeypatch.setattr(loss, "rate", refused)
    with pytest.raises(loss.FabricError, match="no such file"):
        loss.curve((0.0,))
