"""The common part of RMA, atomics and messages: checks of their arguments, and the way into the ring.

Every call checks its arguments completely, then writes its descriptors and rings the doorbell. Errors that a call
raises are raised before anything is posted. Later errors arrive as error entries of the completion queue.
"""

import functools
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any, NoReturn

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from numpy import ndarray

from amoeba.core.buffers import DATATYPES, Buffer, Segment, address_of
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.checks import check_flags, check_number, check_op_flags
from amoeba.libfabric.objects.constants import MrAccess, OpFlags
from amoeba.libfabric.objects.deferral import Deferral
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import check_region, check_unregistered, local_of
from amoeba.libfabric.objects.operations.rights import ALL_RIGHTS, not_permitted
from amoeba.libfabric.objects.triggered import trigger_of
from amoeba.nic.nic import Nic
from amoeba.nic.records import MAX_MESSAGE
from amoeba.transport.operation import Operation, carry
from amoeba.transport.peers import PeerMap
from amoeba.transport.posting import INLINE_SIZE, Local, Scattered, post_scattered
from amoeba.transport.requests import Grant
from amoeba.transport.rings import INJECT_SIZE
from amoeba.transport.transmit_rings import TransmitRings

if TYPE_CHECKING:
    from amoeba.libfabric.objects.connections import Connection
    from amoeba.libfabric.objects.domain_base import DomainBase
    from amoeba.libfabric.objects.queues.completion import CompletionQueue

__all__ = [
    "CHANGE_FLAGS",
    "MAX_MESSAGE",
    "NO_FLAGS",
    "READ_FLAGS",
    "TRANSMIT_FLAGS",
    "TX_OP_FLAGS",
    "Operations",
    "without_data",
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
_NOT_AT_ONCE = ~int(_ANY_OP_FLAGS & ~OpFlags.FI_TRIGGER | OpFlags.FI_MORE | OpFlags.FI_INJECT)
"""All flags but those with which an operation on one number is posted as it is.

Operands in the descriptor are copied anyway.
"""
TX_OP_FLAGS = _ANY_OP_FLAGS | OpFlags.FI_COMMIT_COMPLETE | OpFlags.FI_INJECT
"""Flags that an endpoint's ``op_flags`` may hold."""
_REMOTE_CQ_DATA = int(OpFlags.FI_REMOTE_CQ_DATA)

_MORE = int(OpFlags.FI_MORE)
_FENCED = int(OpFlags.FI_FENCE)
_INJECT = int(OpFlags.FI_INJECT)
_REPORT = int(OpFlags.FI_COMPLETION)
_TRIGGER = int(OpFlags.FI_TRIGGER)
_COMMIT = int(OpFlags.FI_COMMIT_COMPLETE)
_INDIRECT = _TRIGGER | _COMMIT
"""Flags that take more than a descriptor at once; also the ``op_flags`` that change how an operation is posted."""
TRANSMIT_FLAGS = _MORE | _FENCED | _INJECT | int(_ANY_OP_FLAGS)
"""Flags that any operation may have."""
READ_FLAGS = TRANSMIT_FLAGS & ~_INJECT
"""Flags that operations may have which send nothing but a request."""
CHANGE_FLAGS = TRANSMIT_FLAGS | _COMMIT
"""Flags that operations may have which change a region of the peer."""
_WHY_NOT = {
    OpFlags.FI_INJECT: "a read has nothing to inject",
    OpFlags.FI_REMOTE_CQ_DATA: "data goes with the ...data and ...msg calls",
    OpFlags.FI_COMMIT_COMPLETE: "this changes no region of the peer's",
}

_INLINE = int(DescriptorFlags.INLINE)
_FENCE = int(DescriptorFlags.FENCE)
_FENCE_ALL = int(DescriptorFlags.FENCE_ALL)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)

