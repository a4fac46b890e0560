"""Time to reach a NIC in another process of this host, and to reach Python from C.

Elapsed times are medians, and need an idle machine, since a waiting process sleeps. CPU time, of one process, depends
less on the machine's load.
"""

import os
import subprocess
import sys
from typing import Any

from amoeba import FabricError

from bench.report import Grid

__all__ = ["LIMITS", "grid", "measure", "misses"]

_OPERATIONS = 500
LIMITS = {"half a round trip of 8 bytes, ms": 0.5, "a call from C to Python and back, CPU us": 5.0}
"""Upper limits."""


def measure() -> dict[str, float]:
    """Measure the figures by name; that of C is left out where no library can be built."""
    found: dict[str, float] = {}
    for progress in ("manual", "automatic"):
        beside = "" if progress == "manual" else ", automatic progress"
        for what, program in (("half a round trip of 8 bytes", "ping"), ("a blocking fetch_atomic", "atomic")):
            median, cpu = _pair(program, progress)
            found[f"{what}{beside}, ms"] = median
            found[f"{what}{beside}, CPU us"] = cpu
    cost = _call_cost()
    if cost is not None:
        found["a call from C to Python and back, CPU us"] = cost
    return found


def misses(found: dict[str, float]) -> list[str]:
    """List the figures above their limits."""
    return [what for what, limit in LIMITS.items() if found.get(what, 0.0) > limit]


def grid(found: dict[str, float]) -> Grid:
    rows: list[tuple[Any, ...]] = [(what, round(value, 3), LIMITS.get(what, "")) for what, value in found.items()]
    return Grid("two processes with a model NIC each", ("measurement", "figure", "at most"), rows)


def _pair(program: str, progress: str) -> tuple[float, float]:
    """Median in ms, and CPU us of the process that asks, for each operation."""
    command = [sys.executable, "-m", "bench.process_program", program, progress, str(_OPERATIONS)]
    with _start([*command, "serve"]) as server, _start([*command, "ask"]) as asking:
        _say(asking, _hear(server))
        _say(server, _hear(asking))
        median, cpu = _hear(asking).split()
        if server.stdin is not None:
            server.stdin.close()  # that is all
    return float(median), float(cpu)


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


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
