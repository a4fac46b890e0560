"""A queue of jobs that workers on other NICs take by fetch-and-add: none twice, none lost, with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import MrAccess, Op

JOBS = 30


def main(device: str = "model") -> list[list[int]]:
    with amoeba.open_cluster([device] * 4) as fabric:
        owner = fabric.domain(0)
        jobs, results = np.arange(JOBS, dtype=np.uint64), np.zeros(JOBS, np.uint64)
        ticket = np.zeros(1, np.uint64)
        both = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        tickets = owner.mr_reg(ticket, both)
        inputs = owner.mr_reg(jobs, MrAccess.FI_REMOTE_READ)
        outputs = owner.mr_reg(results, MrAccess.FI_REMOTE_WRITE)
        server = owner.endpoint(cq=owner.cq_open(), av=owner.av_open())

        workers = []
        for rank in (1, 2, 3):
            domain = fabric.domain(rank)
            queue, peers = domain.cq_open(), domain.av_open()
            endpoint = domain.endpoint(cq=queue, av=peers)
            workers.append((endpoint, queue, peers.insert(server.getname())))

        done: list[list[int]] = [[] for _ in workers]
        busy = list(range(len(workers)))
        number, job = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
        while busy:
            worker = busy.pop(0)
            endpoint, queue, peer = workers[worker]
            endpoint.fetch_atomic(np.uint64(1), number, peer, tickets.address, tickets.key, Op.FI_SUM)
            queue.sread()
            if number[0] >= JOBS:
                continue  # nothing left; this worker goes home
            place = 8 * int(number[0])
            endpoint.read(job, peer, inputs.address + place, inputs.key)
            queue.sread()
            endpoint.write(job * job, peer, outputs.address + place, outputs.key)
            queue.sread()
            done[worker].append(int(number[0]))
            busy.append(worker)
        print(f"jobs per worker: {[len(numbers) for numbers in done]}; all squared: {(results == jobs**2).all()}")
        if not (results == jobs**2).all():
            raise RuntimeError(f"expected every job's square, got {results}")
        return done


if __name__ == "__main__":
    main(*sys.argv[1:])
