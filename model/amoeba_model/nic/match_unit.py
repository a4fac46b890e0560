"""MatchUnit: matches messages with receive descriptors (hw/amoeba_hw/messages/README.md)."""

from dataclasses import dataclass
from typing import NamedTuple

from amoeba_model.descriptors import EventKind, ReceiveOpcode
from amoeba_model.nic.checker import MemoryRequest
from amoeba_model.nic.core import Core
from amoeba_model.nic.events import Report
from amoeba_model.nic.matching import MatchLists, Message, Receive
from amoeba_model.nic.receives import ReceiveOrder
from amoeba_model.nic.tables import Context
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags

__all__ = ["STALLED_TURNS", "Arrival", "MatchUnit"]

STALLED_TURNS = 256
"""A message of several packets has stalled when no part has come for so many times as long as makes a PDC idle: 5
seconds by default, as in the reference provider."""

_TAGGED_ATOMICS = frozenset({RequestOpcode.TSEND_ATOMIC, RequestOpcode.TSEND_FETCH_ATOMIC})
_RENDEZVOUS = frozenset({RequestOpcode.RENDEZVOUS_SEND, RequestOpcode.RENDEZVOUS_TSEND})
_TAGGED = frozenset({RequestOpcode.TAGGED_SEND, RequestOpcode.RENDEZVOUS_TSEND}) | _TAGGED_ATOMICS
_HEADER_DATA = SesFlags.HEADER_DATA.value
_START, _END = SesFlags.START_OF_MESSAGE.value, SesFlags.END_OF_MESSAGE.value
_WHOLE_MESSAGE = _START | _END
_LENGTH_MASK = (1 << 32) - 1
_ADDRESS_MASK = (1 << 64) - 1


class Arrival(NamedTuple):
    """Report of a message, for the time when its memory request has been executed."""

    receiver: Context
    """Context whose event ring and unexpected slots serve the message."""
    report: Report | None = None
    """The event, if the message met a receive, or ``receiver`` announces those that met none."""
    counter: int = 0
    """Event counter that the event advances."""


@dataclass(slots=True)
class OpenReceive:
    """A receive that has met a message of several packets, and is that message's alone until it ends."""

    receiver: Context
    receive: Receive
    message: Message
    size: int
    """Bytes of the message that fit."""
    last_part: int = 0
    """Cycle at which the latest part came."""

    def whole(self) -> Arrival:
        """Return the event of the whole message."""
        status = ReturnCode.OK if self.size == self.message.length else ReturnCode.TOO_LONG
        return self._arrival(status, self.message, self.receive.address)

    def failed(self) -> Arrival:
        """Return the event of the message that ended early: it says whose it was and for whom, and no more."""
        whole = self.message
        nothing = Message(False, 0, whole.source, whole.source_pdc, whole.target, 0)
        return self._arrival(ReturnCode.INITIATOR_ERROR, nothing, 0)

    def _arrival(self, status: ReturnCode, message: Message, address: int) -> Arrival:
        receive = self.receive
        report = Report(EventKind.RECEIVED, receive.context, status, True, message, address)
        return Arrival(self.receiver, report, receive.counter)


