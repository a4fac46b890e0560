"""Random programs of sends and receive descriptors, and what has to come of them, told in the plainest way."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from amoeba_model.descriptors import (
    RENDEZVOUS,
    DescriptorFlags,
    DescriptorOpcode,
    EventFlags,
    EventKind,
    ReceiveFlags,
    ReceiveOpcode,
)
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import ContextControl, Counter
from amoeba_model.wire.uet import ReturnCode
from hypothesis import strategies as st

from tests.support.messages import Mailbox, valid
from tests.support.raw_driver import Buffer, Pair

__all__ = ["Order", "Release", "Restart", "Send", "Step", "programs", "run"]

OK = ReturnCode.OK
_LONGEST = 64
"""Bytes of a message, or announced by a rendezvous."""
COUNTER = 9
"""Event counter of all receives."""


@dataclass(frozen=True)
class Send:
    """A message, rendezvous or tagged atomic."""

    source: int
    """0 or 1: context and PDC of the initiator."""
    opcode: DescriptorOpcode
    tag: int | None = None
    length: int = 8
    """Of a rendezvous: that it announces."""
    start: int = 0
    """Of its bytes in the sender's buffer; of an atomic, what it adds."""
    offset: int = 0
    """Of an atomic in the receive's buffer."""
    data: int | None = None
    target: int = 0
    """0 or 1: context that it is for. Both receive what context 0 posts."""

    @property
    def peer(self) -> int:
        return self.source + 2 * self.target

    @property
    def is_atomic(self) -> bool:
        return self.opcode in (DescriptorOpcode.TAGGED_ATOMIC, DescriptorOpcode.TAGGED_FETCH_ATOMIC)

    @property
    def is_rendezvous(self) -> bool:
        return self.opcode in (DescriptorOpcode.RENDEZVOUS_SEND, DescriptorOpcode.RENDEZVOUS_TAGGED_SEND)


@dataclass(frozen=True)
class Order:
    """A receive descriptor."""

    opcode: int = ReceiveOpcode.RECEIVE
    tag: int | None = None
    ignore: int = 0
    source: int | None = None
    """Only messages of this source."""
    target: int | None = None
    """Only messages for this context."""
    multi: bool = False
    place: int = 0
    length: int = 64
    least_space: int = 0
    context: int = 1
    stray_flags: int = 0


@dataclass(frozen=True)
class Release:
    """The driver gives a slot back, whether it has it or not."""

    slot: int


@dataclass(frozen=True)
class Restart:
    """A context is disabled and enabled."""

    target: int = 0


Step = Send | Order | Release | Restart

_tags = st.sampled_from([None, None, 1, 1, 2])
_sources = st.sampled_from([0, 0, 0, 1])
_targets = st.sampled_from([0, 0, 1])
_sends = st.builds(
    Send,
    _sources,
    st.sampled_from([DescriptorOpcode.SEND, DescriptorOpcode.SEND, DescriptorOpcode.RENDEZVOUS_SEND]),
    _tags,
    st.integers(0, _LONGEST),
    st.integers(0, 1000),
    data=st.none() | st.integers(0, (1 << 64) - 1),
    target=_targets,
).map(lambda send: replace(send, opcode=send.opcode if send.tag is None else send.opcode + 1))
_atomics = st.builds(
    Send,
    _sources,
    st.sampled_from([DescriptorOpcode.TAGGED_ATOMIC, DescriptorOpcode.TAGGED_FETCH_ATOMIC]),
    st.integers(1, 2),
    start=st.integers(0, 1000),
    offset=st.sampled_from([0, 0, 8, 13, 56, 64]),
    target=_targets,
)
_receives = st.builds(
    Order,
    st.just(ReceiveOpcode.RECEIVE),
    _tags,
    st.sampled_from([0, 0, 0, 3, (1 << 64) - 1]),
    st.sampled_from([None, None, None, 0, 1]),
    st.sampled_from([None, None, None, 0, 1]),
    st.booleans(),
    st.integers(0, 1000),
    st.sampled_from([0, 8, 20, 64, 100, 200]),
    st.sampled_from([0, 0, 16]),
    st.integers(1, 4),
    st.sampled_from([*[0] * 19, 0x20]),
)
_others = st.builds(
    Order,
    st.sampled_from([*[ReceiveOpcode.PEEK, ReceiveOpcode.TAKE, ReceiveOpcode.CANCEL] * 4, 9]),
    _tags,
    st.sampled_from([0, 3]),
    st.sampled_from([None, None, 0, 1]),
    st.sampled_from([None, None, 0, 1]),
    context=st.integers(1, 4),
)


