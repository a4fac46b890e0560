"""The engine alone: what UCX's API and others stand on, without an object, a flag or an entry of libfabric's."""

import sys
import time
from collections import deque
from typing import Any

import numpy as np
import pytest
from amoeba.core.buffers import address_of
from amoeba.core.errors import TryAgainError
from amoeba.devices.devices import open_device
from amoeba.nic.address import EndpointAddress
from amoeba.nic.event_ring import Event
from amoeba.nic.nic import Nic
from amoeba.transport.context import Context
from amoeba.transport.posting import Local, PostFlags, grants_of, keep_of, post_vector
from amoeba.transport.protection_domain import ProtectionDomain
from amoeba.transport.receives import ANYBODY, Receive
from amoeba.transport.requests import DATA, NEVER, NO_SOURCE, Arrival, Kind, Request
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventFlags, EventKind
from amoeba_model.network import Network
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import KeyFlags
from amoeba_model.wire.uet import ReturnCode
from support.pairs import PAIRS

OK = int(ReturnCode.OK)
ALL = KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE
PATIENCE = 60.0
"""Seconds that a test waits for a simulated NIC."""


class Worker:
    """A context with everything, and one peer that it knows by number 0."""

    def __init__(self, nic: Nic, *, entries: int = 16, announce: bool = False) -> None:
        self.nic = nic
        self.domain = ProtectionDomain(nic, job_id=7, pid_on_fep=1)
        self.context = context = Context(self.domain)
        self.rings = context.open_rings(entries)
        self.peers = context.open_peers()
        self.dispatch = context.open_events(64, lambda ip, number: 0, listening=True)
        context.open_long_sends(lambda: None)
        self.receives = context.open_receives(context.outlet(None, selective=False))
        self.arrived: list[Event] = []
        """Of messages that met no receive; only if they are to ``announce`` themselves."""
        if announce:
            self.dispatch.handlers[EventKind.ARRIVED] = self.arrived.append
        context.enable(announce=announce)
        self.taken: deque[Any] = deque()
        self.memory: list[np.ndarray] = []
        """Kept: the NIC has been granted it."""

    def meet(self, address: EndpointAddress) -> None:
        self.peers.add(0, address)

    def expose(self, memory: np.ndarray) -> tuple[int, int]:
        """(offset of the first byte, key) by which peers reach memory."""
        start = address_of(memoryview(memory))
        self.nic.dma.grant(start, memory.nbytes, writable=True)
        self.memory.append(memory)
        return 0, self.nic.keys.store(None, start, memory.nbytes, self.domain.number, ALL)

    def put(self, value: int, to: tuple[int, int], context: Any = None) -> None:
        self.rings.post(
            Request(context, Kind.WRITE, False, 0, 8), False, self.peers.find(0), DescriptorOpcode.WRITE,
            DescriptorFlags.INLINE, 0, 0, 8, *to, value, 0, 0,
        )  # fmt: skip

    def fetch_add(self, value: int, found: np.ndarray, at: tuple[int, int], context: Any = None) -> None:
        result = Local(memoryview(found), None, writable=True)
        request = Request(context, Kind.FETCH_ATOMIC, False, 0, 8, keep_of([result]), grants_of([result]))
        self.rings.post(
            request, False, self.peers.find(0), DescriptorOpcode.FETCH_ATOMIC, DescriptorFlags.INLINE, Op.FI_SUM,
            Datatype.FI_UINT64, 8, *at, value, result.address, 0,
        )  # fmt: skip

    def send(self, message: np.ndarray, tag: int, context: Any = None) -> None:
        source = Local(memoryview(message), None, writable=False)
        request = Request(context, Kind.TAGGED_SEND, False, 0, source.length, keep_of([source]), grants_of([source]))
        peer = self.peers.find(0)
        if source.length > self.nic.parameters.payload:
            sends = self.context.long_sends
            assert sends is not None
            sends.post(
                request, False, peer, DescriptorOpcode.RENDEZVOUS_TAGGED_SEND, 0, source.segment, tag, 0
            )
            return
        self.rings.post(
            request, False, peer, DescriptorOpcode.TAGGED_SEND, 0, 0, 0, source.length, 0, tag, source.address, 0, 0
        )

    def receive(self, buffer: np.ndarray, tag: int, context: Any = None, ignore: int = 0) -> None:
        view = memoryview(buffer)
        place = Local(view, None, writable=True)
        receive = Receive(
            True, tag, ignore, ANYBODY, context, False, (view,), place.address, place.length, buffer
        )
        receive.grants = grants_of([place])
        self.receives.post(receive, 0, False)

    def flush(self) -> None:
        """Wait until nothing is under way to the peer."""
        entry = self.peers.find(0)
        assert self.rings.wait_until(lambda: not self.rings.busy_with(entry), time.monotonic() + PATIENCE)

    def progress(self) -> None:
        for source in (self.rings, self.dispatch):
            source.announce()
            taken: list[Any] = []
            source.poll(sys.maxsize, taken)
            self.taken += [each for each in taken if each.silent != NEVER]

    def close(self) -> None:
        for memory in self.memory:
            self.nic.dma.revoke(address_of(memoryview(memory)), memory.nbytes)
        self.context.close()
        self.domain.release()


