"""One of the two processes of :mod:`bench.processes`: ``ping|atomic manual|automatic OPERATIONS serve|ask``.

The program prints its address, reads the other's, and does its part; the asking process prints the median, in ms, and
its CPU time for an operation, in us. The serving process ends with its standard input.
"""

import contextlib
import select
import statistics
import sys
import time

import numpy as np
from amoeba import BindFlags, CompletionQueue, Endpoint, Fabric, MrAccess, Op
from amoeba.devices.linked import open_linked
from amoeba.nic.nic import Nic

_FIRST = 20
"""Operations that are not counted."""


def _await(queue: CompletionQueue, count: int) -> None:
    while count:
        count -= len(queue.sread(count))


def _serve(fabric: Fabric, automatic: bool) -> None:
    """Let time pass until standard input ends."""
    while not select.select([sys.stdin], [], [], None if automatic else 0)[0]:
        fabric.advance()


def _ping(endpoint: Endpoint, queue: CompletionQueue, peer: int, asks: bool) -> None:
    """Send a message there, and one back."""
    endpoint.recv(bytearray(8))
    if asks:
        endpoint.send(bytes(8), peer)
        _await(queue, 2)
    else:
        _await(queue, 1)
        endpoint.send(bytes(8), peer)
        _await(queue, 1)


def main(program: str, progress: str, operations: int, role: str) -> None:
    linked = open_linked()
    nic = Nic(linked.device)
    linked.name(nic)
    automatic, asks, halves = progress == "automatic", role == "ask", 2 if program == "ping" else 1
    with contextlib.closing(linked), Fabric([nic]) as fabric:
        if automatic:
            fabric.automate()
        domain = fabric.domain()
        counter, found = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
        region = domain.mr_reg(counter, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        queue, peers = domain.cq_open(), domain.av_open()
        endpoint = domain.endpoint(cq=queue, av=peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
        print(endpoint.getname().hex(), region.address, region.key, flush=True)
        address, remote, key = sys.stdin.readline().split()
        peer = peers.insert(bytes.fromhex(address))
        times: list[float] = []
        cpu = 0.0
        for number in range(operations if asks or program == "ping" else 0):
            if number == _FIRST:
                cpu = time.process_time()
            begin = time.perf_counter()
            if program == "ping":
                _ping(endpoint, queue, peer, asks)
            else:
                endpoint.fetch_atomic(np.uint64(1), found, peer, int(remote), int(key), Op.FI_SUM)
                _await(queue, 1)
            times.append(time.perf_counter() - begin)
        cpu = (time.process_time() - cpu) / (operations - _FIRST)
        if asks:
            print(statistics.median(times[_FIRST:]) / halves * 1e3, cpu / halves * 1e6, flush=True)
        else:
            _serve(fabric, automatic)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
