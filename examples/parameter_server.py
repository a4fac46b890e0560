"""Three workers fit a line, whose parameters are in the memory of a fourth NIC: read, and added to, with Amoeba."""

import sys

import amoeba
import numpy as np

STEPS, SAMPLES, RATE, WANTED = 20, 100, 0.15, (3.0, -2.0)


def program(team: amoeba.Team) -> np.ndarray:
    parameters = team.window(2, np.float64)
    if team.rank > 0:  # rank 0 only serves, that is: its NIC does
        random = np.random.default_rng(team.rank)
        x = np.stack([random.uniform(-1.7, 1.7, SAMPLES), np.ones(SAMPLES)])
        y = WANTED @ x + random.normal(0, 0.01, SAMPLES)
        for _ in range(STEPS):
            gradient = 2 * x @ (parameters[0][:] @ x - y) / SAMPLES
            parameters[0].add_at(np.s_[:], -RATE * gradient)  # atomic: no worker's step is lost
    team.barrier()
    found = parameters[0][:]
    if not np.allclose(found, WANTED, atol=0.05):
        raise RuntimeError(f"expected about {WANTED}, got {found}")
    return found


def main(device: str = "model") -> np.ndarray:
    found = amoeba.run_team(program, [device] * 4)[0]
    print(f"y = {found[0]:.1f} x {found[1]:+.1f}")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
