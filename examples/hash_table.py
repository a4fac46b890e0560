"""A hash table spread over the memories of four NICs: insert by compare-and-swap, find by reading, with Amoeba."""

import sys

import amoeba

SLOTS, KEYS, EMPTY = 64, 15, 0


def places(key: int, ranks: int) -> tuple[int, list[int]]:
    """Find the rank that has a key, and the slots to try there, in order."""
    mixed = key * 0x9E3779B97F4A7C15 % 2**64
    return mixed % ranks, [((mixed >> 32) + step) % SLOTS for step in range(SLOTS)]


def insert(table: amoeba.Window, key: int, value: int) -> None:
    rank, slots = places(key, len(table))
    for slot in slots:
        if table[rank].compare_and_swap((slot, 0), EMPTY, key) in (EMPTY, key):
            table[rank][slot, 1] = value
            return
    raise MemoryError(f"rank {rank} has no slot left for {key}")


def find(table: amoeba.Window, key: int) -> int | None:
    rank, slots = places(key, len(table))
    for slot in slots:
        found, value = table[rank][slot]
        if found in (EMPTY, key):
            return None if found == EMPTY else int(value)
    return None


def program(team: amoeba.Team) -> int:
    table = team.window((SLOTS, 2))  # a key and its value in each slot
    for key in range(1 + team.rank, 1 + KEYS * team.ranks, team.ranks):
        insert(table, key, key * key)
    team.barrier()
    for key in range(1, 1 + KEYS * team.ranks, 7):
        if find(table, key) != key * key:
            raise RuntimeError(f"expected {key * key} at {key}, found {find(table, key)}")
    if find(table, 4711) is not None:
        raise RuntimeError("found a key that was never inserted")
    return int((table.local[:, 0] != EMPTY).sum())


def main(device: str = "model") -> list[int]:
    entries = amoeba.run_team(program, [device] * 4)
    print(f"{sum(entries)} entries, on each NIC {entries}; those looked for were found")
    return entries


if __name__ == "__main__":
    main(*sys.argv[1:])
