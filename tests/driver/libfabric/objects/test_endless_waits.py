"""A wait without a timeout that nothing can end says so.

Each is made in a program of its own, as the one that runs tests has handlers of signals.

Covers ``libfabric/objects/queues/deadlock.py``.
"""

import subprocess
import sys

import pytest

START = """
import signal, sys, threading
from amoeba import *

fabric = open_cluster(sys.argv[1].split("-"))
here, there = fabric.domain(0), fabric.domain(1)
queue, peers, memory = here.cq_open(), here.av_open(), bytearray(8)
endpoint = here.endpoint(cq=queue, av=peers)
other_queue, other_peers = there.cq_open(), there.av_open()
other = there.endpoint(cq=other_queue, av=other_peers)
region = there.mr_reg(memory, MrAccess.FI_REMOTE_WRITE)
to = peers.insert(other.getname()), region.address, region.key

def tell(wait):
    try:
        print(wait() or "nothing")
    except FabricError as error:
        print(error)
"""
REFUSED = (
    "FI_EOPBADSTATE: nothing is in flight, and nobody else is there to end the wait: begin something first, "
    "or give a timeout"
)
SIGNALLED = "FI_ECANCELED: signal() ended the wait"
DONE = "[CqEntry(op_context='mine')]"
PROGRAMS = {
    "a queue": ("tell(queue.sread); tell(queue.sreadfrom)", [REFUSED] * 2),
    "infinitely long": ("tell(lambda: queue.sread(1, float('inf')))", [REFUSED]),
    "operations in flight": (
        "endpoint.write(memory, *to, context='mine'); tell(queue.sread); tell(queue.sread)",
        [DONE, REFUSED],
    ),
    "operations held back": (
        "endpoint.write(memory, *to, context='mine', flags=OpFlags.FI_MORE); tell(queue.sread); tell(queue.sread)",
        [DONE, REFUSED],
    ),
    "silent operations": (
        "endpoint.inject_write(b'12345678', *to); tell(queue.sread); print(bytes(memory))",
        [REFUSED, "b'12345678'"],
    ),
    "a signal before": ("queue.signal(); tell(queue.sread); tell(queue.sread)", [SIGNALLED, REFUSED]),
    "a timeout": ("tell(lambda: queue.sread(timeout=0.05))", ["nothing"]),
    "another thread": ("threading.Timer(0.2, queue.signal).start(); tell(queue.sread)", [SIGNALLED]),
    "a handler": (
        "signal.signal(signal.SIGALRM, lambda *_: queue.signal()); signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "tell(queue.sread)",
        [SIGNALLED],
    ),
    "an operation that waits for a counter": (
        "counter = here.cntr_open(); endpoint.write(memory, *to, flags=OpFlags.FI_TRIGGER, "
        "context=TriggeredContext(counter, 1)); tell(queue.sread); counter.add(1); print(len(queue.sread()))",
        [REFUSED, "1"],
    ),
    "a counter": (
        "counter = here.cntr_open(); counter.add(1); tell(lambda: counter.wait(1)); tell(lambda: counter.wait(2))",
        ["nothing", REFUSED],
    ),
    "a counter of peers": (
        "counter = there.cntr_open(); region.bind(counter, BindFlags.FI_REMOTE_WRITE)\n"
        "endpoint.write(memory, *to); tell(lambda: counter.wait(1))",
        ["nothing"],
    ),
    "other processes": (
        "from amoeba_model.nic.device import ModelDevice\n"
        "from amoeba_model.udp_network import UdpNetwork\n"
        "from amoeba.libfabric.objects.queues.deadlock import check_deadlock\n"
        "with ModelDevice() as device, UdpNetwork() as network:\n"
        "    network.attach(device, bytes(6))\n"
        "    tell(lambda: check_deadlock(device))\n"
        "tell(lambda: check_deadlock(fabric.devices[0]))",
        ["nothing", REFUSED],
    ),
}


ON_DEVICES = ("operations in flight", "a signal before", "a counter of peers")
"""Waits that ask the NIC; the others concern the driver alone."""


@pytest.mark.parametrize(
    ("devices", "case"),
    [("model-model", case) for case in PROGRAMS]
    + [(devices, case) for devices in ("rtl-rtl", "model-rtl") for case in ON_DEVICES],
)
def test_a_wait_that_nothing_can_end_is_refused(devices, case):
    program, printed = PROGRAMS[case]
    ended = subprocess.run(
        [sys.executable, "-c", START + program, devices], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.splitlines() == printed, ended.stderr
