"""The two rings of an endpoint context: the driver's hot path.

One request is one :meth:`struct.Struct.pack_into` into the transmit ring and one doorbell. Every request asks
for a completion, also those whose success the application does not want to hear of: it frees the ring entries and
the buffers. So no more descriptors are under way than either ring has entries, and neither can overrun.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, CompletionFlags, DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.constants import FI_ADDR_NOTAVAIL, Errno
from amoeba.errors import fabric_error
from amoeba.memory import address_of, allocate
from amoeba.nic import Nic, record_struct

if TYPE_CHECKING:
    from amoeba.deferral import Deferral

__all__ = ["INJECT_SIZE", "Completed", "ContextRings", "Ending", "Operation", "Piece", "closing", "take_reported"]

INJECT_SIZE = 64
"""Most bytes that can be injected."""

_DESCRIPTOR = record_struct(TX_DESCRIPTOR)
_COMPLETION = record_struct(COMPLETION)
_PHASE_BYTE = COMPLETION.bit_offset("flags") // 8
_PHASE = int(CompletionFlags.PHASE)
_OK = int(ReturnCode.OK)
_PDC_FAILED = int(ReturnCode.LOCAL_PDC_FAILED)
_COMPLETION_FLAG = int(DescriptorFlags.COMPLETION)
_CHAINED_FLAG = int(DescriptorFlags.CHAINED)
_INDEX_MASK = 0xFFFF
_NOBODY = -1
"""``dest_addr`` of the driver's own operations."""
_BOUNCE_SIZE = 2 * INJECT_SIZE
"""Operands and compare values."""


class Ending:
    """What the end of an operation takes, beyond freeing its place."""

    __slots__ = ("deferral", "done", "grants", "last", "length", "owner", "places", "status")

    def __init__(
        self,
        length: int,
        grants: tuple[tuple[int, int], ...] = (),
        done: Callable[[], None] | None = None,
    ) -> None:
        self.length = length
        """Bytes of the whole operation."""
        self.grants = grants
        """Device access made for this operation alone: (address, length)."""
        self.done = done
        """The driver's own operation: this is called, and nobody hears of the status."""
        self.places: tuple[int, ...] = ()
        """What a chain occupies besides its token."""
        self.last = -1
        """Ring index of the descriptor that ends a chain; -1 without one."""
        self.status = _OK
        """The chain's first error."""
        self.owner: object = None
        """Who posted it, if several share the rings."""
        self.deferral: Deferral | None = None
        """What has waited for a counter, and is told of its end."""


class Operation(NamedTuple):
    """What the driver remembers of a request until its completion."""

    context: Any
    """``op_context`` of the completion entry."""
    flags: int
    """``flags`` of the completion entry."""
    silent: bool
    """Success is not reported."""
    dest_addr: int
    buffers: tuple[Any, ...]
    """Kept alive while the NIC may touch them."""
    ending: Ending | None = None


class Completed(NamedTuple):
    """An operation that is over, or something that a peer did."""

    operation: Operation
    length: int
    status: int
    data: int = 0
    """Immediate data of a peer."""
    source: int = FI_ADDR_NOTAVAIL
    """That peer's number in the address vector."""


class Piece(NamedTuple):
    """What the descriptors of one chain differ in."""

    opcode: int
    flags: int
    length: int
    remote_address: int
    remote_key: int
    local: int
    result: int
    compare: int


def closing(done: Callable[[], None]) -> Operation:
    """The driver's own operation that closes a peer entry; ``done`` is called when it is closed, or cannot be."""
    return Operation(None, 0, True, _NOBODY, (), Ending(0, done=done))


def take_reported(backlog: list[Completed], limit: int) -> list[Completed]:
    """Take up to ``limit`` of the oldest out of ``backlog``, and none behind one that reports an error."""
    count = next((number for number, completed in enumerate(backlog[:limit], 1) if completed.status != _OK), limit)
    taken = backlog[:count]
    del backlog[:count]
    return taken


