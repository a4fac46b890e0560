"""How fast an idle NIC is simulated, beside an earlier state; no limits in time."""

import pytest
from rich.progress import Progress

import bench.__main__ as command
from bench import history, simulation

EARLIER = history.PRESENT / "earlier"
REST = {"one RTL NIC, RandomAccess with itself": 10.0}


def outcome(monkeypatch, idle, earlier):
    gain = idle / earlier if earlier else None
    figures = {"one RTL NIC, idle": idle, "the same before": earlier, simulation.IDLE_GAIN: gain, **REST}
    monkeypatch.setattr(command, "simulation_speed", lambda: figures)
    return command.simulation(Progress())


def test_both_states_run_in_turn_and_the_best_of_all_rounds_counts(monkeypatch):
    printed = {history.PRESENT: iter(["30", "20"]), EARLIER: iter(["5", "10"])}
    asked = []

    def run(root, program, *arguments):
        asked.append((root, arguments))
        return next(printed[root])

    monkeypatch.setattr(history, "checkout", lambda: EARLIER)
    monkeypatch.setattr(history, "run", run)
    assert simulation.idle_rates(rounds=2, runs=3, cycles=4) == (30, 10)
    assert asked == [(root, ("3", "4")) for root in (history.PRESENT, EARLIER) * 2]


def test_without_history_only_the_present_state_runs(monkeypatch):
    monkeypatch.setattr(history, "checkout", lambda: None)
    monkeypatch.setattr(history, "run", lambda root, *arguments: "7")
    assert simulation.idle_rates() == (7, None)


def test_an_rtl_nic_that_has_nothing_to_do_is_timed():
    """By the program that both states run; of the NIC that other tests use."""
    assert float(history.run(history.PRESENT, simulation._IDLE_PROGRAM, "1", "200")) > 0


@pytest.mark.parametrize(("idle", "earlier", "kept"), [(17, 10, True), (16, 10, False), (16, None, True)])
def test_less_than_the_goal_is_a_limit_missed(monkeypatch, idle, earlier, kept):
    found = outcome(monkeypatch, idle, earlier)
    assert found.kept == kept
    (grid,) = found.grids
    assert ("no history" in dict(grid.rows).values()) == (earlier is None)
    assert dict(grid.rows)["one RTL NIC, RandomAccess with itself"] == 10