class MatchUnit:
    """Decides; callers read, write and execute what follows from it."""

    def __init__(self, core: Core, contexts: list[Context]) -> None:
        parameters = core.parameters
        self._core = core
        self._lists = [MatchLists(parameters.receives, parameters.unexpected) for _ in contexts]
        self.open: dict[int, OpenReceive] = {}
        """By the PDC that has begun the message."""

    def lists(self, context: Context) -> MatchLists:
        return self._lists[context.number]

    def forget(self, context: Context) -> None:
        """Empty the context's lists, free its slots, and forget the messages that have begun there."""
        parameters = self._core.parameters
        for pdc in [pdc for pdc, taken in self.open.items() if taken.receiver is context]:
            del self.open[pdc]
        self._lists[context.number] = MatchLists(parameters.receives, parameters.unexpected)

    def has_place(self, context: Context, header: FrameHeader) -> bool:
        """Whether the message needs no unexpected slot, or one is free.

        A tagged atomic and a message of several packets never need one, a rendezvous always, for its record; any
        other message unless it meets a posted receive.
        """
        lists = self.lists(context)
        is_whole = header.flags & _WHOLE_MESSAGE == _WHOLE_MESSAGE
        if lists.free_slots or header.opcode in _TAGGED_ATOMICS or not is_whole:
            return True
        return header.opcode not in _RENDEZVOUS and lists.arrive(_message(header)) is not None

    def arrive(self, context: Context, header: FrameHeader, request: MemoryRequest, pdc: int) -> Arrival | ReturnCode:
        """Match a checked message of ``pdc`` that ``context`` receives: set the address in its ``request``.

        Returns the code of the refusal if the message goes nowhere.
        """
        request.context = context.number
        if header.flags & _WHOLE_MESSAGE != _WHOLE_MESSAGE:
            return self._arrive_in_parts(context, header, request, pdc)
        message = _message(header)
        receive = self.lists(context).arrive(message)
        if header.opcode in _TAGGED_ATOMICS:
            return self._perform(context, header.buffer_offset, request, message, receive)
        if receive is None:
            self._put_into_slot(context, request, message)
            self.lists(context).wait(message)
            self._core.counters[Counter.MESSAGES_UNEXPECTED] += 1
            if not context.announces:
                return Arrival(context)
            done = context.receives_done
            return Arrival(context, Report(EventKind.ARRIVED, done, ReturnCode.OK, message=message, in_slot=True))
        place = receive.use(message.length)
        self._meet(context, receive, place.released)
        if message.rendezvous:
            self._put_into_slot(context, request, message)
            kind, status, counter = EventKind.RENDEZVOUS, ReturnCode.OK, 0
        else:
            request.address = place.address
            request.length = place.size
            request.operand = (request.operand or b"")[: place.size]
            kind, counter = EventKind.RECEIVED, receive.counter
            status = ReturnCode.OK if place.size == message.length else ReturnCode.TOO_LONG
        report = Report(kind, receive.context, status, place.released, message, place.address, message.rendezvous)
        return Arrival(context, report, counter)

    def _arrive_in_parts(
        self, context: Context, header: FrameHeader, request: MemoryRequest, pdc: int
    ) -> Arrival | ReturnCode:
        """Match the first packet of several, or find what that one has met."""
        if header.flags & _START:
            message = _message(header)
            receive = self.lists(context).arrive(message)
            if receive is None:
                return ReturnCode.NO_MATCH
            self._meet(context, receive, True)
            context.events.kept += 1
            self.open[pdc] = OpenReceive(context, receive, message, min(message.length, receive.space))
        taken = self.open.get(pdc)
        if taken is None:
            return ReturnCode.NO_MATCH
        taken.last_part = self._core.now
        request.address = (taken.receive.address + request.offset) & _ADDRESS_MASK
        request.length = max(min(request.length, taken.size - request.offset), 0)
        request.operand = (request.operand or b"")[: request.length]
        if not header.flags & _END:
            return Arrival(context)
        self._close(pdc)
        return taken.whole()

    def give_up(self, pdc: int) -> Arrival | None:
        """End the message of several packets that a PDC has begun, if it has met a receive."""
        taken = self.open.get(pdc)
        if taken is None:
            return None
        self._close(pdc)
        return taken.failed()

    def stalls(self) -> tuple[int, int]:
        """Return when an open message will have stalled, unless a part comes, and its PDC; there must be one."""
        time = STALLED_TURNS * self._core.idle_time
        return min((taken.last_part + time, pdc) for pdc, taken in self.open.items())

    def _close(self, pdc: int) -> None:
        self.open.pop(pdc).receiver.events.kept -= 1

    def _cancel_open(self, context: Context, user_context: int) -> bool:
        """Take a receive back in the middle of its message; return whether there is one."""
        for pdc, taken in sorted(self.open.items()):
            if taken.receiver is context and taken.receive.context == user_context:
                self._close(pdc)
                return True
        return False

    def _perform(
        self, context: Context, offset: int, request: MemoryRequest, message: Message, receive: Receive | None
    ) -> Arrival | ReturnCode:
        """Match a tagged atomic, which uses the buffer up that it meets."""
        if receive is None:
            return ReturnCode.NO_MATCH
        if offset + request.length > receive.space:
            return ReturnCode.BAD_ADDR
        self._meet(context, receive, True)
        request.address = (receive.address + offset) & _ADDRESS_MASK
        report = Report(
            EventKind.ATOMIC_RECEIVED, receive.context, ReturnCode.OK, True, message, request.address, False
        )
        return Arrival(context, report, receive.counter)

    def _meet(self, context: Context, receive: Receive, released: bool) -> None:
        self._core.counters[Counter.MESSAGES_MATCHED] += 1
        if released:
            self.lists(context).unpost(receive)

    def _put_into_slot(self, context: Context, request: MemoryRequest, message: Message) -> None:
        message.slot = self.lists(context).take_slot()
        address = context.unexpected_base + message.slot * self._core.parameters.payload
        request.address = address & _ADDRESS_MASK

    def take(self, context: Context, order: ReceiveOrder) -> Report | None:
        """Execute a receive descriptor, and return its event; None for a receive that has been posted."""
        lists, wanted = self.lists(context), order.receive
        if order.status != ReturnCode.OK:
            return Report(EventKind.REFUSED, wanted.context, order.status, released=True)
        if order.opcode == ReceiveOpcode.CANCEL:
            if lists.cancel(wanted.context) is None and not self._cancel_open(context, wanted.context):
                return Report(EventKind.NO_MATCH, wanted.context, ReturnCode.NO_MATCH)
            return Report(EventKind.CANCELLED, wanted.context, ReturnCode.CANCELLED, released=True)
        message = lists.find(wanted)
        if message is None and order.opcode == ReceiveOpcode.RECEIVE:
            lists.post(wanted)
            return None
        if message is None:
            return Report(EventKind.NO_MATCH, wanted.context, ReturnCode.NO_MATCH, released=True)
        if order.opcode != ReceiveOpcode.PEEK:
            lists.remove(message)
        if order.opcode == ReceiveOpcode.RECEIVE:
            kind = EventKind.RENDEZVOUS if message.rendezvous else EventKind.UNEXPECTED
            place = wanted.use(message.length)
            return Report(kind, wanted.context, ReturnCode.OK, place.released, message, place.address, True)
        kind = EventKind.FOUND if order.opcode == ReceiveOpcode.PEEK else EventKind.TAKEN
        return Report(kind, wanted.context, ReturnCode.OK, True, message, in_slot=True)


def _message(header: FrameHeader) -> Message:
    tagged = header.opcode in _TAGGED
    rendezvous = header.opcode in _RENDEZVOUS
    return Message(
        tagged=tagged,
        tag=header.memory_key if tagged else 0,
        source=(header.ip, header.initiator),
        source_pdc=header.spdcid,
        target=header.resource_index,
        length=header.buffer_offset & _LENGTH_MASK if rendezvous else header.request_length,
        data=header.header_data if header.flags & _HEADER_DATA else None,
        rendezvous=rendezvous,
    )
