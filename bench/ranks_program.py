"""A rank of :mod:`bench.ranks`: all ranks shift 8 bytes around a ring; rank 0 prints a line of JSON.

Microseconds by the clock for an operation, and of processor time for an operation of one rank, the mean of all.
"""

import json
import sys
import time

import numpy as np
from mpi4py import MPI

_FIRST = 20
"""Operations that are not counted."""


def main(operations: int) -> None:
    world = MPI.COMM_WORLD
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    sent, received = np.zeros(1), np.zeros(1)

    def shift(times: int) -> None:
        for _ in range(times):
            world.Sendrecv(sent, right, 0, received, left, 0)

    shift(_FIRST)
    world.Barrier()
    clock, cpu = time.perf_counter(), time.process_time()
    shift(operations)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    spent = world.gather(cpu)
    if spent is not None:
        print(json.dumps([clock / operations * 1e6, sum(spent) / world.size / operations * 1e6]), flush=True)
    world.Barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]))
