"""NICs of several processes that nobody has told about each other: any order, any number, and some go away.

Covers ``devices/linked.py``.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from amoeba import BindFlags, Errno, FabricError, Op
from amoeba.devices.linked import open_linked
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.nic import Nic
from amoeba_model.registers import Counter

from tests.support.devices import DEVICES

PATIENCE = 60.0
PROGRAM = """
import select, sys
import numpy as np
from amoeba import BindFlags, MrAccess
from amoeba.devices.linked import open_linked
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.nic import Nic

linked = open_linked(sys.argv[1], sys.argv[2], int(sys.argv[3]))
nic = Nic(linked.device)
linked.name(nic)
fabric = Fabric([nic])
domain = fabric.domain()
counter = np.zeros(1, np.uint64)
region = domain.mr_reg(counter, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE, requested_key=7)
queue, peers = domain.cq_open(), domain.av_open()
endpoint = domain.endpoint(cq=queue, av=peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
print(endpoint.getname().hex(), region.address, region.key, flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    fabric.advance()
"""


class Here:
    """A NIC of this process, and processes that serve a counter each."""

    def __init__(self, kind="model"):
        self.exits = contextlib.ExitStack()
        linked = open_linked(kind)
        self.exits.callback(linked.close)
        self.nic = Nic(linked.device)
        linked.name(self.nic)
        self.network = linked.network
        self.fabric = self.exits.enter_context(Fabric([self.nic]))
        domain = self.fabric.domain()
        self.queue, self.peers = domain.cq_open(), domain.av_open()
        flags = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        self.endpoint = domain.endpoint(cq=self.queue, av=self.peers, cq_flags=flags)
        self.found = np.zeros(1, np.uint64)

    def start(self, kind="model", host="127.0.0.1", port=0):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kind, host, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self.exits.callback(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def hear(self, process):
        """The counter that a process serves."""
        name, address, key = process.stdout.readline().split()
        return self.peers.insert(bytes.fromhex(name.decode())), int(address), int(key)

    def add(self, counter):
        """Add 1 to a counter; what was there before."""
        self.endpoint.fetch_atomic(np.uint64(1), self.found, *counter, Op.FI_SUM)
        self.queue.sread(timeout=PATIENCE)
        return int(self.found[0])


@pytest.fixture
def here():
    made = Here()
    with made.exits:
        yield made


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("theirs", DEVICES)
def test_processes_reach_each_other_without_being_told(kind, theirs):
    made = Here(kind)
    with made.exits:
        counters = [made.hear(process) for process in [made.start(theirs), made.start(theirs, "127.1.0.2")]]
        for number in range(3):
            assert [made.add(counter) for counter in counters] == [number, number]
        assert made.nic.counters()[Counter.RETRANSMISSIONS] == 0


def test_nothing_is_sent_again_because_a_process_is_not_scheduled(here):
    process = here.start()
    counter = here.hear(process)
    assert here.add(counter) == 0
    process.send_signal(signal.SIGSTOP)
    here.endpoint.fetch_atomic(np.uint64(1), here.found, *counter, Op.FI_SUM)
    until = time.monotonic() + 0.3  # of 1.05 seconds, as this NIC's clock has them
    while time.monotonic() < until:
        assert here.queue.read() == []
    process.send_signal(signal.SIGCONT)
    assert len(here.queue.sread(timeout=PATIENCE)) == 1
    assert here.nic.counters()[Counter.RETRANSMISSIONS] == 0


def test_who_waits_takes_a_step_in_a_millisecond(here, monkeypatch):
    process = here.start()
    counter = here.hear(process)
    assert here.add(counter) == 0
    process.send_signal(signal.SIGSTOP)
    here.endpoint.fetch_atomic(np.uint64(1), here.found, *counter, Op.FI_SUM)
    while not here.network.patience:  # the request leaves
        here.fabric.advance()
    steps = []
    monkeypatch.setattr(here.network, "_step", lambda step=here.network._step: steps.append(step()))
    begin = time.monotonic()
    here.queue.sread(timeout=0.3)
    assert 1 <= len(steps) <= (time.monotonic() - begin) * 1000 + 10  # also of a probe's answer


def test_a_process_that_was_killed_is_known_long_before_its_nic_is_given_up(here):
    process = here.start()
    counter = here.hear(process)
    assert here.add(counter) == 0
    process.kill()
    process.wait()
    here.endpoint.fetch_atomic(np.uint64(1), here.found, *counter, Op.FI_SUM)
    with pytest.raises(FabricError):
        here.queue.sread(timeout=PATIENCE)  # the NIC itself would try for more than eight minutes
    assert here.queue.readerr().err == Errno.FI_ECONNRESET
    assert here.network.resets >= 1


def test_a_process_that_comes_back_is_another_and_can_be_used(here):
    former = here.start()
    counter = here.hear(former)
    assert [here.add(counter) for _ in range(3)] == [0, 1, 2]
    host, port = "127.0.0.1", int.from_bytes(bytes.fromhex(f"{ip_of(here, counter):08x}")[2:], "big")
    former.kill()
    former.wait()
    latter = here.hear(here.start(host=host, port=port))
    assert here.add(latter) == 0
    here.endpoint.fetch_atomic(np.uint64(1), here.found, *counter, Op.FI_SUM)
    with contextlib.suppress(FabricError):
        here.queue.sread(timeout=PATIENCE)
    while (error := here.queue.readerr()) is not None:
        assert error.err in (Errno.FI_ECONNRESET, Errno.FI_ENOKEY, Errno.FI_EINVAL)
    assert here.add(latter) in (1, 2)


def ip_of(here, counter):
    from amoeba import EndpointAddress

    return EndpointAddress.unpack(here.peers.lookup(counter[0])).ip
