"""A process that is killed while another one waits for it."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from amoeba import Errno, ErrorAvailableError, Op, Progress, Rendezvous, join_cluster

from tests.support.pairs import PAIRS

PROGRAM = Path(__file__).parents[1] / "support" / "serving_program.py"
ONE = np.ones(1, np.uint64)
AT_MOST = 5.0
"""Seconds that a busy machine may take for what a good one does in less than one."""


@pytest.mark.parametrize("progress", ["FI_PROGRESS_MANUAL", "FI_PROGRESS_AUTO"])
@pytest.mark.parametrize("kinds", PAIRS)
def test_what_a_killed_process_has_not_answered_is_reset_at_once(kinds, progress):
    """Both what was in flight, and what is begun afterwards."""
    here, there = kinds.split(",")
    started = []

    def start(host, port):
        command = [sys.executable, PROGRAM, there, host, str(port)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))

    try:
        with (
            Rendezvous.listen("127.0.0.1", 0, 2, ready=start) as rendezvous,
            join_cluster(here, rendezvous, progress=Progress[progress]) as fabric,
        ):
            domain = fabric.domain(0)
            queue, peers = domain.cq_open(), domain.av_open()
            endpoint = domain.endpoint(cq=queue, av=peers)
            name, address, key = rendezvous.exchange(None)[1]
            peer = peers.insert(bytes.fromhex(name))
            endpoint.atomic(ONE, peer, address, key, Op.FI_SUM)
            assert queue.sread(timeout=60)
            assert started[0].stdout.readline() == "ready\n"
            for number in range(3):
                endpoint.atomic(ONE, peer, address, key, Op.FI_SUM, context=number)
            assert queue.sread(timeout=0.5) == []
            started[0].kill()
            started[0].wait()
            killed = time.monotonic()
            assert errors(queue, 3) == [(number, Errno.FI_ECONNRESET) for number in range(3)]
            endpoint.atomic(ONE, peer, address, key, Op.FI_SUM, context="later")
            assert errors(queue, 1) == [("later", Errno.FI_ECONNRESET)]
            assert time.monotonic() - killed < AT_MOST
            assert fabric.network.resets >= 1
    finally:
        for process in started:
            process.kill()
            process.communicate()


def errors(queue, count):
    """(context, number) of errors, of which there must be so many."""
    found = []
    while len(found) < count:
        with pytest.raises(ErrorAvailableError):
            assert queue.sread(timeout=30), "no error came"
        entry = queue.readerr()
        found.append((entry.op_context, entry.err))
    return found
