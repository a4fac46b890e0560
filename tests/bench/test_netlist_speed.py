"""How fast a netlist is simulated: what is measured, and the goal.

Covers ``bench/netlist.py``.
"""

import pytest
from rich.progress import Progress

import bench.__main__ as command
from bench import netlist


def test_both_kinds_of_a_node_are_timed_idle_and_in_use(monkeypatch):
    monkeypatch.setattr(netlist, "KINDS", {"specification": "model"})
    speeds = netlist.netlist_speed()
    assert list(speeds) == ["node, specification, idle", "node, specification, in use"]
    assert min(speeds.values()) > 0


@pytest.mark.parametrize(("slowest", "kept"), [(2000.0, True), (1999.0, False)])
def test_less_than_the_goal_is_a_limit_missed(monkeypatch, slowest, kept):
    monkeypatch.setattr(command, "netlist_speed", lambda: {"idle": 9000.0, "in use": slowest})
    found = command.netlist(Progress())
    assert found.kept == kept
    assert dict(found.grids[0].rows)["in use"] == slowest
