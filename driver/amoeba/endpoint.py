"""Endpoints: RMA and atomics on memory of peers, as fi_rma(3) and fi_atomic(3) define them.

Every call checks its arguments completely, then writes one descriptor and rings the doorbell. What it raises,
it raises before anything is posted; what goes wrong later arrives as an error entry of the completion queue.
"""

import contextlib
import time
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DeviceClosedError
from amoeba_model.opcodes import Form

from amoeba.address import AddressVector, EndpointAddress
from amoeba.completion import CompletionQueue
from amoeba.constants import BindFlags, Caps, Datatype, EpType, Errno, MrAccess, Op, OpFlags, QueryFlags
from amoeba.counters import Counter, EndpointCounters
from amoeba.errors import fabric_error
from amoeba.lifetime import FabricObject
from amoeba.memory import Buffer, address_of, datatype_of, view_of
from amoeba.nic import ContextSettings
from amoeba.peers import PeerMap
from amoeba.rings import ContextRings, Operation

if TYPE_CHECKING:
    from amoeba.domain import Domain, MemoryRegion

__all__ = ["DEFAULT_TX_SIZE", "INJECT_SIZE", "MAX_MESSAGE", "MAX_TX_SIZE", "TX_OP_FLAGS", "Endpoint"]

INJECT_SIZE = 8
"""Most bytes that fit into a descriptor, and so can be injected."""
MAX_MESSAGE = 1 << 30
"""Most bytes of one operation."""

DEFAULT_TX_SIZE = 256
MAX_TX_SIZE = 1 << 15
"""Most operations under way at a time."""
# Every completion of this NIC is a delivery completion, which includes the weaker levels.
TX_OP_FLAGS = (
    OpFlags.FI_COMPLETION | OpFlags.FI_INJECT_COMPLETE | OpFlags.FI_TRANSMIT_COMPLETE | OpFlags.FI_DELIVERY_COMPLETE
)
"""What an endpoint's ``op_flags`` may hold."""

_U64 = 2**64 - 1
_DRAIN_TIME = 1.0
"""Seconds of host time that close() waits for operations under way."""

_MORE = int(OpFlags.FI_MORE)
_INJECT = int(OpFlags.FI_INJECT)
_REPORT = int(OpFlags.FI_COMPLETION)
_ALLOWED_FLAGS = _MORE | _INJECT | int(TX_OP_FLAGS)
_NO_FLAGS = OpFlags(0)
_INLINE = int(DescriptorFlags.INLINE)

_READ = int(MrAccess.FI_READ)
_WRITE = int(MrAccess.FI_WRITE)
_SIZES = tuple(datatype.size for datatype in Datatype)
_CQ_WRITE = int(Caps.FI_RMA | Caps.FI_WRITE)
_CQ_READ = int(Caps.FI_RMA | Caps.FI_READ)
_CQ_ATOMIC = int(Caps.FI_ATOMIC | Caps.FI_WRITE)
_CQ_FETCH = int(Caps.FI_ATOMIC | Caps.FI_READ)

_EMPTY = memoryview(b"")


class _Local:
    """One local buffer of an operation: checked first, made accessible once nothing can fail any more."""

    __slots__ = ("address", "desc", "length", "view", "writable")

    def __init__(self, view: memoryview, desc: "MemoryRegion | None", *, writable: bool) -> None:
        self.view = view
        self.desc = desc
        self.writable = writable
        self.length = length = view.nbytes
        # a source that fits into the descriptor is copied there, wherever it lies
        self.address = address_of(view) if writable or length > INJECT_SIZE or desc is not None else 0
        if desc is None:
            return
        desc._check_open()
        if not desc.access_bits & (_READ if writable else _WRITE):
            needed = MrAccess.FI_READ if writable else MrAccess.FI_WRITE
            raise fabric_error(Errno.FI_EACCES, f"the region's access is {desc.access!r}, this use needs {needed!r}")
        if self.length and not desc.covers(self.address, self.length):
            raise fabric_error(Errno.FI_EINVAL, f"a buffer of {self.length} bytes lies outside the region in desc")


