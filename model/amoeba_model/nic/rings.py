"""Rings that the NIC writes and the driver reads: completions and events."""

from dataclasses import dataclass

from amoeba_model.layout import Record
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester, Stage

__all__ = ["EntryRing", "Interrupts", "RingWriter"]

_INTERRUPTS = Counter.INTERRUPTS.value
_PHASE = 1 << 7
"""PHASE of CompletionFlags and EventFlags."""


@dataclass(slots=True, eq=False)
class EntryRing:
    """Where a ring lies and how far it is; indices count modulo 2**16."""

    base: int = 0
    size: int = 0
    """log2 of entries."""
    written: int = 0
    """Index of the next entry."""
    consumed: int = 0
    """The driver's index, from the doorbell page."""
    armed: int | None = None
    """Index at which to raise the interrupt."""
    kept: int = 0
    """Entries that are kept for the ends of messages of several packets."""

    def restart(self) -> None:
        self.written = self.consumed = self.kept = 0
        self.armed = None

    def unread(self) -> int:
        return (self.written - self.consumed) & 0xFFFF

    def phase(self) -> int:
        """Return the phase bit of the next entry: set in the first lap, and in every second from there."""
        return 0 if self.written >> self.size & 1 else _PHASE


class Interrupts:
    """Raises interrupts, from either ring; a context's vector is its number."""

    def __init__(self, core: Core) -> None:
        self.pending = 0
        """Vectors raised and not yet taken, as a bit mask."""
        self._core = core

    def raise_for(self, context: int, cycle: int) -> None:
        self.pending |= 1 << context
        self._core.counters[_INTERRUPTS] += 1
        if self._core.tracing:
            self._core.trace(cycle, Stage.INTERRUPT, context, 0, 0)

    def take(self) -> int:
        vectors, self.pending = self.pending, 0
        return vectors


class RingWriter:
    """Writes entries of one kind, counts them, and raises their interrupts."""

    def __init__(
        self,
        core: Core,
        host: HostMemory,
        interrupts: Interrupts,
        record: Record,
        requester: Requester,
        stage: Stage,
        counter: Counter,
    ) -> None:
        self._core = core
        self._host = host
        self._interrupts = interrupts
        self._entry_size = record.size
        self._requester = requester
        self._stage = stage
        self._counter = counter.value

    def write(self, ring: EntryRing, context: int, entry: bytes, pdc: int, status: int, cycle: int) -> None:
        """Write the ring's next entry; ``pdc`` and ``status`` are for the trace."""
        core = self._core
        index = ring.written
        slot = index & ((1 << ring.size) - 1)
        self._host.write(ring.base + slot * self._entry_size, entry, self._requester, context)
        ring.written = (index + 1) & 0xFFFF
        core.counters[self._counter] += 1
        if core.tracing:
            core.trace(cycle, self._stage, context, pdc, index, status)
        if ring.armed is not None and _is_at_or_after(index, ring.armed):
            self._interrupt(ring, context, cycle)

    def arm(self, ring: EntryRing, context: int, index: int) -> None:
        """Doorbell: interrupt at entry ``index`` or later, at once if it has been written already."""
        ring.armed = index
        if _is_at_or_after(ring.written - 1, index):
            self._interrupt(ring, context, self._core.now)

    def _interrupt(self, ring: EntryRing, context: int, cycle: int) -> None:
        ring.armed = None
        self._interrupts.raise_for(context, cycle)


def _is_at_or_after(index: int, other: int) -> bool:
    """Order of indices that count modulo 2**16."""
    return (index - other) & 0xFFFF < 0x8000
