"""The two rings of an endpoint context: the driver's hot path.

One request is one :meth:`struct.Struct.pack_into` into the transmit ring and one doorbell. Every descriptor asks
for a completion, also those whose success the application does not want to hear of: it frees the ring entry and
the buffers. So no more requests are under way than either ring has entries, and neither can overrun.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, CompletionFlags, DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.constants import Errno
from amoeba.errors import fabric_error
from amoeba.memory import address_of, allocate
from amoeba.nic import Nic, record_struct

__all__ = ["Completed", "ContextRings", "Operation"]

_DESCRIPTOR = record_struct(TX_DESCRIPTOR)
_COMPLETION = record_struct(COMPLETION)
_PHASE_BYTE = COMPLETION.bit_offset("flags") // 8
_PHASE = int(CompletionFlags.PHASE)
_OK = int(ReturnCode.OK)
_COMPLETION_FLAG = int(DescriptorFlags.COMPLETION)


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
    grants: tuple[tuple[int, int], ...]
    """Device access made for this operation alone: (address, length)."""


class Completed(NamedTuple):
    """One entry of the completion ring, with the operation it ends."""

    operation: Operation
    length: int
    status: int


class ContextRings:
    """Transmit and completion ring of one context, both with ``entries`` (a power of two) entries."""

    def __init__(self, nic: Nic, context: int, entries: int) -> None:
        self.nic = nic
        self.context = context
        self.entries = entries
        self._transmit = allocate(entries * TX_DESCRIPTOR.size)
        self._completion = allocate(entries * COMPLETION.size)
        self.transmit_base, self.completion_base = address_of(self._transmit), address_of(self._completion)
        self._grants = (
            (self.transmit_base, self._transmit.nbytes),
            (self.completion_base, self._completion.nbytes),
        )
        nic.dma.grant(*self._grants[0], writable=False)
        nic.dma.grant(*self._grants[1], writable=True)
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
        self.observer: Callable[[list[Completed]], None] | None = None
        """Is shown all completions as they are taken: counters."""

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    @property
    def under_way(self) -> int:
        """Requests posted whose completion has not been taken."""
        return self.entries - len(self._free)

    def busy_with(self, dest_addr: int) -> bool:
        return any(operation is not None and operation.dest_addr == dest_addr for operation in self._pending)

    def check_space(self) -> None:
        """Raise FI_EAGAIN if no request can be posted."""
        if not self._free:
            raise fabric_error(
                Errno.FI_EAGAIN, f"{self.entries} operations are under way: read completions, then repeat"
            )

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

    def announce(self) -> None:
        """Ring the doorbell for descriptors that wait for it."""
        if self._announced != self._tail:
            self._announced = self._tail
            self._ring_doorbell(self._tail_register, self._tail & 0xFFFF)

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
        taken: list[Completed] = []
        ring, head, entries = self._completion, self._head, self.entries
        while len(taken) < limit:
            offset = (head & self._mask) * 32
            # the phase is 1 on the even laps, counted from 0
            if bool(ring[offset + _PHASE_BYTE] & _PHASE) == bool(head & entries):
                break
            token, _, length, _, _, status, *_ = _COMPLETION.unpack_from(ring, offset)
            operation = self._pending[token] if token < entries else None
            if operation is None:
                raise fabric_error(Errno.FI_EIO, f"the NIC completed request {token:#x}, which was never posted")
            self._pending[token] = None
            self._free.append(token)
            if operation.grants:
                self._revoke(operation)
            taken.append(Completed(operation, length, status))
            head += 1
            if status != _OK:
                break
        if taken:
            self._head = head
            self._ring_doorbell(self._head_register, head & 0xFFFF)
            if self.observer is not None:
                self.observer(taken)
        return taken

    def arm(self) -> None:
        """Ask for an interrupt at the next completion, or at once if it is there already."""
        self._ring_doorbell(self._arm_register, self._head & 0xFFFF)

    def release(self) -> None:
        """Withdraw the NIC's access to the rings and to the buffers of operations that never completed."""
        for operation in self._pending:
            if operation is not None:
                self._revoke(operation)
        for address, length in self._grants:
            self.nic.dma.revoke(address, length)

    def _revoke(self, operation: Operation) -> None:
        for address, length in operation.grants:
            self.nic.dma.revoke(address, length)
