"""The model's speed beside that of an earlier state; no limits in time."""

import pytest

from bench import history, model

PRESENT = {"read, 65536 bytes": {"whole": 1000.0, "model": 1200.0}, "write, 8 bytes": {"whole": 9.0, "model": 14.0}}
EARLIER = {"read, 65536 bytes": {"whole": 100.0, "model": 60.0}, "write, 8 bytes": {"whole": 3.0, "model": 10.0}}


def test_present_and_earlier_state_report_positive_rates():
    operations = ["fetched sum, 8 bytes", "read, 65536 bytes"]
    present, earlier = model.measure(operations, seconds=0.01, rounds=1)
    assert list(present) == operations
    assert all(rates["model"] > rates["whole"] > 0 for rates in present.values())
    if earlier is None:
        pytest.skip("no history")
    assert list(earlier) == operations
    assert all(rates["model"] > rates["whole"] > 0 for rates in earlier.values())


def test_without_history_the_columns_say_so(monkeypatch):
    monkeypatch.setattr(history, "checkout", lambda commit: None)
    present, earlier = model.measure(["write, 8 bytes"], seconds=0.01, rounds=1)
    assert earlier is None
    (row,) = model.speed_grid(present, earlier).rows
    assert row[3:] == ("no history", "no history", "at least 1.5")
    assert model.misses(present, earlier) == []


def test_ratios_of_long_operations_come_with_their_megabytes():
    long, short = model.speed_grid(PRESENT, EARLIER).rows
    assert long == ("read, 65536 bytes", 1000, 65.536, 10.0, 20.0, "at least 20")
    assert short == ("write, 8 bytes", 9, "", 3.0, 1.4, "at least 1.5")


def test_what_is_not_as_many_times_as_fast_as_it_is_to_be_is_missed():
    assert model.misses(PRESENT, EARLIER) == ["write, 8 bytes"]


def test_the_best_of_all_rounds_counts(monkeypatch):
    printed = iter(['{"write, 8 bytes": {"whole": 1, "model": 5}}', '{"write, 8 bytes": {"whole": 2, "model": 4}}'])
    monkeypatch.setattr(history, "checkout", lambda commit: None)
    monkeypatch.setattr(history, "run", lambda *arguments: next(printed))
    assert model.measure(rounds=2)[0] == {"write, 8 bytes": {"whole": 2, "model": 5}}


def test_every_limit_is_of_an_operation_that_is_measured():
    assert set(model.LIMITS) <= set(model.OPERATIONS)
