"""Atomic operations on memory of peers, as fi_atomic(3) defines them."""

from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.opcodes import Form
from numpy import ndarray

from amoeba.core.buffers import (
    DATATYPES,
    Buffer,
    Segment,
    check_datatype,
    datatype_of,
    vector_datatype,
    view_of,
)
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.operands import operand_of
from amoeba.libfabric.objects.checks import (
    check_datatype_argument,
    check_instance,
    check_number,
    check_op,
    check_op_flags,
    check_vector,
)
from amoeba.libfabric.objects.constants import Datatype, MrAccess, Op, OpFlags, QueryFlags
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import check_region, check_unregistered, locals_of
from amoeba.libfabric.objects.operations.operations import (
    CHANGE_FLAGS,
    NO_FLAGS,
    TRANSMIT_FLAGS,
    Operations,
)
from amoeba.libfabric.objects.operations.rights import ALL_RIGHTS, MAY_ATOMIC, MAY_FETCH
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, Descs
from amoeba.transport.operation import Operation, begun
from amoeba.transport.posting import Local, Scattered, gathered, total
from amoeba.transport.requests import Kind

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["AtomicOperations"]

_SIZES = tuple(datatype.size for datatype in Datatype)
_in_memory = c_char.from_buffer
_ATOMIC_READ = Op.FI_ATOMIC_READ
_TAGGED_FLAG = int(OpFlags.FI_TAGGED)
_CHANGES, _FETCHES = int(Kind.ATOMIC), int(Kind.FETCH_ATOMIC)
_SOURCE = int(MrAccess.FI_WRITE)
_RESULT = int(MrAccess.FI_READ)
_BASE = int(DescriptorOpcode.ATOMIC)
_FETCH = int(DescriptorOpcode.FETCH_ATOMIC)
_COMPARE = int(DescriptorOpcode.COMPARE_ATOMIC)
_RIGHTS = {_BASE: MAY_ATOMIC, _FETCH: MAY_FETCH | MAY_ATOMIC, _COMPARE: MAY_FETCH | MAY_ATOMIC}
_TAGGED = {
    _BASE: int(DescriptorOpcode.TAGGED_ATOMIC),
    _FETCH: int(DescriptorOpcode.TAGGED_FETCH_ATOMIC),
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
        operation = self._number(buf, dest_addr, addr, key, flags) if desc is None else None
        if (
            operation is not None
            and op.__class__ is Op
            and (datatype is None or datatype is operation.datatype)
            and self._executed[_BASE][op] >> operation.datatype & 1
            and (rings := self._rings) is not None
        ):
            operation.kind, operation.opcode, operation.op = _CHANGES, _BASE, op
            operation.context = context
            rings.post(operation)
            return
        operation = begun(_CHANGES, _BASE, context, dest_addr, addr, key)
        operation.op, operation.silent = op, self._selective
        self._atomic(operation, buf, None, None, datatype, desc, None, flags)

    def inject_atomic(
        self, buf: Buffer, dest_addr: int, addr: int, key: int, op: Op, datatype: Datatype | None = None
    ) -> None:
        """:meth:`atomic` of at most INJECT_SIZE bytes that may be changed at once; no completion unless it fails."""
        operation = begun(_CHANGES, _BASE, None, dest_addr, addr, key)
        operation.op, operation.silent = op, True
        self._atomic(operation, buf, None, None, datatype, None, None, OpFlags.FI_INJECT)

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
        operation = self._number(buf, dest_addr, addr, key, flags) if desc is None else None
        if (
            operation is not None
            and op.__class__ is Op
            and (datatype is None or datatype is operation.datatype)
            and self._executed[_FETCH][op] >> operation.datatype & 1
            and (rings := self._rings) is not None
        ):
            operation.kind, operation.opcode, operation.op = _FETCHES, _FETCH, op
            operation.context = context
            _take_result(self.domain, operation, result, result_desc)
            rings.post(operation)
            return
        operation = begun(_FETCHES, _FETCH, context, dest_addr, addr, key)
        operation.op, operation.silent = op, self._selective
        self._atomic(operation, buf, None, result, datatype, desc, result_desc, flags)

    def fetch_atomicv(
        self,
        iov: Sequence[Buffer] | None,
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
        """:meth:`fetch_atomic` with several buffers for operands and results.

        FI_ATOMIC_READ ignores ``iov``, which may be None.
        """
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
        operation = begun(_FETCHES, _COMPARE, context, dest_addr, addr, key)
        operation.op, operation.silent = op, self._selective
        self._atomic(operation, buf, compare, result, datatype, desc, result_desc, flags)

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
        return self._valid(_BASE, datatype, op, QueryFlags(0))

    def fetch_atomicvalid(self, datatype: Datatype, op: Op) -> int:
        """As :meth:`atomicvalid`, for fetch_atomic()."""
        return self._valid(_FETCH, datatype, op, QueryFlags.FI_FETCH_ATOMIC)

    def compare_atomicvalid(self, datatype: Datatype, op: Op) -> int:
        """As :meth:`atomicvalid`, for compare_atomic()."""
        return self._valid(_COMPARE, datatype, op, QueryFlags.FI_COMPARE_ATOMIC)

    def _valid(self, opcode: int, datatype: Datatype, op: Op, family: QueryFlags) -> int:
        datatype, op = check_datatype_argument(datatype), check_op(op)
        self._check_rights(opcode, op)
        return self.domain.query_atomic(datatype, op, family).count

    def _check_rights(self, opcode: int, op: Op) -> None:
        """Raise FI_EOPNOTSUPP if the endpoint may not begin such an atomic."""
        needed = MAY_FETCH if op is _ATOMIC_READ else _RIGHTS[opcode]
        if needed & ~self._rights:
            raise self._not_permitted(needed)

    def _atomic(
        self,
        operation: Operation,
        buf: Buffer | None,
        compare: Buffer | None,
        result: Buffer | None,
        datatype: Datatype | None,
        desc: MemoryRegion | None,
        result_desc: MemoryRegion | None,
        flags: OpFlags,
    ) -> None:
        if self._rings is None:
            self._not_enabled()
        opcode, op = operation.opcode, operation.op
        if op.__class__ is not Op:
            op = operation.op = check_op(op)
        if datatype is not None and datatype.__class__ is not Datatype:
            datatype = check_datatype_argument(datatype)
        if self._rights != ALL_RIGHTS:
            self._check_rights(opcode, op)
        source = compared = sink = None
        if op is _ATOMIC_READ and opcode == _FETCH:
            if datatype is None:
                datatype = datatype_of(result, "result")
        elif datatype is None and buf.__class__ is ndarray and (named := DATATYPES.get(buf.dtype)) is not None:
            source, datatype = view_of(buf), named
        else:
            source, datatype = operand_of(buf, datatype)
        operation.datatype = datatype
        executed = self._executed[opcode][op] >> datatype & 1
        size = _SIZES[datatype] if executed else self._element_size(opcode, op, datatype)
        if opcode != _BASE:
            if result.__class__ is not ndarray or DATATYPES.get(result.dtype) is not datatype:
                check_datatype(result, datatype, "result")
            sink = view_of(result, writable=True, name="result")
            if opcode == _COMPARE:
                compared, _ = operand_of(compare, datatype, "compare")
        given = sink if source is None else source
        assert given is not None  # there are operands, or else a result
        operation.length = length = given.nbytes
        if not length or length % size:
            raise fabric_error(Errno.FI_EINVAL, f"expected one or more elements of {size} bytes, got {length} bytes")
        if sink is not None and sink.nbytes != length:
            raise fabric_error(Errno.FI_EINVAL, f"buf has {length} bytes, result has {sink.nbytes}")
        if compared is not None and compared.nbytes != length:
            raise fabric_error(Errno.FI_EINVAL, f"buf has {length} bytes, compare has {compared.nbytes}")
        bits = self._check(operation, flags, TRANSMIT_FLAGS if source is None else CHANGE_FLAGS)
        self._submit(operation, bits, source, desc, _SOURCE, sink, result_desc, compared)

    def _atomic_vector(
        self,
        opcode: int,
        msg: AtomicMsg,
        whole: tuple[int, int] | None,
        comparev: Sequence[Buffer] | None,
        compare_desc: Descs,
        resultv: Sequence[Buffer] | None,
        result_desc: Descs,
        flags: OpFlags,
    ) -> None:
        """``whole``: (addr, key) of as many elements in a row as there are, not the message's; without data."""
        if self._rings is None:
            self._not_enabled()
        check_instance("msg", msg, AtomicMsg)
        op = check_op(msg.op)
        bits = check_op_flags(flags)
        self._check_rights(opcode, op)
        reads_only = op is _ATOMIC_READ and opcode == _FETCH
        iov: Sequence[Buffer] = ()
        if not reads_only:
            check_vector("msg_iov", msg.msg_iov)
            assert msg.msg_iov is not None
            iov = msg.msg_iov
        if opcode == _COMPARE:
            check_vector("comparev", comparev)
        if opcode != _BASE:
            check_vector("resultv", resultv)
        given = resultv if reads_only else iov
        if given is None or len(given) == 0:
            raise fabric_error(Errno.FI_EINVAL, "expected one or more buffers, got none")
        if msg.datatype is None:
            datatype = vector_datatype(given, "resultv" if reads_only else "msg_iov")
        else:
            datatype = check_datatype_argument(msg.datatype)
        for name, vector in (("msg_iov", iov), ("comparev", comparev), ("resultv", resultv)):
            for index, buffer in enumerate(_given(vector)):
                check_datatype(buffer, datatype, f"{name}[{index}]")
        size = self._element_size(opcode, op, datatype)
        operands = [] if reads_only else locals_of(self.domain, iov, msg.desc, "msg_iov", writable=False)
        compared = locals_of(self.domain, _given(comparev), compare_desc, "comparev", writable=False)
        results = locals_of(self.domain, _given(resultv), result_desc, "resultv", writable=True)
        operation = begun(_FETCHES if results else _CHANGES, opcode, msg.context, msg.addr)
        operation.op, operation.datatype = op, datatype
        operation.length = length = total(operands or results)
        _check_elements("msg_iov", operands or results, size, length)
        if comparev is not None:
            _check_elements("comparev", compared, size, length)
        if resultv is not None:
            _check_elements("resultv", results, size, length)
        if whole is None:
            remote = [Segment(ioc.addr, ioc.count * size, ioc.key) for ioc in msg.rma_iov]
        else:
            remote = [Segment(check_number("addr", whole[0]), length, check_number("key", whole[1]))]
        tagged = whole is None and bool(bits & _TAGGED_FLAG)
        bits = self._check_vector(
            operation,
            OpFlags(bits & ~_TAGGED_FLAG) if tagged else OpFlags(bits),
            remote,
            check_number("data", msg.data) if whole is None else None,
            TRANSMIT_FLAGS if reads_only or tagged else CHANGE_FLAGS,
        )
        if not tagged:
            self._submit_vector(operation, bits, Scattered(operands, compared, results, remote))
            return
        self._check_tagged(opcode, length, remote, results)
        operation.opcode = _TAGGED[opcode]
        one = None if reads_only else operands[0] if len(operands) == 1 else gathered(operands, length)
        source, desc = (None, None) if one is None else (one.view, one.keep)
        sink, sink_desc = (results[0].view, results[0].keep) if results else (None, None)
        self._submit(operation, bits, source, desc, _SOURCE, sink, sink_desc)

    def _check_tagged(
        self, opcode: int, length: int, remote: Sequence[Segment], results: Sequence[Local]
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

    def _element_size(self, opcode: int, op: Op, datatype: Datatype) -> int:
        """Bytes of an element. Raises FI_EOPNOTSUPP if the NIC does not execute this."""
        if not self._executed[opcode][op] >> datatype & 1:
            raise fabric_error(
                Errno.FI_EOPNOTSUPP, f"{DescriptorOpcode(opcode).name} of {op!r} on {datatype!r} is not executed"
            )
        return _SIZES[datatype]


def _take_result(
    domain: "DomainBase", operation: Operation, result: Buffer, result_desc: MemoryRegion | None
) -> None:
    """Let the NIC write the result of an operation on one number. Raises what is wrong with it."""
    datatype, length = operation.datatype, operation.length
    if result.__class__ is ndarray and DATATYPES.get(result.dtype) is datatype:
        view = result.data
        if view.readonly:
            view_of(result, writable=True, name="result")
    else:
        check_datatype(result, datatype, "result")
        view = view_of(result, writable=True, name="result")
    if view.nbytes != length:
        raise fabric_error(Errno.FI_EINVAL, f"buf has {length} bytes, result has {view.nbytes}")
    operation.result = address = addressof(_in_memory(view))
    if result_desc is None:
        check_unregistered(domain, "result")
        operation.buffers = view
        operation.grants = ((address, length, True),)
    else:
        operation.buffers = view, result_desc
        check_region(domain, result_desc, address, length, _RESULT)


def _given(vector: Sequence[Buffer] | None) -> Sequence[Buffer]:
    """Return the buffers of a vector, which may be the rows of an array; for None, no buffers."""
    return () if vector is None else vector


def _check_elements(name: str, buffers: Sequence[Local], size: int, length: int) -> None:
    """Raise FI_EINVAL unless there are ``length`` bytes, one element or more, and no element is in two buffers."""
    sizes = [buffer.length for buffer in buffers]
    if not length or sum(sizes) != length or any(part % size for part in sizes):
        raise fabric_error(
            Errno.FI_EINVAL,
            f"expected one or more elements of {size} bytes, {length} bytes together, got {name} of {sizes} bytes",
        )
