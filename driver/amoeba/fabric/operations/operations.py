"""What RMA and atomics share: checks of their arguments, and the way into the ring.

Every call checks its arguments completely, then writes its descriptors and rings the doorbell. What it raises,
it raises before anything is posted; what goes wrong later arrives as an error entry of the completion queue.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode

from amoeba.core.buffers import Buffer, Segment, address_of, cut, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.fabric.constants import MrAccess, OpFlags
from amoeba.fabric.operations.vectors import Descs
from amoeba.fabric.triggered.deferral import Deferral
from amoeba.fabric.triggered.triggered import trigger_of
from amoeba.nic.nic import Nic
from amoeba.nic.records import MAX_MESSAGE
from amoeba.transport.peers import PeerMap
from amoeba.transport.requests import Ending, Operation, Piece
from amoeba.transport.rings import INJECT_SIZE
from amoeba.transport.transmit_rings import TransmitRings

if TYPE_CHECKING:
    from amoeba.fabric.domain_base import DomainBase
    from amoeba.fabric.endpoints.connections import Connection
    from amoeba.fabric.memory_region import MemoryRegion
    from amoeba.fabric.queues.completion import CompletionQueue

__all__ = [
    "CHANGE_FLAGS",
    "MAX_MESSAGE",
    "NO_FLAGS",
    "TRANSMIT_FLAGS",
    "TX_OP_FLAGS",
    "Local",
    "Operations",
    "gathered",
    "grant",
    "locals_of",
    "total",
]

NO_FLAGS = OpFlags(0)
# Every completion of this NIC is a delivery completion, which includes the weaker levels.
_ANY_OP_FLAGS = (
    OpFlags.FI_COMPLETION
    | OpFlags.FI_TRIGGER
    | OpFlags.FI_INJECT_COMPLETE
    | OpFlags.FI_TRANSMIT_COMPLETE
    | OpFlags.FI_DELIVERY_COMPLETE
)
TX_OP_FLAGS = _ANY_OP_FLAGS | OpFlags.FI_COMMIT_COMPLETE
"""What an endpoint's ``op_flags`` may hold."""
_REMOTE_CQ_DATA = int(OpFlags.FI_REMOTE_CQ_DATA)

_U64 = 2**64 - 1
_INLINE_SIZE = 8
"""Most bytes of operands that fit into a descriptor."""
_MORE = int(OpFlags.FI_MORE)
_FENCED = int(OpFlags.FI_FENCE)
_INJECT = int(OpFlags.FI_INJECT)
_REPORT = int(OpFlags.FI_COMPLETION)
_TRIGGER = int(OpFlags.FI_TRIGGER)
_COMMIT = int(OpFlags.FI_COMMIT_COMPLETE)
_INDIRECT = _TRIGGER | _COMMIT
"""What takes more than a descriptor at once; also the ``op_flags`` that change how an operation is posted."""
TRANSMIT_FLAGS = _MORE | _FENCED | _INJECT | int(_ANY_OP_FLAGS)
"""What any operation may have."""
CHANGE_FLAGS = TRANSMIT_FLAGS | _COMMIT
"""What operations may have that change a region of the peer's."""
_WHY_NOT = {
    OpFlags.FI_REMOTE_CQ_DATA: "data goes with the ...data and ...msg calls",
    OpFlags.FI_COMMIT_COMPLETE: "this changes no region of the peer's",
}

_INLINE = int(DescriptorFlags.INLINE)
_FENCE = int(DescriptorFlags.FENCE)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_COMPARE_ATOMIC = int(DescriptorOpcode.COMPARE_ATOMIC)
_WRITE_OPCODE = int(DescriptorOpcode.WRITE)
_READ_OPCODE = int(DescriptorOpcode.READ)

_READ = int(MrAccess.FI_READ)
_WRITE = int(MrAccess.FI_WRITE)