class Endpoint(FabricObject):
    """A reliable connectionless endpoint (FI_EP_RDM). Bind a completion queue and an address vector, then enable.

    Common arguments of the operations:

    buf, compare, result : contiguous buffer
        Operands, compare values, and the place for fetched data, used in place: they are kept alive, and must
        not be changed, until the operation completes. At most 8 bytes of operands are copied at once.
    dest_addr : int
        The peer: its number in the address vector.
    addr, key : int
        Where in the peer's memory: ``MemoryRegion.address`` (plus an offset) and ``key``, as the peer tells.
    op, datatype
        NumPy arrays say their datatype; for other buffers it must be given.
    desc, result_desc : MemoryRegion, optional
        The region that holds all local buffers, or the result. A buffer without one is made accessible to the
        NIC for the duration of the operation.
    context : object
        Comes back in the completion.
    flags : OpFlags
        FI_MORE, FI_COMPLETION, FI_INJECT and the completion levels up to FI_DELIVERY_COMPLETE.

    Errors raised by all of them: FI_EOPBADSTATE before enable(), FI_EBADF after close(), FI_EAGAIN when
    ``tx_size`` operations are under way, FI_EINVAL for unsuitable buffers or an unknown dest_addr, FI_EMSGSIZE
    beyond 2**30 bytes, FI_EBADFLAGS, FI_EACCES when ``desc`` does not allow the use, FI_EOPNOTSUPP for an
    atomic that the NIC does not execute.
    """

    def __init__(self, domain: "Domain", ep_type: EpType, *, tx_size: int, op_flags: OpFlags = _NO_FLAGS) -> None:
        if ep_type is not EpType.FI_EP_RDM:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"this NIC has endpoints of type FI_EP_RDM, not {ep_type!r}")
        if not 1 <= tx_size <= MAX_TX_SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"tx_size must be 1 to {MAX_TX_SIZE}, got {tx_size}")
        if int(op_flags) & ~int(TX_OP_FLAGS):
            raise fabric_error(Errno.FI_EBADFLAGS, f"op_flags can have {TX_OP_FLAGS!r}, got {op_flags!r}")
        self.domain = domain
        self.tx_size = 1 << (tx_size - 1).bit_length()
        self._nic = domain.nic
        self._base = tuple(self._nic.atomic_mask(Form.BASE, op) for op in Op)
        self._fetch = tuple(self._nic.atomic_mask(Form.FETCH, op) for op in Op)
        self._compare = tuple(self._nic.atomic_mask(Form.COMPARE, op) for op in Op)
        self._cq: CompletionQueue | None = None
        self._av: AddressVector | None = None
        self._counters = EndpointCounters()
        self._reports = bool(op_flags & OpFlags.FI_COMPLETION)
        self._selective = False
        self._rings: ContextRings | None = None
        self._peers: dict[int, int] = {}
        self._peer_map: PeerMap | None = None
        self._name: EndpointAddress | None = None
        super().__init__(domain)

    # Set-up

    def bind(
        self, target: CompletionQueue | AddressVector | Counter, flags: BindFlags = BindFlags.FI_TRANSMIT
    ) -> None:
        """Associate a completion queue, an address vector or a counter; closing that closes the endpoint first.

        Raises FI_EOPBADSTATE once enabled, FI_EINVAL for a second or foreign one, FI_EBADFLAGS for a queue
        that is bound to neither direction, FI_EOPNOTSUPP for what a counter cannot count.
        """
        self._check_open()
        target._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind before enable()")
        if target._parent is not self.domain:
            raise fabric_error(Errno.FI_EINVAL, f"{target!r} belongs to another domain")
        if isinstance(target, AddressVector):
            if self._av is not None:
                raise fabric_error(Errno.FI_EINVAL, "an address vector is bound already")
            self._av = target
        elif isinstance(target, Counter):
            self._counters.bind(target, flags)
        else:
            if not flags & (BindFlags.FI_TRANSMIT | BindFlags.FI_RECV):
                raise fabric_error(Errno.FI_EBADFLAGS, f"a queue needs FI_TRANSMIT or FI_RECV, got {flags!r}")
            if flags & BindFlags.FI_TRANSMIT:
                if self._cq is not None:
                    raise fabric_error(Errno.FI_EINVAL, "a completion queue is bound already")
                self._cq = target
                self._selective = bool(flags & BindFlags.FI_SELECTIVE_COMPLETION) and not self._reports
        target._adopt(self)

    def enable(self) -> None:
        """Start the endpoint: from now on it reaches peers, and peers reach its domain's memory through it.

        Raises FI_ENOCQ or FI_ENOAV if one is not bound, FI_ENOSPC if the NIC has no context or peer entry left,
        FI_EOPBADSTATE if it is enabled already.
        """
        self._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "the endpoint is enabled already")
        if self._cq is None:
            raise fabric_error(Errno.FI_ENOCQ, "bind a completion queue with FI_TRANSMIT before enable()")
        if self._av is None:
            raise fabric_error(Errno.FI_ENOAV, "bind an address vector before enable()")
        nic, domain = self._nic, self.domain
        context = nic.take_context()
        rings = ContextRings(nic, context, self.tx_size)
        peers = PeerMap(rings)
        try:
            self._av._attach(peers)
        except BaseException:
            rings.release()
            nic.return_context(context)
            raise
        nic.enable_context(
            context,
            ContextSettings(
                transmit_base=rings.transmit_base,
                transmit_size=rings.size_log2,
                completion_base=rings.completion_base,
                completion_size=rings.size_log2,
                domain=domain.number,
                job_id=domain.job_id,
                pid_on_fep=domain.pid_on_fep,
                cswap_by_bits=domain.cswap_by_bits,
            ),
        )
        self._name = EndpointAddress(nic.mac, nic.ip, domain.job_id, domain.pid_on_fep, context)
        self._cq._attach(rings)
        self._counters.start(rings, self._cq)
        self._peer_map, self._peers, self._rings = peers, peers.index, rings

    def getname(self) -> bytes:
        """The endpoint's address, for the address vectors of peers. Raises FI_EOPBADSTATE before enable()."""
        self._check_open()
        if self._name is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "an endpoint has a name once it is enabled")
        return self._name.pack()

    # RMA

    def write(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = _NO_FLAGS,
    ) -> None:
        """Copy ``buf`` into the peer's memory."""
        self._write(buf, dest_addr, addr, key, desc, context, flags, silent=self._selective)

    def inject_write(self, buf: Buffer, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`write` of at most 8 bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._write(buf, dest_addr, addr, key, None, None, OpFlags.FI_INJECT, silent=True)

    def read(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = _NO_FLAGS,
    ) -> None:
        """Copy the peer's memory into ``buf``."""
        rings = self._rings or self._not_enabled()
        result = _Local(view_of(buf, writable=True), desc, writable=True)
        more, silent = self._check_request(flags, result.length, addr, key, self._selective)
        self._submit(
            rings, DescriptorOpcode.READ, 0, 0, None, None, result, result.length, dest_addr, addr, key, _CQ_READ,
            context, more, silent,
        )  # fmt: skip

    def _write(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        desc: "MemoryRegion | None",
        context: Any,
        flags: OpFlags,
        *,
        silent: bool,
    ) -> None:
        rings = self._rings or self._not_enabled()
        source = _Local(view_of(buf), desc, writable=False)
        more, silent = self._check_request(flags, source.length, addr, key, silent)
        self._submit(
            rings, DescriptorOpcode.WRITE, 0, 0, source, None, None, source.length, dest_addr, addr, key, _CQ_WRITE,
            context, more, silent,
        )  # fmt: skip

    # Atomics

    def atomic(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = _NO_FLAGS,
    ) -> None:
        """``addr[i] = addr[i] op buf[i]`` for every element."""
        self._atomic(
            DescriptorOpcode.ATOMIC, self._base, buf, None, None, dest_addr, addr, key, op, datatype, desc, None,
            context, flags, self._selective,
        )  # fmt: skip

    def inject_atomic(
        self, buf: Buffer, dest_addr: int, addr: int, key: int, op: Op, datatype: Datatype | None = None
    ) -> None:
        """:meth:`atomic` of at most 8 bytes that may be changed at once, and no completion unless it fails."""
        self._atomic(
            DescriptorOpcode.ATOMIC, self._base, buf, None, None, dest_addr, addr, key, op, datatype, None, None,
            None, OpFlags.FI_INJECT, True,
        )  # fmt: skip

    def fetch_atomic(
        self,
        buf: Buffer | None,
        result: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: "MemoryRegion | None" = None,
        result_desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = _NO_FLAGS,
    ) -> None:
        """``result[i] = addr[i]; addr[i] = addr[i] op buf[i]``. FI_ATOMIC_READ ignores ``buf``, which may be None."""
        self._atomic(
            DescriptorOpcode.FETCH_ATOMIC, self._fetch, buf, None, result, dest_addr, addr, key, op, datatype, desc,
            result_desc, context, flags, self._selective,
        )  # fmt: skip

    def compare_atomic(
        self,
        buf: Buffer,
        compare: Buffer,
        result: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: "MemoryRegion | None" = None,
        result_desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = _NO_FLAGS,
    ) -> None:
        """``result[i] = addr[i]; if compare[i] op addr[i]: addr[i] = buf[i]``; FI_MSWAP swaps the bits in compare."""
        self._atomic(
            DescriptorOpcode.COMPARE_ATOMIC, self._compare, buf, compare, result, dest_addr, addr, key, op, datatype,
            desc, result_desc, context, flags, self._selective,
        )  # fmt: skip

    def atomicvalid(self, datatype: Datatype, op: Op) -> int:
        """Most elements of one atomic(). Raises FI_EOPNOTSUPP if the NIC does not execute it."""
        return self.domain.query_atomic(datatype, op).count

    def fetch_atomicvalid(self, datatype: Datatype, op: Op) -> int:
        """As :meth:`atomicvalid`, for fetch_atomic()."""
        return self.domain.query_atomic(datatype, op, QueryFlags.FI_FETCH_ATOMIC).count

    def compare_atomicvalid(self, datatype: Datatype, op: Op) -> int:
        """As :meth:`atomicvalid`, for compare_atomic()."""
        return self.domain.query_atomic(datatype, op, QueryFlags.FI_COMPARE_ATOMIC).count

    def _atomic(
        self,
        opcode: DescriptorOpcode,
        masks: tuple[int, ...],
        buf: Buffer | None,
        compare: Buffer | None,
        result: Buffer | None,
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None,
        desc: "MemoryRegion | None",
        result_desc: "MemoryRegion | None",
        context: Any,
        flags: OpFlags,
        silent: bool,
    ) -> None:
        rings = self._rings or self._not_enabled()
        reads_only = op == Op.FI_ATOMIC_READ
        if datatype is None:
            datatype = datatype_of(result if reads_only else buf)
        if not (0 <= op < len(masks) and datatype >= 0 and masks[op] >> datatype & 1):
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"{opcode.name} of {op!r} on {datatype!r} is not executed")
        fetched = None if result is None else _Local(view_of(result, writable=True), result_desc, writable=True)
        operands = None if reads_only else _Local(view_of(buf), desc, writable=False)
        compared = None if compare is None else _Local(view_of(compare), desc, writable=False)
        given = operands or fetched
        assert given is not None  # FI_ATOMIC_READ exists in the fetch form only: the masks have been asked
        length = given.length
        size = _SIZES[datatype]
        if not length or length % size:
            raise fabric_error(Errno.FI_EINVAL, f"expected one or more elements of {size} bytes, got {length} bytes")
        for name, other in (("result", fetched), ("compare", compared)):
            if other is not None and other.length != length:
                raise fabric_error(Errno.FI_EINVAL, f"buf has {length} bytes, {name} has {other.length}")
        more, silent = self._check_request(flags, length, addr, key, silent)
        self._submit(
            rings, opcode, op, datatype, operands, compared, fetched, length, dest_addr, addr, key,
            _CQ_ATOMIC if fetched is None else _CQ_FETCH, context, more, silent,
        )  # fmt: skip

    # What all operations share

    def _check_request(self, flags: OpFlags, length: int, addr: int, key: int, silent: bool) -> tuple[bool, bool]:
        """Check what is common to all operations; returns whether more follow, and whether success is silent."""
        if length > MAX_MESSAGE:
            raise fabric_error(Errno.FI_EMSGSIZE, f"an operation has at most {MAX_MESSAGE} bytes, got {length}")
        if not (0 <= addr <= _U64 and 0 <= key <= _U64):
            raise fabric_error(Errno.FI_EINVAL, f"addr and key are 64-bit numbers, got {addr:#x} and {key:#x}")
        if not flags:
            return False, silent
        bits = int(flags)
        if bits & ~_ALLOWED_FLAGS:
            raise fabric_error(Errno.FI_EBADFLAGS, f"not supported here: {OpFlags(bits & ~_ALLOWED_FLAGS)!r}")
        if bits & _INJECT and length > INJECT_SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"at most {INJECT_SIZE} bytes can be injected, got {length}")
        return bool(bits & _MORE), silent and not bits & _REPORT

    def _submit(
        self,
        rings: ContextRings,
        opcode: DescriptorOpcode,
        op: int,
        datatype: int,
        operands: _Local | None,
        compared: _Local | None,
        result: _Local | None,
        length: int,
        dest_addr: int,
        addr: int,
        key: int,
        cq_flags: int,
        context: Any,
        more: bool,
        silent: bool,
    ) -> None:
        """Post a request whose arguments are right. Raises FI_EINVAL for an unknown peer, FI_EAGAIN if full."""
        peer = self._peers.get(dest_addr)
        if peer is None:
            raise fabric_error(Errno.FI_EINVAL, f"the address vector has no address {dest_addr}")
        rings.check_space()
        flags = local = compare = 0
        used: list[_Local] = []
        if operands is not None and length <= INJECT_SIZE:
            flags = _INLINE
            local = int.from_bytes(operands.view, "little")
            if compared is not None:
                compare = int.from_bytes(compared.view, "little")
        elif operands is not None:
            local = operands.address
            used.append(operands)
            if compared is not None:
                compare = compared.address
                used.append(compared)
        if result is not None:
            used.append(result)
        grants: tuple[tuple[int, int], ...] = ()
        for buffer in used:
            if buffer.desc is None and buffer.length:
                self._nic.dma.grant(buffer.address, buffer.length, writable=buffer.writable)
                grants += ((buffer.address, buffer.length),)
        rings.post(
            Operation(context, cq_flags, silent, dest_addr, tuple((b.view, b.desc) for b in used), grants),
            more,
            opcode,
            op,
            datatype,
            flags,
            length,
            peer,
            addr,
            key,
            local,
            0 if result is None else result.address,
            compare,
        )

    def _not_enabled(self) -> ContextRings:
        self._check_open()
        raise fabric_error(Errno.FI_EOPBADSTATE, "enable() the endpoint first")

    # The end

    def close(self) -> None:
        """Wait until operations under way are done (at most a second), then give everything back.

        Completions that have not been read are dropped. If operations never finish, their context and peer
        entries are not used again, so that late answers meet nobody.
        """
        super().close()

    def _release(self) -> None:
        rings, self._rings = self._rings, None
        if rings is None:
            return
        assert self._cq is not None
        assert self._av is not None
        assert self._peer_map is not None
        if rings in self._cq._rings:
            self._cq._rings.remove(rings)
        self._av._detach(self._peer_map)
        with contextlib.suppress(DeviceClosedError):
            self._give_back(rings, self._peer_map)

    def _give_back(self, rings: ContextRings, peers: PeerMap) -> None:
        deadline = time.monotonic() + _DRAIN_TIME
        rings.announce()
        while rings.under_way and time.monotonic() < deadline:
            if not rings.poll(rings.entries):
                self._nic.device.advance()
        self._nic.disable_context(rings.context)
        if not rings.under_way:
            peers.clear()
            self._nic.return_context(rings.context)
        rings.release()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "enabled" if self._rings is not None else "not enabled"
        return f"<Endpoint {self._name or 'without name'} {state}>"
