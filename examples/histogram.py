"""Three NICs count into one histogram in the memory of a fourth, as NumPy counts by add.at, with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import MrAccess

BINS = 64
SAMPLES = 10_000


def main(device: str = "model") -> np.ndarray:
    with amoeba.open_cluster([device] * 4) as fabric:
        owner, histogram = fabric.domain(0), np.zeros(BINS, np.uint64)
        region = owner.mr_reg(histogram, MrAccess.FI_REMOTE_WRITE)
        server = owner.endpoint(cq=owner.cq_open(), av=owner.av_open())
        for rank in (1, 2, 3):
            samples = np.random.default_rng(rank).normal(BINS / 2, BINS / 8, SAMPLES).astype(int).clip(0, BINS - 1)
            # Counted here first, so that each bin that was hit is one addition, which is atomic.
            hit, counts = np.unique(samples, return_counts=True)
            with (
                fabric.domain(rank) as domain,
                domain.cq_open() as queue,
                domain.av_open() as peers,
                domain.endpoint(cq=queue, av=peers) as endpoint,
            ):
                bins = endpoint.array(peers.insert(server.getname()), region, np.uint64, BINS)
                bins.add_at(hit, counts.astype(np.uint64))
        peak = int(histogram.argmax())
        print(f"{int(histogram.sum())} samples, most of them ({histogram[peak]}) in bin {peak} of {BINS}")
        for start in range(0, BINS, 8):
            print(f"{start:3} {'#' * int(histogram[start : start + 8].sum() // 400)}")
        return histogram


if __name__ == "__main__":
    main(*sys.argv[1:])
