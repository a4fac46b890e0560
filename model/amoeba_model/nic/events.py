"""EventWriter: what happened to a context's memory with immediate data, in its event ring."""

from amoeba_model.descriptors import EVENT, EventFlags, EventKind
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.rings import Interrupts, RingWriter
from amoeba_model.nic.tables import Context
from amoeba_model.nic.timing import EVENT as EVENT_COST
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage
from amoeba_model.unroll import packer
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import RequestOpcode, ReturnCode

__all__ = ["EventWriter"]

_NEVER_PROMISED = 4
"""Entries of every event ring that the target keeps for itself."""
_KINDS = {
    RequestOpcode.WRITE.value: EventKind.REMOTE_WRITE.value,
    RequestOpcode.READ.value: EventKind.REMOTE_READ.value,
    RequestOpcode.ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
    RequestOpcode.FETCHING_ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
    RequestOpcode.AMOEBA_COMPARE_ATOMIC.value: EventKind.REMOTE_ATOMIC.value,
}
_FIELDS = (
    "data", "address", "length", "source_ip", "source_context", "source_pdc", "kind", "status", "flags",
)  # fmt: skip
_pack_event = packer((EVENT,), [f"event.{name}" for name in _FIELDS])
_OK = ReturnCode.OK.value
_IMMEDIATE = EventFlags.IMMEDIATE.value


class EventWriter:
    """Writes event entries.

    Requests are executed one at a time, and each writes its event before the next is looked at. So no room needs to
    be set aside between asking for it and writing.
    """

    def __init__(self, core: Core, host: HostMemory, interrupts: Interrupts, contexts: list[Context]) -> None:
        self._contexts = contexts
        self._writer = RingWriter(
            core, host, interrupts, EVENT, Requester.EVENT_WRITER, Stage.EVENT_WRITTEN, Counter.EVENTS
        )

    def has_room(self, header: FrameHeader) -> bool:
        """False if the request's event belongs into a ring without room."""
        if header.resource_index >= len(self._contexts):
            return True
        context = self._contexts[header.resource_index]
        ring = context.events
        return not (context.enabled and ring.base) or ring.unread() < (1 << ring.size) - _NEVER_PROMISED

    def write(self, header: FrameHeader, address: int, pdc: int, cycle: int) -> int:
        """The event of a request that was performed at virtual ``address``; the cycle in which it is written."""
        context = self._contexts[header.resource_index]
        ring = context.events
        entry = _pack_event(
            header.header_data,
            address,
            header.request_length,
            header.ip,
            header.initiator,
            header.spdcid,
            _KINDS[header.opcode],
            _OK,
            ring.phase() | _IMMEDIATE,
        )
        cycle += EVENT_COST
        self._writer.write(ring, context.number, entry, pdc, _OK, cycle)
        return cycle

    def consume(self, context: Context, head: int) -> None:
        """Doorbell: the consumer index of the event ring."""
        context.events.consumed = head

    def arm(self, context: Context, index: int) -> None:
        """Doorbell."""
        self._writer.arm(context.events, context.number, index)