class Local:
    """One local buffer of an operation: checked first, made accessible once nothing can fail any more.

    ``access``: what a region must allow if that is neither FI_READ (``writable``) nor FI_WRITE (else).
    """

    __slots__ = ("address", "desc", "length", "view", "writable")

    def __init__(
        self, view: memoryview, desc: "MemoryRegion | None", *, writable: bool, access: MrAccess | None = None
    ) -> None:
        self.view = view
        self.desc = desc
        self.writable = writable
        self.length = length = view.nbytes
        # a source that fits into the descriptor is copied there, wherever it lies
        self.address = address_of(view) if writable or length > _INLINE_SIZE or desc is not None else 0
        if desc is None:
            return
        desc._check_open()
        if not desc.access_bits & ((_READ if writable else _WRITE) if access is None else access):
            needed = access or (MrAccess.FI_READ if writable else MrAccess.FI_WRITE)
            raise fabric_error(Errno.FI_EACCES, f"the region's access is {desc.access!r}, this use needs {needed!r}")
        if self.length and not desc.covers(self.address, self.length):
            raise fabric_error(Errno.FI_EINVAL, f"a buffer of {self.length} bytes lies outside the region in desc")

    @property
    def segment(self) -> Segment:
        """Where it lies, also if it would fit into a descriptor."""
        return Segment(self.address or address_of(self.view), self.length)


def total(buffers: Sequence[Local]) -> int:
    """Bytes of all buffers together."""
    return sum(buffer.length for buffer in buffers)


def locals_of(
    buffers: Sequence[Buffer], descs: Descs, name: str, *, writable: bool, access: MrAccess | None = None
) -> list[Local]:
    """Check the buffers of a vector. Raises FI_EINVAL, also if there are not as many regions, and FI_EACCES."""
    if descs is None:
        descs = [None] * len(buffers)
    if len(descs) != len(buffers):
        raise fabric_error(Errno.FI_EINVAL, f"{name} has {len(buffers)} buffers, its desc {len(descs)} regions")
    return [
        Local(view_of(buffer, writable=writable), desc, writable=writable, access=access)
        for buffer, desc in zip(buffers, descs, strict=True)
    ]


def grant(nic: Nic, used: Sequence[Local]) -> tuple[tuple[int, int], ...]:
    """Make buffers that are in no region accessible to the NIC; returns what is to be revoked."""
    grants: tuple[tuple[int, int], ...] = ()
    for buffer in used:
        if buffer.desc is None and buffer.length:
            address = buffer.address or address_of(buffer.view)
            nic.dma.grant(address, buffer.length, writable=buffer.writable)
            grants += ((address, buffer.length),)
    return grants


def gathered(buffers: Sequence[Local], length: int) -> Local:
    """The ``length`` bytes of buffers, one after the other, in memory of the driver's: of one byte at least."""
    whole = memoryview(bytearray(max(length, 1)))
    at = 0
    for buffer in buffers:
        whole[at : at + buffer.length] = buffer.view.cast("B")
        at += buffer.length
    return Local(whole, None, writable=False)


