"""The cost of the driver's calls beside that of an earlier state; no limits in time."""

import pytest

from bench import calls, history

EARLIER = dict.fromkeys(calls.LIMITS, 10.0)


def test_present_and_earlier_state_report_a_cost_for_every_call_that_has_a_limit():
    present, earlier = calls.measure(windows=2, rounds=1)
    assert set(present) == set(calls.LIMITS)
    assert all(cost > 0 for cost in present.values())
    if earlier is None:
        pytest.skip("no history")
    assert set(earlier) == set(calls.LIMITS)


def test_ucps_calls_report_a_cost_for_every_operation_that_has_a_limit():
    present, earlier = calls.measure(calls.UCP, windows=2, rounds=1, commit=calls.UCP_BASELINE)
    assert set(present) == set(calls.UCP_LIMITS)
    assert all(cost > 0 for cost in present.values())
    if earlier is None:
        pytest.skip("no history")
    assert set(earlier) == set(calls.UCP_LIMITS)
    grid = calls.calls_grid(present, earlier, calls.UCP_BASELINE, calls.UCP_LIMITS)
    assert [row[0] for row in grid.rows] == list(calls.UCP_LIMITS)
    slow = earlier | {"ucp_get_nbx": 1.2 * earlier["ucp_get_nbx"]}
    assert calls.misses(slow, earlier, calls.UCP_LIMITS) == ["ucp_get_nbx"]


def test_without_history_the_columns_say_so(monkeypatch):
    monkeypatch.setattr(history, "checkout", lambda commit: None)
    present, earlier = calls.measure(windows=1, rounds=1)
    assert earlier is None
    assert {row[2:4] for row in calls.calls_grid(present, earlier).rows} == {("no history", "no history")}
    assert calls.misses(present, earlier) == []


def test_what_takes_more_than_its_part_of_what_it_took_is_missed():
    present = EARLIER | {name: limit * 10 for name, limit in calls.LIMITS.items()} | {"write": 5.1}
    assert calls.misses(present, EARLIER) == ["write"]
    (row,) = [row for row in calls.calls_grid(present, EARLIER).rows if row[0] == "write"]
    assert row == ("write", 5.1, 10.0, 0.51, "at most 0.5")
