"""Shared transmit contexts: several endpoints, one ring. fi_stx_context of fi_endpoint(3).

Covers ``libfabric/objects/endpoints/shared_context.py`` and ``transport/sharing.py``.
"""

import select

import numpy as np
import pytest
from amoeba import (
    FI_SHARED_CONTEXT,
    BindFlags,
    CqFormat,
    EndpointAddress,
    EpAttr,
    Errno,
    Info,
    Op,
    Retransmission,
    RmaIov,
    RmaMsg,
    TxAttr,
    WaitObj,
)

from tests.driver.endpoints import ALL_ACCESS, BOTH, ON_MODEL, Side, refused

pytestmark = pytest.mark.full_build

ONE = np.uint64(1)


def share(domain, context, server, **options):
    """An endpoint with everything of its own but the ring, connected to the server."""
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG, **options), domain.av_open()
    endpoint = domain.endpoint()
    endpoint.bind(context)
    endpoint.bind(queue)
    endpoint.bind(peers)
    endpoint.enable()
    return Side(domain, queue, peers, endpoint, peers.insert(server.endpoint.getname()))


@pytest.fixture
def context(pair, keep):
    return keep(pair[0].domain.stx_context(16))


@pytest.fixture
def both(pair, context, keep):
    return [keep(share(pair[0].domain, context, pair[1])) for _ in range(2)]


def test_endpoints_that_share_a_ring_hear_each_of_its_own_operations_in_order(both, target):
    memory, region = target
    for turn in range(4):
        for number, side in enumerate(both):
            context = (number, turn)
            side.endpoint.atomic(ONE, side.peer, region.address, region.key, Op.FI_SUM, context=context)
    for number, side in enumerate(both):
        assert [side.finish().op_context for _ in range(4)] == [(number, turn) for turn in range(4)]
        assert side.queue.read(8) == []
    assert memory[0] == 8


@ON_MODEL
def test_the_ring_is_as_large_as_the_context_for_all_of_them(both, target, context):
    _, region = target
    first, second = both
    for turn in range(context.tx_size):
        side = both[turn % 2]
        side.endpoint.write(bytes(8), side.peer, region.address, region.key)
    assert first.endpoint.tx_size == context.tx_size == 16
    for side in both:
        assert side.endpoint.tx_size_left == 0
        with refused(Errno.FI_EAGAIN):
            side.endpoint.write(bytes(8), side.peer, region.address, region.key)
    for _ in range(8):
        first.finish()
    while second.endpoint.tx_size_left < 16:
        first.queue.read()
    assert [second.finish().len for _ in range(8)] == [8] * 8  # taken out of the ring by the other, and kept


@ON_MODEL
def test_one_that_does_not_read_does_not_keep_others_from_posting(both, target):
    memory, region = target
    idle, busy = both
    idle.endpoint.write(np.uint64(7), idle.peer, region.address + 8, region.key, context="idle")
    for _ in range(100):
        busy.endpoint.atomic(ONE, busy.peer, region.address, region.key, Op.FI_SUM)
        busy.finish()
    assert idle.finish().op_context == "idle"
    assert memory[:2].tolist() == [100, 7]


@ON_MODEL
def test_vectors_and_errors_come_to_whom_they_belong(both, target):
    _, region = target
    first, second = both
    pieces = [RmaIov(region.address + 16 * piece, 4, region.key) for piece in range(3)]
    first.endpoint.writemsg(RmaMsg([bytes(12)], first.peer, pieces, context="pieces"))
    second.endpoint.write(bytes(8), second.peer, region.address, region.key ^ 1, context="wrong")
    assert first.finish()[::2] == ("pieces", 12)
    failure = second.failure()
    assert (failure.op_context, failure.err) == ("wrong", Errno.FI_ENOKEY)
    assert first.queue.readerr() is None


@ON_MODEL
def test_numbers_of_peers_are_each_endpoints_own(fabric, pair, context, keep, target):
    """Number 0 is the server for one of them, the client itself for the other."""
    memory, region = target
    first, second = (keep(share(pair[0].domain, context, server)) for server in (pair[1], pair[0]))
    mine = np.zeros(1, np.uint64)
    own = keep(pair[0].domain.mr_reg(mine, ALL_ACCESS))
    first.endpoint.write(np.uint64(5), first.peer, region.address, region.key)
    second.endpoint.write(np.uint64(6), second.peer, own.address, own.key)
    with refused(Errno.FI_EBUSY):
        first.peers.remove(0)
    first.finish()
    first.peers.remove(0)
    second.finish()
    assert (memory[0], mine[0]) == (5, 6)


@ON_MODEL
def test_counters_are_each_endpoints_own(pair, context, keep, target):
    domain, (_, region) = pair[0].domain, target
    sides = []
    for _ in range(2):
        counter = keep(domain.cntr_open())
        queue, peers = keep(domain.cq_open()), keep(domain.av_open())
        endpoint = keep(domain.endpoint())
        endpoint.bind(context)
        endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
        endpoint.bind(counter, BindFlags.FI_WRITE)
        endpoint.bind(peers)
        endpoint.enable()
        sides.append((endpoint, counter, peers.insert(pair[1].endpoint.getname())))
    for times, (endpoint, _, peer) in enumerate(sides, 1):
        for _ in range(times):
            endpoint.write(bytes(8), peer, region.address, region.key)
    for times, (_, counter, _) in enumerate(sides, 1):
        counter.wait(times, timeout=30)
        assert counter.read() == times


