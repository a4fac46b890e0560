"""NICs that are not simulated: nothing of the driver asks what kind a device is, so all of it works with them."""

import select
import threading
import time

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    Fabric,
    MrAccess,
    Op,
    Progress,
    WaitObj,
)
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba_model.device import DeviceError
from amoeba_tools.tracing import trace_fetch_atomic

from tests.support.board import boards

ALL = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
PATIENCE = 20.0


@pytest.fixture
def fabric():
    with boards() as devices, Fabric(devices) as fabric:
        for number, nic in enumerate(fabric.nics, 1):
            nic.set_address(bytes([2, 0, 0, 0, 0, number]), number)
        yield fabric


class Party:
    """An endpoint on each board, and what it takes."""

    def __init__(self, fabric, wait_obj=WaitObj.FI_WAIT_FD):
        self.domains = [fabric.domain(nic) for nic in (0, 1)]
        self.queues = [domain.cq_open(wait_obj=wait_obj) for domain in self.domains]
        self.endpoints = []
        vectors = [domain.av_open() for domain in self.domains]
        for domain, queue, vector in zip(self.domains, self.queues, vectors, strict=True):
            flags = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
            self.endpoints.append(domain.endpoint(cq=queue, av=vector, cq_flags=flags))
        self.to = [vectors[0].insert(self.endpoints[1].getname()), vectors[1].insert(self.endpoints[0].getname())]
        self.kept = vectors

    def keep(self, opened):
        self.kept.append(opened)
        return opened


@pytest.fixture
def open_party(fabric):
    opened = []

    def make():
        opened.append(Party(fabric))
        return opened[-1]

    yield make
    for domain in (domain for party in opened for domain in party.domains):
        domain.close()


def threads():
    return {thread.name for thread in threading.enumerate()}


def test_a_board_is_none_that_is_stepped(fabric):
    assert fabric.network is None
    assert [device.stepped for device in fabric.devices] == [False, False]
    before = fabric.devices[0].cycles
    time.sleep(0.05)
    assert fabric.devices[0].cycles > before


def test_a_wait_reports_a_failure_that_came_before_the_wait(fabric, open_party):
    """A board fails an operation while the program does something else."""
    party = open_party()
    counter = party.keep(party.domains[0].cntr_open())
    endpoint = party.keep(party.domains[0].endpoint())
    endpoint.bind(party.queues[0], BindFlags.FI_TRANSMIT)
    vector = party.keep(party.domains[0].av_open())
    endpoint.bind(vector)
    endpoint.bind(counter, BindFlags.FI_WRITE)
    endpoint.enable()
    to = vector.insert(party.endpoints[1].getname())
    for _ in range(2):
        endpoint.write(np.zeros(1, np.uint64), to, 0, 12345)
        while not counter._sums[1] - counter.expected_errors:
            time.sleep(0.001)
        with pytest.raises(FabricError, match="an operation failed, 0 of 1 are done") as failed:
            counter.wait(1, PATIENCE)
        assert failed.value.fi_errno is Errno.FI_EAVAIL
    with pytest.raises(FabricError, match="0 of 1 operations are done") as late:
        counter.wait(1, 0.05)
    assert late.value.fi_errno is Errno.FI_ETIMEDOUT


@pytest.mark.parametrize("automatic", [False, True])
def test_atomics_and_messages_work_as_on_simulated_nics(fabric, open_party, automatic):
    if automatic:
        fabric.automate()
        assert "amoeba progress" in threads()
    party = open_party()
    near, far = party.endpoints
    counter, fetched, heard = np.array([40], np.uint64), np.zeros(1, np.uint64), bytearray(5)
    with party.domains[1].mr_reg(counter, ALL) as region:
        near.fetch_atomic(np.array([2], np.uint64), fetched, party.to[0], region.address, region.key, Op.FI_SUM)
        (_,) = party.queues[0].sread(timeout=PATIENCE)
        assert (fetched[0], counter[0]) == (40, 42)
        far.recv(heard, context="heard")
        near.send(b"hello", party.to[0])
        (entry,) = party.queues[1].sread(timeout=PATIENCE)
        assert (entry.op_context, bytes(heard)) == ("heard", b"hello")


def test_the_descriptor_of_a_queue_wakes_whoever_waits_for_it(fabric, open_party):
    fabric.automate()
    party = open_party()
    near, far = party.endpoints
    heard, queue = bytearray(5), party.queues[1]
    far.recv(heard)
    assert fabric.trywait(queue)
    assert select.select([queue], [], [], 0.02)[0] == []
    near.send(b"hello", party.to[0])
    assert select.select([queue], [], [], PATIENCE)[0] == [queue]
    assert len(queue.read()) == 1


def test_automatic_progress_sleeps_while_nothing_happens(fabric, open_party):
    fabric.automate()
    party = open_party()
    auto = fabric._auto
    time.sleep(0.2)
    before = auto.rounds
    time.sleep(0.3)
    assert auto.rounds - before <= 3
    party.endpoints[0].send(b"", party.to[0])
    party.endpoints[1].recv(bytearray(1))
    assert party.queues[0].sread(timeout=PATIENCE)
    assert party.queues[1].sread(timeout=PATIENCE)


def test_a_counter_that_is_notified_of_peers_is_looked_at_though_no_interrupt_tells(fabric, open_party):
    fabric.automate()
    party = open_party()
    counter = party.keep(party.domains[1].cntr_open())
    memory = np.zeros(8, np.uint8)
    with party.domains[1].mr_reg(memory, ALL) as region:
        region.bind(counter, BindFlags.FI_REMOTE_WRITE)
        party.endpoints[0].write(np.full(8, 7, np.uint8), party.to[0], region.address, region.key)
        counter.wait(1, PATIENCE)
        assert memory.tolist() == [7] * 8


def test_both_models_of_progress_are_offered(fabric):
    assert {info.domain_attr.data_progress for info in fabric.getinfo()} == {Progress.FI_PROGRESS_MANUAL}
    fabric.automate()
    assert fabric.progress is Progress.FI_PROGRESS_AUTO


def test_a_board_records_no_events(fabric):
    device = fabric.devices[0]
    assert (device.traces, device.tracing, device.trace_events()) == (False, False, [])
    with pytest.raises(DeviceError, match="records no events"):
        device.tracing = True
    with pytest.raises(FabricError) as refused:
        trace_fetch_atomic(fabric)
    assert refused.value.fi_errno is Errno.FI_EOPNOTSUPP


def test_a_board_may_know_memory_by_another_address(fabric):
    device = fabric.devices[0]
    device.grant(0x1000, 64, writable=True, host_address=0x2000, context=3)
    with pytest.raises(DeviceError, match="cannot also lie at"):
        device.grant(0x1000, 64, writable=True)
    device.revoke(0x1000, 64, context=3)
