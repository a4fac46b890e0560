"""Counters as fi_cntr(3) describes them.

Covers ``libfabric/objects/queues/counters.py``.
"""

import select
import time

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    CqFormat,
    Errno,
    ErrorAvailableError,
    Op,
    RmaIov,
    RmaMsg,
    TimedOutError,
    WaitObj,
)
from amoeba_model.registers import Counter as NicCounter

from tests.driver.endpoints import ALL_ACCESS, make_side, refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)

READ, WRITE = BindFlags.FI_READ, BindFlags.FI_WRITE
SELECTIVE = BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION


class Counted:
    """An endpoint with counters, and where its operations go."""

    def __init__(self, pair, region, keep, *counters, cq_flags=BindFlags.FI_TRANSMIT):
        self.domain = pair[0].domain
        self.queue, self.peers = keep(self.domain.cq_open()), keep(self.domain.av_open())
        self.endpoint = keep(self.domain.endpoint(tx_size=16))
        self.endpoint.bind(self.queue, cq_flags)
        self.endpoint.bind(self.peers)
        for counter, kinds in counters:
            self.endpoint.bind(counter, kinds)
        self.endpoint.enable()
        self.to = (self.peers.insert(pair[1].endpoint.getname()), region.address, region.key)
        self.wrong = (*self.to[:2], region.key ^ 1)


@pytest.fixture
def reads(pair, keep):
    return keep(pair[0].domain.cntr_open())


@pytest.fixture
def writes(pair, keep):
    return keep(pair[0].domain.cntr_open())


@pytest.fixture
def counted(pair, target, keep, reads, writes):
    """One counter for reads, one for writes, and success that is counted only."""
    return Counted(pair, target[1], keep, (reads, READ), (writes, WRITE), cq_flags=SELECTIVE)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (lambda e, to: e.write(bytes(8), *to), "writes"),
        (lambda e, to: e.inject_write(bytes(8), *to), "writes"),
        (lambda e, to: e.atomic(np.uint64(1), *to, Op.FI_SUM), "writes"),
        (lambda e, to: e.inject_atomic(np.uint64(1), *to, Op.FI_SUM), "writes"),
        (lambda e, to: e.read(bytearray(8), *to), "reads"),
        (lambda e, to: e.fetch_atomic(np.uint64(1), np.zeros(1, np.uint64), *to, Op.FI_SUM), "reads"),
        (
            lambda e, to: e.compare_atomic(np.uint64(1), np.uint64(0), np.zeros(1, np.uint64), *to, Op.FI_CSWAP),
            "reads",
        ),
    ],
    ids=["write", "inject_write", "atomic", "inject_atomic", "read", "fetch", "compare"],
)
def test_writes_and_base_atomics_count_as_writes_all_that_return_data_as_reads(
    counted, reads, writes, operation, kind
):
    operation(counted.endpoint, counted.to)
    (reads if kind == "reads" else writes).wait(1, timeout=30)
    assert (reads.read(), writes.read()) == ((1, 0) if kind == "reads" else (0, 1))
    assert (reads.readerr(), writes.readerr()) == (0, 0)


def test_a_counter_for_both_counts_both(pair, target, keep, reads):
    counted = Counted(pair, target[1], keep, (reads, READ | WRITE))
    counted.endpoint.write(bytes(8), *counted.to)
    counted.endpoint.read(bytearray(8), *counted.to)
    reads.wait(2, timeout=30)
    assert (reads.read(), reads.readerr()) == (2, 0)


def test_a_counter_counts_several_endpoints(pair, target, keep, writes):
    both = [Counted(pair, target[1], keep, (writes, WRITE), cq_flags=SELECTIVE) for _ in range(2)]
    for counted in both:
        counted.endpoint.write(bytes(8), *counted.to)
    writes.wait(2, timeout=30)
    assert writes.read() == 2


def test_an_operation_in_pieces_counts_once(counted, writes):
    dest_addr, address, key = counted.to
    pieces = [RmaIov(address + 16 * piece, 8, key) for piece in range(4)]
    counted.endpoint.writemsg(RmaMsg([bytes(32)], dest_addr, pieces))
    writes.wait(1, timeout=30)
    assert writes.read() == 1


def test_what_the_driver_asks_of_the_nic_for_itself_is_not_counted(counted, reads, writes):
    counted.endpoint.write(bytes(8), *counted.to)
    writes.wait(1, timeout=30)
    counted.peers.remove(counted.to[0])  # closes the connection
    assert (reads.read(), writes.read(), reads.readerr(), writes.readerr()) == (0, 1, 0, 0)


