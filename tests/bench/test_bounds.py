"""Cost of strangers: the figures of the RTL NIC, which are exact, and how they are shown."""

import pytest
from rich.progress import Progress

import bench.__main__ as command
from bench import bounds


@pytest.fixture(scope="module")
def rtl():
    return bounds.costs(), bounds.own_traffic()


def test_nothing_that_a_stranger_sends_costs_rtl_more_than_its_bound(rtl):
    costs, own = rtl
    assert {what for what, cycles in costs.items() if cycles > bounds.LIMITS[what]} == set(), costs
    assert 1 <= own <= bounds.OWN_LIMIT


def test_every_frame_of_a_stranger_takes_its_time_on_rtl_s_link(rtl):
    """Four cycles; where the WRITE meets the flood may differ by one frame from run to run."""
    costs, _ = rtl
    further = bounds.FRAMES // 2
    assert min(costs.values()) * further >= 4 * (further - 1)


def test_on_models_the_same_frames_are_answered():
    """The model says nothing of cycles; that a WRITE behind them is answered is all."""
    costs = bounds.costs("model")
    assert list(costs) == list(bounds.LIMITS)
    assert all(cycles > 0 for cycles in costs.values())


def test_each_stands_beside_what_it_was():
    found = dict.fromkeys(bounds.LIMITS, 7.5)
    *rows, own = bounds.bounds_grid(found, 1.2).rows
    assert [row[0] for row in rows] == list(bounds.LIMITS)
    assert rows[0][1:] == (71, 7.5, "at most 8", "cycles per frame")
    assert own == (bounds.OWN, 20, 1.2, "at most 1.5", "times as long as alone")


@pytest.mark.parametrize(("cycles", "own", "kept"), [(8, 1.5, True), (8.1, 1.5, False), (8, 1.6, False)])
def test_one_that_is_above_its_bound_is_a_limit_missed(monkeypatch, cycles, own, kept):
    found = dict.fromkeys(bounds.LIMITS, 1.0) | {next(iter(bounds.LIMITS)): cycles}
    monkeypatch.setattr(bounds, "costs", lambda: found)
    monkeypatch.setattr(bounds, "own_traffic", lambda: own)
    assert command.frames_of_strangers(Progress()).kept == kept
