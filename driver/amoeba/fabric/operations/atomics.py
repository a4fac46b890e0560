"""Atomic operations on memory of peers, as fi_atomic(3) defines them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.opcodes import Form

from amoeba.core.buffers import Buffer, Segment, datatype_of, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.fabric.constants import Datatype, MrAccess, Op, OpFlags, QueryFlags
from amoeba.fabric.memory_region import MemoryRegion
from amoeba.fabric.operations.local_buffers import locals_of
from amoeba.fabric.operations.operations import CHANGE_FLAGS, NO_FLAGS, TRANSMIT_FLAGS, Operations
from amoeba.fabric.operations.vectors import AtomicMsg, Descs
from amoeba.transport.posting import Local, gathered, total
from amoeba.transport.requests import Kind

if TYPE_CHECKING:
    from amoeba.fabric.domain_base import DomainBase

__all__ = ["AtomicOperations"]

_SIZES = tuple(datatype.size for datatype in Datatype)
_CHANGES, _FETCHES = int(Kind.ATOMIC), int(Kind.FETCH_ATOMIC)
_SOURCE = int(MrAccess.FI_WRITE)
_BASE = DescriptorOpcode.ATOMIC
_FETCH = DescriptorOpcode.FETCH_ATOMIC
_COMPARE = DescriptorOpcode.COMPARE_ATOMIC
_TAGGED = {
    _BASE: DescriptorOpcode.TAGGED_ATOMIC,
    _FETCH: DescriptorOpcode.TAGGED_FETCH_ATOMIC,
}


class AtomicOperations(Operations):
    """The calls of fi_atomic(3); :class:`amoeba.Endpoint` says what their arguments are."""

    def __init__(
        self, domain: "DomainBase", parent: FabricObject | None = None, *, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        nic = domain.nic
        self._executed: list[tuple[int, ...]] = [()] * len(DescriptorOpcode)
        """By the descriptor's opcode: per operation, the datatypes as a bit mask."""
        for opcode, form in (
            (_BASE, Form.BASE),
            (_FETCH, Form.FETCH),
            (_COMPARE, Form.COMPARE),
            (DescriptorOpcode.TAGGED_ATOMIC, Form.BASE),
            (DescriptorOpcode.TAGGED_FETCH_ATOMIC, Form.FETCH),
        ):
            self._executed[opcode] = tuple(nic.atomic_mask(form, op) for op in Op)
        super().__init__(domain, parent, op_flags=op_flags)

    # fi_atomic

    def atomic(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """``addr[i] = addr[i] op buf[i]`` for every element."""
        self._atomic(
            _BASE, buf, None, None, dest_addr, addr, key, op, datatype, desc, None, context, flags, self._selective
        )

    def inject_atomic(
        self, buf: Buffer, dest_addr: int, addr: int, key: int, op: Op, datatype: Datatype | None = None
    ) -> None:
        """:meth:`atomic` of at most INJECT_SIZE bytes that may be changed at once; no completion unless it fails."""
        self._atomic(
            _BASE, buf, None, None, dest_addr, addr, key, op, datatype, None, None, None, OpFlags.FI_INJECT, True
        )

    def atomicv(
        self,
        iov: Sequence[Buffer],
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`atomic` with the elements of several buffers, one after the other."""
        self._atomic_vector(
            _BASE, AtomicMsg(iov, dest_addr, (), op, datatype, desc, context), (addr, key), None, None, None, None,
            flags,
        )  # fmt: skip

    def atomicmsg(self, msg: AtomicMsg, flags: OpFlags = NO_FLAGS) -> None:
        """:meth:`atomic` with the elements of several buffers on several segments of the peer's memory."""
        self._atomic_vector(_BASE, msg, None, None, None, None, None, flags)

    # fi_fetch_atomic

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
        desc: MemoryRegion | None = None,
        result_desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """``result[i] = addr[i]; addr[i] = addr[i] op buf[i]``. FI_ATOMIC_READ ignores ``buf``, which may be None."""
        self._atomic(
            _FETCH, buf, None, result, dest_addr, addr, key, op, datatype, desc, result_desc, context, flags,
            self._selective,
        )  # fmt: skip

    def fetch_atomicv(
        self,
        iov: Sequence[Buffer],
        resultv: Sequence[Buffer],
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: Descs = None,
        result_desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`fetch_atomic` with several buffers for operands and results; FI_ATOMIC_READ ignores ``iov``."""
        self._atomic_vector(
            _FETCH, AtomicMsg(iov, dest_addr, (), op, datatype, desc, context), (addr, key), None, None, resultv,
            result_desc, flags,
        )  # fmt: skip

    def fetch_atomicmsg(
        self, msg: AtomicMsg, resultv: Sequence[Buffer], *, result_desc: Descs = None, flags: OpFlags = NO_FLAGS
    ) -> None:
        """:meth:`fetch_atomicv` on several segments of the peer's memory."""
        self._atomic_vector(_FETCH, msg, None, None, None, resultv, result_desc, flags)

    # fi_compare_atomic

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
        desc: MemoryRegion | None = None,
        result_desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """``result[i] = addr[i]; if compare[i] op addr[i]: addr[i] = buf[i]``; FI_MSWAP swaps the bits in compare."""
        self._atomic(
            _COMPARE, buf, compare, result, dest_addr, addr, key, op, datatype, desc, result_desc, context, flags,
            self._selective,
        )  # fmt: skip

    def compare_atomicv(
        self,
        iov: Sequence[Buffer],
        comparev: Sequence[Buffer],
        resultv: Sequence[Buffer],
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None = None,
        *,
        desc: Descs = None,
        compare_desc: Descs = None,
        result_desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`compare_atomic` with several buffers for operands, compare values and results."""
        self._atomic_vector(
            _COMPARE, AtomicMsg(iov, dest_addr, (), op, datatype, desc, context), (addr, key), comparev, compare_desc,
            resultv, result_desc, flags,
        )  # fmt: skip

    def compare_atomicmsg(
        self,
        msg: AtomicMsg,
        comparev: Sequence[Buffer],
        resultv: Sequence[Buffer],
        *,
        compare_desc: Descs = None,
        result_desc: Descs = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`compare_atomicv` on several segments of the peer's memory."""
        self._atomic_vector(_COMPARE, msg, None, comparev, compare_desc, resultv, result_desc, flags)

    # Queries

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
        buf: Buffer | None,
        compare: Buffer | None,
        result: Buffer | None,
        dest_addr: int,
        addr: int,
        key: int,
        op: Op,
        datatype: Datatype | None,
        desc: MemoryRegion | None,
        result_desc: MemoryRegion | None,
        context: Any,
        flags: OpFlags,
        silent: bool,
    ) -> None:
        rings = self._rings or self._not_enabled()
        reads_only = op == Op.FI_ATOMIC_READ and result is not None
        if datatype is None:
            datatype = datatype_of(result if reads_only else buf)
        size = self._element_size(opcode, op, datatype)
        sink = None if result is None else view_of(result, writable=True)
        source = None if reads_only else view_of(buf)
        compared = None if compare is None else view_of(compare)
        given = sink if source is None else source
        assert given is not None  # there are operands, or else a result
        length = given.nbytes
        if not length or length % size:
            raise fabric_error(Errno.FI_EINVAL, f"expected one or more elements of {size} bytes, got {length} bytes")
        for name, other in (("result", sink), ("compare", compared)):
            if other is not None and other.nbytes != length:
                raise fabric_error(Errno.FI_EINVAL, f"buf has {length} bytes, {name} has {other.nbytes}")
        bits, silent = self._check_request(
            flags, length, addr, key, silent, TRANSMIT_FLAGS if reads_only else CHANGE_FLAGS
        )
        self._submit(
            rings, _CHANGES if sink is None else _FETCHES, opcode, op, datatype, source, compared, sink, desc,
            result_desc, _SOURCE, length, dest_addr, addr, key, context, bits, silent,
        )  # fmt: skip

    def _atomic_vector(
        self,
        opcode: DescriptorOpcode,
        msg: AtomicMsg,
        whole: tuple[int, int] | None,
        comparev: Sequence[Buffer] | None,
        compare_desc: Descs,
        resultv: Sequence[Buffer] | None,
        result_desc: Descs,
        flags: OpFlags,
    ) -> None:
        """``whole``: (addr, key) of as many elements in a row as there are, not the message's; without data."""
        rings = self._rings or self._not_enabled()
        reads_only = msg.op == Op.FI_ATOMIC_READ and resultv is not None
        given = resultv if reads_only else msg.msg_iov
        if not given:
            raise fabric_error(Errno.FI_EINVAL, "expected one or more buffers, got none")
        datatype = datatype_of(given[0]) if msg.datatype is None else msg.datatype
        size = self._element_size(opcode, msg.op, datatype)
        operands = [] if reads_only else locals_of(msg.msg_iov, msg.desc, "msg_iov", writable=False)
        compared = locals_of(comparev or (), compare_desc, "comparev", writable=False)
        results = locals_of(resultv or (), result_desc, "resultv", writable=True)
        length = total(operands or results)
        _check_elements("msg_iov", operands or results, size, length)
        if comparev is not None:
            _check_elements("comparev", compared, size, length)
        if resultv is not None:
            _check_elements("resultv", results, size, length)
        if whole is None:
            remote = [Segment(ioc.addr, ioc.count * size, ioc.key) for ioc in msg.rma_iov]
        else:
            remote = [Segment(whole[0], length, whole[1])]
        tagged = whole is None and OpFlags.FI_TAGGED in flags
        bits, silent, data = self._check_vector_request(
            flags & ~OpFlags.FI_TAGGED if tagged else flags,
            length,
            remote,
            msg.data if whole is None else None,
            TRANSMIT_FLAGS if reads_only or tagged else CHANGE_FLAGS,
        )
        if tagged:
            self._check_tagged(opcode, length, remote, results)
            one = None if reads_only else operands[0] if len(operands) == 1 else gathered(operands, length)
            self._submit(
                rings, _FETCHES if results else _CHANGES, _TAGGED[opcode], msg.op, datatype,
                None if one is None else one.view, None, results[0].view if results else None,
                None if one is None else one.keep, results[0].keep if results else None, _SOURCE, length, msg.addr,
                remote[0].address, remote[0].key, msg.context, bits, silent, data,
            )  # fmt: skip
            return
        self._submit_vector(
            rings, _FETCHES if results else _CHANGES, opcode, msg.op, datatype, operands, compared, results, length,
            remote, msg.addr, msg.context, bits, silent, data,
        )  # fmt: skip

    def _check_tagged(
        self, opcode: DescriptorOpcode, length: int, remote: Sequence[Segment], results: Sequence[Local]
    ) -> None:
        """Raise what keeps an atomic from being one packet to a tagged receive."""
        if opcode not in _TAGGED:
            raise fabric_error(Errno.FI_EOPNOTSUPP, "tagged atomics have no compare form")
        if len(remote) != 1 or len(results) > 1:
            raise fabric_error(
                Errno.FI_EINVAL,
                "a tagged atomic has one segment of the receive's buffer and one buffer for results, "
                f"got {len(remote)} and {len(results)}",
            )
        most = self._nic.parameters.payload
        if length > most:
            raise fabric_error(Errno.FI_EMSGSIZE, f"a tagged atomic has at most {most} bytes, got {length}")

    def _element_size(self, opcode: DescriptorOpcode, op: Op, datatype: Datatype) -> int:
        """Bytes of an element. Raises FI_EOPNOTSUPP if the NIC does not execute this."""
        masks = self._executed[opcode]
        if not (0 <= op < len(masks) and datatype >= 0 and masks[op] >> datatype & 1):
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"{opcode.name} of {op!r} on {datatype!r} is not executed")
        return _SIZES[datatype]


def _check_elements(name: str, buffers: Sequence[Local], size: int, length: int) -> None:
    """Raise FI_EINVAL unless there are ``length`` bytes, one element or more, and no element is in two buffers."""
    sizes = [buffer.length for buffer in buffers]
    if not length or sum(sizes) != length or any(part % size for part in sizes):
        raise fabric_error(
            Errno.FI_EINVAL,
            f"expected one or more elements of {size} bytes, {length} bytes together, got {name} of {sizes} bytes",
        )