@ON_MODEL
def test_a_descriptor_is_readable_for_ones_own_operations(pair, context, keep, target):
    _, region = target
    first, second = (keep(share(pair[0].domain, context, pair[1], wait_obj=WaitObj.FI_WAIT_FD)) for _ in range(2))
    first.endpoint.write(bytes(8), first.peer, region.address, region.key)
    assert (readable(first), readable(second)) == (True, False)
    while not first.queue.read():
        pass
    assert not readable(first)


def readable(side):
    return bool(select.select([side.queue], [], [], 0)[0])


@ON_MODEL
def test_a_peer_that_was_given_up_fails_the_operations_of_each(fabric, both, target):
    _, region = target
    fabric.nics[0].retransmission = Retransmission(timeout=2000, limit=2)
    fabric.network.cut(fabric.devices[1])
    for side in both:
        side.endpoint.write(bytes(8), side.peer, region.address, region.key)
    for side in both:
        assert side.failure().err == Errno.FI_ECONNRESET
    fabric.network.restore(fabric.devices[1])
    for side in both:
        side.endpoint.write(bytes(8), side.peer, region.address, region.key)
        side.finish()


@ON_MODEL
def test_closing_one_endpoint_waits_for_its_operations_and_leaves_the_others(both, target, context):
    memory, region = target
    for side in both:
        for _ in range(5):
            side.endpoint.atomic(ONE, side.peer, region.address, region.key, Op.FI_SUM)
    both[0].endpoint.close()
    assert memory[0] >= 5
    assert not context.closed
    for _ in range(5):
        both[1].finish()
    assert memory[0] == 10


@ON_MODEL
def test_closing_the_context_closes_its_endpoints_and_gives_everything_back(fabric, pair, keep):
    domain = pair[0].domain
    for _ in range(2 * fabric.nics[0].parameters.contexts):
        context = keep(domain.stx_context())
        side = keep(share(domain, context, pair[1]))
        context.close()
        assert side.endpoint.closed
        for thing in (side.queue, side.peers):
            thing.close()


@ON_MODEL
def test_what_is_never_answered_keeps_the_context_and_nothing_else(fabric, pair, context, target, keep):
    _, region = target
    fabric.nics[0].retransmission = Retransmission(timeout=1 << 28)
    side = keep(share(pair[0].domain, context, pair[1]))
    own = EndpointAddress.unpack(side.endpoint.getname()).resource_index
    fabric.network.detach(fabric.devices[1])
    side.endpoint.write(bytes(8), side.peer, region.address, region.key)
    side.endpoint.close()
    assert own in fabric.nics[0].contexts.free
    context.close()
    assert context._context not in fabric.nics[0].contexts.free


def test_peers_know_operations_by_the_endpoints_address(pair, both, keep):
    server = pair[1].domain
    queue, peers = keep(server.cq_open(CqFormat.FI_CQ_FORMAT_DATA)), keep(server.av_open())
    endpoint = keep(server.endpoint(cq=queue, av=peers, cq_flags=BOTH))
    region = keep(server.mr_reg(bytearray(8), ALL_ACCESS))
    sources = {77: peers.insert(both[0].endpoint.getname()), 78: peers.insert(both[1].endpoint.getname())}
    for data, side in zip(sources, both, strict=True):
        peer = side.peers.insert(endpoint.getname())
        side.endpoint.writedata(bytes(8), data, peer, region.address, region.key)
        ((entry, source),) = queue.sreadfrom(timeout=30)
        assert (entry.data, source) == (data, sources[data])


@ON_MODEL
def test_an_endpoint_opened_to_share_needs_a_context(fabric, pair, context, keep):
    info = fabric.getinfo(Info(ep_attr=EpAttr(tx_ctx_cnt=FI_SHARED_CONTEXT)))[0]
    assert info.ep_attr.tx_ctx_cnt == FI_SHARED_CONTEXT
    assert info.domain_attr.max_ep_stx_ctx == fabric.nics[0].parameters.contexts - 1
    endpoint = keep(pair[0].domain.endpoint(info))
    endpoint.bind(pair[0].queue)
    endpoint.bind(pair[0].peers)
    with refused(Errno.FI_EOPBADSTATE, "shared transmit context"):
        endpoint.enable()
    endpoint.bind(context)
    endpoint.enable()


@ON_MODEL
def test_one_context_is_bound_and_only_before_enable(fabric, pair, context, both, keep):
    endpoint = keep(pair[0].domain.endpoint())
    endpoint.bind(context)
    with refused(Errno.FI_EINVAL, "bound already"):
        endpoint.bind(context)
    with refused(Errno.FI_EOPBADSTATE):
        endpoint.setopt(0, 6, 64)
    with refused(Errno.FI_EOPBADSTATE):
        both[0].endpoint.bind(context)
    both[1].endpoint.close()
    foreign = keep(keep(fabric.domain(0)).stx_context())
    with refused(Errno.FI_EINVAL, "another domain"):
        keep(pair[0].domain.endpoint()).bind(foreign)


@ON_MODEL
def test_a_context_is_a_context_of_the_nic_and_has_a_size(fabric, pair, keep):
    domain = pair[0].domain
    assert keep(domain.stx_context(TxAttr(size=100))).tx_size == 128
    with refused(Errno.FI_EINVAL):
        domain.stx_context(0)
    keep([domain.stx_context() for _ in range(fabric.nics[0].parameters.contexts - 2)])
    with refused(Errno.FI_ENOSPC):
        domain.stx_context()


@ON_MODEL
def test_a_dropped_context_warns(pair):
    context = pair[0].domain.stx_context()
    with pytest.warns(ResourceWarning, match=r"unclosed <SharedTransmitContext \d 0 of 256 descriptors in flight>"):
        del context