class ContextRings:
    """Transmit and completion ring of one context, both with ``entries`` (a power of two) entries.

    A request is known by its token, which the NIC hands back. There is one for every entry; those of a chain of
    descriptors all carry the same one, and the others of its ``places`` rest until it ends.
    """

    def __init__(self, nic: Nic, context: int, entries: int) -> None:
        self.nic = nic
        self.context = context
        self.entries = entries
        self._transmit = allocate(entries * TX_DESCRIPTOR.size)
        self._completion = allocate(entries * COMPLETION.size)
        self._bounce = allocate(entries * _BOUNCE_SIZE)
        self.transmit_base, self.completion_base = address_of(self._transmit), address_of(self._completion)
        self._bounce_base = address_of(self._bounce)
        self._grants = (
            (self.completion_base, self._completion.nbytes),
            (self.transmit_base, self._transmit.nbytes),
            (self._bounce_base, self._bounce.nbytes),
        )
        for grant in self._grants:
            nic.dma.grant(*grant, writable=grant[0] == self.completion_base)
        self._ring_doorbell: Callable[[int, int], None] = nic.device.write
        self._tail_register = nic.doorbell(context, "transmit_tail")
        self._head_register = nic.doorbell(context, "completion_head")
        self._arm_register = nic.doorbell(context, "arm")
        self._mask = entries - 1
        self._tail = 0
        self._announced = 0
        self._head = 0
        self._pending: list[Operation | None] = [None] * entries
        self._free = list(range(entries))
        self._backlog: list[Completed] = []
        """Taken while the driver waited for something of its own; the application has not seen them."""
        self.peer_failed: Callable[[int], None] = lambda dest_addr: None
        """Told of every operation that ended because its peer was given up."""
        self.observer: Callable[[list[Completed]], None] | None = None
        """Is shown all completions as they are taken from the ring: counters."""

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    @property
    def under_way(self) -> int:
        """Requests posted whose completion has not been taken."""
        return self.entries - len(self._free)

    @property
    def room(self) -> int:
        """Descriptors that can be posted now."""
        return len(self._free)

    @property
    def expectant(self) -> bool:
        """Whether :meth:`poll` has something to take, or will have."""
        return bool(self._backlog) or self.under_way > 0

    def busy_with(self, dest_addr: int) -> bool:
        return any(operation is not None and operation.dest_addr == dest_addr for operation in self._pending)

    def check_space(self, descriptors: int = 1) -> None:
        """Raise FI_EAGAIN if a request of so many descriptors cannot be posted."""
        if len(self._free) < descriptors:
            raise fabric_error(
                Errno.FI_EAGAIN,
                f"{self.under_way} of {self.entries} ring entries are in use, {descriptors} needed: "
                "read completions, then repeat",
            )

    def has_space(self) -> bool:
        """Whether a descriptor can be posted."""
        return bool(self._free)

    def stash(self, views: Sequence[memoryview], offset: int = 0) -> int:
        """Copy operands of the next request to where they stay until it completes; returns their address.

        ``offset``: INJECT_SIZE for compare values. The caller has seen to it that at most INJECT_SIZE bytes come.
        """
        start = at = self._free[-1] * _BOUNCE_SIZE + offset
        for view in views:
            self._bounce[at : at + view.nbytes] = view.cast("B")
            at += view.nbytes
        return self._bounce_base + start

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
        """Write one descriptor and, unless ``more`` follow at once, ring the doorbell.

        The caller has asked :meth:`check_space` before, so nothing can fail halfway.
        """
        token = self._free.pop()
        self._pending[token] = operation
        tail = self._tail
        _DESCRIPTOR.pack_into(
            self._transmit,
            (tail & self._mask) * 64,
            opcode,
            op,
            datatype,
            flags | _COMPLETION_FLAG,
            length,
            peer,
            0,
            0,
            remote_address,
            remote_key,
            local,
            result,
            compare,
            token,
        )
        self._tail = tail + 1
        if not more:
            self.announce()

    def post_chain(
        self, operation: Operation, more: bool, op: int, datatype: int, peer: int, pieces: Sequence[Piece]
    ) -> None:
        """Write the descriptors of one request, tied together, as :meth:`post` does one."""
        token = self._free.pop()
        ending = operation.ending
        assert ending is not None  # chains have one
        ending.places = tuple(self._free.pop() for _ in pieces[1:])
        self._pending[token] = operation
        last = len(pieces) - 1
        for number, piece in enumerate(pieces):
            opcode, flags, length, remote_address, remote_key, local, result, compare = piece
            _DESCRIPTOR.pack_into(
                self._transmit,
                (self._tail & self._mask) * TX_DESCRIPTOR.size,
                opcode,
                op,
                datatype,
                flags | (_CHAINED_FLAG if number < last else _COMPLETION_FLAG),
                length,
                peer,
                0,
                0,
                remote_address,
                remote_key,
                local,
                result,
                compare,
                token,
            )
            self._tail += 1
        ending.last = (self._tail - 1) & _INDEX_MASK
        if not more:
            self.announce()

    def post_close(self, peer: int, done: Callable[[], None]) -> None:
        """Close the delivery context of a peer entry, in order; ``done`` is called when it is, or cannot be."""
        self.post(closing(done), True, DescriptorOpcode.CLOSE, 0, 0, 0, 0, peer, 0, 0, 0, 0, 0)

    def announce(self) -> None:
        """Ring the doorbell for descriptors that wait for it."""
        if self._announced != self._tail:
            self._announced = self._tail
            self._ring_doorbell(self._tail_register, self._tail & _INDEX_MASK)

    limited = False
    """Completions can be taken at once, however many: those of one's own operations."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever descriptors have been announced."""
        ring, tail_register = self._ring_doorbell, self._tail_register

        def ring_and_tell(register: int, value: int) -> None:
            ring(register, value)
            if register == tail_register:
                listener()

        self._ring_doorbell = ring_and_tell

    def poll(self, limit: int) -> list[Completed]:
        """Take up to ``limit`` completions, oldest first, and none behind one that reports an error.

        Their buffers and ring entries are free again.
        """
        return take_reported(self._backlog, limit) if self._backlog else self._take(limit)

    def _take(self, limit: int) -> list[Completed]:
        taken: list[Completed] = []
        ring, head, entries = self._completion, self._head, self.entries
        while len(taken) < limit:
            offset = (head & self._mask) * 32
            # the phase is 1 on the even laps, counted from 0
            if bool(ring[offset + _PHASE_BYTE] & _PHASE) == bool(head & entries):
                break
            token, _, length, descriptor, _, status, *_ = _COMPLETION.unpack_from(ring, offset)
            operation = self._pending[token] if token < entries else None
            if operation is None:
                raise fabric_error(Errno.FI_EIO, f"the NIC completed request {token:#x}, which was never posted")
            head += 1
            ending = operation.ending
            if ending is not None:
                if ending.last not in (-1, descriptor):
                    # the NIC has refused a piece of a chain, whose end is still to come
                    ending.status = status if ending.status == _OK else ending.status
                    continue
                length = ending.length
                status = self._end(ending, status)
            self._pending[token] = None
            self._free.append(token)
            taken.append(Completed(operation, length, status))
            if status != _OK:
                if status == _PDC_FAILED:
                    self.peer_failed(operation.dest_addr)
                break
        if head != self._head:
            self._head = head
            self._ring_doorbell(self._head_register, head & _INDEX_MASK)
        if taken and self.observer is not None:
            self.observer(taken)
        return taken

    def _end(self, ending: Ending, status: int) -> int:
        """Do what the end of an operation takes; its status, all pieces considered."""
        for address, length in ending.grants:
            self.nic.dma.revoke(address, length)
        self._free += ending.places
        if ending.done is not None:
            ending.done()
            return _OK
        status = status if ending.status == _OK else ending.status
        if ending.deferral is not None:
            ending.deferral.finish(status)
        return status

    def wait_until(self, finished: Callable[[], bool], deadline: float) -> bool:
        """Let time pass until something is so, which completions bring about; whether it was by ``deadline``.

        ``deadline`` is of :func:`time.monotonic`. What completes meanwhile is kept for :meth:`poll`.
        """
        self.announce()
        while not finished():
            if time.monotonic() >= deadline:
                return False
            taken = self._take(self.entries)
            self._backlog += taken
            if not taken:
                self.nic.device.advance()
        return True

    def arm(self) -> None:
        """Ask for an interrupt at the next completion, or at once if it is there already."""
        self._ring_doorbell(self._arm_register, self._head & _INDEX_MASK)

    def release(self) -> None:
        """Withdraw the NIC's access to the rings and to the buffers of operations that never completed."""
        operations = [operation for operation in self._pending if operation is not None]
        for ending in (operation.ending for operation in operations if operation.ending is not None):
            for address, length in ending.grants:
                self.nic.dma.revoke(address, length)
        for address, length in self._grants:
            self.nic.dma.revoke(address, length)
