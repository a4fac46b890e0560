"""The engine alone: what UCX's API and others stand on, without an object, a flag or an entry of libfabric's.

Covers ``transport/context.py``, ``transport/operation.py``, ``transport/peers.py``,
``transport/protection_domain.py`` and ``transport/requests.py``.
"""


import time

import numpy as np
import pytest
from amoeba.core.errors import TryAgainError
from amoeba.transport.operation import filled
from amoeba.transport.posting import Local, Scattered, post_scattered
from amoeba.transport.requests import DATA, NEVER, NO_SOURCE, Arrival, Kind
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventFlags
from amoeba_model.wire.uet import ReturnCode

from tests.driver.transport.workers import PATIENCE, pair_of_workers, wait, write_of
from tests.support.pairs import PAIRS

OK = int(ReturnCode.OK)


@pytest.fixture(params=PAIRS)
def workers(request):
    with pair_of_workers(request.param) as pair:
        yield pair


@pytest.fixture(params=PAIRS)
def silent(request):
    with pair_of_workers(request.param, announce=False) as pair:
        yield pair


@pytest.fixture(params=PAIRS)
def announcing(request):
    with pair_of_workers(request.param, announce=True) as pair:
        yield pair


def test_puts_and_fetching_atomics_complete_with_what_they_were_posted_with(workers):
    one, other = workers
    memory, found = np.array([5, 40], np.uint64), np.zeros(1, np.uint64)
    start, key = other.expose(memory)
    one.put(17, (start, key), "put")
    one.fetch_add(2, found, (start + 8, key), "add")
    ended = wait(workers, 2, one)
    assert [(each.context, each.kind, each.status, each.length) for each in ended] == [
        ("put", Kind.WRITE, OK, 8),
        ("add", Kind.FETCH_ATOMIC, OK, 8),
    ]
    assert (memory.tolist(), found[0]) == ([17, 42], 40)


def test_a_flush_leaves_nothing_in_flight_to_the_peer(workers):
    one, other = workers
    memory = np.zeros(8, np.uint64)
    start, key = other.expose(memory)
    for index in range(8):
        one.put(index + 1, (start + 8 * index, key))
    one.flush()
    np.testing.assert_array_equal(memory, np.arange(1, 9))
    assert one.rings.outstanding == 0
    assert len(wait(workers, 8, one)) == 8


def test_tagged_messages_meet_receives_posted_before_and_after(workers):
    one, other = workers
    first, second = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    other.receive(first, 1, "first")
    for _ in range(50):  # until it is posted
        other.nic.advance()
    one.send(np.arange(4, dtype=np.uint64), 1, "sent")
    one.send(np.arange(4, 8, dtype=np.uint64), 2)
    assert [each.context for each in wait(workers, 2, one)] == ["sent", None]
    other.receive(second, 0, "second", ignore=2**64 - 1)
    arrived = wait(workers, 2, other)
    assert all(type(each) is Arrival for each in arrived)
    assert [(each.context, each.kind, each.tag, each.length, each.source) for each in arrived] == [
        ("first", Kind.TAGGED_RECEIVE, 1, 32, 0),
        ("second", Kind.TAGGED_RECEIVE, 2, 32, 0),
    ]
    assert (first.tolist(), second.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7])


def test_a_message_longer_than_a_packet_is_read_by_its_receiver(workers):
    one, other = workers
    length = 3 * one.nic.parameters.payload // 8
    message, place = np.arange(length, dtype=np.uint64), np.zeros(length, np.uint64)
    other.receive(place, 9, "long")
    one.send(message, 9, "sent")
    (arrival,) = wait(workers, 1, other)
    (sent,) = wait(workers, 1, one)
    assert (arrival.context, arrival.length, sent.context, sent.kind) == (
        "long",
        message.nbytes,
        "sent",
        Kind.TAGGED_SEND,
    )
    np.testing.assert_array_equal(place, message)


