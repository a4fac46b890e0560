"""Ranks with jobs, of which rank 0 has most: who is done takes others', by fetch-and-add, with Amoeba."""

import sys

import amoeba
import numpy as np

JOBS = (24, 2, 2, 2)


def program(team: amoeba.Team) -> int:
    jobs, results = team.window(max(JOBS)), team.window(max(JOBS))
    taken = team.window(1)  # of each rank's jobs
    jobs.local[:] = np.arange(max(JOBS)) + 1000 * team.rank
    team.barrier()
    done = 0
    for step in range(team.ranks):  # its own first, then the neighbours'
        owner = (team.rank + step) % team.ranks
        while (number := int(taken[owner].fetch_add(0, 1))) < JOBS[owner]:
            job = jobs[owner][number]
            results[owner][number] = job * job
            done += 1
    team.barrier()
    own = np.arange(JOBS[team.rank], dtype=np.uint64) + 1000 * team.rank
    if (results.local[: len(own)] != own * own).any():
        raise RuntimeError(f"rank {team.rank}: expected the squares of {own}, got {results.local[: len(own)]}")
    return done


def main(device: str = "model") -> list[int]:
    done = amoeba.run_team(program, [device] * len(JOBS))
    print(f"{sum(done)} jobs of {JOBS} each had; the ranks did {done}")
    return done


if __name__ == "__main__":
    main(*sys.argv[1:])
