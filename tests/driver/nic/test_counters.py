"""Counters that the NIC advances: messages, and what peers do to this side's memory.

Covers ``nic/event_counters.py``.
"""

import select

import numpy as np
import pytest
from amoeba import (
    AtomicMsg,
    BindFlags,
    CqFormat,
    DeferredWork,
    Errno,
    MrAccess,
    Op,
    OpCntr,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TaggedMsg,
    TimedOutError,
    TriggerOp,
    WaitObj,
    open_cluster,
)
from amoeba_model.parameters import NicParameters

from tests.driver.endpoints import ALL_ACCESS, BOTH, ON_MODEL, Side, connect, make_side, make_talker, refused

READ, WRITE = BindFlags.FI_READ, BindFlags.FI_WRITE
SEND, RECV = BindFlags.FI_SEND, BindFlags.FI_RECV
REMOTE_READ, REMOTE_WRITE = BindFlags.FI_REMOTE_READ, BindFlags.FI_REMOTE_WRITE
KINDS = (READ, WRITE, SEND, RECV, REMOTE_READ, REMOTE_WRITE)
SELECTIVE = BOTH | BindFlags.FI_SELECTIVE_COMPLETION


class Counted:
    """A talker with a counter of its own for every kind."""

    def __init__(self, domain, cq_flags=SELECTIVE):
        self.counters = {kind: domain.cntr_open() for kind in KINDS}
        queue, peers, endpoint = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED), domain.av_open(), domain.endpoint()
        endpoint.bind(queue, cq_flags)
        endpoint.bind(peers)
        for kind, counter in self.counters.items():
            endpoint.bind(counter, kind)
        endpoint.enable()
        self.side = Side(domain, queue, peers, endpoint)

    def values(self):
        """Return the counts: {kind: (successes, errors)}, without zeros."""
        found = {kind: (counter.read(), counter.readerr()) for kind, counter in self.counters.items()}
        return {kind: value for kind, value in found.items() if value != (0, 0)}


@pytest.fixture
def counted(fabric, keep):
    """(one, other), connected, and all that they do counted."""
    one, other = keep(Counted(fabric.domain(0))), keep(Counted(fabric.domain(1)))
    connect(one.side, other.side)
    return one, other


def settle(*sides):
    for _ in range(30):
        for side in sides:
            side.side.queue.read()


def test_messages_are_counted_where_they_leave_and_where_they_arrive(counted):
    one, other = counted
    for number in range(3):
        other.side.endpoint.trecv(bytearray(8), number)
        one.side.endpoint.tsend(b"hello", one.side.peer, number)
    one.counters[SEND].wait(3, timeout=30)
    other.counters[RECV].wait(3, timeout=30)
    assert one.values() == {SEND: (3, 0)}
    assert other.values() == {RECV: (3, 0)}
    assert one.side.queue.read() == other.side.queue.read() == []


