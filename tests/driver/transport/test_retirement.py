"""Contexts that are closed before operations without buffers have ended: they come back when these have.

Operations with buffers end before: ``tests/driver/transport/test_context.py``.
"""

import time

import numpy as np
import pytest
from amoeba import BindFlags, EndpointAddress, Errno, ErrorAvailableError, Op, Retransmission
from amoeba.nic.nic import Nic

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, make_side, refused

PATIENT = Retransmission(timeout=1 << 16, limit=255)
"""Sends again and again, and gives nobody up."""
ONE = np.uint64(1)


def tables(nic):
    return [len(each) for each in (nic.contexts.free, nic.peers.free, nic.domains.free)]


def comes_about(fabric, so):
    """Let time pass, and take back what can be, until something is so."""
    deadline = time.monotonic() + 60
    while not so():
        assert time.monotonic() < deadline, "it did not come about in 60 s"
        fabric.advance()
        for nic in fabric.nics:
            nic.contexts.reclaim()


@pytest.fixture
def server(fabric, keep):
    return keep(make_side(keep(fabric.domain(1))))


@pytest.fixture
def region(server, keep):
    memory = np.arange(8, dtype=np.uint64)
    return memory, keep(server.domain.mr_reg(memory, ALL_ACCESS))


def unanswered(fabric, domain, server, region, keep, peers=1):
    """A side whose operations the peer has not answered, and does not before the link is restored."""
    side = keep(make_side(domain))
    numbers = [side.peers.insert(server.endpoint.getname()) for _ in range(peers)]
    fabric.network.cut(fabric.devices[1])
    for number in numbers[:16]:
        side.endpoint.atomic(ONE, number, region[1].address, region[1].key, Op.FI_SUM)
    return side


def test_a_context_comes_back_when_its_last_operation_has_been_answered(fabric, server, region, keep):
    nic, domain = fabric.nics[0], keep(fabric.domain(0))
    nic.retransmission = PATIENT
    before, faults = tables(nic), [len(device.faults()) for device in fabric.devices]
    side = unanswered(fabric, domain, server, region, keep)
    name = side.endpoint.getname()
    side.endpoint.close()
    assert tables(nic) == [count - 1 for count in before]
    with refused(Errno.FI_ENOSPC):
        nic.contexts.take_block(before[0])
    fabric.network.restore(fabric.devices[1])
    comes_about(fabric, lambda: tables(nic) == before)
    assert region[0][0] == 1
    heirs = [keep(make_side(domain)) for _ in range(before[0])]
    (heir,) = (each for each in heirs if each.endpoint.getname() == name)
    number = heir.peers.insert(server.endpoint.getname())
    found = bytearray(8)
    heir.endpoint.fetch_atomic(ONE, found, number, region[1].address, region[1].key, Op.FI_SUM)
    heir.finish()
    assert (region[0][0], int.from_bytes(found, "little")) == (2, 1)
    assert [len(device.faults()) for device in fabric.devices] == faults


@ON_MODEL
def test_a_context_comes_back_when_the_peer_is_given_up(fabric, server, region, keep, monkeypatch):
    nic, domain = fabric.nics[0], keep(fabric.domain(0))
    before = tables(nic)
    nic.retransmission = Retransmission(timeout=1 << 20, limit=0)
    monkeypatch.setattr("amoeba.transport.context.DRAIN_TIME", 0)
    side = unanswered(fabric, domain, server, region, keep)
    side.endpoint.close()
    assert tables(nic) != before
    comes_about(fabric, lambda: tables(nic) == before)
    assert region[0][0] == 0


@ON_MODEL
def test_peer_entries_come_back_also_if_there_are_more_than_the_ring_has_entries(fabric, server, region, keep):
    nic, domain = fabric.nics[0], keep(fabric.domain(0))
    nic.retransmission = PATIENT
    before = tables(nic)
    side = unanswered(fabric, domain, server, region, keep, peers=20)
    side.endpoint.close()
    assert before[1] - tables(nic)[1] == 16  # those to which nothing was sent are free
    fabric.network.restore(fabric.devices[1])
    comes_about(fabric, lambda: tables(nic) == before)
    assert region[0][0] == 16


@ON_MODEL
def test_nobody_reaches_memory_through_a_closed_endpoint_with_outstanding_work(fabric, server, region, keep):
    nic, domain = fabric.nics[0], keep(fabric.domain(0))
    nic.retransmission = PATIENT
    side = unanswered(fabric, domain, server, region, keep)
    address = EndpointAddress.unpack(side.endpoint.getname())
    memory = keep(domain.mr_reg(bytearray(8), ALL_ACCESS))
    side.endpoint.close()
    fabric.network.restore(fabric.devices[1])
    nic.contexts.retired, retired = [], nic.contexts.retired  # as long as nobody looks, it stays
    for _ in range(200):
        fabric.advance()
    number = server.peers.insert(address.pack())
    for send in (
        lambda: server.endpoint.write(bytes(8), number, memory.address, memory.key),
        lambda: server.endpoint.writedata(b"", 5, number, 0, memory.key),
        lambda: server.endpoint.send(b"hello", number),
    ):
        send()
        with pytest.raises(ErrorAvailableError):
            server.queue.sread(timeout=30)
        assert server.queue.readerr().err is not Errno.FI_SUCCESS
    nic.contexts.retired = retired


@ON_MODEL
def test_a_context_of_a_scalable_endpoint_can_be_opened_again(fabric, server, region, keep):
    nic, domain = fabric.nics[0], keep(fabric.domain(0))
    nic.retransmission = PATIENT
    before = tables(nic)
    endpoint, peers = keep(domain.scalable_endpoint()), keep(domain.av_open())
    endpoint.bind(peers)
    context = keep(endpoint.tx_context(0))
    context.bind(keep(domain.cq_open()), BindFlags.FI_TRANSMIT)
    context.enable()
    number = peers.insert(server.endpoint.getname())
    fabric.network.cut(fabric.devices[1])
    context.write(bytes(8), number, region[1].address, region[1].key)
    context.close()
    with refused(Errno.FI_EBUSY):
        endpoint.tx_context(0)
    fabric.network.restore(fabric.devices[1])
    comes_about(fabric, lambda: not endpoint._lost)
    keep(endpoint.tx_context(0))
    endpoint.close()
    peers.close()
    assert tables(nic) == before


@ON_MODEL
def test_without_a_protection_domain_it_is_lost_and_nothing_else(fabric, server, region, keep, monkeypatch):
    nic, domain = fabric.nics[0], keep(fabric.domain(0))
    nic.retransmission = PATIENT
    side = unanswered(fabric, domain, server, region, keep)
    before = tables(nic)
    monkeypatch.setattr(nic.domains, "free", [])
    side.endpoint.close()
    fabric.network.restore(fabric.devices[1])
    assert isinstance(nic, Nic)
    assert nic.contexts.retired == []
    assert tables(nic)[0] == before[0]
    assert keep(make_side(domain)).endpoint.getname() != b""
