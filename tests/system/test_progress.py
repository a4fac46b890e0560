"""A process that makes no call at all while others use its memory and send to it, over UDP."""

import subprocess
import sys

import numpy as np
import pytest
from amoeba import BindFlags, CqFormat, Op, Progress, Rendezvous, join_cluster

from tests.support.pairs import PAIRS

LONG = 300
"""Seconds in which anything ends."""

TARGET = """
import sys, time
import numpy as np
from amoeba import *

kind, host, port = sys.argv[1:]
with Rendezvous.connect(host, int(port)) as rendezvous:
    with join_cluster(kind, rendezvous, progress=Progress.FI_PROGRESS_AUTO) as fabric:
        domain = fabric.domain(0)
        queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG), domain.av_open()
        endpoint = domain.endpoint(cq=queue, av=peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
        memory, inbox = np.zeros(4, np.uint64), bytearray(20_000)
        region = domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        endpoint.recv(inbox)
        _, peer = rendezvous.exchange([endpoint.getname().hex(), region.address, region.key])[::-1]
        peers.insert(bytes.fromhex(peer[0]))
        rendezvous.exchange("ready")
        print("no call from now on", flush=True)
        sys.stdin.readline()
        deadline, rounds = time.monotonic() + 100, -1
        while fabric._auto.rounds != rounds and time.monotonic() < deadline:
            rounds = fabric._auto.rounds
            time.sleep(0.3)  # longer than the thread waits between two rounds while it has something to do
        print(memory[0], inbox == bytes(range(200)) * 100, fabric._auto.rounds - rounds, flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("kinds", PAIRS)
def test_a_process_that_makes_no_call_serves_others_and_sleeps_afterwards(kinds):
    here, there = kinds.split(",")
    started = []

    def start(host, port):
        command = [sys.executable, "-c", TARGET, there, host, str(port)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    try:
        with (
            Rendezvous.listen("127.0.0.1", 0, 2, ready=start, timeout=LONG) as rendezvous,
            join_cluster(here, rendezvous, progress=Progress.FI_PROGRESS_AUTO) as fabric,
        ):
            target = started[0]
            domain = fabric.domain(0)
            queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG), domain.av_open()
            flags = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
            endpoint = domain.endpoint(cq=queue, av=peers, cq_flags=flags)
            _, (name, address, key) = rendezvous.exchange([endpoint.getname().hex(), 0, 0])
            peer = peers.insert(bytes.fromhex(name))
            rendezvous.exchange("ready")
            assert target.stdout.readline() == "no call from now on\n"
            one, found = np.uint64(1), np.zeros(20, np.uint64)
            for index in range(20):
                endpoint.fetch_atomic(one, found[index : index + 1], peer, address, key, Op.FI_SUM)
            endpoint.send(bytes(range(200)) * 100, peer)
            ended = 0
            while ended < 21:
                entries = queue.sread(21, timeout=LONG)
                assert entries, f"{ended} of 21 operations ended"
                ended += len(entries)
            assert list(found) == list(range(20))
            target.stdin.write("go on\n")
            target.stdin.flush()
            assert target.stdout.readline() == "20 True 0\n"
            queue.close()
            target.stdin.write("end\n")
            target.stdin.flush()
            assert target.wait(LONG) == 0
    finally:
        for process in started:
            process.kill()
            process.communicate()
