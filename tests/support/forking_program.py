"""A program whose children end in every way there is, while its operations are in flight.

Arguments: kinds of devices, progress. At last it prints how many operations its queue has reported, and how
often each was done. Children print nothing; what goes wrong in one is an exit status.
"""

import multiprocessing
import os
import signal
import sys

import numpy as np
from amoeba import ClosedError, MrAccess, Op, Progress, open_cluster
from amoeba_model.device import DeviceClosedError

LONG = 120
ONE = np.ones(1, np.uint64)


class WrongError(Exception):
    """A child could do what it must not."""


def in_child(calls, endings):
    """Each call must be refused; closing does nothing."""
    signal.alarm(LONG)
    for call in calls:
        try:
            call()
        except (ClosedError, DeviceClosedError):
            continue
        raise WrongError(call)
    for ending in endings:
        ending()
    if open_and_add() != 1:
        raise WrongError("a fabric of its own")


def open_and_add():
    """How much a fabric of one's own adds."""
    with open_cluster(["model"]) as fabric:
        domain = fabric.domain(0)
        queue, peers, memory = domain.cq_open(), domain.av_open(), np.zeros(1, np.uint64)
        region = domain.mr_reg(memory, MrAccess.FI_REMOTE_WRITE)
        endpoint = domain.endpoint(cq=queue, av=peers)
        endpoint.atomic(ONE, peers.insert(endpoint.getname()), region.address, region.key, Op.FI_SUM)
        queue.sread(timeout=LONG)
        return int(memory[0])


def fork(ending, of_the_parent):
    """A child that ends in this way; returns how to wait for its status."""
    child = os.fork()
    if not child:
        status = 1
        try:
            in_child(*of_the_parent)
            status = 0
        finally:
            ending(status)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def process(method, target, *arguments):
    started = multiprocessing.get_context(method).Process(target=target, args=arguments)
    started.start()

    def status():
        started.join(LONG)
        return started.exitcode

    return status


WAYS = (
    lambda of_the_parent: fork(os._exit, of_the_parent),
    lambda of_the_parent: fork(sys.exit, of_the_parent),
    lambda of_the_parent: process("fork", in_child, *of_the_parent),
    lambda _: process("spawn", open_and_add),
)
"""Each makes a child, and returns what waits for its status."""


def main(kinds, progress):
    with open_cluster(kinds.split(","), progress=Progress[progress], rtl_options={"host_latency": 40}) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        queue, peers, memory = source.cq_open(), source.av_open(), np.zeros(1, np.uint64)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_WRITE)
        endpoint = source.endpoint(cq=queue, av=peers)
        served = target.endpoint(cq=target.cq_open(), av=target.av_open())
        where = peers.insert(served.getname()), region.address, region.key, Op.FI_SUM
        bound = endpoint.atomic
        of_the_parent = (
            [
                lambda: endpoint.atomic(ONE, *where),
                lambda: bound(ONE, *where),
                queue.read,
                lambda: queue.sread(timeout=1),
                lambda: fabric.domain(0),
                lambda: endpoint.__enter__(),
                fabric.devices[0].advance,
            ],
            [endpoint.close, region.close, queue.close, fabric.close],
        )
        told = 0
        for way in WAYS:
            endpoint.atomic(ONE, *where)
            ended = way(of_the_parent)
            endpoint.atomic(ONE, *where)
            told += len(queue.sread(timeout=LONG))
            assert (status := ended()) == 0, status
            while told % 2:
                told += len(queue.sread(timeout=LONG))
        print(told, int(memory[0]), flush=True)


if __name__ == "__main__":
    signal.alarm(2 * LONG)
    main(*sys.argv[1:])
