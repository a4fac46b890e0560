"""A counter in one NIC's memory, incremented by another NIC: fetch-and-add with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import MrAccess, Op


def main(device: str = "model") -> list[int]:
    with amoeba.open_cluster([device, device]) as fabric:
        # NIC 0 serves: whoever knows the region's key may read and write the counter
        owner, counter = fabric.domain(0), np.array([100], np.uint64)
        region = owner.mr_reg(counter, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        server = owner.endpoint(cq=owner.cq_open(), av=owner.av_open())

        # NIC 1 adds, and learns what it found
        user = fabric.domain(1)
        queue, peers = user.cq_open(), user.av_open()
        client = user.endpoint(cq=queue, av=peers)
        peer = peers.insert(server.getname())
        seen, found = [], np.zeros(1, np.uint64)
        for step in (1, 10, 100):
            client.fetch_atomic(np.uint64(step), found, peer, region.address, region.key, Op.FI_SUM)
            queue.sread()
            seen.append(int(found[0]))
        print(f"the additions found {seen}; the counter is now {counter[0]}")
        return seen


if __name__ == "__main__":
    main(*sys.argv[1:])