def wait(workers: tuple[Worker, ...], count: int, worker: Worker) -> list[Any]:
    """The next ``count`` completions of a worker."""
    deadline = time.monotonic() + PATIENCE
    while len(worker.taken) < count:
        for each in workers:
            each.progress()
        worker.nic.advance()
        assert time.monotonic() < deadline, f"{len(worker.taken)} of {count} completions came"
    return [worker.taken.popleft() for _ in range(count)]


@pytest.fixture(params=PAIRS)
def workers(request):
    yield from connected(request.param.split(","))


@pytest.fixture(params=PAIRS)
def announcing(request):
    yield from connected(request.param.split(","), announce=True)


def connected(kinds, **options):
    network = Network(Network.DEFAULT_LATENCY)
    devices = [open_device(kind) for kind in kinds]
    made = []
    for index, device in enumerate(devices):
        nic = Nic(device)
        mac = (0x0200_0000_0001 + index).to_bytes(6, "big")
        nic.set_address(mac, 0x0A00_0001 + index)
        network.attach(device, mac)
        made.append(Worker(nic, **options))
    made[0].meet(made[1].context.address)
    made[1].meet(made[0].context.address)
    yield tuple(made)
    for worker in made:
        worker.close()
    for device in devices:
        device.close()


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


def test_a_flush_leaves_nothing_under_way_to_the_peer(workers):
    one, other = workers
    memory = np.zeros(8, np.uint64)
    start, key = other.expose(memory)
    for index in range(8):
        one.put(index + 1, (start + 8 * index, key))
    one.flush()
    np.testing.assert_array_equal(memory, np.arange(1, 9))
    assert one.rings.under_way == 0
    assert len(wait(workers, 8, one)) == 8


def test_tagged_messages_meet_receives_posted_before_and_after(workers):
    one, other = workers
    first, second = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    other.receive(first, 1, "first")
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
    request = Request("scattered", Kind.WRITE, False, 0, 32)
    remote = [Local(memoryview(memory), None, writable=True).segment._replace(address=start, key=key)]
    post_vector(
        one.rings, request, PostFlags.NONE, one.peers.find(0), DescriptorOpcode.WRITE, 0, 0, sources, [], [], remote,
        0xDA7A,
    )  # fmt: skip
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
    request = Request(None, Kind.OWN, NEVER, 0, 8)
    request.ended = told.append
    one.rings.post(
        request, False, one.peers.find(0), DescriptorOpcode.WRITE, DescriptorFlags.INLINE, 0, 0, 8,
        *other.expose(np.zeros(1, np.uint64)), 3, 0, 0,
    )  # fmt: skip
    one.flush()
    assert told == [OK]
    one.progress()
    assert not one.taken


def test_a_context_that_announces_tells_of_messages_before_anybody_asks_for_them(announcing):
    one, other = announcing
    late = np.zeros(4, np.uint64)
    met = np.zeros(4, np.uint64)
    other.receive(met, 1, "met")
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


def test_without_being_asked_a_context_announces_nothing(workers):
    one, other = workers
    one.send(np.zeros(1, np.uint64), 2, "sent")
    wait(workers, 1, one)
    other.progress()
    assert not other.dispatch.waiting
    assert EventKind.ARRIVED not in other.dispatch.handlers
