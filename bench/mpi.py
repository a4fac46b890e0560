"""Cost of one-sided and two-sided MPI on this host: mpi4py with MPICH, between two processes.

Needs the extra ``bench``: ``pip install '.[bench]'``. The module is also the program of both processes, run
by mpiexec.
"""

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TRANSPORTS", "available", "mpi_rates", "mpiexec_path"]

TRANSPORTS = {
    "shared memory": {},
    "libfabric's tcp provider": {
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "MPIR_CVAR_NOLOCAL": "1",
        "FI_PROVIDER": "tcp",
    },
}
"""Transports between the processes, with MPICH's settings. On one host MPICH uses a network only if configured to."""
_TIMEOUT = 60.0


def mpiexec_path() -> str | None:
    """Return where the launcher is: beside Python, or on the search path; None if it is not installed."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def available() -> bool:
    """Return whether mpi4py and an mpiexec are installed."""
    return importlib.util.find_spec("mpi4py") is not None and mpiexec_path() is not None


def mpi_rates(transport: str, operations: int, window: int) -> dict[str, float]:
    """Measure operations per second of CPU time of both processes, by MPI call; 8 bytes each, ``window`` in flight.

    Returns the rates by MPI call. Both processes spin while they wait, which counts: MPI takes that time from other
    work. Raises CalledProcessError, with MPI's output, if the transport fails here, and TimeoutExpired after a
    minute.
    """
    mpiexec = mpiexec_path()
    assert mpiexec is not None  # available() has said so
    root = Path(__file__).resolve().parents[1]
    command = [mpiexec, "-n", "2", sys.executable, "-m", "bench.mpi", str(operations), str(window)]
    ended = subprocess.run(
        command,
        cwd=root,
        env=os.environ | TRANSPORTS[transport],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )
    rates: dict[str, float] = json.loads(ended.stdout)
    return rates


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _work(operations: int, window: int) -> None:
    """Rank 0 operates on rank 1, which has nothing to do but to be there, and to receive; rank 0 prints the rates."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    memory, operand, results = np.zeros(1, np.uint64), np.ones(1, np.uint64), np.zeros(window, np.uint64)
    exposed: Any = MPI.Win.Create(memory, disp_unit=8, comm=world)

    def one_sided(call: Callable[[int], object]) -> None:
        if world.rank == 0:
            exposed.Lock(1)
            for done in range(0, operations, window):
                for n in range(min(window, operations - done)):
                    call(n)
                exposed.Flush(1)
            exposed.Unlock(1)

    def two_sided() -> None:
        for _ in range(operations):
            if world.rank == 0:
                world.Send(operand, 1, 7)
            else:
                world.Recv(results[:1], 0, 7)

    works: dict[str, Callable[[], None]] = {
        "Fetch_and_op": lambda: one_sided(
            lambda n: exposed.Fetch_and_op(operand, results[n : n + 1], 1, 0, MPI.SUM),
        ),
        "Put": lambda: one_sided(lambda n: exposed.Put(operand, 1, 0)),
        "Send": two_sided,
    }
    rates = {}
    for name, work in works.items():
        world.Barrier()
        begin = _cpu_seconds()
        work()
        world.Barrier()
        rates[name] = operations / world.allreduce(_cpu_seconds() - begin)
        if name == "Fetch_and_op" and world.rank == 1:
            assert memory[0] == operations, f"{memory[0]} sums of {operations}"
    exposed.Free()
    if world.rank == 0:
        print(json.dumps(rates))


if __name__ == "__main__":
    _work(int(sys.argv[1]), int(sys.argv[2]))