class Operations(FabricObject):
    """An endpoint, as far as its operations need it.

    Raises FI_EBADFLAGS for ``op_flags`` that cannot be a default.
    """

    max_msg_size: int = MAX_MESSAGE
    """Most bytes of one message."""
    _max_rma_size: int = MAX_MESSAGE
    """Most bytes of any other operation; less than 0: there is none."""
    _connection: "Connection | None" = None
    """What says who the peer is, whatever ``dest_addr`` is given."""

    def __init__(
        self, domain: "DomainBase", parent: FabricObject | None = None, *, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        self.domain = domain
        self._nic: Nic = domain.nic
        self._selective_queue = False
        """The completion queue hears of successes only where FI_COMPLETION asks for it."""
        self._take_op_flags(op_flags)
        self._rings: TransmitRings | None = None
        self._cq: CompletionQueue | None = None
        self._peer_map: PeerMap | None = None
        self._open_peers: dict[int, int] = {}
        super().__init__(domain if parent is None else parent)

    @property
    def op_flags(self) -> OpFlags:
        """Flags of operations whose call takes none in C; FI_COMPLETION: report all successes.

        The calls ending in ``msg`` have those that they are given, and no others. Setting it (FI_SETOPSFLAG) concerns
        the operations that follow. Raises FI_EBADFLAGS for flags that cannot be a default.
        """
        return self._op_flags

    @op_flags.setter
    def op_flags(self, flags: OpFlags) -> None:
        self._check_open()
        self._take_op_flags(flags)

    def _take_op_flags(self, flags: OpFlags) -> None:
        if int(flags) & ~int(TX_OP_FLAGS):
            raise fabric_error(Errno.FI_EBADFLAGS, f"op_flags can have {TX_OP_FLAGS!r}, got {flags!r}")
        self._op_flags = OpFlags(flags)
        self._default_bits = int(flags) & _INDIRECT
        self._selective = self._selective_queue and not flags & OpFlags.FI_COMPLETION

    def _use_queue(self, selective: bool) -> None:
        """Say how the completion queue was bound."""
        self._selective_queue = selective
        self._take_op_flags(self._op_flags)

    def _check_request(
        self,
        flags: OpFlags,
        length: int,
        addr: int,
        key: int,
        silent: bool,
        allowed: int = TRANSMIT_FLAGS,
        most: int | None = None,
        *,
        overrides: bool = False,
    ) -> tuple[int, bool]:
        """Check what is common to all operations; returns the flags as bits, and whether success is silent.

        ``most``: bytes that it can have, if it is a message. ``overrides``: ``flags`` are instead of the endpoint's.
        """
        if most is None:
            most = self._max_rma_size
            if most < 0:
                raise fabric_error(Errno.FI_EOPNOTSUPP, "datagram endpoints have neither RMA nor atomics")
        if length > most:
            raise fabric_error(Errno.FI_EMSGSIZE, f"an operation has at most {most} bytes here, got {length}")
        if not (0 <= addr <= _U64 and 0 <= key <= _U64):
            raise fabric_error(Errno.FI_EINVAL, f"addr and key are 64-bit numbers, got {addr:#x} and {key:#x}")
        defaults = 0 if overrides else self._default_bits & allowed
        if not flags:
            return defaults, silent
        bits = int(flags) | defaults
        if bits & ~allowed:
            refused = OpFlags(bits & ~allowed)
            reason = ", ".join(why for flag, why in _WHY_NOT.items() if refused & flag)
            raise fabric_error(
                Errno.FI_EBADFLAGS, f"not supported here: {refused!r}{f' ({reason})' if reason else ''}"
            )
        if bits & _INJECT and length > INJECT_SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"at most {INJECT_SIZE} bytes can be injected, got {length}")
        if bits & _INJECT and bits & _TRIGGER:
            raise fabric_error(Errno.FI_EBADFLAGS, "what waits for a counter is read when it is posted, not now")
        return bits, silent and not bits & _REPORT

    def _check_vector_request(
        self,
        flags: OpFlags,
        length: int,
        remote: Sequence[Segment],
        data: int | None,
        allowed: int = TRANSMIT_FLAGS,
    ) -> tuple[int, bool, int | None]:
        """The same for scattered memory and with immediate data, which is returned if the flags say so.

        ``data`` None: the call is no ``...msg`` call. It has no data, so the flags must not ask for it, and the
        endpoint's own apply.
        """
        if not remote:
            raise fabric_error(Errno.FI_EINVAL, "expected one or more remote segments, got none")
        sizes = [segment.length for segment in remote]
        if min(sizes) < 0 or sum(sizes) != length:
            raise fabric_error(Errno.FI_EINVAL, f"{length} bytes of local memory for {sizes} of remote memory")
        overrides = data is not None
        silent = self._silent(overrides)
        if overrides:
            allowed |= _REMOTE_CQ_DATA
        bits, silenced = self._check_request(
            flags, length, remote[0].address, remote[0].key, silent, allowed, overrides=overrides
        )
        for segment in remote[1:]:
            self._check_request(NO_FLAGS, 0, segment.address, segment.key, silent)
        if data is None or not bits & _REMOTE_CQ_DATA:
            return bits, silenced, None
        self._check_data(data)
        return bits, silenced, data

    def _silent(self, overrides: bool) -> bool:
        """Whether a success is not reported by default; ``overrides``: the endpoint's flags do not count."""
        return self._selective_queue if overrides else self._selective

    @staticmethod
    def _check_data(data: int) -> None:
        if not 0 <= data <= _U64:
            raise fabric_error(Errno.FI_EINVAL, f"immediate data has 64 bits, got {data:#x}")

    def _find_peer(self, dest_addr: int) -> int:
        """The peer table entry of a peer that cannot be sent to at once. Raises FI_EINVAL and FI_EAGAIN."""
        assert self._peer_map is not None  # the endpoint is enabled
        return self._peer_map.find(dest_addr)

    def _submit(
        self,
        rings: TransmitRings,
        opcode: DescriptorOpcode,
        op: int,
        datatype: int,
        operands: Local | None,
        compared: Local | None,
        result: Local | None,
        length: int,
        dest_addr: int,
        addr: int,
        key: int,
        cq_flags: int,
        context: Any,
        bits: int,
        silent: bool,
        data: int | None = None,
        deferral: Deferral | None = None,
    ) -> None:
        """Post a request whose arguments are right, in one descriptor, or defer it until its counter says so.

        What is to be committed takes several. Raises FI_EINVAL for an unknown peer, FI_EAGAIN if the ring is full or
        the peer has just been given up.
        """
        if bits & _COMMIT and length:
            self._submit_vector(
                rings, opcode, op, datatype, _some(operands), _some(compared), _some(result), length,
                [Segment(addr, length, key)], dest_addr, cq_flags, context, bits, silent, data, deferral,
            )  # fmt: skip
            return
        if bits & _TRIGGER:
            # no closure: it would make every local variable of this method slower, whether used or not
            post = functools.partial(
                self._submit, rings, opcode, op, datatype, operands, compared, result, length, dest_addr, addr, key,
                cq_flags,
            )  # fmt: skip
            every = [buffer for buffer in (operands, compared, result) if buffer is not None]
            self._defer(rings, dest_addr, cq_flags, context, bits, silent, length, data, post, every)
            return
        if self._connection is not None:
            dest_addr = self._connection.destination()
        peer = self._open_peers.get(dest_addr)
        if peer is None:
            peer = self._find_peer(dest_addr)
        rings.check_space()
        flags = local = compare = 0
        used: list[Local] = []
        if operands is not None and length <= _INLINE_SIZE:
            flags = _INLINE
            local = int.from_bytes(operands.view, "little")
            if compared is not None:
                compare = int.from_bytes(compared.view, "little")
        elif bits & _INJECT and operands is not None:
            local = rings.stash([operands.view])
            if compared is not None:
                compare = rings.stash([compared.view], INJECT_SIZE)
        elif operands is not None:
            local = operands.address
            used.append(operands)
            if compared is not None:
                compare = compared.address
                used.append(compared)
        if result is not None:
            used.append(result)
        if bits & _FENCED:
            flags |= _FENCE
        if data is not None:
            flags |= _IMMEDIATE
            compare = data
        grants = grant(self._nic, used)
        ending = Ending(length, grants) if grants or deferral is not None else None
        if ending is not None:
            ending.deferral = deferral
        rings.post(
            Operation(context, cq_flags, silent, dest_addr, tuple((b.view, b.desc) for b in used), ending),
            bool(bits & _MORE),
            op,
            datatype,
            peer,
            (opcode, flags, length, addr, key, local, 0 if result is None else result.address, compare),
        )

    def _submit_vector(
        self,
        rings: TransmitRings,
        opcode: int,
        op: int,
        datatype: int,
        operands: Sequence[Local],
        compared: Sequence[Local],
        results: Sequence[Local],
        length: int,
        remote: Sequence[Segment],
        dest_addr: int,
        cq_flags: int,
        context: Any,
        bits: int,
        silent: bool,
        data: int | None,
        deferral: Deferral | None = None,
    ) -> None:
        """Post a request whose arguments are right, in as many descriptors as its segments and its data need.

        Raises what :meth:`_submit` does, and FI_EINVAL if they are more than the ring has.
        """
        if bits & _TRIGGER:
            post = functools.partial(
                self._submit_vector, rings, opcode, op, datatype, operands, compared, results, length, remote,
                dest_addr, cq_flags,
            )  # fmt: skip
            every = [*operands, *compared, *results]
            self._defer(rings, dest_addr, cq_flags, context, bits, silent, length, data, post, every)
            return
        if self._connection is not None:
            dest_addr = self._connection.destination()
        peer = self._open_peers.get(dest_addr)
        if peer is None:
            peer = self._find_peer(dest_addr)
        rings.check_space()
        used = [*operands, *compared, *results]
        vectors = [[buffer.segment for buffer in buffers] for buffers in (operands, compared, results)]
        if bits & _INJECT:
            used = [*results]
            for vector, buffers, offset in ((0, operands, 0), (1, compared, INJECT_SIZE)):
                if buffers:
                    vectors[vector] = [Segment(rings.stash([b.view for b in buffers], offset), length)]
        absent = Segment(0, length)
        pieces = [
            Piece(opcode, 0, there.length, there.address, there.key, local.address, result.address, compare.address)
            for there, local, compare, result in cut([remote, *(vector or [absent] for vector in vectors)])
        ]
        if bits & _COMMIT and length:
            used.append(_commit(pieces))
        if data is not None:
            _attach(pieces, data)
        if bits & _FENCED:
            pieces[0] = pieces[0]._replace(flags=pieces[0].flags | _FENCE)
        if len(pieces) > rings.entries:
            raise fabric_error(
                Errno.FI_EINVAL, f"these segments need {len(pieces)} ring entries, there are {rings.entries}"
            )
        rings.check_space(len(pieces))
        ending = Ending(length, grant(self._nic, used))
        ending.deferral = deferral
        rings.post_chain(
            Operation(context, cq_flags, silent, dest_addr, tuple((b.view, b.desc) for b in used), ending),
            bool(bits & _MORE),
            op,
            datatype,
            peer,
            pieces,
        )

    def _defer(
        self,
        rings: TransmitRings,
        dest_addr: int,
        cq_flags: int,
        context: Any,
        bits: int,
        silent: bool,
        length: int,
        data: int | None,
        post: Callable[[Any, int, bool, int | None, Deferral], None],
        buffers: Sequence[Local],
    ) -> None:
        """Let a request with FI_TRIGGER, whose other arguments are right, wait for its counter.

        ``post`` is called with context, flags, silence, data and what has waited; it raises what :meth:`_submit`
        does. ``buffers`` are those of which regions must still be open then.
        Raises FI_EINVAL for an unknown peer, a context that names no counter, or one of another domain.
        """
        trigger = trigger_of(context, self.domain)
        assert self._peer_map is not None  # the endpoint is enabled
        if self._connection is not None:
            dest_addr = self._connection.destination()
        self._peer_map.check(dest_addr)
        quiet = trigger.is_silent(silent, bits)

        def start(deferral: Deferral) -> None:
            for buffer in buffers:
                if buffer.desc is not None:
                    buffer.desc._check_open()
            post(trigger.op_context, bits & ~_TRIGGER, quiet, data, deferral)

        deferral = trigger.defer(start, bits)
        deferral.place, deferral.queue = rings, self._cq
        deferral.reported = Operation(trigger.op_context, cq_flags, False, dest_addr, ()), length
        self.domain._deferrals.add(deferral)

    def _not_enabled(self) -> TransmitRings:
        self._check_open()
        raise fabric_error(Errno.FI_EOPBADSTATE, "enable() the endpoint first")


