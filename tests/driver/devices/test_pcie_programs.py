"""Programs on NICs on PCI Express that await, sleep, or register what they use: ``tests/support/pcie_scenes.py``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run_scene(tmp_path):
    def run(name):
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.pcie_scenes", str(tmp_path), name],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout.splitlines()[-1])
        assert found.pop("maps left") == [0, 0]
        assert found.pop("threads left") == []
        return found

    return run


@pytest.mark.parametrize("scene", ["asyncio", "asyncio, manual"])
def test_tasks_await_atomics_and_messages_while_others_run(run_scene, scene):
    found = run_scene(scene)
    assert found["sums"] == list(range(40))
    assert found["message"]
    assert found["cancelled"]
    assert found["beats"] > 0


def test_work_goes_on_while_the_program_sleeps_and_sleeping_costs_nothing(run_scene):
    """Deferred work, a message, a wait in another thread; then no round of the thread until an interrupt."""
    assert run_scene("automatic") == {
        "received": "deferred",
        "entries": 1,
        "waited": ["from another thread"],
        "rounds asleep": 0,
        "idle asleep": True,
    }


def test_registered_buffers_spare_the_calls_that_map_them(run_scene):
    """80 maps and unmaps, or more, of 30 operations; none with FI_MR_LOCAL."""
    without, with_regions = run_scene("registered")["calls"]
    assert without >= 80
    assert with_regions == 0
