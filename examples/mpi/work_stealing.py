"""../work_stealing.py with MPI: mpiexec -n 4 python work_stealing.py."""

import numpy as np
from mpi4py import MPI

JOBS = (24, 2, 2, 2)


def main():
    world = MPI.COMM_WORLD
    own = np.arange(max(JOBS), dtype=np.uint64) + 1000 * world.rank
    squares, counter = np.zeros(max(JOBS), np.uint64), np.zeros(1, np.uint64)
    jobs = MPI.Win.Create(own, disp_unit=8, comm=world)
    results = MPI.Win.Create(squares, disp_unit=8, comm=world)
    taken = MPI.Win.Create(counter, disp_unit=8, comm=world)
    for window in (jobs, results, taken):
        window.Lock_all()
    world.Barrier()
    done = 0
    one, number, job = np.ones(1, np.uint64), np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    for step in range(world.size):  # its own first, then the neighbours'
        owner = (world.rank + step) % world.size
        while True:
            taken.Fetch_and_op(one, number, owner, 0, MPI.SUM)
            taken.Flush(owner)
            if number[0] >= JOBS[owner]:
                break
            jobs.Get(job, owner, int(number[0]))
            jobs.Flush(owner)
            square = job * job  # lasts until the flush
            results.Put(square, owner, int(number[0]))
            results.Flush(owner)
            done += 1
    world.Barrier()
    count = JOBS[world.rank]
    if (squares[:count] != own[:count] ** 2).any():
        raise RuntimeError(f"rank {world.rank}: expected the squares of {own[:count]}, got {squares[:count]}")
    everybody = world.gather(done)
    if world.rank == 0:
        print(f"{sum(everybody)} jobs of {JOBS} each had; the ranks did {everybody}")
    for window in (jobs, results, taken):
        window.Unlock_all()
        window.Free()


if __name__ == "__main__":
    main()
