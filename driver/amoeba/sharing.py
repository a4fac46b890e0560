"""Rings of one context of the NIC that several endpoints post into."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import TypeAlias

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.rings import Completed, ContextRings, Ending, Operation, Piece, closing, take_reported

__all__ = ["RingShare", "TransmitRings"]

_PDC_FAILED = int(ReturnCode.LOCAL_PDC_FAILED)


class RingShare:
    """One endpoint's share of rings that others post into, too; to be used like :class:`ContextRings`.

    Ring entries belong to whoever takes them first. Completions go to the share that posted the operation, whoever
    takes them out of the ring.
    """

    limited = False

    def __init__(self, rings: ContextRings) -> None:
        self._ring = rings
        self.nic = rings.nic
        self.context = rings.context
        self.entries = rings.entries
        self.under_way = 0
        """Requests of this share whose completion has not been taken out of the ring."""
        self._by_peer: Tally[int] = Tally()
        self._backlog: list[Completed] = []
        self._released = False
        self._unannounced = False
        self._listeners: list[Callable[[], None]] = []
        self.peer_failed: Callable[[int], None] = lambda dest_addr: None
        """Told of every operation of this share that ended because its peer was given up."""
        self.observer: Callable[[list[Completed]], None] | None = None
        """Is shown all completions of this share as they are taken from the ring: counters."""

    @property
    def room(self) -> int:
        """Descriptors that can be posted now."""
        return self._ring.room

    @property
    def expectant(self) -> bool:
        """Whether :meth:`poll` has something to take, or will have."""
        return bool(self._backlog) or self.under_way > 0

    def busy_with(self, dest_addr: int) -> bool:
        return self._by_peer[dest_addr] > 0

    def check_space(self, descriptors: int = 1) -> None:
        """Raise FI_EAGAIN if a request of so many descriptors cannot be posted."""
        self._share_out()
        self._ring.check_space(descriptors)

    def has_space(self) -> bool:
        """Whether a descriptor can be posted."""
        return self._ring.has_space()

    def stash(self, views: Sequence[memoryview], offset: int = 0) -> int:
        """Copy operands of the next request to where they stay until it completes; returns their address."""
        return self._ring.stash(views, offset)

    def post(
        self,
        operation: Operation,
        more: bool,
        opcode: DescriptorOpcode,
        op: int,
        datatype: int,
        flags: int,
        length: int,
        peer: int,
        remote_address: int,
        remote_key: int,
        local: int,
        result: int,
        compare: int,
    ) -> None:
        """As :meth:`ContextRings.post`."""
        self._ring.post(
            self._own(operation, length), True, opcode, op, datatype, flags, length, peer, remote_address, remote_key,
            local, result, compare,
        )  # fmt: skip
        self._posted(more)

    def post_chain(
        self, operation: Operation, more: bool, op: int, datatype: int, peer: int, pieces: Sequence[Piece]
    ) -> None:
        """As :meth:`ContextRings.post_chain`."""
        self._ring.post_chain(self._own(operation, 0), True, op, datatype, peer, pieces)
        self._posted(more)

    def post_close(self, peer: int, done: Callable[[], None]) -> None:
        """As :meth:`ContextRings.post_close`."""
        self.post(closing(done), True, DescriptorOpcode.CLOSE, 0, 0, 0, 0, peer, 0, 0, 0, 0, 0)

    def _own(self, operation: Operation, length: int) -> Operation:
        """The operation, marked as this share's."""
        if operation.ending is None:
            operation = operation._replace(ending=Ending(length))
        assert operation.ending is not None
        operation.ending.owner = self
        self.under_way += 1
        self._by_peer[operation.dest_addr] += 1
        return operation

    def _posted(self, more: bool) -> None:
        self._unannounced = True
        if not more:
            self.announce()

    def announce(self) -> None:
        """Ring the doorbell for descriptors that wait for it."""
        if self._unannounced:
            self._unannounced = False
            self._ring.announce()
            for listener in self._listeners:
                listener()

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever descriptors of this share have been announced."""
        self._listeners.append(listener)

    def poll(self, limit: int) -> list[Completed]:
        """Take up to ``limit`` completions of this share, oldest first, and none behind one that reports an error."""
        self._share_out()
        return take_reported(self._backlog, limit)

    def _share_out(self) -> int:
        """Take completions out of the ring and give each share its own; returns how many there were."""
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
        self.under_way -= 1
        self._by_peer[completed.operation.dest_addr] -= 1
        if completed.status == _PDC_FAILED:
            self.peer_failed(completed.operation.dest_addr)
        if self._released:
            return
        if self.observer is not None:
            self.observer([completed])
        self._backlog.append(completed)

    def wait_until(self, finished: Callable[[], bool], deadline: float) -> bool:
        """As :meth:`ContextRings.wait_until`."""
        self.announce()
        while not finished():
            if time.monotonic() >= deadline:
                return False
            if not self._share_out():
                self.nic.device.advance()
        return True

    def arm(self) -> None:
        """Ask for an interrupt at the next completion of any share, or at once if it is there already."""
        self._ring.arm()

    def release(self) -> None:
        """Drop what has not been read, and what is still to come; the ring keeps the buffers of that alive."""
        self._released = True
        self._backlog.clear()


TransmitRings: TypeAlias = ContextRings | RingShare
"""What an endpoint posts through."""
