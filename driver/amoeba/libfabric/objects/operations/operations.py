"""What RMA, atomics and messages share: checks of their arguments, and the way into the ring.

Every call checks its arguments completely, then writes its descriptors and rings the doorbell. What it raises,
it raises before anything is posted; what goes wrong later arrives as an error entry of the completion queue.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorFlags

from amoeba.core.buffers import Segment, address_of
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
from amoeba.transport.peers import PeerMap
from amoeba.transport.posting import INLINE_SIZE, Local, PostFlags, post_vector
from amoeba.transport.requests import Grant, Request
from amoeba.transport.rings import INJECT_SIZE
from amoeba.transport.transmit_rings import TransmitRings

if TYPE_CHECKING:
    from amoeba.libfabric.objects.connections import Connection
    from amoeba.libfabric.objects.domain_base import DomainBase
    from amoeba.libfabric.objects.queues.completion import CompletionQueue

__all__ = [
    "CHANGE_FLAGS",
    "MAX_MESSAGE",
    "NOT_AT_ONCE",
    "NO_FLAGS",
    "READ_FLAGS",
    "TRANSMIT_FLAGS",
    "TX_OP_FLAGS",
    "Operations",
    "deferred",
    "post_flags",
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
NOT_AT_ONCE = ~int(_ANY_OP_FLAGS & ~OpFlags.FI_TRIGGER | OpFlags.FI_MORE | OpFlags.FI_INJECT)
"""All flags but those with which an operation on one element is posted as it is: operands in the descriptor are
copied anyway.

The calls that ask make a number of their flags by adding 0, which takes half the time that int() does: of all
operators that flags have, addition alone is not Python.
"""
TX_OP_FLAGS = _ANY_OP_FLAGS | OpFlags.FI_COMMIT_COMPLETE | OpFlags.FI_INJECT
"""What an endpoint's ``op_flags`` may hold."""
_REMOTE_CQ_DATA = int(OpFlags.FI_REMOTE_CQ_DATA)

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
READ_FLAGS = TRANSMIT_FLAGS & ~_INJECT
"""What operations may have that send nothing but a request."""
CHANGE_FLAGS = TRANSMIT_FLAGS | _COMMIT
"""What operations may have that change a region of the peer's."""
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
_WRITE = int(MrAccess.FI_WRITE)


def post_flags(bits: int) -> PostFlags:
    """What flags of an operation mean to the engine."""
    flags = PostFlags.MORE if bits & _MORE else PostFlags.NONE
    flags |= PostFlags.FENCE if bits & _FENCED else PostFlags.NONE
    flags |= PostFlags.INJECT if bits & _INJECT else PostFlags.NONE
    return flags | (PostFlags.COMMIT if bits & _COMMIT else PostFlags.NONE)


def without_data(flags: OpFlags) -> OpFlags:
    """Flags without FI_REMOTE_CQ_DATA, which a call with data means anyway."""
    return OpFlags(check_op_flags(flags) & ~_REMOTE_CQ_DATA)