def test_what_completes_while_a_peer_is_removed_counts_once_and_can_be_read(pair, target, keep, writes):
    counted = Counted(pair, target[1], keep, (writes, WRITE))
    other = keep(make_side(pair[1].domain)).endpoint.getname()
    gone = counted.peers.insert(other)
    counted.endpoint.write(bytes(8), gone, *counted.to[1:])
    assert len(counted.queue.sread(timeout=30)) == 1
    for context in range(3):
        counted.endpoint.write(bytes(8), *counted.to, context=context)
    counted.peers.remove(gone)
    writes.wait(4, timeout=30)
    assert [entry.op_context for entry in counted.queue.read(8)] == [0, 1, 2]
    assert writes.read() == 4


def test_a_counter_leaves_what_peers_tell_in_its_ring_so_that_they_are_held_back(fabric, pair, keep, writes):
    """The ring is what bounds the memory that peers can fill."""
    server = pair[0].domain
    queue, peers = keep(server.cq_open(CqFormat.FI_CQ_FORMAT_DATA)), keep(server.av_open())
    endpoint = keep(server.endpoint(rx_size=4))
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
    endpoint.bind(peers)
    endpoint.bind(writes, WRITE)
    endpoint.enable()
    client = pair[1]
    region = keep(server.mr_reg(bytearray(8), ALL_ACCESS))
    to = (client.peers.insert(endpoint.getname()), region.address, region.key)
    for data in range(12):
        client.endpoint.inject_writedata(b"x", data, *to)
    for _ in range(200):
        assert writes.read() == 0
        fabric.trywait(queue)
    assert fabric.nics[0].counters()[NicCounter.EVENTS] < 12
    told = []
    while len(told) < 12:
        told += [entry.data for entry in queue.sread(4, timeout=30)]
    assert told == list(range(12))


def test_operations_in_error_increment_the_error_counter_only(counted, writes):
    counted.endpoint.write(bytes(8), *counted.wrong)
    with pytest.raises(ErrorAvailableError):
        writes.wait(1, timeout=30)
    assert (writes.read(), writes.readerr()) == (0, 1)
    # and the queue says what it was, also with selective completion
    with pytest.raises(ErrorAvailableError):
        counted.queue.read()
    assert counted.queue.readerr().err is Errno.FI_ENOKEY


def test_errors_of_the_past_do_not_end_a_wait(counted, writes):
    counted.endpoint.write(bytes(8), *counted.wrong)
    while not writes.readerr():
        pass
    counted.endpoint.write(bytes(8), *counted.to)
    writes.wait(1, timeout=30)
    assert (writes.read(), writes.readerr()) == (1, 1)


def test_counting_leaves_the_entries_to_the_queue_in_order(pair, target, keep, writes):
    counted = Counted(pair, target[1], keep, (writes, WRITE))
    for context, to in enumerate((counted.to, counted.wrong, counted.to)):
        counted.endpoint.write(bytes(16), *to, context=context)
    while writes.read() < 2 or writes.readerr() < 1:
        pass
    assert [entry.op_context for entry in counted.queue.read(4)] == [0]
    with pytest.raises(ErrorAvailableError):
        counted.queue.read(4)
    assert counted.queue.readerr().op_context == 1
    assert [entry.op_context for entry in counted.queue.read(4)] == [2]
    assert counted.queue.read() == []


def test_reading_the_queue_counts_too(pair, target, keep, writes):
    counted = Counted(pair, target[1], keep, (writes, WRITE))
    counted.endpoint.write(bytes(16), *counted.to)
    assert len(counted.queue.sread(timeout=30)) == 1
    assert writes.read() == 1


def test_more_operations_than_the_ring_holds_can_be_counted_without_reading_the_queue(fabric, counted, writes):
    done = 0
    while done < 5 * counted.endpoint.tx_size:
        try:
            counted.endpoint.write(bytes(8), *counted.to)
            done += 1
        except BlockingIOError:
            writes.read()
    writes.wait(done, timeout=30)
    assert writes.read() == done
    assert fabric.trywait(counted.queue)  # nothing was left there to be read
    assert counted.queue.read(done) == []