_READ = int(MrAccess.FI_READ)
_TO_RECEIVES = frozenset(
    int(opcode)
    for opcode in (
        DescriptorOpcode.SEND,
        DescriptorOpcode.TAGGED_SEND,
        DescriptorOpcode.RENDEZVOUS_SEND,
        DescriptorOpcode.RENDEZVOUS_TAGGED_SEND,
        DescriptorOpcode.TAGGED_ATOMIC,
        DescriptorOpcode.TAGGED_FETCH_ATOMIC,
    )
)
"""Operations that meet a receive of the peer, and use the peer table entry for messages."""
_value_of = int.from_bytes
_in_memory = c_char.from_buffer


def without_data(flags: OpFlags) -> OpFlags:
    """Return flags without FI_REMOTE_CQ_DATA, which a call with data means anyway."""
    return OpFlags(check_op_flags(flags) & ~_REMOTE_CQ_DATA)


class Operations(FabricObject):
    """An endpoint, as far as its operations need it.

    Raises FI_EBADFLAGS for ``op_flags`` that cannot be a default.
    """

    max_msg_size: int = MAX_MESSAGE
    """Maximum bytes of one message."""
    _max_rma_size: int = MAX_MESSAGE
    """Maximum bytes of any other operation; less than 0: the endpoint has no other operations."""
    _rights: int = ALL_RIGHTS
    """Operations that may be posted: see :mod:`amoeba.libfabric.objects.operations.rights`."""
    _connection: "Connection | None" = None
    """The connection that determines the peer, whatever ``dest_addr`` is given."""

    def __init__(
        self, domain: "DomainBase", parent: FabricObject | None = None, *, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        self.domain = domain
        self._nic: Nic = domain.nic
        self._payload: int = domain.nic.parameters.payload
        """Maximum bytes of a message in one packet."""
        self._selective_queue = False
        """The completion queue reports successes only where FI_COMPLETION asks for it."""
        self._take_op_flags(op_flags)
        self._rings: TransmitRings | None = None
        self._cq: CompletionQueue[Any] | None = None
        self._peer_map: PeerMap | None = None
        self._open_peers: dict[int, int] = {}
        """Entries of the peer table by ``dest_addr``, of those that can be sent to at once."""
        self._open_for_messages: dict[int, int] = {}
        """Entries of the peer table for messages, by ``dest_addr``; with lanes, they may be other entries."""
        self._near: dict[int, int] = {}
        """Entries for :meth:`_number`; empty for connected endpoints and endpoints without all rights."""
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

    def _refuse(self, needed: int) -> NoReturn:
        """Raise why an operation that needs these rights cannot be posted: FI_EOPBADSTATE or FI_EOPNOTSUPP."""
        if self._rings is None:
            self._not_enabled()
        raise self._not_permitted(needed)

    def _not_permitted(self, needed: int) -> FabricError:
        """Return the error for an operation that needs rights which the endpoint does not have."""
        return not_permitted(needed & ~self._rights, datagrams=self._max_rma_size < 0)

    def _take_op_flags(self, flags: OpFlags) -> None:
        flags = check_flags(OpFlags, flags, "op_flags")
        if int(flags) & ~int(TX_OP_FLAGS):
            raise fabric_error(Errno.FI_EBADFLAGS, f"op_flags can have {TX_OP_FLAGS!r}, got {flags!r}")
        self._op_flags = flags
        self._default_bits = int(flags) & (_INDIRECT | _INJECT)
        self._selective = self._selective_queue and not flags & OpFlags.FI_COMPLETION

    def _use_queue(self, selective: bool) -> None:
        """Say how the completion queue was bound."""
        self._selective_queue = selective
        self._take_op_flags(self._op_flags)

    def _check(
        self, operation: Operation, flags: OpFlags, allowed: int, most: int | None = None, *, overrides: bool = False
    ) -> int:
        """Check what is common to all operations, and say how it is posted; returns the flags as bits.

        ``operation``: length, remote address and key, and whether a success is silent where the flags do not ask for
        a completion. ``most``: bytes that it can have, if it is a message. ``overrides``:
        ``flags`` are instead of the endpoint's.
        """
        length = operation.length
        if most is None:
            most = self._max_rma_size
        if length > most:
            raise fabric_error(Errno.FI_EMSGSIZE, f"an operation has at most {most} bytes here, got {length}")
        addr, key = operation.remote_address, operation.remote_key
        if addr.__class__ is not int or key.__class__ is not int or (addr | key) >> 64:
            operation.remote_address, operation.remote_key = check_number("addr", addr), check_number("key", key)
        defaults = 0 if overrides else self._default_bits & allowed
        if not (flags or defaults & _INJECT) and flags.__class__ is OpFlags:
            operation.more = 0
            return defaults
        bits = (int(flags) if flags.__class__ is OpFlags else check_op_flags(flags)) | defaults
        if bits & ~allowed:
            refused = OpFlags(bits & ~allowed)
            reason = ", ".join(why for flag, why in _WHY_NOT.items() if refused & flag)
            raise fabric_error(
                Errno.FI_EBADFLAGS, f"not supported here: {refused!r}{f' ({reason})' if reason else ''}"
            )
        if bits & _INJECT and length > INJECT_SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"at most {INJECT_SIZE} bytes can be injected, got {length}")
        if bits & _INJECT and bits & _TRIGGER:
            raise fabric_error(Errno.FI_EBADFLAGS, "a triggered operation reads its buffer when posted, not now")
        operation.more = bits & _MORE
        if bits & _REPORT:
            operation.silent = False
        return bits

    def _check_vector(
        self,
        operation: Operation,
        flags: OpFlags,
        remote: Sequence[Segment],
        data: int | None,
        allowed: int = TRANSMIT_FLAGS,
    ) -> int:
        """Check an operation on scattered memory, as :meth:`_check` does, with immediate data if the flags say so.

        ``data`` None: the call is no ``...msg`` call. It has no data, so the flags must not ask for it, and the
        endpoint's own apply.
        """
        if not remote:
            raise fabric_error(Errno.FI_EINVAL, "expected one or more remote segments, got none")
        length = operation.length
        sizes = [segment.length for segment in remote]
        if min(sizes) < 0 or sum(sizes) != length:
            raise fabric_error(Errno.FI_EINVAL, f"{length} bytes of local memory for {sizes} of remote memory")
        operation.silent = self._selective
        if data is not None:
            operation.silent = self._selective_queue
            allowed |= _REMOTE_CQ_DATA
            data = check_number("data", data)
        operation.remote_address, operation.remote_key = remote[0].address, remote[0].key
        bits = self._check(operation, flags, allowed, overrides=data is not None)
        for segment in remote[1:]:
            check_number("addr", segment.address)
            check_number("key", segment.key)
        if data is not None and bits & _REMOTE_CQ_DATA:
            carry(operation, data)
        return bits

    def _find_peer(self, dest_addr: int, among: dict[int, int]) -> int:
        """Return the peer table entry of a peer that cannot be sent to at once, for the operations of ``among``.

        Raises FI_EINVAL and FI_EAGAIN.
        """
        dest_addr = check_number("dest_addr", dest_addr)
        assert self._peer_map is not None  # the endpoint is enabled
        return self._peer_map.find(dest_addr, among)

    def _is_beside(self, dest_addr: int, peer: int) -> bool:
        """Whether a peer has another entry besides this one, of which a fence on this one knows nothing."""
        assert self._peer_map is not None  # the endpoint is enabled
        return self._peer_map.beside(dest_addr, peer) is not None

    def _fence(self, dest_addr: int, peer: int) -> int:
        """Return the flag of a fenced request's first descriptor, which waits for all earlier requests to its peer.

        The NIC has a queue for each entry. Between queues, only FENCE_ALL makes an order, and it waits for other
        peers as well.
        """
        return _FENCE_ALL if self._is_beside(dest_addr, peer) else _FENCE

    def _number(self, buf: Buffer, dest_addr: int, addr: int, key: int, flags: OpFlags) -> Operation | None:
        """Make an operation on one number, without a region, to a peer that takes it at once.

        Most operations of a program that counts in cycles are such. Returns None if the arguments need the full
        check. The caller fills in kind, opcode, op and context.
        """
        if (
            buf.__class__ is not ndarray
            or buf.size != 1
            or (length := buf.nbytes) > INLINE_SIZE
            or (datatype := DATATYPES.get(buf.dtype)) is None
            or flags.__class__ is not OpFlags
            # a number of flags by + 0, which takes half the time that int() does: no other operator is C's
            or ((bits := flags + 0) | self._default_bits) & _NOT_AT_ONCE
            or not addr.__class__ is key.__class__ is dest_addr.__class__ is int
            or (addr | key) >> 64
            or (peer := self._near.get(dest_addr)) is None
        ):
            return None
        operation = Operation()
        operation.datatype = datatype
        operation.flags = _INLINE
        operation.length = length
        operation.peer = peer
        operation.dest_addr = dest_addr
        operation.remote_address = addr
        operation.remote_key = key
        operation.local = _value_of(buf, "little")
        operation.result = operation.compare = 0
        operation.more = bits & _MORE
        operation.silent = self._selective and not bits & _REPORT
        operation.buffers = None
        operation.grants = ()
        return operation

    def _submit(
        self,
        operation: Operation,
        bits: int,
        source: memoryview | None,
        desc: MemoryRegion | None,
        access: int,
        sink: memoryview | None = None,
        sink_desc: MemoryRegion | None = None,
        compared: memoryview | None = None,
    ) -> None:
        """Post an operation whose numbers and buffers are right, in one descriptor if that will do.

        ``source``: operands; ``sink``: results. ``access``: what the region in ``desc`` must allow. Raises what
        :func:`check_region` does, FI_EINVAL for an unknown peer, FI_EAGAIN if the ring is full or the peer has just
        been given up.
        """
        if bits & _INDIRECT:
            self._submit_indirectly(operation, bits, source, desc, access, sink, sink_desc, compared)
            return
        rings, length = self._rings or self._not_enabled(), operation.length
        keep: Any = None
        grants: tuple[Grant, ...] = ()
        if source is not None:
            if length <= INLINE_SIZE:
                # copied, wherever it lies
                operation.flags |= _INLINE
                operation.local = _value_of(source, "little")
                if compared is not None:
                    operation.compare = _value_of(compared, "little")
                if desc is not None:
                    check_region(self.domain, desc, address_of(source), length, access)
            elif bits & _INJECT:
                rings.check_space()
                operation.local = rings.bounce([source])
                if compared is not None:
                    operation.compare = rings.bounce([compared], INJECT_SIZE)
            else:
                operation.local = addressof(_in_memory(source)) if not source.readonly else address_of(source)
                keep = source, desc, compared, sink, sink_desc
                if desc is None:
                    check_unregistered(self.domain, "buf")
                    grants = ((operation.local, length, False),)
                else:
                    check_region(self.domain, desc, operation.local, length, access)
                if compared is not None:
                    operation.compare = address_of(compared)
                    if desc is None:
                        grants += ((operation.compare, length, False),)
                    else:
                        check_region(self.domain, desc, operation.compare, length, access)
        if sink is not None:
            operation.result = addressof(_in_memory(sink)) if length else 0
            if sink_desc is not None:
                check_region(self.domain, sink_desc, operation.result, length, _READ)
            elif length:
                check_unregistered(self.domain, "the result buffer")
                grants += ((operation.result, length, True),)
            keep = keep or (sink, sink_desc)
        operation.buffers = keep
        operation.grants = grants
        peers = self._open_for_messages if operation.opcode in _TO_RECEIVES else self._open_peers
        dest_addr = operation.dest_addr
        peer = peers.get(dest_addr) if dest_addr.__class__ is int and self._connection is None else None
        if peer is None or bits & _FENCED:
            self._address(operation, bits)
        else:
            operation.peer = peer
        rings.post(operation)

    def _address(self, operation: Operation, bits: int) -> None:
        """Find an operation's peer, and whether it is fenced. Raises FI_EINVAL and FI_EAGAIN."""
        peers = self._open_for_messages if operation.opcode in _TO_RECEIVES else self._open_peers
        if self._connection is not None:
            operation.dest_addr = self._connection.destination()
        dest_addr = operation.dest_addr
        peer = peers.get(dest_addr) if dest_addr.__class__ is int else None
        operation.peer = self._find_peer(dest_addr, peers) if peer is None else peer
        if bits & _FENCED:
            operation.flags |= self._fence(dest_addr, operation.peer)

    def _submit_indirectly(
        self,
        operation: Operation,
        bits: int,
        source: memoryview | None,
        desc: MemoryRegion | None,
        access: int,
        sink: memoryview | None,
        sink_desc: MemoryRegion | None,
        compared: memoryview | None,
    ) -> None:
        """Submit an operation that waits for a counter, or is committed, as :meth:`_submit` does others."""
        used = [
            local_of(self.domain, view, region, name, writable=writable, access=MrAccess(needed))
            for name, view, region, needed, writable in (
                ("buf", source, desc, access, False),
                ("compare", compared, desc, access, False),
                ("result", sink, sink_desc, _READ, True),
            )
            if view is not None
        ]
        if bits & _TRIGGER:
            bits &= ~_TRIGGER
            post = functools.partial(self._submit, operation, bits, source, desc, access, sink, sink_desc, compared)
            self._defer(operation, bits, post, used)
            return
        operands = used[: source is not None]
        results = used[len(used) - (sink is not None) :]
        compares = used[len(operands) : len(used) - len(results)]
        remote = [Segment(operation.remote_address, operation.length, operation.remote_key)]
        self._submit_vector(operation, bits, Scattered(operands, compares, results, remote))

    def _submit_vector(self, operation: Operation, bits: int, memory: Scattered) -> None:
        """Post an operation whose arguments are right, in as many descriptors as its segments and its data need.

        With FI_TRIGGER it waits for its counter. Raises FI_EINVAL for an unknown peer, or if the operation needs more
        descriptors than the ring has, FI_EAGAIN if the ring is full or the peer has just been given up.
        """
        if bits & _TRIGGER:
            bits &= ~_TRIGGER
            post = functools.partial(self._submit_vector, operation, bits, memory)
            self._defer(operation, bits, post, [*memory.operands, *memory.compared, *memory.results])
            return
        rings = self._rings or self._not_enabled()
        self._address(operation, bits)
        post_scattered(rings, operation, memory, inject=bool(bits & _INJECT), commit=bool(bits & _COMMIT))

    def _defer(
        self, operation: Operation, bits: int, post: Callable[[], None], buffers: Sequence[Local]
    ) -> None:
        """Let an operation with FI_TRIGGER, whose other arguments are right, wait for its counter.

        ``post`` posts it, and raises what :meth:`_submit` does. ``buffers`` are those of which regions must still be
        open then. Raises FI_EINVAL for an unknown peer, a context that names no counter, or one of another domain.
        """
        trigger = trigger_of(operation.context, self.domain)
        assert self._peer_map is not None  # the endpoint is enabled
        if self._connection is not None:
            operation.dest_addr = self._connection.destination()
        self._peer_map.check(operation.dest_addr)

        def start(deferral: Deferral) -> None:
            for buffer in buffers:
                if buffer.keep is not None:
                    buffer.keep._check_open()
            post()

        deferral = trigger.defer(start, bits)
        operation.context = trigger.op_context
        operation.silent = trigger.is_silent(bool(operation.silent), bits)
        operation.ended, operation.counted = deferral.finish, deferral.counted
        deferral.place, deferral.queue, deferral.reported = self._rings, self._cq, operation
        self.domain._deferrals.add(deferral)

    def _not_enabled(self) -> TransmitRings:
        self._check_open()
        raise fabric_error(Errno.FI_EOPBADSTATE, "enable() the endpoint first")
