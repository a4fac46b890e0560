"""../hash_table.py with MPI: mpiexec -n 4 python hash_table.py."""

import numpy as np
from mpi4py import MPI

SLOTS, KEYS, EMPTY = 64, 15, 0


def places(key, ranks):
    """Find the rank that has a key, and the slots to try there, in order."""
    mixed = key * 0x9E3779B97F4A7C15 % 2**64
    return mixed % ranks, [((mixed >> 32) + step) % SLOTS for step in range(SLOTS)]


def insert(table, key, value):
    rank, slots = places(key, table.group.size)
    found, empty = np.zeros(1, np.uint64), np.uint64([EMPTY])
    entry = np.uint64([key, value])
    for slot in slots:
        table.Compare_and_swap(entry[:1], empty, found, rank, 2 * slot)
        table.Flush(rank)
        if found[0] in (EMPTY, key):
            table.Put(entry[1:], rank, 2 * slot + 1)
            table.Flush(rank)
            return
    raise MemoryError(f"rank {rank} has no slot left for {key}")


def find(table, key):
    rank, slots = places(key, table.group.size)
    found = np.zeros(2, np.uint64)
    for slot in slots:
        table.Get(found, rank, 2 * slot)
        table.Flush(rank)
        if found[0] in (EMPTY, key):
            return None if found[0] == EMPTY else int(found[1])
    return None


def main():
    world = MPI.COMM_WORLD
    local = np.zeros((SLOTS, 2), np.uint64)
    table = MPI.Win.Create(local, disp_unit=8, comm=world)
    table.Lock_all()
    for key in range(1 + world.rank, 1 + KEYS * world.size, world.size):
        insert(table, key, key * key)
    world.Barrier()
    for key in range(1, 1 + KEYS * world.size, 7):
        if find(table, key) != key * key:
            raise RuntimeError(f"expected {key * key} at {key}, found {find(table, key)}")
    if find(table, 4711) is not None:
        raise RuntimeError("found a key that was never inserted")
    table.Unlock_all()
    entries = world.gather(int((local[:, 0] != EMPTY).sum()))
    if world.rank == 0:
        print(f"{sum(entries)} entries, on each rank {entries}; those looked for were found")
    table.Free()


if __name__ == "__main__":
    main()