def test_values_are_added_and_set(writes):
    writes.set(5)
    writes.add(3)
    writes.seterr(2)
    writes.adderr(1)
    assert (writes.read(), writes.readerr()) == (8, 3)
    writes.set(2**64 - 1)
    writes.add(1)
    assert writes.read() == 0


@pytest.mark.parametrize("value", [-1, 2**64])
@pytest.mark.parametrize("call", ["set", "seterr", "add", "adderr", "wait"])
def test_values_have_64_bits(writes, call, value):
    with refused(Errno.FI_EINVAL):
        getattr(writes, call)(value)


def test_a_wait_whose_threshold_is_reached_returns_at_once(writes):
    writes.set(4)
    writes.wait(4, timeout=0)
    writes.wait(0, timeout=0)


def test_a_wait_ends_with_its_time(writes):
    begin = time.monotonic()
    with pytest.raises(TimedOutError, match=r"^FI_ETIMEDOUT: 0 of 1 "):
        writes.wait(1, timeout=0.05)
    assert 0.05 <= time.monotonic() - begin < 5


def test_what_cannot_be_counted_is_refused(pair, keep, writes):
    endpoint = keep(pair[0].domain.endpoint())
    with refused(Errno.FI_EBADFLAGS):
        endpoint.bind(writes, BindFlags.FI_SELECTIVE_COMPLETION | BindFlags.FI_WRITE)
    endpoint.bind(writes, BindFlags.FI_WRITE)


def test_each_kind_is_counted_once_and_something_must_be(fabric, pair, keep, reads, writes):
    endpoint = keep(pair[0].domain.endpoint())
    with refused(Errno.FI_EBADFLAGS):
        endpoint.bind(writes, BindFlags(0))
    endpoint.bind(writes, WRITE)
    with refused(Errno.FI_EINVAL):
        endpoint.bind(reads, READ | WRITE)
    endpoint.bind(reads, READ)
    foreign = keep(keep(fabric.domain(0)).cntr_open())
    with refused(Errno.FI_EINVAL):
        keep(pair[0].domain.endpoint()).bind(foreign, READ)


def test_a_counter_without_wait_object_is_read_only(pair, keep):
    counter = keep(pair[0].domain.cntr_open(WaitObj.FI_WAIT_NONE))
    assert counter.read() == 0
    with refused(Errno.FI_ENOSYS):
        counter.wait(0)
    with refused(Errno.FI_ENOSYS):
        counter.fileno()
    with refused(Errno.FI_ENOSYS):
        pair[0].domain.cntr_open(WaitObj.FI_WAIT_MUTEX_COND)


@pytest.fixture
def selectable(pair, keep):
    return keep(pair[0].domain.cntr_open(WaitObj.FI_WAIT_FD))


def readable(counter):
    return bool(select.select([counter], [], [], 0)[0])


def test_a_descriptor_is_readable_while_operations_that_count_are_in_flight(pair, target, keep, selectable):
    counted = Counted(pair, target[1], keep, (selectable, WRITE), cq_flags=SELECTIVE)
    assert not readable(selectable)
    for done in (1, 2):
        counted.endpoint.write(bytes(8), *counted.to)
        while selectable.read() < done:
            assert readable(selectable)
        assert not readable(selectable)


@pytest.mark.parametrize("change", ["add", "adderr", "set", "seterr"])
def test_a_descriptor_is_readable_until_what_changed_has_been_read(fabric, selectable, change):
    assert fabric.trywait(selectable)
    getattr(selectable, change)(5)
    assert readable(selectable)
    assert not fabric.trywait(selectable)
    (selectable.read if change in ("add", "set") else selectable.readerr)()
    assert not readable(selectable)
    assert fabric.trywait(selectable)


def test_a_descriptor_is_readable_when_somebody_else_took_the_completion(pair, target, keep, selectable):
    counted = Counted(pair, target[1], keep, (selectable, WRITE))
    counted.endpoint.write(bytes(8), *counted.to)
    assert len(counted.queue.sread(timeout=30)) == 1
    assert readable(selectable)
    assert selectable.read() == 1
    assert not readable(selectable)


def test_a_descriptor_ends_with_its_counter(selectable):
    selectable.close()
    with refused(Errno.FI_EBADF):
        selectable.fileno()


def test_closing_a_counter_closes_its_endpoints(counted, writes):
    writes.close()
    assert counted.endpoint.closed
    for use in (writes.read, writes.readerr, lambda: writes.add(1), lambda: writes.wait(0)):
        with refused(Errno.FI_EBADF):
            use()
