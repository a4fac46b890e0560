"""Time to reach a NIC in another process of this host, beside an earlier commit, and to reach Python from C.

Elapsed times are medians, and need an idle machine, since a waiting process sleeps. CPU time, of one process, depends
less on the machine's load. Both states run in turn several times, and the least figure of each counts.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from amoeba import FabricError

from bench import history
from bench.report import Grid

__all__ = ["BEFORE", "LIMITS", "comparison", "grid", "measure", "misses"]

BEFORE = "3136471e"
"""The commit that times between processes are compared with."""
_OPERATIONS = 500
_ROUNDS = 5
_PROGRAM = Path(__file__).with_name("process_program.py")
_PROGRAMS = {"half a round trip of 8 bytes": "ping", "a blocking fetch_atomic": "atomic"}
_PROGRESS = {"manual": "", "automatic": ", automatic progress"}
LIMITS = {"half a round trip of 8 bytes, ms": 0.5, "a call from C to Python and back, CPU us": 5.0}
"""Upper limits."""


def measure(rounds: int = _ROUNDS) -> tuple[dict[str, float], dict[str, float]]:
    """Measure the figures by name, of the present state and at BEFORE.

    The figure of C is of the present alone, and left out where no library can be built. Without history there are no
    figures at BEFORE.
    """
    earlier = history.checkout(BEFORE)
    roots = [history.PRESENT] if earlier is None else [history.PRESENT, earlier]
    states: list[dict[str, float]] = [{}, {}]
    for _ in range(rounds):
        for root, least in zip(roots, states, strict=False):
            for name, value in _times(root).items():
                least[name] = min(value, least.get(name, value))
    present, before = states
    cost = _call_cost()
    if cost is not None:
        present["a call from C to Python and back, CPU us"] = cost
    return present, before


def _times(root: Path) -> dict[str, float]:
    """Measure all pairs of processes once, in the state at ``root``."""
    found: dict[str, float] = {}
    for progress, beside in _PROGRESS.items():
        for what, program in _PROGRAMS.items():
            found[f"{what}{beside}, ms"], found[f"{what}{beside}, CPU us"] = _pair(root, program, progress)
    return found


def misses(found: dict[str, float]) -> list[str]:
    """List the figures above their limits."""
    return [what for what, limit in LIMITS.items() if found.get(what, 0.0) > limit]


def grid(found: dict[str, float]) -> Grid:
    rows: list[tuple[Any, ...]] = [(what, round(value, 3), LIMITS.get(what, "")) for what, value in found.items()]
    return Grid("two processes with a model NIC each", ("measurement", "figure", "at most"), rows)


def comparison(present: dict[str, float], before: dict[str, float]) -> Grid:
    """Return a table of both states side by side."""
    rows = [(what, before[what], present[what], present[what] / before[what]) for what in before]
    return Grid("two processes, beside an earlier commit", ("measurement", f"at {BEFORE}", "now", "ratio"), rows)


def _pair(root: Path, program: str, progress: str) -> tuple[float, float]:
    """Median in ms, and CPU us of the process that asks, for each operation, in the state at ``root``."""
    command = history.command(_PROGRAM, program, progress, str(_OPERATIONS))
    environment = history.environment(root)
    with _start([*command, "serve"], environment) as server, _start([*command, "ask"], environment) as asking:
        _say(asking, _hear(server))
        _say(server, _hear(asking))
        median, cpu = _hear(asking).split()
        if server.stdin is not None:
            server.stdin.close()  # that is all
    return float(median), float(cpu)


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def _call_cost() -> float | None:
    try:
        from bench.nothing import LIBRARY, build

        path = build(LIBRARY)
    except FabricError:
        return None
    # a program of C, as far as Amoeba's library is concerned: it is called without the lock of Python
    code = (
        "import ctypes, sys\n"
        "cost = ctypes.CDLL(sys.argv[1]).nothing_cost\n"
        "cost.restype = ctypes.c_double\n"
        "print(cost(100000))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return float(done.stdout)
