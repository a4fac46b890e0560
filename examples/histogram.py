"""Three NICs count into one histogram: unfetched additions, a whole vector per request, with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import MrAccess, Op

BINS = 64
SAMPLES = 10_000


def main(device: str = "model") -> np.ndarray:
    with amoeba.open_cluster([device] * 4) as fabric:
        owner, histogram = fabric.domain(0), np.zeros(BINS, np.uint64)
        region = owner.mr_reg(histogram, MrAccess.FI_REMOTE_WRITE)
        server = owner.endpoint(cq=owner.cq_open(), av=owner.av_open())
        for rank in (1, 2, 3):
            samples = np.random.default_rng(rank).normal(BINS / 2, BINS / 8, SAMPLES).astype(int).clip(0, BINS - 1)
            # Counted here first; then all bins are added by one request, each bin atomically.
            counts = np.bincount(samples, minlength=BINS).astype(np.uint64)
            with (
                fabric.domain(rank) as domain,
                domain.cq_open() as queue,
                domain.av_open() as peers,
                domain.endpoint(cq=queue, av=peers) as endpoint,
            ):
                peer = peers.insert(server.getname())
                endpoint.atomic(counts, peer, region.address, region.key, Op.FI_SUM)
                queue.sread()
        peak = int(histogram.argmax())
        print(f"{int(histogram.sum())} samples, most of them ({histogram[peak]}) in bin {peak} of {BINS}")
        for start in range(0, BINS, 8):
            print(f"{start:3} {'#' * int(histogram[start : start + 8].sum() // 400)}")
        return histogram


if __name__ == "__main__":
    main(*sys.argv[1:])
