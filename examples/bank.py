"""Accounts in four NICs' memories, and transfers between any two at once: no money is lost, with Amoeba."""

import sys

import amoeba
import numpy as np

ACCOUNTS, START, TRANSFERS = 2, 100, 15


def withdraw(account: amoeba.RemoteArray, number: int, amount: int) -> bool:
    """Withdraw an amount by compare-and-swap, with retries after a conflict; False if the balance is too low."""
    balance = int(account[number])
    while balance >= amount:
        found = int(account.compare_and_swap(number, balance, balance - amount))
        if found == balance:
            return True
        balance = found
    return False


def program(team: amoeba.Team) -> tuple[int, int]:
    accounts = team.window(ACCOUNTS)
    accounts.local[:] = START
    team.barrier()
    random, refused = np.random.default_rng(team.rank), 0
    for _ in range(TRANSFERS):
        (source, target), amount = random.integers(0, team.ranks, 2), int(random.integers(1, 80))
        numbers = random.integers(0, ACCOUNTS, 2)
        if withdraw(accounts[source], numbers[0], amount):
            accounts[target].add_at(numbers[1], amount)
        else:
            refused += 1
    team.barrier()
    return int(accounts.local.sum()), refused


def main(device: str = "model") -> list[tuple[int, int]]:
    ranks = amoeba.run_team(program, [device] * 4)
    balances = [balance for balance, _ in ranks]
    print(f"{balances} on the NICs, {sum(balances)} together; {sum(refused for _, refused in ranks)} refused")
    if sum(balances) != len(ranks) * ACCOUNTS * START:
        raise RuntimeError(f"expected {len(ranks) * ACCOUNTS * START} together, got {sum(balances)}")
    return ranks


if __name__ == "__main__":
    main(*sys.argv[1:])