@ON_MODEL
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("length", [0, 100, 5000, 30_000])
@pytest.mark.parametrize("pieces", [1, 3])
def test_every_message_counts_once_however_it_comes(counted, length, pieces, expected):
    """Long ones are read by their receiver: that is no read of its own, nor one that a peer did."""
    one, other = counted
    buffers = [bytearray(length) for _ in range(pieces)]

    def receive():
        other.side.endpoint.recvv([memoryview(b)[: length // pieces] for b in buffers] + [bytearray(pieces)])

    if expected:
        receive()
        settle(other)
    one.side.endpoint.send(b"m" * length, one.side.peer)
    if not expected:
        settle(one)
        receive()
    other.counters[RECV].wait(1, timeout=30)
    one.counters[SEND].wait(1, timeout=30)
    # whoever counts on it finds the message
    assert all(bytes(buffer[: length // pieces]) == b"m" * (length // pieces) for buffer in buffers)
    assert one.values() == {SEND: (1, 0)}
    assert other.values() == {RECV: (1, 0)}


@ON_MODEL
def test_messages_that_fail_are_counted_as_errors(counted):
    one, other = counted
    other.side.endpoint.recv(bytearray(2))
    one.side.endpoint.inject(b"four", one.side.peer)  # expected, cut
    settle(one)
    one.side.endpoint.inject(b"four", one.side.peer)  # unexpected, cut
    settle(one)
    for receive in (lambda: other.side.endpoint.recv(bytearray(2)), lambda: other.side.endpoint.recv(bytearray(9))):
        receive()
    other.side.endpoint.recv(bytearray(9), context="taken back")
    other.side.endpoint.cancel("taken back")
    failures = []
    while len(failures) < 3:
        try:
            other.side.queue.read()
        except OSError:
            failures.append(other.side.queue.readerr().err)
    assert failures == [Errno.FI_ETRUNC, Errno.FI_ETRUNC, Errno.FI_ECANCELED]
    assert one.values() == {SEND: (2, 0)}
    assert other.values() == {RECV: (0, 3)}


@ON_MODEL
def test_claimed_messages_count_when_they_are_received_and_searches_never(counted):
    one, other = counted
    peek, claim = OpFlags.FI_PEEK, OpFlags.FI_CLAIM
    one.side.endpoint.tsend(b"x", one.side.peer, 1)
    settle(one)
    msg = TaggedMsg([bytearray(1)], 2**64 - 1, 1, context="mine")
    other.side.endpoint.trecvmsg(msg, peek)
    other.side.endpoint.trecvmsg(msg, peek | claim)
    settle(other)
    assert other.values() == {}
    other.side.endpoint.trecvmsg(msg, claim)
    assert other.values() == {RECV: (1, 0)}


@ON_MODEL
def test_tagged_atomics_count_on_both_sides(counted):
    one, other = counted
    word = np.zeros(1, np.uint64)
    other.side.endpoint.trecv(word, 1)
    settle(other)
    msg = AtomicMsg([np.uint64(1)], one.side.peer, [RmaIoc(0, 1, 1)], Op.FI_SUM)
    one.side.endpoint.atomicmsg(msg, OpFlags.FI_TAGGED)
    one.counters[WRITE].wait(1, timeout=30)
    other.counters[RECV].wait(1, timeout=30)
    assert one.values() == {WRITE: (1, 0)}
    assert other.values() == {RECV: (1, 0)}


# What peers do


def test_peers_operations_are_counted_at_the_endpoint_they_come_to(counted, keep):
    one, other = counted
    memory = np.zeros(8, np.uint64)
    region = keep(other.side.domain.mr_reg(memory, ALL_ACCESS))
    to = (one.side.peer, region.address, region.key)
    endpoint, word = one.side.endpoint, np.zeros(1, np.uint64)
    endpoint.write(bytes(16), *to)
    endpoint.inject_write(b"x", *to)
    endpoint.atomic(np.uint64(1), *to, Op.FI_SUM)
    endpoint.fetch_atomic(np.uint64(1), word, *to, Op.FI_SUM)
    endpoint.compare_atomic(np.uint64(1), np.uint64(0), word, *to, Op.FI_CSWAP)
    other.counters[REMOTE_WRITE].wait(3, timeout=30)
    other.counters[REMOTE_READ].wait(2, timeout=30)
    endpoint.read(word, *to)
    endpoint.fetch_atomic(None, word, *to, Op.FI_ATOMIC_READ)
    other.counters[REMOTE_READ].wait(4, timeout=30)
    assert other.values() == {REMOTE_WRITE: (3, 0), REMOTE_READ: (4, 0)}
    assert one.values() == {WRITE: (3, 0), READ: (4, 0)}


@ON_MODEL
def test_operations_of_many_packets_and_pieces_count_once(counted, keep):
    one, other = counted
    region = keep(other.side.domain.mr_reg(bytearray(40_000), ALL_ACCESS))
    one.side.endpoint.write(bytes(20_000), one.side.peer, region.address, region.key)
    pieces = [RmaIov(region.address + 100 * piece, 10, region.key) for piece in range(5)]
    one.side.endpoint.writemsg(RmaMsg([bytes(23), bytes(27)], one.side.peer, pieces))
    one.counters[WRITE].wait(2, timeout=30)
    settle(one, other)
    assert one.values() == {WRITE: (2, 0)}
    assert other.values() == {REMOTE_WRITE: (2, 0)}


@ON_MODEL
def test_refused_operations_count_as_errors_on_both_sides(counted, keep):
    one, other = counted
    region = keep(other.side.domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ))
    one.side.endpoint.write(bytes(8), one.side.peer, region.address, region.key)  # not allowed
    one.side.endpoint.read(bytearray(8), one.side.peer, region.address + 4, region.key)  # beyond
    one.side.endpoint.read(bytearray(8), one.side.peer, region.address, region.key ^ 1)  # no such key
    failures = 0
    while failures < 3:
        try:
            one.side.queue.read()
        except OSError:
            one.side.queue.readerr()
            failures += 1
    assert one.values() == {WRITE: (0, 1), READ: (0, 2)}
    assert other.values() == {REMOTE_WRITE: (0, 1), REMOTE_READ: (0, 2)}


@ON_MODEL
def test_a_chain_of_which_the_own_nic_refuses_a_piece_counts_as_one_error(counted, keep, monkeypatch):
    """The NIC takes the end of such a chain for an operation of its own, and a good one."""
    one, other = counted
    region = keep(other.side.domain.mr_reg(bytearray(64), ALL_ACCESS))
    rings = one.side.endpoint._rings
    post_chain = rings.post_chain

    def post_spoilt(*arguments):
        *others, (first, *rest) = arguments
        post_chain(*others, [first._replace(opcode=99), *rest])

    monkeypatch.setattr(rings, "post_chain", post_spoilt)
    pieces = [RmaIov(region.address, 8, region.key), RmaIov(region.address + 32, 8, region.key)]
    one.side.endpoint.writemsg(RmaMsg([bytes(16)], one.side.peer, pieces))
    assert one.side.failure().err == Errno.FI_EINVAL
    settle(one)
    assert one.values() == {WRITE: (0, 1)}


# Regions


@ON_MODEL
def test_a_region_counts_what_is_done_by_its_key(counted, keep):
    one, other = counted
    domain = other.side.domain
    reads, writes = keep(domain.cntr_open()), keep(domain.cntr_open())
    counting, other_region = (keep(domain.mr_reg(bytearray(16), ALL_ACCESS)) for _ in range(2))
    counting.bind(reads, REMOTE_READ)
    counting.bind(writes, REMOTE_WRITE)
    for region in (counting, other_region):
        one.side.endpoint.write(bytes(8), one.side.peer, region.address, region.key)
        one.side.endpoint.read(bytearray(8), one.side.peer, region.address, region.key)
    one.side.endpoint.atomic(np.uint64(1), one.side.peer, counting.address, counting.key, Op.FI_SUM)
    writes.wait(2, timeout=30)
    reads.wait(1, timeout=30)
    settle(one)
    assert (reads.read(), writes.read(), reads.readerr(), writes.readerr()) == (1, 2, 0, 0)
    assert other.values() == {REMOTE_WRITE: (3, 0), REMOTE_READ: (2, 0)}


def test_d1_a_region_counts_fetching_and_comparing_atomics_as_writes(counted, keep):
    """Also a compare that fails; the endpoint counts both as reads, and an atomic read is none."""
    one, other = counted
    domain, found = other.side.domain, np.zeros(1, np.uint64)
    writes, reads, both = (keep(domain.cntr_open()) for _ in range(3))
    region, second = (keep(domain.mr_reg(bytearray(16), ALL_ACCESS)) for _ in range(2))
    region.bind(writes, REMOTE_WRITE)
    region.bind(reads, REMOTE_READ)
    second.bind(both, REMOTE_WRITE | REMOTE_READ)
    endpoint, one_more = one.side.endpoint, np.uint64(1)
    for number, (post, expected) in enumerate(
        (
            (lambda *to: endpoint.write(one_more, *to), (1, 0)),
            (lambda *to: endpoint.atomic(one_more, *to, Op.FI_SUM), (2, 0)),
            (lambda *to: endpoint.fetch_atomic(one_more, found, *to, Op.FI_SUM), (3, 1)),
            (lambda *to: endpoint.compare_atomic(one_more, np.uint64(77), found, *to, Op.FI_CSWAP), (4, 2)),
            (lambda *to: endpoint.fetch_atomic(one_more, found, *to, Op.FI_ATOMIC_READ), (4, 3)),
            (lambda *to: endpoint.read(found, *to), (4, 4)),
        ),
        1,
    ):
        for target in (region, second):
            post(one.side.peer, target.address, target.key)
        for counter, value in ((writes, expected[0]), (reads, expected[1]), (both, number)):
            counter.wait(value, timeout=30)
        settle(one)
        assert (writes.read(), reads.read(), both.read()) == (*expected, number)
    assert other.values() == {REMOTE_WRITE: (4, 0), REMOTE_READ: (8, 0)}
    endpoint.fetch_atomic(one_more, found, one.side.peer, region.address + 16, region.key, Op.FI_SUM)
    assert one.side.failure().err == Errno.FI_EINVAL
    assert (writes.readerr(), reads.readerr(), both.readerr()) == (1, 1, 0)


@ON_MODEL
def test_wrong_bindings_of_regions_are_refused(pair, fabric, keep):
    domain = pair[0].domain
    counter, region = keep(domain.cntr_open()), keep(domain.mr_reg(bytearray(8), ALL_ACCESS))
    for flags in (WRITE, BindFlags(0), REMOTE_WRITE | RECV):
        with refused(Errno.FI_EBADFLAGS):
            region.bind(counter, flags)
    with refused(Errno.FI_EINVAL, "another domain"):
        region.bind(keep(keep(fabric.domain(0)).cntr_open()), REMOTE_WRITE)
    region.bind(counter, REMOTE_WRITE)
    with refused(Errno.FI_EINVAL, "bound already"):
        region.bind(counter, REMOTE_WRITE | REMOTE_READ)
    counter.close()
    assert region.closed


# Counters of the NIC, and others


@ON_MODEL
def test_values_can_be_set_and_added_to_on_top_of_what_the_nic_counts(counted):
    one, other = counted
    sends = one.counters[SEND]

    def send():
        before = sends.read()
        one.side.endpoint.inject(b"x", one.side.peer)
        sends.wait(before + 1, timeout=30)

    send()
    sends.set(100)
    assert sends.read() == 100
    send()
    sends.add(10)
    assert sends.read() == 111
    sends.set(2**64 - 1)
    other.side.endpoint.recv(bytearray(1))
    one.side.endpoint.inject(b"x", one.side.peer)
    settle(one)
    assert sends.read() == 0
    sends.seterr(5)
    sends.adderr(2)
    assert sends.readerr() == 7


def test_when_the_nic_has_no_counter_left_the_driver_counts(keep):
    with open_cluster(parameters=NicParameters(event_counters=2)) as fabric:
        one, other = keep(make_talker(fabric.domain(0))), keep(make_side(fabric.domain(1)))
        domain = one.domain
        first, second = keep(domain.cntr_open()), keep(domain.cntr_open())
        assert (first._number, second._number) == (1, 0)
        queue, peers, endpoint = keep(domain.cq_open()), keep(domain.av_open()), keep(domain.endpoint())
        endpoint.bind(queue, SELECTIVE)
        endpoint.bind(peers)
        with refused(Errno.FI_ENOSPC, "event counters"):
            endpoint.bind(second, REMOTE_WRITE | SEND)
        endpoint.bind(second, SEND | WRITE | RECV)
        endpoint.bind(first, REMOTE_WRITE)
        endpoint.enable()
        region = keep(other.domain.mr_reg(bytearray(8), ALL_ACCESS))
        endpoint.write(bytes(8), peers.insert(other.endpoint.getname()), region.address, region.key)
        second.wait(1, timeout=30)
        endpoint.send(b"x", peers.insert(one.endpoint.getname()))
        second.wait(2, timeout=30)
        endpoint.recv(bytearray(1))
        one.endpoint.inject(b"x", one.peers.insert(endpoint.getname()))
        second.wait(3, timeout=30)
        assert (second.read(), second.readerr(), first.read()) == (3, 0, 0)


def test_a_counter_that_is_opened_again_begins_at_zero(keep):
    with open_cluster(parameters=NicParameters(event_counters=2)) as fabric:
        one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1)))
        for _ in range(3):
            counter = one.domain.cntr_open()
            assert (counter._number, counter.read(), counter.readerr()) == (1, 0, 0)
            queue, peers = keep(one.domain.cq_open()), keep(one.domain.av_open())
            endpoint = keep(one.domain.endpoint())
            endpoint.bind(queue, SELECTIVE)
            endpoint.bind(peers)
            endpoint.bind(counter, SEND)
            endpoint.enable()
            other.endpoint.recv(bytearray(1))
            endpoint.inject(b"x", peers.insert(other.endpoint.getname()))
            counter.wait(1, timeout=30)
            counter.close()
            assert endpoint.closed


@ON_MODEL
def test_receives_are_counted_only_beside_a_queue_that_reports_their_errors(fabric, keep):
    domain = keep(fabric.domain(0))
    queue, peers, counter = keep(domain.cq_open()), keep(domain.av_open()), keep(domain.cntr_open())
    endpoint = keep(domain.endpoint())
    endpoint.bind(queue)
    endpoint.bind(peers)
    endpoint.bind(counter, RECV)
    with refused(Errno.FI_ENOCQ):
        endpoint.enable()


@ON_MODEL
def test_waiting_for_peers_that_do_nothing_ends_in_time(counted):
    _, other = counted
    with pytest.raises(TimedOutError):
        other.counters[REMOTE_WRITE].wait(1, timeout=0.05)


@ON_MODEL
def test_the_descriptor_of_a_counter_of_peers_is_always_readable_on_a_simulated_nic(fabric, keep):
    """Nothing on this side tells when they begin."""
    domain = keep(fabric.domain(0))
    queue, peers = keep(domain.cq_open()), keep(domain.av_open())
    counters = {kind: keep(domain.cntr_open(WaitObj.FI_WAIT_FD)) for kind in (SEND, RECV, REMOTE_WRITE)}
    endpoint = keep(domain.endpoint())
    endpoint.bind(queue, SELECTIVE)
    endpoint.bind(peers)
    for kind, counter in counters.items():
        endpoint.bind(counter, kind)
    endpoint.enable()
    for kind, counter in counters.items():
        assert counter.read() == 0
        assert bool(select.select([counter], [], [], 0)[0]) == (kind is not SEND)


@ON_MODEL
def test_deferred_work_may_wait_for_what_peers_do(counted, keep):
    one, other = counted
    domain = other.side.domain
    region = keep(domain.mr_reg(bytearray(8), ALL_ACCESS))
    done = keep(domain.cntr_open())
    change = DeferredWork(3, other.counters[REMOTE_WRITE], TriggerOp.FI_OP_CNTR_ADD, OpCntr(done, 100))
    domain.queue_work(change)
    for turn in range(3):
        assert done.read() == 0
        one.side.endpoint.write(bytes(8), one.side.peer, region.address, region.key)
        one.counters[WRITE].wait(turn + 1, timeout=30)
        other.counters[REMOTE_WRITE].wait(turn + 1, timeout=30)
    assert done.read() == 100