def programs(slots: int) -> st.SearchStrategy[list[Step]]:
    """Programs for two contexts that share receives and so many unexpected slots."""
    releases = st.builds(Release, st.integers(0, slots))
    weights = {"sends": 16, "receives": 18, "atomics": 2, "others": 6, "releases": 14, "restarts": 2}
    strategies: dict[str, st.SearchStrategy[Step]] = {
        "sends": _sends,
        "receives": _receives,
        "atomics": _atomics,
        "others": _others,
        "releases": releases,
        "restarts": st.builds(Restart, _targets),
    }
    # one_of() would choose between the six evenly.
    kinds = st.sampled_from([kind for kind, weight in weights.items() for _ in range(weight)])
    return st.lists(kinds.flatmap(strategies.__getitem__), min_size=20, max_size=60)


@dataclass
class _Posted:
    order: Order
    place: int
    left: int


@dataclass
class PlainMailbox:
    """The behaviour of context 0 with messages and receive descriptors, as hw/amoeba_hw/messages/README.md says."""

    receives: int
    slots: int
    buffer_address: int
    initiator_ip: int
    memory: bytearray
    """The receiver's buffer."""
    source: bytes
    """The senders' buffer."""
    announces: bool = False
    """Messages that meet no receive have an event, too."""
    posted: list[_Posted] = field(default_factory=list)
    waiting: list[tuple[Send, int]] = field(default_factory=list)
    """Messages and their slots."""
    orders: list[Order] = field(default_factory=list)
    """Descriptors that have to wait, in ring order."""
    held: list[Send] = field(default_factory=list)
    """Messages for which there is no free slot."""
    taken: set[int] = field(default_factory=set)
    events: list[dict[str, int]] = field(default_factory=list)
    slot_bytes: dict[int, bytes] = field(default_factory=dict)
    ends: list[tuple[Send, int, int]] = field(default_factory=list)
    """Sends that complete, with their status and what they fetch."""
    counts: list[int] = field(default_factory=lambda: [0, 0])
    matched: int = 0
    unexpected: int = 0
    done: int = 0
    """Descriptors."""

    def send(self, send: Send) -> None:
        self.held.append(send)
        self._go_on()

    def order(self, order: Order) -> None:
        self.orders.append(order)
        self._go_on()

    def release(self, slot: int) -> None:
        if slot not in [taken for _, taken in self.waiting]:
            self.taken.discard(slot)
        self._go_on()

    def restart(self) -> None:
        self.posted, self.waiting, self.orders, self.taken = [], [], [], set()
        self.done = 0

    def _go_on(self) -> None:
        """Every possible event occurs: descriptors as soon as they may, messages as long as they have a place."""
        while True:
            order = self.orders[0] if self.orders else None
            if order is not None and not (self._posts(order) and len(self.posted) == self.receives):
                self.orders.pop(0)
                self._do(order)
                self.done += 1
            elif self.held and self._has_place(self.held[0]):
                self._arrive(self.held.pop(0))
            else:
                return

    def _has_place(self, send: Send) -> bool:
        """A slot, a receive in its stead, or no need of either."""
        meets = any(self._matches(posted.order, send) for posted in self.posted)
        return len(self.taken) < self.slots or send.is_atomic or (meets and not send.is_rendezvous)

    @staticmethod
    def _posts(order: Order) -> bool:
        return order.opcode == ReceiveOpcode.RECEIVE and not order.stray_flags

    @staticmethod
    def _matches(order: Order, send: Send) -> bool:
        if order.source not in (None, send.source) or order.target not in (None, send.target):
            return False
        if order.tag is None or send.tag is None:
            return order.tag is None and send.tag is None
        return (order.tag | order.ignore) == (send.tag | order.ignore)

    def _arrive(self, send: Send) -> None:
        posted = next((posted for posted in self.posted if self._matches(posted.order, send)), None)
        if send.is_atomic:
            self._add(send, posted)
        elif posted is None:
            self.unexpected += 1
            self.waiting.append((send, self._into_slot(send)))
            self.ends.append((send, OK, 0))
            if self.announces:
                self._say(None, EventKind.ARRIVED, OK, *self.waiting[-1], released=False)
        elif send.is_rendezvous:
            slot = self._into_slot(send)
            self._meet(posted, send, EventKind.RENDEZVOUS, OK, slot)
            self.ends.append((send, OK, 0))
        else:
            content = self.source[send.start : send.start + send.length][: posted.left]
            self.memory[posted.place : posted.place + len(content)] = content
            self._meet(posted, send, EventKind.RECEIVED, OK if len(content) == send.length else ReturnCode.TOO_LONG)
            self.ends.append((send, OK, 0))

    def _add(self, send: Send, posted: _Posted | None) -> None:
        if posted is None:
            self.ends.append((send, ReturnCode.NO_MATCH, 0))
        elif send.offset + 8 > posted.left:
            self.ends.append((send, ReturnCode.BAD_ADDR, 0))
        else:
            bytes_of = slice(posted.place + send.offset, posted.place + send.offset + 8)
            old = int.from_bytes(self.memory[bytes_of], "little")
            self.memory[bytes_of] = ((old + send.start) % 2**64).to_bytes(8, "little")
            posted.place += send.offset
            posted.left = 0
            self._meet(posted, send, EventKind.ATOMIC_RECEIVED, OK)
            self.ends.append((send, OK, old if send.opcode == DescriptorOpcode.TAGGED_FETCH_ATOMIC else 0))

    def _into_slot(self, send: Send) -> int:
        slot = min(set(range(self.slots)) - self.taken)
        self.taken.add(slot)
        start = send.start
        self.slot_bytes[slot] = (
            Mailbox.record(send.length) if send.is_rendezvous else self.source[start : start + send.length]
        )
        return slot

    def _meet(self, posted: _Posted, send: Send, kind: EventKind, status: int, slot: int | None = None) -> None:
        """A message meets a posted receive when it comes."""
        self.matched += 1
        if kind != EventKind.RENDEZVOUS:
            self.counts[status != OK] += 1
        if self._use(posted, send, kind, status, slot):
            self.posted.remove(posted)

    def _use(self, posted: _Posted, send: Send, kind: EventKind, status: int, slot: int | None) -> bool:
        """The event of a message with a receive's buffer; whether the receive is used up."""
        place = posted.place
        size = min(send.length, posted.left)
        end = self.buffer_address + place + size
        # The next message begins at a multiple of 64, if that lies in the buffer.
        step = min((end + 63) // 64 * 64 - end + size, posted.left)
        posted.place += step
        posted.left -= step
        enough = posted.left > 0 and posted.left >= posted.order.least_space
        released = not (posted.order.multi and enough)
        self._say(posted.order, kind, status, send, slot, self.buffer_address + place, released)
        return released

    def _say(
        self,
        order: Order | None,
        kind: EventKind,
        status: int,
        send: Send | None = None,
        slot: int | None = None,
        address: int = 0,
        released: bool = True,
    ) -> None:
        flags = EventFlags.RELEASED if released else EventFlags(0)
        context = self.done if order is None else order.context
        event = {"context": context, "kind": kind, "status": status, "address": address, "slot": slot or 0}
        if send is not None:
            flags |= EventFlags.IN_SLOT if slot is not None else 0
            flags |= EventFlags.LONG if send.is_rendezvous else 0
            flags |= EventFlags.TAGGED if send.tag is not None else 0
            flags |= EventFlags.IMMEDIATE if send.data is not None else 0
            event |= {
                "length": send.length, "tag": send.tag or 0, "data": send.data or 0, "source_ip": self.initiator_ip,
                "source_context": send.source, "source_pdc": send.peer, "target_context": send.target,
            }  # fmt: skip
        event["flags"] = flags
        self.events.append({name: value for name, value in event.items() if value})

    def _do(self, order: Order) -> None:
        if order.opcode not in list(ReceiveOpcode) or order.stray_flags:
            self._say(order, EventKind.REFUSED, ReturnCode.LOCAL_BAD_DESCRIPTOR)
        elif order.opcode == ReceiveOpcode.CANCEL:
            self._cancel(order)
        elif order.opcode == ReceiveOpcode.RECEIVE:
            self._receive(order)
        else:
            found = next((entry for entry in self.waiting if self._matches(order, entry[0])), None)
            if found is None:
                self._say(order, EventKind.NO_MATCH, ReturnCode.NO_MATCH)
            elif order.opcode == ReceiveOpcode.PEEK:
                self._say(order, EventKind.FOUND, OK, *found)
            else:
                self.waiting.remove(found)
                self._say(order, EventKind.TAKEN, OK, *found)

    def _cancel(self, order: Order) -> None:
        for posted in self.posted:
            if posted.order.context == order.context:
                self.posted.remove(posted)
                self._say(order, EventKind.CANCELLED, ReturnCode.CANCELLED)
                return
        self._say(order, EventKind.NO_MATCH, ReturnCode.NO_MATCH, released=False)

    def _receive(self, order: Order) -> None:
        posted = _Posted(order, order.place, order.length)
        for send, slot in list(self.waiting):
            if self._matches(order, send):
                self.waiting.remove((send, slot))
                kind = EventKind.RENDEZVOUS if send.is_rendezvous else EventKind.UNEXPECTED
                if self._use(posted, send, kind, OK, slot):
                    return
        self.posted.append(posted)


class _Runner:
    """Lets a pair do the steps of a program one after the other, and compares."""

    def __init__(self, pair: Pair, announces: bool) -> None:
        self._pair = pair
        self._control = ContextControl.ENABLE | (ContextControl.ANNOUNCE if announces else 0)
        pair.initiator.set("device", retransmit_timeout=2000)
        pair.target.counter_memory()
        self._box = box = Mailbox(pair, control=self._control)
        self._sources = [pair.local, pair.initiator.context(1, transmit_size=6, completion_size=6)]
        sharing = pair.target.context(1, receiver=0)
        for target, remote in enumerate((pair.remote, sharing)):
            for source in range(2):
                pair.initiator.peer(source + 2 * target, remote, context=source)
        self._results: tuple[deque[int], deque[int]] = (deque(), deque())
        """Where each source's messages in flight put what they fetch."""
        self._posted = 0
        self._records = pair.initiator.buffer((_LONGEST + 1) * RENDEZVOUS.size)
        for length in range(_LONGEST + 1):
            self._records[length * RENDEZVOUS.size] = box.record(length)
        parameters = pair.target.parameters
        self._plain = PlainMailbox(
            parameters.receives, parameters.unexpected, box.buffer.address, pair.initiator.ip,
            bytearray(box.buffer[:]), box.source[:], announces,
        )  # fmt: skip

    def step(self, step: Step) -> None:
        plain = self._plain
        if isinstance(step, Send):
            # Only one PDC's order is sure.
            if all(held.peer == step.peer for held in plain.held) and len(plain.held) < 8:
                self._post(step)
                plain.send(step)
        elif isinstance(step, Order):
            if len(plain.orders) < 100:
                self._order(step)
                plain.order(step)
        elif isinstance(step, Release):
            self._box.context.release_slot(step.slot)
            plain.release(step.slot)
        elif not plain.held and step.target == 0:
            self._restart()
            plain.restart()
        elif not plain.held:
            # What waits for it is in another context's list, and stays.
            for control in (0, ContextControl.ENABLE | ContextControl.SHARES_RECEIVES):
                self._pair.target.set("contexts", step.target, control=control)
            self._pair.target.settle()
        self._compare()

    def _post(self, send: Send) -> None:
        fields: dict[str, Any] = {
            "opcode": send.opcode, "flags": DescriptorFlags.COMPLETION, "peer": send.peer, "length": send.length,
            "remote_key": send.tag or 0, "local": self._box.source.address + send.start,
            "result": self._box.result.address + self._next_result(send.source),
        }  # fmt: skip
        if send.is_rendezvous:
            fields["local"] = self._records.address + send.length * RENDEZVOUS.size
            fields |= {"length": RENDEZVOUS.size, "remote_address": send.length}
        if send.is_atomic:
            fields["flags"] |= DescriptorFlags.INLINE
            fields |= {"local": send.start, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64}
            fields["remote_address"] = send.offset
        if send.data is not None:
            fields["flags"] |= DescriptorFlags.IMMEDIATE
            fields["compare"] = send.data
        self._sources[send.source].post(**fields)

    def _next_result(self, source: int) -> int:
        """A place of its own for what a message may fetch, zeroed."""
        place = 8 * (self._posted % (Mailbox.SIZE // 8))
        self._posted += 1
        self._box.result[place] = bytes(8)
        self._results[source].append(place)
        return place

    def _order(self, order: Order) -> None:
        flags = order.stray_flags
        flags |= ReceiveFlags.TAGGED if order.tag is not None else 0
        flags |= ReceiveFlags.MULTI if order.multi else 0
        flags |= ReceiveFlags.DIRECTED if order.source is not None else 0
        flags |= ReceiveFlags.ADDRESSED if order.target is not None else 0
        self._box.context.receive(
            opcode=order.opcode, flags=flags, counter=COUNTER, length=order.length, tag=order.tag or 0,
            ignore=order.ignore, address=self._box.place(order.place), context=order.context,
            source_ip=self._pair.initiator.ip, source_context=order.source or 0, least_space=order.least_space,
            target_context=order.target or 0,
        )  # fmt: skip

    def _restart(self) -> None:
        context = self._box.context
        self._pair.target.set("contexts", 0, control=0)
        for ring in (context.events, context.receives):
            assert isinstance(ring, Buffer)
            ring[0] = bytes(ring.size)
        context.event_head = context.receive_tail = 0
        self._pair.target.set("contexts", 0, control=self._control)
        self._pair.target.settle()

    def _compare(self) -> None:
        """Statuses, results and events since the last step, and what lies in the slots they name."""
        plain, box = self._plain, self._box
        for send, status, fetched in plain.ends:
            entry = self._sources[send.source].completion()
            assert ReturnCode(entry["status"]) == status, send
            assert box.result.integer(self._results[send.source].popleft()) == fetched, send
        for expected in plain.events:
            event = valid(box.context.event())
            assert event == expected
            if event.get("flags", 0) & EventFlags.IN_SLOT:
                content = plain.slot_bytes[event.get("slot", 0)]
                assert box.context.slot(event.get("slot", 0), len(content)) == content
        plain.ends.clear()
        plain.events.clear()
        assert box.context.poll_event() is None

    def finish(self) -> None:
        """Nothing else has happened."""
        plain, box = self._plain, self._box
        self._pair.run(20)
        assert box.context.poll_event() is None
        assert all(source.poll() is None for source in self._sources)
        assert box.buffer[:] == bytes(plain.memory)
        target = self._pair.target
        assert target.counter(Counter.MESSAGES_MATCHED) == plain.matched
        assert target.counter(Counter.MESSAGES_UNEXPECTED) == plain.unexpected
        assert target.event_counter(COUNTER) == tuple(plain.counts)


def run(pair: Pair, steps: list[Step], *, announces: bool = False) -> None:
    """Run a program on a fresh pair, of whose target context 0 takes the messages for contexts 0 and 1.

    ``announces``: context 0 says so when a message meets no receive.
    """
    runner = _Runner(pair, announces)
    for step in steps:
        runner.step(step)
    runner.finish()
