"""A lock in one NIC's memory that two other NICs take in turn: compare-and-swap with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import MrAccess, Op

FREE = 0


class Worker:
    """One NIC that shares the lock; ``number`` identifies the holder and must not be FREE."""

    def __init__(self, domain: amoeba.Domain, number: int, owner: bytes, lock: amoeba.MemoryRegion) -> None:
        self._number = np.uint64(number)
        self._found = np.zeros(1, np.uint64)
        self._queue, peers = domain.cq_open(), domain.av_open()
        self._endpoint = domain.endpoint(cq=self._queue, av=peers)
        self._owner = peers.insert(owner)
        self._lock = lock

    def try_acquire(self) -> bool:
        """Take the lock if it is free: one compare-and-swap, which also says who holds it otherwise."""
        self._swap(expected=np.uint64(FREE), new=self._number)
        return int(self._found[0]) == FREE

    def release(self) -> None:
        self._swap(expected=self._number, new=np.uint64(FREE))
        if self._found[0] != self._number:
            raise RuntimeError(f"expected to hold the lock as {self._number}, held by {self._found[0]}")

    def add(self, region: amoeba.MemoryRegion, amount: int) -> None:
        """Read, change and write: safe only while the lock is held."""
        value = np.zeros(1, np.uint64)
        self._endpoint.read(value, self._owner, region.address, region.key)
        self._queue.sread()
        value += np.uint64(amount)
        self._endpoint.write(value, self._owner, region.address, region.key)
        self._queue.sread()

    def _swap(self, expected: np.uint64, new: np.uint64) -> None:
        lock = self._lock
        self._endpoint.compare_atomic(new, expected, self._found, self._owner, lock.address, lock.key, Op.FI_CSWAP)
        self._queue.sread()


def main(device: str = "model") -> tuple[int, int]:
    with amoeba.open_cluster([device] * 3) as fabric:
        owner = fabric.domain(0)
        both = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        account, lock = np.array([100], np.uint64), np.array([FREE], np.uint64)
        region, lock_region = owner.mr_reg(account, both), owner.mr_reg(lock, both)
        server = owner.endpoint(cq=owner.cq_open(), av=owner.av_open())
        workers = [Worker(fabric.domain(n), n, server.getname(), lock_region) for n in (1, 2)]
        refused = 0
        for _ in range(5):
            for worker, rival in (workers, workers[::-1]):
                if not worker.try_acquire():
                    raise RuntimeError("expected a free lock between two holders")
                refused += not rival.try_acquire()
                worker.add(region, 10)
                worker.release()
        print(f"the account is at {account[0]}; {refused} attempts found the lock taken")
        return int(account[0]), refused


if __name__ == "__main__":
    main(*sys.argv[1:])
