"""The receive ring of a context: posted receives, and the messages that meet them.

The NIC matches. A message that the NIC could not place, because no receive was posted yet or because the message is a
long one, lies in an unexpected slot. From there the driver copies the message, or reads it by the record in the slot.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from amoeba_model.descriptors import (
    RENDEZVOUS,
    RX_DESCRIPTOR,
    EventFlags,
    EventKind,
    ReceiveFlags,
    ReceiveOpcode,
)
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.event_ring import Event
from amoeba.nic.nic import Nic
from amoeba.nic.records import record_struct
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.operation import keeps
from amoeba.transport.receive import ANYBODY, Receive
from amoeba.transport.rendezvous import Record
from amoeba.transport.requests import DATA, NO_SOURCE, RELEASED, Arrival, Kind, Tally

__all__ = ["ANYBODY", "Claim", "Outlet", "Receive", "Receives", "same_context"]

_DESCRIPTOR = record_struct(RX_DESCRIPTOR)
_DESCRIPTOR_SIZE = RX_DESCRIPTOR.size
_INDEX_MASK = 0xFFFF
_OK = int(ReturnCode.OK)
_TOO_LONG = int(ReturnCode.TOO_LONG)
_IMMEDIATE = int(EventFlags.IMMEDIATE)
_RELEASED = int(EventFlags.RELEASED)
_LONG = int(EventFlags.LONG)
_TAGGED = int(EventFlags.TAGGED)
_MULTI = int(ReceiveFlags.MULTI)
_RECEIVE, _TAKE = int(ReceiveOpcode.RECEIVE), int(ReceiveOpcode.TAKE)
_TAGGED_KIND = int(Kind.TAGGED_RECEIVE)
_ATOMIC_KIND = int(Kind.TAGGED_ATOMIC_RECEIVE)
_LOST = Event(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, int(ReturnCode.LOCAL_NIC_RESET), _RELEASED)


@dataclass(frozen=True)
class Claim:
    """A message taken out of the list of unexpected ones, for a receive with the same ``context``."""

    context: Any
    event: Event
    data: bytes
    """The message, or its RENDEZVOUS record."""


class Outlet(NamedTuple):
    """The destination of the messages for one endpoint."""

    ready: deque[Arrival]
    """For its completion queue."""
    number_of: Callable[[int, int], int]
    """The number in its address vector of a peer, by IPv4 address and context."""
    fetch: Callable[[Record, int, Sequence[Segment], Callable[[int], None]], None]
    """Reads a long message: as :meth:`LongReceives.fetch`."""
    tally: Tally | None
    """Counts what the NIC has not counted; None: nobody does."""
    selective: bool
    """Successes of receives that are silent are not reported; else all are."""


class Receives:
    """Receive ring and unexpected slots of one context.

    A descriptor is known by its token: how many were posted before. The NIC takes them in order, so an event about
    one says that it is done with the ring entries of all before. Of the others there are at most ``receives``
    receives, as many searches, twice as many cancellations (of receives posted, and of those that have just met a
    message), and a search for each slot: no more than the ring has entries.

    ``outlet_of`` tells by an event whose message it is; ``counter`` is the event counter by which the NIC counts
    messages, 0: none; ``tally`` counts receives that fail before they are posted.
    """

    def __init__(
        self,
        nic: Nic,
        context: int,
        dispatch: Dispatch,
        outlet_of: Callable[[Event], Outlet],
        *,
        counter: int = 0,
        tally: Tally | None = None,
    ) -> None:
        self.nic = nic
        self._context = context
        self.most = nic.parameters.receives
        """Receives that the NIC keeps at a time; as many searches may be outstanding."""
        self.crowded = False
        """Posting asks for more than a descriptor."""
        self.claims: list[Claim] = []
        self._entries = 1 << (4 * self.most + nic.parameters.unexpected - 1).bit_length()
        self._ring = allocate(self._entries * RX_DESCRIPTOR.size)
        self._payload = nic.parameters.payload
        self._slots = allocate(nic.parameters.unexpected * self._payload)
        self.base, self.unexpected_base = address_of(self._ring), address_of(self._slots)
        nic.dma.grant(self.base, self._ring.nbytes, writable=False, whose=context)
        nic.dma.grant(self.unexpected_base, self._slots.nbytes, writable=True, whose=context)
        if counter:
            nic.event_counters.admit(counter, context)
        self._tail_register = nic.doorbell(context, "receive_tail")
        self._release_register = nic.doorbell(context, "slot_release")
        self._tail = 0
        self._announced = 0
        self._outstanding: dict[int, Receive] = {}
        """Receives and searches that the NIC has not released, by token."""
        self._fetching: set[Receive] = set()
        """Receives whose long messages are being read, whether the NIC has released the receives or not."""
        self._searches = 0
        self._cancelled: set[int] = set()
        """Tokens of receives whose cancellation has not been answered."""
        self._outlet_of = outlet_of
        self._kick = nic.on_doorbell
        self.tally = tally
        self._counter = counter
        dispatch.handlers |= {
            EventKind.RECEIVED: self._received,
            EventKind.UNEXPECTED: self._met_in_slot,
            EventKind.RENDEZVOUS: self._met_in_slot,
            EventKind.ATOMIC_RECEIVED: self._changed,
            EventKind.FOUND: self._search_over,
            EventKind.TAKEN: self._search_over,
            EventKind.NO_MATCH: self._no_match,
            EventKind.CANCELLED: self._was_cancelled,
            EventKind.REFUSED: self._refused,
        }
        dispatch.helpers.append(self.announce)
        dispatch.ring.last_word = self._last_word
        nic.dma.holders.add(self)
        self._extend(dispatch)

    def _extend(self, dispatch: Dispatch) -> None:
        """Prepare the additions of a subclass, before the first event."""

    @property
    def size_log2(self) -> int:
        return self._entries.bit_length() - 1

    @property
    def placed(self) -> int:
        """Receives that the NIC has and has not released."""
        return len(self._outstanding) - self._searches

    @property
    def posted(self) -> int:
        """Receives that are not over."""
        return self.placed

    # Posting

    def check_space(self, opcode: int = _RECEIVE) -> None:
        """Raise FI_EAGAIN if no such descriptor can be posted."""
        if not self.has_space(opcode):
            what = "receives" if opcode == _RECEIVE else "searches"
            raise fabric_error(Errno.FI_EAGAIN, f"{self.most} {what} are posted: read completions, then repeat")

    def has_space(self, opcode: int) -> bool:
        """Whether such a descriptor can be posted."""
        return (self.placed if opcode == _RECEIVE else self._searches) < self.most

    def post(self, receive: Receive, least_space: int, more: int) -> None:
        """Post a receive or a search; ``more`` follow at once. Device access that it asks for is granted first.

        Raises FI_EAGAIN as :meth:`check_space`; then, and whatever else is raised, nothing is posted.
        """
        searches = receive.opcode != _RECEIVE
        if self.crowded or (self._searches if searches else len(self._outstanding) - self._searches) >= self.most:
            self._post_crowded(receive, least_space, more)
            return
        self.nic.dma.grant_all(receive.grants, self._context)
        token = self._tail
        self._write(receive.opcode, receive, token, least_space)
        self._outstanding[token] = receive
        self._searches += searches
        if not more:
            self.announce()
        else:
            self.nic.kick()

    def _post_crowded(self, receive: Receive, least_space: int, more: int) -> None:
        """Post a receive or a search that the NIC may not be able to take."""
        self.check_space(receive.opcode)
        raise NotImplementedError  # nothing else makes it crowded

    def _enter(self, receive: Receive, least_space: int) -> None:
        """Post it; device access has been granted, and the NIC can take it."""
        token = self._tail
        self._write(receive.opcode, receive, token, least_space)
        self._outstanding[token] = receive
        self._searches += receive.opcode != _RECEIVE

    def hold(self, keeper: object, export: Any, address: int, length: int, writable: bool) -> int:
        """As :class:`amoeba.nic.dma.Holder` says. Searches touch no buffer but when they are over."""
        using = [
            receive
            for receive in self._users()
            if receive.opcode == _RECEIVE and keeps(receive.keep, keeper)
        ]
        for receive in using:
            self.nic.dma.grant(address, length, writable=writable, whose=self._context)
            receive.grants = (*receive.grants, (address, length, writable))
            receive.keep = receive.keep, export
        return len(using)

    def contexts(self) -> list[Any]:
        """Return the contexts of the receives that are not over."""
        return [receive.context for receive in self._users() if receive.opcode == _RECEIVE and not receive.own]

    def _users(self) -> Iterable[Receive]:
        """Return the receives that use their buffers, and the searches."""
        return {*self._outstanding.values(), *self._fetching}

    def cancel(self, context: Any) -> bool:
        """Withdraw the oldest receive with this context, if it has met no message; returns whether there is one."""
        for token, receive in self._outstanding.items():
            if receive.opcode == _RECEIVE and token not in self._cancelled and same_context(receive.context, context):
                self._cancelled.add(token)
                self._write(ReceiveOpcode.CANCEL, receive, token, 0)
                self.announce()
                return True
        return False

    def _write(self, opcode: int, receive: Receive, token: int, least_space: int) -> None:
        source, flags, length, address = receive.source, receive.flags, receive.length, receive.address
        if receive.multi:
            flags |= _MULTI
            length -= receive.used
            address += receive.used
            receive.least_space = least_space
        counted = self._counter and opcode == _RECEIVE and self._told(receive)
        _DESCRIPTOR.pack_into(
            self._ring,
            (self._tail % self._entries) * _DESCRIPTOR_SIZE,
            opcode,
            flags,
            self._counter if counted else 0,
            receive.target,
            length,
            receive.tag,
            receive.ignore,
            address,
            token,
            source[0],
            source[1],
            least_space,
            0,
            0,
        )
        self._tail += 1

    def announce(self) -> None:
        """Ring the doorbell for descriptors that wait for it."""
        if self._announced != (tail := self._tail):
            self.nic.ring(self._tail_register, tail & _INDEX_MASK)
            self._announced = tail  # only now: whoever was interrupted before rings again

    # Claimed messages

    def claim(self, receive: Receive) -> Claim | None:
        """Give out the message, tagged or not as the receive is, that was claimed with its context."""
        for index, claim in enumerate(self.claims):
            tagged = bool(claim.event.flags & _TAGGED)
            if tagged == receive.tagged and same_context(claim.context, receive.context):
                return self.claims.pop(index)
        return None

    def give_up_claims(self, target: int | None) -> list[Claim]:
        """Take back what was claimed of the messages for this context, or of all; returns what that is."""
        given_up = [claim for claim in self.claims if target in (None, claim.event.target)]
        self.claims = [claim for claim in self.claims if target not in (None, claim.event.target)]
        return given_up

    def deliver(self, claim: Claim, receive: Receive) -> None:
        """Receive a claimed message."""
        self.nic.dma.grant_all(receive.grants, self._context)
        receive.released = True
        self._place(receive, claim.event, memoryview(claim.data), receive.address)

    def discard(self, event: Event, data: memoryview) -> None:
        """Drop a message that was taken; the sender of a long one may go on."""
        if event.flags & _LONG:
            self._fetch(event, data, (), lambda status: None)

    def refuse(self, event: Event, data: memoryview) -> bool:
        """Notify the sender of a long message that nobody will read it; returns whether the message is a long one."""
        if not event.flags & _LONG:
            return False
        self._outlet_of(event).fetch(_record(event, data).refusal, self._source(event), (), lambda status: None)
        return True

    def drop(self, claim: Claim, receive: Receive) -> None:
        """Drop a claimed message, and report that as its receive."""
        self.discard(claim.event, memoryview(claim.data))
        self._report(receive, claim.event, _OK, claim.event.length)

    # Events

    def _received(self, event: Event) -> None:
        """Complete a receive, as its message lies in its buffer."""
        receive = self._release(event)
        status = event.status
        if receive.whole is None:
            # all that a receive of one buffer needs
            fits = event.length if status == _OK else receive.space(event.address, event.length)
            told = status if self._counter and receive.counted else None
        else:
            fits = receive.land(event.address, event.length)
            told = None
        self._complete(receive, event, status, fits if status in (_OK, _TOO_LONG) else 0, told)

    def _met_in_slot(self, event: Event) -> None:
        """Place a message that has met a receive; the message, or its record, is still in its slot."""
        self._place(self._release(event), event, self.slot(event), event.address)
        self.release_slot(event)

    def _place(self, receive: Receive, event: Event, data: memoryview, address: int) -> None:
        """Bring a message to where it belongs in the buffer of its receive: copy it, or read it from its sender."""
        segments = receive.segments(address, event.length)
        fits = sum(segment.length for segment in segments)
        status = _OK if fits == event.length else _TOO_LONG
        if not event.flags & _LONG:
            receive.fill(data[:fits], 0 if receive.whole is not None else address - receive.address)
            self._complete(receive, event, status, fits)
            return

        def done(failure: int) -> None:
            receive.reading -= 1
            if not receive.reading:
                self._fetching.discard(receive)
            if failure == _OK:
                self._complete(receive, event, status, fits)
            else:
                self._complete(receive, event, failure, 0)

        receive.reading += 1
        self._fetching.add(receive)
        self._fetch(event, data, segments, done)

    def _fetch(
        self, event: Event, data: memoryview, segments: Sequence[Segment], done: Callable[[int], None]
    ) -> None:
        """Read a message, whose record is ``data``, from its sender."""
        self._outlet_of(event).fetch(_record(event, data), self._source(event), segments, done)

    def _changed(self, event: Event) -> None:
        """Complete a receive on whose buffer a tagged atomic was performed."""
        receive = self._release(event)
        if receive.whole is not None:
            receive.fill(receive.whole)
        told = event.status if self._told(receive) else None
        length = event.length if event.status == _OK else 0
        self._complete(receive, event, event.status, length, told, kind=_ATOMIC_KIND)

    def _search_over(self, event: Event) -> None:
        """End a search that has found a message."""
        search = self._release(event)
        assert search.found is not None
        buf = search.found(event, self.slot(event))
        if search.opcode == _TAKE:
            self.release_slot(event)
        self._report(search, event, _OK, event.length, buf=buf)

    def _no_match(self, event: Event) -> None:
        """End a search that has found nothing, or a cancellation whose receive has met a message before."""
        if event.context in self._cancelled:
            self._cancelled.discard(event.context)
            return
        self._report(self._release(event), event, event.status, 0)

    def _was_cancelled(self, event: Event) -> None:
        self._cancelled.discard(event.context)
        receive = self._release(event)
        self._complete(receive, event, event.status, 0)

    def _last_word(self) -> Event | None:
        """Return an event that ends the oldest receive or search of a NIC that was reset; None when none is left."""
        for token in self._cancelled:
            return _LOST._replace(context=token, kind=int(EventKind.NO_MATCH))
        for token, receive in self._outstanding.items():
            kind = EventKind.CANCELLED if receive.opcode == _RECEIVE else EventKind.NO_MATCH
            return _LOST._replace(context=token, kind=int(kind))
        return None

    def _refused(self, event: Event) -> None:
        raise fabric_error(Errno.FI_EIO, f"the NIC refused receive {event.context:#x} with status {event.status:#x}")

    def _told(self, receive: Receive) -> bool:
        """Whether the NIC counts what it places in the buffer."""
        return bool(self._counter) and receive.whole is None and receive.counted

    def _release(self, event: Event) -> Receive:
        """Return the receive or search that an event concerns, which leaves the NIC if the event says so."""
        receive = self._outstanding.get(event.context)
        if receive is None:
            raise fabric_error(Errno.FI_EIO, f"the NIC used receive {event.context:#x}, which is not posted")
        if event.flags & _RELEASED:
            del self._outstanding[event.context]
            self._searches -= receive.opcode != _RECEIVE
            receive.released = True
            if self.crowded:
                self._space_came()
        return receive

    def _space_came(self) -> None:
        """Let the NIC take a receive that it may not have been able to take before."""

    # What the application hears

    def _complete(
        self, receive: Receive, event: Event, status: int, length: int, told: int | None = None, *, kind: int = 0
    ) -> None:
        """Report a message received, with ``length`` bytes, or the failure of its receive."""
        outlet = self._outlet_of(event)
        if outlet.tally is not None and receive.counted:
            outlet.tally(receive.kind, status, told)
        kind = kind or receive.kind
        if receive.released and not receive.reading:
            if receive.grants:
                self.nic.dma.revoke_all(receive.grants, self._context)
            if receive.ended is not None:
                receive.ended(status)
            if receive.multi:
                kind |= RELEASED
        self._tell(outlet, receive, event, status, length, kind, event.address if receive.multi else 0)

    def _report(self, receive: Receive, event: Event, status: int, length: int, buf: int = 0) -> None:
        """Report the end of a search, or of a receive whose claimed message was dropped."""
        if receive.ended is not None:
            receive.ended(status)
        self._tell(self._outlet_of(event), receive, event, status, length, receive.kind, buf)

    def _tell(
        self, outlet: Outlet, receive: Receive, event: Event, status: int, length: int, kind: int, buf: int
    ) -> None:
        if receive.own:
            return
        # of work that is not to be reported, whoever the message was for
        if receive.silent and (outlet.selective or not receive.counted) and status == _OK and not kind & RELEASED:
            return
        data = 0
        if event.flags & _IMMEDIATE:
            kind |= DATA
            data = event.data
        outlet.ready.append(
            Arrival(
                receive.context,
                kind,
                event.length if status == _OK else length,
                status,
                data,
                outlet.number_of(event.source_ip, event.source_context) if event.source_ip else NO_SOURCE,
                event.tag if receive.kind == _TAGGED_KIND else 0,
                buf,
                event.length - length if status == _TOO_LONG else 0,
            )
        )
        if self._kick is not None:
            self._kick()  # what ends at once, without the NIC, is to be told as well

    def _source(self, event: Event) -> int:
        if not event.source_ip:
            return NO_SOURCE
        return self._outlet_of(event).number_of(event.source_ip, event.source_context)

    # Unexpected slots

    def slot(self, event: Event) -> memoryview:
        """Return the contents of the slot that an event names: the message, or its RENDEZVOUS record."""
        start = event.slot * self._payload
        return self._slots[start : start + (RENDEZVOUS.size if event.flags & _LONG else event.length)]

    def release_slot(self, event: Event) -> None:
        """Give a slot back to the NIC."""
        self.nic.ring(self._release_register, event.slot)

    def release(self) -> None:
        """Withdraw the NIC's access to ring, slots and the buffers of receives that met no message."""
        self.nic.dma.holders.discard(self)
        for receive in self._outstanding.values():
            self.nic.dma.revoke_all(receive.grants, self._context)
        self._outstanding.clear()
        self.nic.dma.revoke(self.base, self._ring.nbytes, self._context)
        self.nic.dma.revoke(self.unexpected_base, self._slots.nbytes, self._context)


def _record(event: Event, data: memoryview) -> Record:
    """Return the record of a long message."""
    return Record.unpack(data, event.source_ip)


def same_context(one: Any, other: Any) -> bool:
    """Whether two contexts are the same: the same object, or equal ones of a kind that does not change."""
    return one is other or (isinstance(one, Hashable) and isinstance(other, Hashable) and bool(one == other))