def _some(buffer: Local | None) -> Sequence[Local]:
    return () if buffer is None else (buffer,)


def _commit(pieces: list[Piece]) -> Local:
    """Let pieces that change memory end when the changes are in it; returns where the NIC writes meanwhile.

    A read behind writes pushes them out of whatever holds them between the peer's NIC and its memory. It is fenced,
    to find nothing in the NIC any more. A write of no bytes ends the chain, so that the peer counts a write, not a
    read, and hears of data only then.
    """
    last = pieces[-1]
    end = (last.remote_address + last.length) & _U64
    flushed = Local(memoryview(bytearray(1)), None, writable=True)
    pieces.append(Piece(_READ_OPCODE, _FENCE, 1, (end - 1) & _U64, last.remote_key, 0, flushed.address, 0))
    pieces.append(Piece(_WRITE_OPCODE, _FENCE, 0, end, last.remote_key, 0, 0, 0))
    return flushed


def _attach(pieces: list[Piece], data: int) -> None:
    """Let immediate data go with the last piece.

    Compare atomics have no room for it: a write of no bytes follows them, to where the last one ends, so that bounds
    which refuse the one refuse the other.
    """
    last = pieces[-1]
    if last.opcode == _COMPARE_ATOMIC:
        end = (last.remote_address + last.length) & _U64
        pieces.append(Piece(_WRITE_OPCODE, _IMMEDIATE, 0, end, last.remote_key, 0, 0, data))
    else:
        pieces[-1] = last._replace(flags=last.flags | _IMMEDIATE, compare=data)
