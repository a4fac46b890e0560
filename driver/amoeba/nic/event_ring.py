"""The event ring of an endpoint: peers' operations on its memory, and the results of messages and receives."""

from collections.abc import Callable
from typing import NamedTuple

from amoeba_model.descriptors import EVENT, EventFlags

from amoeba.core.buffers import address_of, allocate
from amoeba.nic.nic import Nic
from amoeba.nic.records import record_struct
from amoeba.nic.reset_watchdog import ResetWatchdog

__all__ = ["MAX_EVENTS", "Event", "EventRing"]

_EVENT = record_struct(
    EVENT, "context", "data", "tag", "address", "length", "source_ip", "source_context", "slot", "target_context",
    "kind", "status", "flags",
)  # fmt: skip
_PHASE_BYTE = EVENT.bit_offset("flags") // 8
_PHASE = int(EventFlags.PHASE)
_SIZE = EVENT.size
_INDEX_MASK = 0xFFFF
_NEVER_PROMISED = 4
"""Entries of every ring that the NIC keeps for itself."""
_FEWEST_ENTRIES = 8
MAX_EVENTS = (1 << 15) - _NEVER_PROMISED
"""Maximum number of events that can wait for the application."""


class Event(NamedTuple):
    """The fields of an event that the driver uses, in the order of :data:`amoeba_model.descriptors.EVENT`."""

    context: int
    data: int
    tag: int
    address: int
    length: int
    source_ip: int
    source_context: int
    slot: int
    target: int
    """``target_context``: the context that a message was for."""
    kind: int
    status: int
    flags: int


_make: Callable[[type[Event], tuple[int, ...]], Event] = tuple.__new__  # several times as fast as Event(...)


class EventRing:
    """A ring of at least ``events`` events; while it is full, the NIC holds peers back."""

    def __init__(self, nic: Nic, context: int, events: int) -> None:
        self.nic = nic
        self._context = context
        self.entries = max(_FEWEST_ENTRIES, 1 << (events + _NEVER_PROMISED - 1).bit_length())
        self._ring = allocate(self.entries * EVENT.size)
        self.base = address_of(self._ring)
        nic.dma.grant(self.base, self._ring.nbytes, writable=True, whose=context)
        self._head_register = nic.doorbell(context, "event_head")
        self._arm_register = nic.doorbell(context, "event_arm")
        self._mask = self.entries - 1
        self._head = 0
        self._told = 0
        """``_head`` as the NIC knows it."""
        self._watchdog = ResetWatchdog(nic.device)
        self.last_word: Callable[[], Event | None] = lambda: None
        """Makes up the next event that a NIC owed before it was reset."""

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    def take(self) -> Event | None:
        """Take the oldest event, or return None. The NIC may reuse the entry after :meth:`acknowledge`."""
        head = self._head
        # the phase is 1 on the even laps, counted from 0
        if (self._ring[(head & self._mask) * _SIZE + _PHASE_BYTE] & _PHASE == 0) is (head & self.entries == 0):
            return self.last_word() if self.nic.lost else None
        self._head = head + 1
        return _make(Event, _EVENT.unpack_from(self._ring, (head & self._mask) * _SIZE))

    def acknowledge(self) -> None:
        """Return the entries of the events taken to the NIC."""
        if self._told != (head := self._head):
            self.nic.ring(self._head_register, head & _INDEX_MASK)
            self._told = head  # only now: after an interruption the call reports the head again

    @property
    def has_event(self) -> bool:
        """Return whether :meth:`take` has an event."""
        head = self._head
        if (self._ring[(head & self._mask) * _SIZE + _PHASE_BYTE] & _PHASE == 0) is not (head & self.entries == 0):
            return True
        nic = self.nic
        return nic.contexts.lost or (self._watchdog.is_long(head) and nic.find_lost())

    @property
    def waiting(self) -> int:
        """Return the number of events that have arrived and were not taken."""
        head = self._head
        while head < self._head + self.entries and self._is_there(head):
            head += 1
        return head - self._head

    def _is_there(self, head: int) -> bool:
        offset = (head & self._mask) * EVENT.size
        # the phase is 1 on the even laps, counted from 0
        return bool(self._ring[offset + _PHASE_BYTE] & _PHASE) != bool(head & self.entries)

    def arm(self) -> None:
        """Ask for an interrupt at the next event, or at once if it is there already."""
        self.nic.ring(self._arm_register, self._head & _INDEX_MASK)

    def release(self) -> None:
        """Withdraw the NIC's access to the ring."""
        self.nic.dma.revoke(self.base, self._ring.nbytes, self._context)
