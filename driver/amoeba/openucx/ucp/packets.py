"""Memory of a worker for packets: copies of messages to send, and places for messages that arrive.

The NIC may use the memory as long as the worker exists, so that using a piece costs neither a grant nor an
allocation.
"""

from amoeba.core.buffers import address_of, allocate
from amoeba.nic.nic import Nic

__all__ = ["Packet", "Packets"]

_SLAB = 64
"""Pieces that are made at a time."""


class Packet:
    """A piece of such memory."""

    __slots__ = ("address", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.address = address_of(view)


class Packets:
    """Pieces of ``size`` bytes; at most ``most`` pieces, None: without limit.

    ``context``: the NIC's context that uses the pieces. ``writable``: the NIC writes there.
    """

    def __init__(self, nic: Nic, context: int, size: int, *, writable: bool, most: int | None = None) -> None:
        self.free: list[Packet] = []
        """Free pieces."""
        self._nic = nic
        self._context = context
        self._size = size
        self._writable = writable
        self._most = most
        self._slabs: list[memoryview] = []

    def take(self) -> Packet | None:
        """Take a piece; None if all are used."""
        if not self.free and not self._grow():
            return None
        return self.free.pop()

    def _grow(self) -> bool:
        count = _SLAB if self._most is None else min(_SLAB, self._most - _SLAB * len(self._slabs))
        if count <= 0:
            return False
        slab = allocate(count * self._size)
        self._nic.dma.grant(address_of(slab), slab.nbytes, writable=self._writable, whose=self._context)
        self._slabs.append(slab)
        self.free += [Packet(slab[at : at + self._size]) for at in range(0, slab.nbytes, self._size)]
        return True

    def release(self) -> None:
        """Withdraw the NIC's access."""
        for slab in self._slabs:
            self._nic.dma.revoke(address_of(slab), slab.nbytes, self._context)
        self._slabs.clear()
        self.free.clear()