def test_scattered_buffers_and_data_are_one_request(workers):
    one, other = workers
    memory = np.zeros(4, np.uint64)
    start, key = other.expose(memory)
    parts = [np.array([1], np.uint64), np.array([2, 3, 4], np.uint64)]
    sources = [Local(memoryview(part), None, writable=False) for part in parts]
    remote = [Local(memoryview(memory), None, writable=True).segment._replace(address=start, key=key)]
    scattered = filled(
        Kind.WRITE,
        opcode=DescriptorOpcode.WRITE,
        flags=DescriptorFlags.IMMEDIATE,
        length=32,
        peer=one.peers.find(0),
        compare=0xDA7A,
        context="scattered",
        dest_addr=0,
    )
    post_scattered(one.rings, scattered, Scattered(sources, [], [], remote))
    (ended,) = wait(workers, 1, one)
    (arrival,) = wait(workers, 1, other)
    assert (ended.context, ended.status) == ("scattered", OK)
    assert (arrival.kind, arrival.data) == (Kind.REMOTE_WRITE | DATA, 0xDA7A)
    np.testing.assert_array_equal(memory, [1, 2, 3, 4])


def test_a_key_that_is_none_ends_a_request_with_its_status(workers):
    one, other = workers
    memory = np.zeros(1, np.uint64)
    start, key = other.expose(memory)
    one.put(1, (start, key ^ 1), "refused")
    (ended,) = wait(workers, 1, one)
    assert (ended.context, ended.status, ended.source) == ("refused", int(ReturnCode.BAD_MKEY), NO_SOURCE)
    assert memory[0] == 0


def test_a_full_ring_refuses_a_request_and_keeps_nothing_of_it(workers):
    one, other = workers
    memory, found = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    at = other.expose(memory)
    for _ in range(16):
        one.put(1, at)
    with pytest.raises(TryAgainError):
        one.fetch_add(1, found, at)
    assert len(wait(workers, 16, one)) == 16
    one.fetch_add(1, found, at, "now")
    (ended,) = wait(workers, 1, one)
    assert (ended.context, found[0], memory[0]) == ("now", 1, 2)


def test_the_end_of_a_request_is_told_to_whoever_asked(workers):
    one, other = workers
    told: list[int] = []
    at = other.expose(np.zeros(1, np.uint64))
    one.rings.post(write_of(3, at, one.peers.find(0), kind=Kind.OWN, silent=NEVER, ended=told.append))
    one.flush()
    assert told == [OK]
    one.progress()
    assert not one.taken


def test_a_context_that_announces_tells_of_messages_before_anybody_asks_for_them(announcing):
    one, other = announcing
    late = np.zeros(4, np.uint64)
    met = np.zeros(4, np.uint64)
    other.receive(met, 1, "met")
    for _ in range(50):  # until it is posted
        other.nic.advance()
    for tag in (1, 2):
        one.send(np.full(4, tag, np.uint64), tag)
    length = 2 * one.nic.parameters.payload
    one.send(np.zeros(length, np.uint8), 3, "long")
    wait(announcing, 1, other)
    deadline = time.monotonic() + PATIENCE
    while len(other.arrived) < 2:
        for worker in announcing:
            worker.progress()
        assert time.monotonic() < deadline, other.arrived
    short, long = other.arrived
    flags = EventFlags.PHASE | EventFlags.IN_SLOT | EventFlags.TAGGED
    assert (short.tag, short.length, short.slot, short.target) == (2, 32, 0, other.context.number)
    assert (long.tag, long.length, long.slot) == (3, length, 1)
    assert (short.flags & ~EventFlags.PHASE, long.flags & ~EventFlags.PHASE) == (
        flags & ~EventFlags.PHASE,
        (flags | EventFlags.LONG) & ~EventFlags.PHASE,
    )
    assert (short.source_ip, short.source_context) == (one.nic.ip, one.context.number)
    other.receive(late, 2, "late")
    (arrival,) = wait(announcing, 1, other)
    assert (arrival.context, late.tolist()) == ("late", [2] * 4)
    place = np.zeros(length, np.uint8)
    other.receive(place, 3)
    wait(announcing, 1, other)


def test_without_being_asked_a_context_announces_nothing(silent):
    one, other = silent
    one.send(np.zeros(1, np.uint64), 2, "sent")
    wait(silent, 1, one)
    other.progress()
    assert not other.dispatch.waiting
    assert not other.arrived
