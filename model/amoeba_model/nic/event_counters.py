"""EventCounters: how many requests and messages ended, by number, in host memory (hw/amoeba_hw/host/README.md)."""

from amoeba_model.descriptors import EVENT_COUNTER
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.tables import Context, KeyTable
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, Requester
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import AtomicOpcode, RequestOpcode, ReturnCode, SesFlags

__all__ = ["EventCounters", "RemoteRequests"]

_COUNTER_WRITES = Counter.COUNTER_WRITES.value
_COUNTER_MASK = (1 << 64) - 1
_OK = ReturnCode.OK.value
_ALL = (1 << 32) - 1
_WRITES = (RequestOpcode.WRITE.value, RequestOpcode.ATOMIC.value, RequestOpcode.AMOEBA_ATOMIC.value)
"""All others bring something back."""
_READ = RequestOpcode.READ.value
_FETCHING_ATOMIC = RequestOpcode.FETCHING_ATOMIC.value
_ATOMIC_READ = AtomicOpcode.READ.value
_LAST = (SesFlags.DELIVERY_COMPLETE | SesFlags.END_OF_MESSAGE).value


class EventCounters:
    """Counts successes and errors, and writes every count to host memory.

    Number 0 counts nothing, as do numbers that this NIC does not have, and those that a context's descriptor names
    without being let in.
    """

    def __init__(self, core: Core, host: HostMemory) -> None:
        self._core = core
        self._host = host
        self._successes = [0] * core.parameters.event_counters
        self._errors = [0] * core.parameters.event_counters
        self._admitted = [_ALL] * core.parameters.event_counters
        """Contexts whose descriptors advance a counter, as a bit mask."""

    def advance(self, number: int, success: bool, context: int | None = None) -> None:
        """Count one more, and write the counter.

        ``context``: whose descriptor says so; None: a register does.
        """
        if not 0 < number < len(self._successes):
            return
        if context is not None and not self._admitted[number] >> context & 1:
            return
        counts = self._successes if success else self._errors
        counts[number] = (counts[number] + 1) & _COUNTER_MASK
        base = self._core.counter_base
        if base:
            entry = EVENT_COUNTER.pack(success=self._successes[number], error=self._errors[number])
            place = base + number * EVENT_COUNTER.size
            self._host.write(place, entry, Requester.COUNTER_WRITER, NO_CONTEXT)
            self._core.counters[_COUNTER_WRITES] += 1

    def clear(self, number: int) -> None:
        """Register: begin again from zero, of which nothing is written, and let all contexts in."""
        number &= 0xFF
        if number < len(self._successes):
            self._successes[number] = self._errors[number] = 0
            self._admitted[number] = _ALL

    def admit(self, number: int, contexts: int) -> None:
        """Register: let in the contexts of this bit mask, and no others."""
        number &= 0xFF
        if number < len(self._admitted):
            self._admitted[number] = contexts


class RemoteRequests:
    """Counts requests from elsewhere that the key's checks refused or that were executed, by context and key."""

    def __init__(self, contexts: list[Context], keys: KeyTable, counters: EventCounters) -> None:
        self._contexts = contexts
        self._keys = keys
        self._counters = counters

    def count(self, header: FrameHeader, code: int) -> None:
        """Count a packet that is about to be answered with ``code``, if it is its request's last."""
        if header.flags & _LAST != _LAST:
            return
        writes = header.opcode in _WRITES
        context = self._contexts[header.resource_index]
        self._advance(context.write_counter if writes else context.read_counter, code)
        key = self._keys.find(header.memory_key)
        if key is None or key.domain != context.domain:
            return
        read_counter = 0 if writes else key.read_counter
        self._advance(read_counter, code)
        if not _only_reads(header) and key.write_counter != read_counter:
            self._advance(key.write_counter, code)

    def _advance(self, number: int, code: int) -> None:
        if number:
            self._counters.advance(number, code == _OK)


def _only_reads(header: FrameHeader) -> bool:
    """Whether the request can change no memory. A compare atomic whose compare fails is one that can."""
    return header.opcode == _READ or (header.opcode == _FETCHING_ATOMIC and header.atomic_opcode == _ATOMIC_READ)
