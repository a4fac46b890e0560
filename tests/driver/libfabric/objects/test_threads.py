"""Many threads at one endpoint, queue and counter: FI_THREAD_SAFE, with automatic progress. fi_domain(3).

Covers ``core/locking.py``.
"""

import contextlib
import threading
import time
from collections import Counter as Tally

import numpy as np
import pytest
from amoeba import (
    ArgumentError,
    BindFlags,
    CanceledError,
    ClosedError,
    CqFormat,
    EqFlags,
    Errno,
    ErrorAvailableError,
    Op,
    TryAgainError,
    open_cluster,
)
from amoeba.core.guard import Guard
from amoeba.core.locking import guarded
from amoeba.devices.devices import DEVICE_KINDS

from tests.driver.automatic import LONG, automatic_cluster, eventually
from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, entries, make_talkers


class Crowd:
    """Threads, and what they raised that they should not have."""

    def __init__(self):
        self.threads = []
        self.failures = []

    def start(self, function, *arguments):
        def run():
            try:
                function(*arguments)
            except BaseException as error:
                self.failures.append(error)

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join(LONG)
            assert not thread.is_alive(), f"a thread hangs, others have raised {self.failures}"
        assert self.failures == []


@pytest.fixture
def crowd():
    return Crowd()


@pytest.fixture(params=DEVICE_KINDS)
def fabric(request, build_of):
    with automatic_cluster(request.param, build_of(request.param)) as opened:
        yield opened


