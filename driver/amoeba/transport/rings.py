"""The two rings of an endpoint context: the driver's hot path.

One request is one :meth:`struct.Struct.pack_into` into the transmit ring and one doorbell. Every request asks
for a completion, also those whose success the application does not want to hear of: it frees the ring entries and
the buffers. So no more descriptors are under way than either ring has entries, and neither can overrun.
"""

from collections.abc import Callable, Sequence

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, CompletionFlags, DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.nic import Nic
from amoeba.nic.records import record_struct
from amoeba.transport.requests import COUNTED, Completed, Ending, Fields, Operation, Piece, is_counted, take_reported
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["INJECT_SIZE", "ContextRings"]

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
_BOUNCE_SIZE = 2 * INJECT_SIZE
"""Operands and compare values."""


class ContextRings(TransmitRings):
    """Transmit and completion ring of one context, both with ``entries`` (a power of two) entries.

    A request is known by its token, which the NIC hands back. There is one for every entry; those of a chain of
    descriptors all carry the same one, and the others of its ``places`` rest until it ends.
    """

    def __init__(self, nic: Nic, context: int, entries: int) -> None:
        super().__init__(nic, context, entries)
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
        self._ring_doorbell: Callable[[int, int], None] = nic.ring
        self._tail_register = nic.doorbell(context, "transmit_tail")
        self._head_register = nic.doorbell(context, "completion_head")
        self._arm_register = nic.doorbell(context, "arm")
        self._mask = entries - 1
        self._tail = 0
        self._announced = 0
        self._head = 0
        self._pending: list[Operation | None] = [None] * entries
        self._free = list(range(entries))
        self.counters: dict[int, int] = {}
        """Event counters of the NIC by the bit of :data:`COUNTED` in ``flags`` of the operations that they count."""

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    @property
    def under_way(self) -> int:
        return self.entries - len(self._free)

    @property
    def room(self) -> int:
        return len(self._free)

    def busy_with(self, dest_addr: int) -> bool:
        return dest_addr in self.held.values() or any(
            operation is not None and operation.dest_addr == dest_addr for operation in self._pending
        )

    def check_space(self, descriptors: int = 1) -> None:
        if len(self._free) < descriptors:
            raise fabric_error(
                Errno.FI_EAGAIN,
                f"{self.under_way} of {self.entries} ring entries are in use, {descriptors} needed: "
                "read completions, then repeat",
            )

    def has_space(self, descriptors: int = 1) -> bool:
        return len(self._free) >= descriptors

    def stash(self, views: Sequence[memoryview], offset: int = 0) -> int:
        start = at = self._free[-1] * _BOUNCE_SIZE + offset
        for view in views:
            self._bounce[at : at + view.nbytes] = view.cast("B")
            at += view.nbytes
        return self._bounce_base + start

    def post(self, operation: Operation, more: bool, op: int, datatype: int, peer: int, fields: Fields) -> None:
        token = self._free.pop()
        self._pending[token] = operation
        self._write(token, op, datatype, peer, fields, _COMPLETION_FLAG, self._number(operation))
        if not more:
            self.announce()

    def post_chain(
        self, operation: Operation, more: bool, op: int, datatype: int, peer: int, pieces: Sequence[Piece]
    ) -> None:
        token = self._free.pop()
        ending = operation.ending
        assert ending is not None  # chains have one
        ending.places = tuple(self._free.pop() for _ in pieces[1:])
        self._pending[token] = operation
        *linked, last = pieces
        for piece in linked:
            self._write(token, op, datatype, peer, piece, _CHAINED_FLAG, 0)
        self._write(token, op, datatype, peer, last, _COMPLETION_FLAG, self._number(operation))
        ending.last = (self._tail - 1) & _INDEX_MASK
        if not more:
            self.announce()

    def _write(
        self, token: int, op: int, datatype: int, peer: int, fields: Fields, position: int, number: int
    ) -> None:
        """Write one descriptor; ``position``: the flag that says where in its chain it stands."""
        opcode, flags, length, remote_address, remote_key, local, result, compare = fields
        _DESCRIPTOR.pack_into(
            self._transmit,
            (self._tail & self._mask) * _DESCRIPTOR.size,
            opcode,
            op,
            datatype,
            flags | position,
            length,
            peer,
            number,
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

    def _number(self, operation: Operation) -> int:
        """The NIC's event counter that an operation advances; 0: none."""
        return self.counters.get(operation.flags & COUNTED, 0) if self.counters and is_counted(operation) else 0

    def announce(self) -> None:
        if self._announced != self._tail:
            self._announced = self._tail
            self._ring_doorbell(self._tail_register, self._tail & _INDEX_MASK)

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        ring, tail_register = self._ring_doorbell, self._tail_register

        def ring_and_tell(register: int, value: int) -> None:
            ring(register, value)
            if register == tail_register:
                listener()

        self._ring_doorbell = ring_and_tell

    def poll(self, limit: int) -> list[Completed]:
        self.progress()
        # most of the time nothing waits: what the ring gives need not go through the backlog
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
            ending, told = operation.ending, status
            if ending is not None:
                if ending.last not in (-1, descriptor):
                    # the NIC has refused a piece of a chain, whose end is still to come
                    ending.status = status if ending.status == _OK else ending.status
                    continue
                length = ending.length
                status = self._end(ending, status)
            self._pending[token] = None
            self._free.append(token)
            if status == _PDC_FAILED:
                owner = self if ending is None else ending.owner or self
                owner.peer_failed(operation.dest_addr)
            if ending is not None and ending.done is not None:
                ending.done(status)
                status = _OK  # nobody else hears of it
            elif ending is not None and ending.deferral is not None:
                ending.deferral.finish(status)
            if self.tally is not None and is_counted(operation):
                self.tally(operation.flags, status, told)
            taken.append(Completed(operation, length, status))
            if status != _OK:
                break
        if head != self._head:
            self._head = head
            self._ring_doorbell(self._head_register, head & _INDEX_MASK)
        return taken

    def _end(self, ending: Ending, status: int) -> int:
        """Do what the end of an operation takes; its status, all pieces considered."""
        for address, length in ending.grants:
            self.nic.dma.revoke(address, length)
        self._free += ending.places
        return status if ending.status == _OK else ending.status

    def absorb(self) -> int:
        taken = self._take(self.entries)
        self._backlog += taken
        return len(taken)

    def _arm_ring(self) -> None:
        self._ring_doorbell(self._arm_register, self._head & _INDEX_MASK)

    def release(self) -> None:
        """Withdraw the NIC's access to the rings and to the buffers of operations that never completed."""
        operations = [operation for operation in self._pending if operation is not None]
        for ending in (operation.ending for operation in operations if operation.ending is not None):
            for address, length in ending.grants:
                self.nic.dma.revoke(address, length)
        for address, length in self._grants:
            self.nic.dma.revoke(address, length)