class Operations(FabricObject):
    """An endpoint, as far as its operations need it.

    Raises FI_EBADFLAGS for ``op_flags`` that cannot be a default.
    """

    max_msg_size: int = MAX_MESSAGE
    """Most bytes of one message."""
    _max_rma_size: int = MAX_MESSAGE
    """Most bytes of any other operation; less than 0: there is none."""
    _rights: int = ALL_RIGHTS
    """What may be posted: see :mod:`amoeba.libfabric.objects.operations.rights`."""
    _connection: "Connection | None" = None
    """What says who the peer is, whatever ``dest_addr`` is given."""

    def __init__(
        self, domain: "DomainBase", parent: FabricObject | None = None, *, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        self.domain = domain
        self._nic: Nic = domain.nic
        self._payload: int = domain.nic.parameters.payload
        """Most bytes of a message in one packet."""
        self._selective_queue = False
        """The completion queue hears of successes only where FI_COMPLETION asks for it."""
        self._take_op_flags(op_flags)
        self._rings: TransmitRings | None = None
        self._cq: CompletionQueue[Any] | None = None
        self._peer_map: PeerMap | None = None
        self._open_peers: dict[int, int] = {}
        """Entries of the peer table by ``dest_addr``, of those that can be sent to at once."""
        self._open_for_messages: dict[int, int] = {}
        """The same for messages; with lanes, theirs may be other entries."""
        self._near: dict[int, int] = {}
        """The same where RMA and atomics take no other way: none of connected and datagram endpoints."""
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

    def _not_permitted(self, needed: int) -> FabricError:
        """What to raise for an operation that needs rights which the endpoint has not."""
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

        ``addr`` and ``key`` are integers. ``most``: bytes that it can have, if it is a message. ``overrides``:
        ``flags`` are instead of the endpoint's.
        """
        if most is None:
            most = self._max_rma_size
        if length > most:
            raise fabric_error(Errno.FI_EMSGSIZE, f"an operation has at most {most} bytes here, got {length}")
        if (addr | key) >> 64:
            check_number("addr", addr)
            check_number("key", key)
        defaults = 0 if overrides else self._default_bits & allowed
        if not (flags or defaults & _INJECT) and flags.__class__ is OpFlags:
            return defaults, silent
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
        if data is not None:
            allowed |= _REMOTE_CQ_DATA
            data = check_number("data", data)
        bits, silenced = self._check_request(
            flags, length, remote[0].address, remote[0].key, silent, allowed, overrides=overrides
        )
        for segment in remote[1:]:
            self._check_request(NO_FLAGS, 0, segment.address, segment.key, silent)
        return bits, silenced, data if bits & _REMOTE_CQ_DATA else None

    def _silent(self, overrides: bool) -> bool:
        """Whether a success is not reported by default; ``overrides``: the endpoint's flags do not count."""
        return self._selective_queue if overrides else self._selective

    def _find_peer(self, dest_addr: int, among: dict[int, int]) -> int:
        """The peer table entry of a peer that cannot be sent to at once, for what ``among`` is for.

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
        """The flag of the first descriptor of a fenced request, which waits for all that was sent to its peer before.

        The NIC has a queue for each entry, and between those no order but what FENCE_ALL makes, which waits for other
        peers as well.
        """
        return _FENCE_ALL if self._is_beside(dest_addr, peer) else _FENCE

    def _submit(
        self,
        rings: TransmitRings,
        peers: dict[int, int],
        kind: int,
        opcode: int,
        op: int,
        datatype: int,
        source: memoryview | None,
        compared: memoryview | None,
        sink: memoryview | None,
        desc: MemoryRegion | None,
        sink_desc: MemoryRegion | None,
        access: int,
        length: int,
        dest_addr: int,
        addr: int,
        key: int,
        context: Any,
        bits: int,
        silent: bool,
        data: int | None = None,
        deferral: Deferral | None = None,
    ) -> None:
        """Post a request whose numbers and buffers are right, in one descriptor if that will do.

        ``peers``: where entries of the peer table are looked for. ``source``: operands; ``sink``: results.
        ``access``: what the region in ``desc`` must allow. Raises what :func:`check_region` does, FI_EINVAL for an
        unknown peer, FI_EAGAIN if the ring is full or the peer has just been given up.
        """
        if bits & _INDIRECT:
            self._submit_indirectly(
                rings, peers, kind, opcode, op, datatype, source, compared, sink, desc, sink_desc, access, length,
                dest_addr, addr, key, context, bits, silent, data, deferral,
            )  # fmt: skip
            return
        flags = local = compare = result = 0
        keep: Any = None
        grants: tuple[Grant, ...] = ()
        if source is not None:
            if length <= INLINE_SIZE:
                # copied, wherever it lies
                flags = _INLINE
                local = int.from_bytes(source, "little")
                if compared is not None:
                    compare = int.from_bytes(compared, "little")
                if desc is not None:
                    check_region(self.domain, desc, address_of(source), length, access)
            elif bits & _INJECT:
                rings.check_space()
                local = rings.stash([source])
                if compared is not None:
                    compare = rings.stash([compared], INJECT_SIZE)
            else:
                local = address_of(source)
                keep = source, desc, compared, sink, sink_desc
                if desc is None:
                    check_unregistered(self.domain, "buf")
                    grants = ((local, length, False),)
                else:
                    check_region(self.domain, desc, local, length, access)
                if compared is not None:
                    compare = address_of(compared)
                    if desc is None:
                        grants += ((compare, length, False),)
                    else:
                        check_region(self.domain, desc, compare, length, access)
        if sink is not None:
            result = address_of(sink)
            if sink_desc is not None:
                check_region(self.domain, sink_desc, result, length, _READ)
            elif length:
                check_unregistered(self.domain, "the result buffer")
                grants += ((result, length, True),)
            keep = keep or (sink, sink_desc)
        if data is not None:
            flags |= _IMMEDIATE
            compare = data
        if self._connection is not None:
            dest_addr = self._connection.destination()
        peer = peers.get(dest_addr) if dest_addr.__class__ is int else None
        if peer is None:
            peer = self._find_peer(dest_addr, peers)
        if bits & _FENCED:
            flags |= self._fence(dest_addr, peer)
        request = Request(context, kind, silent, dest_addr, length, keep, grants)
        if deferral is not None:
            deferred(request, deferral)
        rings.post(
            request, bits & _MORE, peer, opcode, flags, op, datatype, length, addr, key, local, result, compare
        )

    def _submit_indirectly(
        self,
        rings: TransmitRings,
        peers: dict[int, int],
        kind: int,
        opcode: int,
        op: int,
        datatype: int,
        source: memoryview | None,
        compared: memoryview | None,
        sink: memoryview | None,
        desc: MemoryRegion | None,
        sink_desc: MemoryRegion | None,
        access: int,
        length: int,
        dest_addr: int,
        addr: int,
        key: int,
        context: Any,
        bits: int,
        silent: bool,
        data: int | None,
        deferral: Deferral | None,
    ) -> None:
        """What :meth:`_submit` does for requests that wait for a counter, or are committed."""
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
            post = functools.partial(
                self._submit, rings, peers, kind, opcode, op, datatype, source, compared, sink, desc, sink_desc,
                access, length, dest_addr, addr, key,
            )  # fmt: skip
            self._defer(rings, dest_addr, kind, context, bits, silent, length, data, post, used)
            return
        operands = used[: source is not None]
        results = used[len(used) - (sink is not None) :]
        self._submit_vector(
            rings, peers, kind, opcode, op, datatype, operands, used[len(operands) : len(used) - len(results)],
            results, length, [Segment(addr, length, key)], dest_addr, context, bits, silent, data, deferral,
        )  # fmt: skip

    def _submit_vector(
        self,
        rings: TransmitRings,
        peers: dict[int, int],
        kind: int,
        opcode: int,
        op: int,
        datatype: int,
        operands: Sequence[Local],
        compared: Sequence[Local],
        results: Sequence[Local],
        length: int,
        remote: Sequence[Segment],
        dest_addr: int,
        context: Any,
        bits: int,
        silent: bool,
        data: int | None,
        deferral: Deferral | None = None,
    ) -> None:
        """Post a request whose arguments are right, in as many descriptors as its segments and its data need.

        With FI_TRIGGER it waits for its counter. Raises FI_EINVAL for an unknown peer, or if the request needs more
        descriptors than the ring has, FI_EAGAIN if the ring is full or the peer has just been given up.
        """
        if bits & _TRIGGER:
            post = functools.partial(
                self._submit_vector, rings, peers, kind, opcode, op, datatype, operands, compared, results, length,
                remote, dest_addr,
            )  # fmt: skip
            every = [*operands, *compared, *results]
            self._defer(rings, dest_addr, kind, context, bits, silent, length, data, post, every)
            return
        if self._connection is not None:
            dest_addr = self._connection.destination()
        peer = peers.get(dest_addr) if dest_addr.__class__ is int else None
        if peer is None:
            peer = self._find_peer(dest_addr, peers)
        flags = post_flags(bits)
        if bits & _FENCED and self._is_beside(dest_addr, peer):
            flags |= PostFlags.FENCE_ALL
        request = Request(context, kind, silent, dest_addr, length)
        deferred(request, deferral)
        post_vector(rings, request, flags, peer, opcode, op, datatype, operands, compared, results, remote, data)

    def _defer(
        self,
        rings: TransmitRings,
        dest_addr: int,
        kind: int,
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
                if buffer.keep is not None:
                    buffer.keep._check_open()
            post(trigger.op_context, bits & ~_TRIGGER, quiet, data, deferral)

        deferral = trigger.defer(start, bits)
        deferral.place, deferral.queue = rings, self._cq
        deferral.reported = Request(trigger.op_context, kind, False, dest_addr, length)
        self.domain._deferrals.add(deferral)

    def _not_enabled(self) -> TransmitRings:
        self._check_open()
        raise fabric_error(Errno.FI_EOPBADSTATE, "enable() the endpoint first")


def deferred(request: Request, deferral: Deferral | None) -> None:
    """Tell what has waited of the end of the request that it has become."""
    if deferral is not None:
        request.ended, request.counted = deferral.finish, deferral.counted
