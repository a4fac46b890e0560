"""../ring_all_reduce.py with MPI: mpiexec -n 4 python ring_all_reduce.py."""

import numpy as np
from mpi4py import MPI

LENGTH = 1000


def all_reduce(world, vector):
    """Replace ``vector`` by the sum of all ranks' ones; each rank sends twice its length, but for one part."""
    parts = np.array_split(vector, world.size)
    received = np.empty_like(parts[0])
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    for step in range(2 * (world.size - 1)):
        mine, theirs = parts[(world.rank - step) % world.size], parts[(before - step) % world.size]
        into = received[: len(theirs)]
        world.Sendrecv(mine, after, recvbuf=into, source=before)
        if step < world.size - 1:  # the first time round they are added up, the second time round they are sums
            theirs += into
        else:
            theirs[:] = into


def main():
    world = MPI.COMM_WORLD
    vector = np.random.default_rng(world.rank).integers(0, 1 << 20, LENGTH).astype(np.float64)
    expected = sum(np.random.default_rng(rank).integers(0, 1 << 20, LENGTH) for rank in range(world.size))
    all_reduce(world, vector)
    if (vector != expected).any():
        raise RuntimeError(f"rank {world.rank}: {(vector != expected).sum()} of {LENGTH} sums are wrong")
    world.Barrier()
    if world.rank == 0:
        print(f"{world.size} ranks have the same {LENGTH} sums, the first of which is {vector[0]:.0f}")


if __name__ == "__main__":
    main()