def post(call, *arguments, **options):
    """Post as soon as there is space."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        try:
            return call(*arguments, **options)
        except TryAgainError:
            time.sleep(0.0005)
    raise AssertionError("there was no space in time")


def test_operations_of_many_threads_are_each_done_once(fabric, pair, target, crowd):
    """Each fetches what nobody else does, and each entry is read by one of those who read."""
    threads, each = 6, 25
    memory, region = target
    side, memory[0] = pair[0], 0
    results = np.zeros(threads * each, np.uint64)
    entries_of = Tally()

    def work(first):
        for index in range(first, first + each):
            post(
                side.endpoint.fetch_atomic, np.uint64(1), results[index : index + 1], side.peer, region.address,
                region.key, Op.FI_SUM, context=index,
            )  # fmt: skip

    def read():
        while len(entries_of) < threads * each:
            for entry in side.queue.sread(4, timeout=0.2):
                entries_of[entry.op_context] += 1

    for thread in range(threads):
        crowd.start(work, thread * each)
    for _ in range(3):
        crowd.start(read)
    crowd.join()
    assert memory[0] == threads * each
    assert sorted(results) == list(range(threads * each))
    assert entries_of == dict.fromkeys(range(threads * each), 1)


def test_messages_between_many_threads_arrive_once_each(fabric, crowd, keep):
    """Threads send at both ends while others post receives and read; tags tell the senders apart."""
    one, other = keep(make_talkers(fabric))
    lanes, each, length = 3, 12, 5000
    heard = []

    def send(side, lane):
        for number in range(each):
            text = bytes([lane, number]) * (length // 2 if number % 4 == 0 else 8)
            post(side.endpoint.tsend, text, side.peer, lane, context=("sent", lane, number))

    def receive(side, lane):
        for number in range(each):
            buffer = bytearray(length)
            post(side.endpoint.trecv, buffer, lane, context=("received", lane, number, buffer))

    def read(side):
        expected = 2 * lanes * each
        while expected:
            found = side.queue.sread(8, timeout=LONG)
            assert found, f"{expected} entries did not come"
            expected -= len(found)
            heard.extend((side is one, *entry.op_context[:3], entry) for entry in found)

    for side in (one, other):
        for lane in range(lanes):
            crowd.start(send, side, lane)
            crowd.start(receive, side, lane)
        crowd.start(read, side)
    crowd.join()
    assert len(heard) == len({told[:4] for told in heard}) == 4 * lanes * each
    for _, what, lane, number, entry in heard:
        if what == "received":
            assert bytes(entry.op_context[3][: entry.len])[:2] == bytes([lane, number])
            assert entry.len == (length if number % 4 == 0 else 16)


@ON_MODEL
def test_receives_that_are_cancelled_meanwhile_end_once_each(fabric, crowd, keep):
    one, other = keep(make_talkers(fabric))
    count = 60
    ends = Tally()

    def send():
        for number in range(count // 2):
            post(one.endpoint.tinject, b"x", one.peer, number)

    def cancel(first):
        for number in range(first, count, 2):
            with contextlib.suppress(ArgumentError):  # FI_ENOENT: it has met its message
                other.endpoint.cancel(number)

    def read():
        while sum(ends.values()) < count:
            try:
                for entry in other.queue.sread(timeout=LONG):
                    ends[entry.op_context] += 1
            except ErrorAvailableError:
                failure = other.queue.readerr()
                assert failure.err is Errno.FI_ECANCELED
                ends[failure.op_context] += 1

    for number in range(count):
        other.endpoint.trecv(bytearray(1), number, context=number)
    for function, *arguments in ((send,), (cancel, 0), (cancel, 1), (read,)):
        crowd.start(function, *arguments)
    crowd.join()
    assert ends == dict.fromkeys(range(count), 1)


@ON_MODEL
def test_a_counter_counts_what_many_threads_do(fabric, pair, target, crowd, keep):
    domain, region = pair[0].domain, target[1]
    counter, queue = keep(domain.cntr_open()), keep(domain.cq_open())
    endpoint = keep(domain.endpoint(tx_size=16))
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(pair[0].peers)
    endpoint.bind(counter, BindFlags.FI_WRITE)
    endpoint.enable()

    def work():
        for _ in range(20):
            post(endpoint.atomic, np.uint64(1), pair[0].peer, region.address, region.key, Op.FI_SUM)

    for _ in range(4):
        crowd.start(work)
        crowd.start(counter.wait, 80, LONG)
    crowd.join()
    assert counter.read() == 80
    assert target[0][0] == 80


@ON_MODEL
def test_a_signal_and_closing_wake_those_who_wait(fabric, pair, crowd, keep):
    """At once, without looking every now and then: there is no limit to their wait."""
    queue, doomed = keep(pair[0].domain.cq_open()), keep(pair[0].domain.cq_open())
    counter, events = keep(pair[0].domain.cntr_open()), keep(fabric.eq_open())

    def expect(error, call, *arguments):
        with pytest.raises(error):
            call(*arguments)

    crowd.start(expect, CanceledError, queue.sread)
    crowd.start(expect, ClosedError, doomed.sread)
    crowd.start(expect, ClosedError, counter.wait, 1)
    crowd.start(expect, ClosedError, events.sread)
    while len(fabric._auto.guard._waiters) < 4:
        time.sleep(0.001)
    queue.signal()
    for each in (doomed, counter, events):
        each.close()
    crowd.join()


@ON_MODEL
def test_of_two_who_wait_for_an_event_one_goes_on_waiting(fabric, crowd, keep):
    events, read = keep(fabric.eq_open(flags=EqFlags.FI_WRITE)), []
    for _ in range(2):
        crowd.start(lambda: read.append(events.sread()))
    for count in (1, 2):
        eventually(lambda: len(fabric._auto.guard._waiters) == 3 - count, "a wait")  # noqa: B023
        events.write(count)
        eventually(lambda: len(read) == count, "the event")  # noqa: B023
    crowd.join()
    assert [event.event for event in read] == [1, 2]


@ON_MODEL
def test_a_fabric_can_be_closed_under_those_who_use_it(fabric, pair, target, crowd):
    region, running = target[1], threading.Semaphore(0)

    def again_and_again(call, *arguments):
        running.release()
        while True:
            call(*arguments)

    def until_it_is_closed(*arguments):
        with pytest.raises(ClosedError):
            again_and_again(*arguments)

    for _ in range(2):
        to = (pair[0].peer, region.address, region.key)
        crowd.start(until_it_is_closed, post, pair[0].endpoint.write, bytes(8), *to)
        crowd.start(until_it_is_closed, pair[0].queue.sread)
    for _ in range(4):
        running.acquire()
    time.sleep(0.05)
    for _ in range(2):
        crowd.start(fabric.close)
    crowd.join()
    assert pair[0].endpoint.closed


@ON_MODEL
def test_domains_regions_and_peers_come_and_go_in_many_threads(fabric, pair, crowd):
    name = pair[1].endpoint.getname()

    def work(nic):
        for _ in range(5):
            with fabric.domain(nic) as domain:
                peers, queue = domain.av_open(), domain.cq_open(CqFormat.FI_CQ_FORMAT_CONTEXT)
                with domain.mr_reg(bytearray(64), ALL_ACCESS) as region:
                    number = peers.insert(name)
                    assert region.key
                    assert peers.lookup(number) == name
                    assert queue.read() == []
                    peers.remove(number)
                peers.close()
                queue.close()

    for thread in range(6):
        crowd.start(work, thread % 2)
    crowd.join()


@ON_MODEL
def test_every_public_call_of_every_object_takes_the_lock(fabric, pair, target):
    """None of a class that was forgotten; what waits gives it up meanwhile."""
    for thing in (fabric, pair[0].domain, pair[0].queue, pair[0].peers, pair[0].endpoint, target[1]):
        kind = type(thing)
        plain = kind.__mro__[1]
        assert guarded(plain) is kind
        assert (kind.__name__, kind.__doc__, kind.__module__) == (plain.__name__, plain.__doc__, plain.__module__)
        for name in dir(plain):
            if not name.startswith("_") and (
                callable(getattr(plain, name)) or isinstance(getattr(plain, name), property)
            ):
                assert name in ("closed", "forked") or name in vars(kind), f"{plain.__name__}.{name}"


def test_manual_progress_has_no_lock(keep):
    with open_cluster() as manual:
        domain = keep(manual.domain(0))
        for thing in (manual, domain, keep(domain.cq_open()), keep(domain.av_open())):
            assert thing._auto is None
            assert guarded(type(thing)) is not type(thing)
        assert domain.nic.ring == domain.nic.device.write


def test_entries_of_one_queue_are_read_by_whoever_comes(fabric, keep, crowd):
    """More readers than entries: each entry wakes those who can have it."""
    one, other = keep(make_talkers(fabric))
    found = []

    def read():
        found.extend(entry.op_context for entry in other.queue.sread(timeout=LONG))

    for number in range(4):
        other.endpoint.recv(bytearray(1), context=number)
        crowd.start(read)
    for _ in range(4):
        one.endpoint.inject(b"x", one.peer)
    deadline = time.monotonic() + LONG
    while len(found) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    crowd.join()
    assert sorted(found) == [0, 1, 2, 3]
    assert isinstance(fabric._auto.guard, Guard)
    one.endpoint.send(b"x", one.peer, context="after all")
    assert entries(one.queue, 1)[0].op_context == "after all"
