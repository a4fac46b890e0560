"""MPI over the provider, on two ranks and on four: a ring of MPICH's ranks, each with a model NIC.

Each state of the project runs in turn, several times, and the least figure of each counts. The elapsed time for four
ranks includes the wait for a processor where there are fewer.
"""

import json
import subprocess
import sys
from pathlib import Path

from bench import history
from bench.mpi import available, mpiexec_path
from bench.processes import BEFORE
from bench.report import Grid

__all__ = ["MAX_RATIO", "grid", "measure", "misses"]

MAX_RATIO = 3.0
"""Maximum elapsed time of an operation on four ranks, in times of that on two."""
_PROGRAM = Path(__file__).with_name("ranks_program.py")
_RANKS = (2, 4)
_OPERATIONS = 300
_ROUNDS = 4
_MPICH = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1", "PYTHONSAFEPATH": "1"}
"""Over libfabric: ranks of one host otherwise meet in its memory."""
_TIMEOUT = 120.0

Figures = dict[int, tuple[float, float]]
"""Microseconds of an operation by the number of ranks: elapsed, and processor time of one rank."""


def measure(rounds: int = _ROUNDS, operations: int = _OPERATIONS) -> list[Figures]:
    """Measure the present state, then that at BEFORE; nothing without mpi4py, one state without history."""
    earlier = history.checkout(BEFORE)
    states = [history.PRESENT] if earlier is None else [history.PRESENT, earlier]
    found: list[Figures] = [{} for _ in states]
    for _ in range(rounds if available() else 0):
        for root, figures in zip(states, found, strict=True):
            for ranks in _RANKS:
                elapsed, cpu = _ring(root, ranks, operations)
                before = figures.get(ranks, (elapsed, cpu))
                figures[ranks] = (min(elapsed, before[0]), min(cpu, before[1]))
    return found


def misses(found: list[Figures]) -> bool:
    """Return whether four ranks take too long for an operation of theirs."""
    present = found[0]
    return bool(present) and present[4][0] > MAX_RATIO * present[2][0]


def grid(found: list[Figures]) -> Grid:
    """Return a table of both states side by side."""
    rows = []
    for part, what in enumerate(("elapsed", "CPU of a rank")):
        for ranks in found[0]:
            times = [figures[ranks][part] for figures in found]
            rows.append((f"{ranks} ranks, {what}", times[0], *([times[1], times[0] / times[1]] if times[1:] else [])))
    header = ("8 bytes around a ring", "us", *((f"us at {BEFORE}", "ratio") if found[1:] else ()))
    return Grid("MPI over the provider, a model NIC for each rank", header, rows)


def _ring(root: Path, ranks: int, operations: int) -> tuple[float, float]:
    """Run the program in the state at ``root``: elapsed us of an operation, and CPU us of one rank."""
    command = "amoeba_tools" if (root / "tools").is_dir() else "amoeba"
    launcher = mpiexec_path()
    assert launcher is not None  # available() has said so
    program = [launcher, "-n", str(ranks), sys.executable, str(_PROGRAM), str(operations)]
    ended = subprocess.run(
        history.command(command, "fi-run", *program),
        env=history.environment(root) | _MPICH,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )
    line = next(line for line in ended.stdout.splitlines() if line.startswith("["))
    elapsed, cpu = json.loads(line)
    return elapsed, cpu
