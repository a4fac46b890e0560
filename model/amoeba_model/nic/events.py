"""EventWriter: reports accesses with immediate data to a context's memory, and its messages, in its event ring."""

from dataclasses import dataclass
from typing import NamedTuple

from amoeba_model.descriptors import EVENT, EventFlags, EventKind
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.matching import Message
from amoeba_model.nic.rings import Interrupts, RingWriter
from amoeba_model.nic.tables import Context
from amoeba_model.nic.timing import EVENT as EVENT_COST
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.unroll import packer
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import RequestOpcode, ReturnCode

__all__ = ["Access", "EventWriter", "Report"]

_NEVER_PROMISED = 4
"""Entries of every event ring that the target keeps for itself."""
_KINDS = {
    RequestOpcode.WRITE.value: EventKind.REMOTE_WRITE.value,
    RequestOpcode.READ.value: EventKind.REMOTE_READ.value,
    RequestOpcode.ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
    RequestOpcode.FETCHING_ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
    RequestOpcode.AMOEBA_ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
    RequestOpcode.AMOEBA_FETCHING_ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
    RequestOpcode.AMOEBA_COMPARE_ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
}
_FIELDS = (
    "data", "address", "length", "source_ip", "source_context", "source_pdc", "target_context", "kind", "status",
    "flags",
)  # fmt: skip
_pack_event = packer((EVENT,), [f"event.{name}" for name in _FIELDS])
_OK = ReturnCode.OK.value
_IMMEDIATE, _RELEASED = EventFlags.IMMEDIATE.value, EventFlags.RELEASED.value
_TAGGED, _LONG, _IN_SLOT = EventFlags.TAGGED.value, EventFlags.LONG.value, EventFlags.IN_SLOT.value
_MESSAGE_FIELDS = ("data", "tag", "length", "source_ip", "source_context", "source_pdc", "target_context", "slot")
_NO_MESSAGE = (0,) * len(_MESSAGE_FIELDS)
_pack_report = packer(
    (EVENT,), [f"event.{name}" for name in ("context", "address", "kind", "status", "flags", *_MESSAGE_FIELDS)]
)


class Access(NamedTuple):
    """A request with immediate data, to be reported."""

    data: int
    address: int
    """Virtual address of its first byte."""
    length: int


@dataclass(slots=True)
class Report:
    """Content of the event of a message or a receive descriptor."""

    kind: EventKind
    user_context: int
    """``context`` of the receive descriptor; of ARRIVED as the layout says."""
    status: ReturnCode
    released: bool = False
    """The receive is used up."""
    message: Message | None = None
    """The message concerned, if there is one."""
    address: int = 0
    in_slot: bool = False
    """The message lies in its unexpected slot."""

    def flags(self) -> int:
        """EventFlags, without the phase."""
        flags = _RELEASED if self.released else 0
        message = self.message
        if message is not None:
            flags |= _TAGGED if message.tagged else 0
            flags |= _LONG if message.rendezvous else 0
            flags |= _IMMEDIATE if message.data is not None else 0
            flags |= _IN_SLOT if self.in_slot else 0
        return flags


def _fields_of(message: Message) -> tuple[int, ...]:
    """Return the values of _MESSAGE_FIELDS."""
    ip, context = message.source
    return (
        message.data or 0, message.tag, message.length, ip, context, message.source_pdc, message.target, message.slot,
    )  # fmt: skip


class EventWriter:
    """Writes event entries."""

    def __init__(self, core: Core, host: HostMemory, interrupts: Interrupts, contexts: list[Context]) -> None:
        self._contexts = contexts
        self._writer = RingWriter(
            core, host, interrupts, EVENT, Requester.EVENT_WRITER, Stage.EVENT_WRITTEN, Counter.EVENTS
        )

    def has_space(self, context: Context, entries: int = 1) -> bool:
        """Whether the context has an event ring, with free space for so many entries."""
        ring = context.events
        return bool(ring.base) and ring.unread() + ring.kept + entries <= (1 << ring.size) - _NEVER_PROMISED

    def has_ring(self, context: int) -> bool:
        """Whether the context has an event ring."""
        return bool(self._contexts[context].events.base)

    def write(self, header: FrameHeader, access: Access, pdc: int, cycle: int) -> int:
        """Report a request with immediate data, of which ``header`` is the last packet; return the event's cycle."""
        context = self._contexts[header.resource_index]
        ring = context.events
        data, address, length = access
        entry = _pack_event(
            data,
            address,
            length,
            header.ip,
            header.initiator,
            header.spdcid,
            context.number,
            _KINDS[header.opcode],
            _OK,
            ring.phase() | _IMMEDIATE,
        )
        cycle += EVENT_COST
        self._writer.write(ring, context.number, entry, pdc, _OK, cycle)
        return cycle

    def report(self, context: Context, report: Report, pdc: int, cycle: int) -> int:
        """Report a message or a receive descriptor; return the cycle of the event."""
        ring = context.events
        message = report.message
        fields = _NO_MESSAGE if message is None else _fields_of(message)
        entry = _pack_report(
            report.user_context, report.address, report.kind, report.status, ring.phase() | report.flags(), *fields
        )
        cycle += EVENT_COST
        self._writer.write(ring, context.number, entry, pdc, report.status, cycle)
        return cycle

    def consume(self, context: Context, head: int) -> None:
        """Doorbell: the consumer index of the event ring."""
        context.events.consumed = head

    def arm(self, context: Context, index: int) -> None:
        """Doorbell."""
        self._writer.arm(context.events, context.number, index)
