"""The event ring of an endpoint: what peers did to its memory, and sent immediate data with."""

from collections.abc import Callable

from amoeba_model.descriptors import EVENT, EventFlags, EventKind

from amoeba.constants import Caps, Errno
from amoeba.errors import fabric_error
from amoeba.memory import address_of, allocate
from amoeba.nic import Nic, record_struct
from amoeba.rings import Completed, Operation

__all__ = ["MOST_EVENTS", "EventRing"]

_EVENT = record_struct(EVENT)
_PHASE_BYTE = EVENT.bit_offset("flags") // 8
_PHASE = int(EventFlags.PHASE)
_INDEX_MASK = 0xFFFF
_NEVER_PROMISED = 4
"""Entries of every ring that the NIC keeps for itself."""
_FEWEST_ENTRIES = 8
MOST_EVENTS = (1 << 15) - _NEVER_PROMISED
"""Most events that can wait for the application."""


def _operation(kind: int) -> Operation:
    return Operation(None, kind | int(Caps.FI_REMOTE_CQ_DATA), False, -1, ())


_OPERATIONS = {
    int(EventKind.REMOTE_WRITE): _operation(int(Caps.FI_RMA | Caps.FI_REMOTE_WRITE)),
    int(EventKind.REMOTE_READ): _operation(int(Caps.FI_RMA | Caps.FI_REMOTE_READ)),
    int(EventKind.REMOTE_ATOMIC): _operation(int(Caps.FI_ATOMIC | Caps.FI_REMOTE_WRITE)),
}
"""What the completion queue says of an event, by its kind."""


class EventRing:
    """Room for ``events`` events at least; peers with more to say are held back by the NIC.

    ``number_of`` tells the number in the address vector of a peer by its IPv4 address and context.
    """

    def __init__(self, nic: Nic, context: int, events: int, number_of: Callable[[int, int], int]) -> None:
        self.nic = nic
        self.entries = max(_FEWEST_ENTRIES, 1 << (events + _NEVER_PROMISED - 1).bit_length())
        self._ring = allocate(self.entries * EVENT.size)
        self.base = address_of(self._ring)
        nic.dma.grant(self.base, self._ring.nbytes, writable=True)
        self._number_of = number_of
        self._head_register = nic.doorbell(context, "event_head")
        self._arm_register = nic.doorbell(context, "event_arm")
        self._mask = self.entries - 1
        self._head = 0

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    @property
    def expectant(self) -> bool:
        """Always: a peer may tell something at any time."""
        return True

    limited = True
    """Peers that have more to say wait while the ring is full, which bounds the memory that they can fill."""

    def announce(self) -> None:
        """Nothing: this side asks for nothing."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Nothing: no doorbell begins what peers do."""

    def poll(self, limit: int) -> list[Completed]:
        """Take up to ``limit`` events, oldest first."""
        taken: list[Completed] = []
        head = self._head
        while len(taken) < limit and self._is_there(head):
            record = _EVENT.unpack_from(self._ring, (head & self._mask) * EVENT.size)
            _, data, _, _, length, ip, context, *_, kind, status, _ = record
            if kind not in _OPERATIONS:
                raise fabric_error(Errno.FI_EIO, f"the NIC wrote an event of kind {kind:#x}, which does not exist")
            taken.append(Completed(_OPERATIONS[kind], length, status, data, self._number_of(ip, context)))
            head += 1
        if taken:
            self._head = head
            self.nic.device.write(self._head_register, head & _INDEX_MASK)
        return taken

    @property
    def waiting(self) -> int:
        """Events that have come and were not taken."""
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
        self.nic.device.write(self._arm_register, self._head & _INDEX_MASK)

    def release(self) -> None:
        """Withdraw the NIC's access to the ring."""
        self.nic.dma.revoke(self.base, self._ring.nbytes)
