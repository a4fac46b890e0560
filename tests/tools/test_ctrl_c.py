"""Ctrl-C in front of the ``amoeba`` command: it says what was done until then, and ends as shells expect."""

import importlib
import json
import re
import signal
from pathlib import Path

import pytest
from amoeba_tools import random_access
from amoeba_tools.cli import app
from amoeba_tools.cli.perf import _Output
from amoeba_tools.conformance import runner
from typer.testing import CliRunner

from tests.support.commands import ended, process

RECORDING = Path(__file__).parents[1] / "data" / "libfabric-1.17-sockets.npz"
INTERRUPTED = 130
"""128 + SIGINT."""


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})


def interrupt_after(calls, function):
    """The function, which Ctrl-C interrupts when it is called once more than so often."""
    left = [calls]

    def interrupted(*arguments, **named):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return function(*arguments, **named)

    return interrupted


def test_gups_says_how_many_updates_were_made(monkeypatch):
    monkeypatch.setattr(random_access._Rank, "reap", interrupt_after(20, random_access._Rank.reap))
    result = run("gups", "--updates", 5000, "--json")
    assert result.exit_code == INTERRUPTED
    done = re.search(r"interrupted: ([\d,]+) of 5,000 updates done, not verified", result.stderr)
    assert done, result.stderr
    assert 0 < int(done[1].replace(",", "")) < 5000
    assert result.stdout == "", "half a result is no JSON"


def test_replay_says_which_cells_agreed(monkeypatch):
    module = importlib.import_module("amoeba_tools.cli.replay")
    monkeypatch.setattr(module, "check", interrupt_after(2, module.check))
    result = run("replay", RECORDING, "--cells", "SUM/*INT8", "--vector", 1024)
    assert result.exit_code == INTERRUPTED
    assert re.search(r"interrupted: 2 cells, [1-9][\d,]* vectors, 0 mismatches", result.stderr), result.stderr


def test_conformance_says_how_many_checks_passed_and_which_failed(monkeypatch):
    outcome = interrupt_after(3, runner._outcome)

    def second_fails(check, pair, numbers=iter(range(9))):  # noqa: B008  counted over all calls
        found = outcome(check, pair)
        return found if next(numbers) != 1 else runner.Outcome(found.check, "as the test wants", (), 0.0)

    monkeypatch.setattr(runner, "_outcome", second_fails)
    result = run("conformance", "--page", "fi_cq")
    assert result.exit_code == INTERRUPTED
    assert re.search(r"interrupted: 3 of \d+ checks, 1 failed: fi_cq\S+", result.stderr), result.stderr


def test_soak_says_how_many_operations_were_done(monkeypatch):
    module = importlib.import_module("amoeba_tools.cli.soak")

    def some(fabric, *, progress, **_):
        progress(1200)
        progress(34)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_soak", some)
    result = run("soak")
    assert result.exit_code == INTERRUPTED
    assert "interrupted: 1,234 operations were done" in result.stderr


def test_perf_keeps_the_results_of_the_runs_before(monkeypatch):
    monkeypatch.setattr(_Output, "begin", interrupt_after(1, _Output.begin))
    result = run("perf", "-t", "tag_lat", "-s", 8, "-s", 16, "-n", 5, "--json")
    assert result.exit_code == INTERRUPTED
    assert [(one["size"], one["iterations"]) for one in json.loads(result.stdout)] == [(8, 5)]
    assert "interrupted after 1 of 2 runs" in result.stderr


@pytest.mark.parametrize("command", [("gups",), ("soak",), ("conformance",)])
def test_a_process_that_waits_for_others_can_be_interrupted(command):
    with process(*command, "--listen", "127.0.0.1:0") as started:
        assert started.stderr.readline().startswith("waiting at ")
        started.send_signal(signal.SIGINT)
        status, output, errors = ended(started)
    assert (status, output) == (INTERRUPTED, ""), errors
    assert "Traceback" not in errors
