"""../bank.py with MPI: mpiexec -n 4 python bank.py."""

import numpy as np
from mpi4py import MPI

ACCOUNTS, START, TRANSFERS = 2, 100, 15


def withdraw(accounts, rank, number, amount):
    """Withdraw an amount by compare-and-swap, with retries after a conflict; False if the balance is too low."""
    nothing, found = np.zeros(1, np.int64), np.zeros(1, np.int64)
    accounts.Fetch_and_op(nothing, found, rank, number, MPI.NO_OP)
    accounts.Flush(rank)
    balance = int(found[0])
    while balance >= amount:
        expected, left = np.int64([balance]), np.int64([balance - amount])  # last until the flush
        accounts.Compare_and_swap(left, expected, found, rank, number)
        accounts.Flush(rank)
        if found[0] == balance:
            return True
        balance = int(found[0])
    return False


def main():
    world = MPI.COMM_WORLD
    local = np.full(ACCOUNTS, START, np.int64)
    accounts = MPI.Win.Create(local, disp_unit=8, comm=world)
    accounts.Lock_all()
    world.Barrier()
    random, refused = np.random.default_rng(world.rank), 0
    for _ in range(TRANSFERS):
        (source, target), amount = random.integers(0, world.size, 2), int(random.integers(1, 80))
        numbers = random.integers(0, ACCOUNTS, 2)
        if withdraw(accounts, int(source), int(numbers[0]), amount):
            paid = np.int64([amount])
            accounts.Accumulate(paid, int(target), int(numbers[1]), op=MPI.SUM)
            accounts.Flush(int(target))
        else:
            refused += 1
    accounts.Unlock_all()
    world.Barrier()
    ranks = world.gather((int(local.sum()), refused))
    if world.rank == 0:
        balances = [balance for balance, _ in ranks]
        print(f"{balances} on the ranks, {sum(balances)} together; {sum(refused for _, refused in ranks)} refused")
        if sum(balances) != len(ranks) * ACCOUNTS * START:
            raise RuntimeError(f"expected {len(ranks) * ACCOUNTS * START} together, got {sum(balances)}")
    accounts.Free()


if __name__ == "__main__":
    main()
