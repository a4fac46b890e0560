"""../parameter_server.py with MPI: mpiexec -n 4 python parameter_server.py."""

import numpy as np
from mpi4py import MPI

STEPS, SAMPLES, RATE, WANTED = 20, 100, 0.15, (3.0, -2.0)


def main():
    world = MPI.COMM_WORLD
    local, read, nothing = np.zeros(2), np.zeros(2), np.zeros(2)
    parameters = MPI.Win.Create(local, disp_unit=8, comm=world)
    parameters.Lock_all()
    if world.rank > 0:  # rank 0 only serves
        random = np.random.default_rng(world.rank)
        x = np.stack([random.uniform(-1.7, 1.7, SAMPLES), np.ones(SAMPLES)])
        y = WANTED @ x + random.normal(0, 0.01, SAMPLES)
        for _ in range(STEPS):
            parameters.Get_accumulate(nothing, read, 0, op=MPI.NO_OP)
            parameters.Flush(0)
            gradient = 2 * x @ (read @ x - y) / SAMPLES
            change = -RATE * gradient  # has a name, as it must last until the flush
            parameters.Accumulate(change, 0, op=MPI.SUM)
            parameters.Flush(0)
    world.Barrier()
    parameters.Get(read, 0)
    parameters.Flush(0)
    if not np.allclose(read, WANTED, atol=0.05):
        raise RuntimeError(f"expected about {WANTED}, got {read}")
    if world.rank == 0:
        print(f"y = {read[0]:.1f} x {read[1]:+.1f}")
    parameters.Unlock_all()
    parameters.Free()


if __name__ == "__main__":
    main()
