"""Contexts that are closed before operations with buffers have ended: the NIC touches no buffer afterwards."""

import numpy as np
import pytest
from amoeba import BindFlags, Op, Retransmission

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, make_side
from tests.driver.libfabric.objects.test_shared_context import share
from tests.driver.transport.test_retirement import tables
from tests.support.pages import Pages

LENGTH = 1 << 17
DATA, GUARD, POISON = 0x11, 0x22, 0xEE
ONE = np.uint64(1)
PATIENT = Retransmission(timeout=1 << 16, limit=255)
"""Sends again and again, and gives nobody up."""


@pytest.fixture(params=[0, 3, 6, 13, 20], ids="{} rounds".format)
def busy_machine(request, monkeypatch):
    """A machine too busy to end operations while a closing context waits: the NIC is in the middle of them."""
    monkeypatch.setattr("amoeba.transport.context.DRAIN_TIME", 0.0)
    monkeypatch.setattr("amoeba.transport.context.DRAIN_ROUNDS", request.param)


def post(kind, side, pages, region):
    """Post operations of one kind between the pages and the region."""
    endpoint, there = side.endpoint, (side.peer, region.address, region.key)
    if kind == "write":
        endpoint.write(pages.bytes, *there)
    elif kind == "read":
        endpoint.read(pages.bytes, *there)
    elif kind == "readv":
        endpoint.readv(np.split(pages.bytes, 2), *there)
    elif kind == "atomic":
        endpoint.atomic(pages.bytes[:2048].view(np.uint64), *there, Op.FI_SUM)
    elif kind == "fetch":
        for place in pages.bytes[:128].view(np.uint64).reshape(16, 1):
            endpoint.fetch_atomic(ONE, place, *there, Op.FI_SUM)
    else:
        for _ in range(16):
            endpoint.atomic(ONE, *there, Op.FI_SUM)


def poison(pages, fabric, memory):
    """Change the pages, then free them, and see that the NIC neither reads nor writes them meanwhile."""
    pages.bytes[:] = POISON
    for _ in range(60):
        fabric.advance()
    assert (pages.bytes == POISON).all()
    assert not (memory == POISON).any()
    pages.free()
    for _ in range(60):
        fabric.advance()


@pytest.mark.parametrize("kind", ["write", "read", "readv", "atomic", "fetch", "without buffers"])
def test_a3_the_buffers_of_a_closed_endpoint_are_free_at_once(fabric, pair, keep, busy_machine, kind):
    client, server = pair
    memory = np.full(LENGTH, DATA, np.uint8)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    pages = Pages(LENGTH, GUARD)
    post(kind, client, pages, region)
    client.endpoint.close()
    poison(pages, fabric, memory)


def test_a3_a_read_that_ctrl_c_interrupts_has_ended_when_its_endpoint_is_closed(
    fabric, pair, keep, busy_machine, monkeypatch
):
    client, server = pair
    memory = np.full(LENGTH, DATA, np.uint8)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))

    def interrupting():
        raise KeyboardInterrupt

    array = client.endpoint.array(client.peer, (region.address, region.key), np.uint8, LENGTH)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(client.domain.nic, "advance", interrupting)
        with pytest.raises(KeyboardInterrupt):
            array[:]
    client.endpoint.close()
    for _ in range(60):
        fabric.advance()


@pytest.mark.parametrize("fabric", ["rtl"], indirect=True)
def test_a3_a_long_message_is_read_no_more_when_its_receiver_is_closed(fabric, talkers):
    receiver, sender = talkers
    nic = fabric.nics[0]
    nic.retransmission = PATIENT
    message, pages = np.full(LENGTH, DATA, np.uint8), Pages(LENGTH, GUARD)
    receiver.endpoint.recv(pages.bytes)
    sender.endpoint.send(message, sender.peer)
    while pages.bytes[0] == GUARD:
        receiver.queue.read()
    fabric.network.cut(fabric.devices[1])
    receiver.endpoint.close()
    assert nic.contexts.retired == []
    fabric.network.restore(fabric.devices[1])
    poison(pages, fabric, message)


@pytest.mark.parametrize("closed", ["endpoint", "context"])
def test_a3_the_buffers_of_one_that_shares_a_ring_are_free_too(fabric, keep, busy_machine, closed):
    domain, server = keep(fabric.domain(0)), keep(make_side(keep(fabric.domain(1))))
    memory = np.full(LENGTH, DATA, np.uint8)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    context = keep(domain.stx_context(16))
    pages = Pages(LENGTH, GUARD)
    side = keep(share(domain, context, server))
    post("read", side, pages, region)
    if closed == "context":
        context.close()
    else:
        side.endpoint.close()
        other = keep(share(domain, context, server))
        other.endpoint.atomic(ONE, other.peer, region.address, region.key, Op.FI_SUM)
        other.finish()
    poison(pages, fabric, memory)


@ON_MODEL
@pytest.mark.parametrize("kind", ["write", "read", "fetch"])
def test_a_dead_peer_keeps_no_buffer_and_no_context(fabric, keep, kind):
    nic, server = fabric.nics[0], keep(make_side(keep(fabric.domain(1))))
    nic.retransmission = PATIENT
    memory = np.zeros(LENGTH, np.uint8)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    domain = keep(fabric.domain(0))
    before = tables(nic)
    client = keep(make_side(domain))
    client.peer = client.peers.insert(server.endpoint.getname())
    fabric.network.cut(fabric.devices[1])
    pages = Pages(LENGTH, GUARD)
    post(kind, client, pages, region)
    client.endpoint.close()
    assert tables(nic) == before
    fabric.network.restore(fabric.devices[1])
    poison(pages, fabric, memory)
    assert not memory.any()


@ON_MODEL
def test_operations_that_a_closing_endpoint_gives_up_are_reported_to_nobody(fabric, pair, keep):
    client, server = pair
    region = keep(server.domain.mr_reg(bytearray(LENGTH), ALL_ACCESS))
    fabric.nics[0].retransmission = PATIENT
    counter = keep(client.domain.cntr_open())
    endpoint = keep(client.domain.endpoint())
    peers = keep(client.domain.av_open())
    endpoint.bind(client.queue, BindFlags.FI_TRANSMIT)
    endpoint.bind(counter, BindFlags.FI_READ)
    endpoint.bind(peers)
    endpoint.enable()
    peer = peers.insert(server.endpoint.getname())
    fabric.network.cut(fabric.devices[1])
    endpoint.read(np.zeros(LENGTH, np.uint8), peer, region.address, region.key)
    endpoint.close()
    assert client.queue.read(8) == []
    assert (counter.read(), counter.readerr()) == (0, 0)
