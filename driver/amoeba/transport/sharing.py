"""Rings of one context of the NIC that several endpoints post into."""

from collections import Counter
from collections.abc import Callable, Sequence

from amoeba.transport.requests import Completed, Ending, Fields, Operation, Piece, is_counted
from amoeba.transport.rings import ContextRings
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["RingShare"]


class RingShare(TransmitRings):
    """One endpoint's share of rings that others post into, too.

    Ring entries belong to whoever takes them first. Completions go to the share that posted the operation, whoever
    takes them out of the ring; each counts its own, the NIC counts none of them.
    """

    def __init__(self, rings: ContextRings) -> None:
        super().__init__(rings.nic, rings.context, rings.entries)
        self._ring = rings
        self._under_way = 0
        self._by_peer: Counter[int] = Counter()
        self._released = False
        self._unannounced = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def under_way(self) -> int:
        return self._under_way

    @property
    def room(self) -> int:
        return self._ring.room

    def busy_with(self, dest_addr: int) -> bool:
        return self._by_peer[dest_addr] > 0 or dest_addr in self.held.values()

    def check_space(self, descriptors: int = 1) -> None:
        self.absorb()
        self._ring.check_space(descriptors)

    def has_space(self, descriptors: int = 1) -> bool:
        return self._ring.has_space(descriptors)

    def stash(self, views: Sequence[memoryview], offset: int = 0) -> int:
        return self._ring.stash(views, offset)

    def post(self, operation: Operation, more: bool, op: int, datatype: int, peer: int, fields: Fields) -> None:
        self._ring.post(self._own(operation, Piece(*fields).length), True, op, datatype, peer, fields)
        self._posted(more)

    def post_chain(
        self, operation: Operation, more: bool, op: int, datatype: int, peer: int, pieces: Sequence[Piece]
    ) -> None:
        self._ring.post_chain(self._own(operation, 0), True, op, datatype, peer, pieces)
        self._posted(more)

    def _own(self, operation: Operation, length: int) -> Operation:
        """The operation, marked as this share's."""
        if operation.ending is None:
            operation = operation._replace(ending=Ending(length))
        assert operation.ending is not None
        operation.ending.owner = self
        self._under_way += 1
        self._by_peer[operation.dest_addr] += 1
        return operation

    def _posted(self, more: bool) -> None:
        self._unannounced = True
        if not more:
            self.announce()

    def announce(self) -> None:
        if self._unannounced:
            self._unannounced = False
            self._ring.announce()
            for listener in self._listeners:
                listener()

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def absorb(self) -> int:
        """Take completions out of the ring, and give each share its own; returns how many there were."""
        count = 0
        while taken := self._ring.poll(self.entries):
            count += len(taken)
            for completed in taken:
                ending = completed.operation.ending
                assert ending is not None
                assert isinstance(ending.owner, RingShare)
                ending.owner._receive(completed)
        return count

    def _receive(self, completed: Completed) -> None:
        self._under_way -= 1
        self._by_peer[completed.operation.dest_addr] -= 1
        if self._released:
            return
        if self.tally is not None and is_counted(completed.operation):
            self.tally(completed.operation.flags, completed.status, None)
        self._backlog.append(completed)

    def _arm_ring(self) -> None:
        self._ring.arm()

    def release(self) -> None:
        """Drop what has not been read, and what is still to come; the ring keeps the buffers of that alive."""
        self._released = True
        self._backlog.clear()
