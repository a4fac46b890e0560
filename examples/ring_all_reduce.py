"""Four ranks add their vectors up in a ring, so that each has the sum: scatter-reduce and all-gather, with Amoeba."""

import sys

import amoeba
import numpy as np

LENGTH = 1000


def all_reduce(team: amoeba.Team, vector: np.ndarray) -> None:
    """Replace ``vector`` by the sum of all ranks' ones; each rank sends twice its length, but for one part."""
    parts = np.array_split(vector, team.ranks)
    received = np.empty_like(parts[0])
    after, before = (team.rank + 1) % team.ranks, (team.rank - 1) % team.ranks
    for step in range(2 * (team.ranks - 1)):
        mine, theirs = parts[(team.rank - step) % team.ranks], parts[(before - step) % team.ranks]
        into = received[: len(theirs)]
        team.sendrecv(mine, after, into, before)
        if step < team.ranks - 1:  # the first time round they are added up, the second time round they are sums
            theirs += into
        else:
            theirs[:] = into


def program(team: amoeba.Team) -> np.ndarray:
    vector = np.random.default_rng(team.rank).integers(0, 1 << 20, LENGTH).astype(np.float64)
    expected = sum(np.random.default_rng(rank).integers(0, 1 << 20, LENGTH) for rank in range(team.ranks))
    all_reduce(team, vector)
    if (vector != expected).any():
        raise RuntimeError(f"rank {team.rank}: {(vector != expected).sum()} of {LENGTH} sums are wrong")
    return vector


def main(device: str = "model") -> list[np.ndarray]:
    vectors = amoeba.run_team(program, [device] * 4)
    print(f"{len(vectors)} ranks have the same {LENGTH} sums, the first of which is {vectors[0][0]:.0f}")
    return vectors


if __name__ == "__main__":
    main(*sys.argv[1:])
