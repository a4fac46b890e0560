"""fi_atomic(3). Arguments are those of :class:`amoeba.Endpoint`; ``count`` counts elements, of vectors buffers."""

from collections.abc import Sequence
from typing import Any

from amoeba.core.buffers import Buffer, check_datatype
from amoeba.core.operands import operand_of
from amoeba.libfabric.calls.arguments import first_bytes, first_descs, first_of
from amoeba.libfabric.objects.checks import check_datatype_argument, check_flags, check_number
from amoeba.libfabric.objects.constants import Datatype, Op, OpFlags, QueryFlags
from amoeba.libfabric.objects.domain import AtomicAttr, Domain, MemoryRegion
from amoeba.libfabric.objects.operations.atomics import AtomicOperations
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, Descs

__all__ = [
    "fi_atomic",
    "fi_atomicmsg",
    "fi_atomicv",
    "fi_atomicvalid",
    "fi_compare_atomic",
    "fi_compare_atomicmsg",
    "fi_compare_atomicv",
    "fi_compare_atomicvalid",
    "fi_fetch_atomic",
    "fi_fetch_atomicmsg",
    "fi_fetch_atomicv",
    "fi_fetch_atomicvalid",
    "fi_inject_atomic",
    "fi_query_atomic",
]


def _operands(buf: Buffer, count: int, datatype: Datatype, name: str = "buf") -> Buffer:
    """Return the first ``count`` elements of a buffer, or a number.

    Raises FI_EINVAL for a shorter buffer and for another datatype, FI_EOPNOTSUPP for an invalid datatype.
    """
    view, known = operand_of(buf, check_datatype_argument(datatype), name)
    return first_bytes(view, check_number("count", count) * known.size, name)


def _results(buf: Buffer, count: int, datatype: Datatype) -> Buffer:
    """Return the first ``count`` elements of a buffer. Raises as :func:`_operands`."""
    datatype = check_datatype_argument(datatype)
    check_datatype(buf, datatype, "result")
    return first_bytes(buf, check_number("count", count) * datatype.size, "result")


def fi_atomic(
    ep: AtomicOperations,
    buf: Buffer,
    count: int,
    desc: MemoryRegion | None,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
    context: Any = None,
) -> None:
    """``addr[i] = addr[i] op buf[i]``."""
    ep.atomic(_operands(buf, count, datatype), dest_addr, addr, key, op, datatype, desc=desc, context=context)


def fi_atomicv(
    ep: AtomicOperations,
    iov: Sequence[Buffer],
    desc: Descs,
    count: int,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
    context: Any = None,
) -> None:
    """:func:`fi_atomic` with the elements of the first ``count`` buffers."""
    ep.atomicv(
        first_of(iov, count, "iov"),
        dest_addr,
        addr,
        key,
        op,
        datatype,
        desc=first_descs(desc, count),
        context=context,
    )


def fi_atomicmsg(ep: AtomicOperations, msg: AtomicMsg, flags: int) -> None:
    """:func:`fi_atomicv` on several segments of the peer's memory."""
    ep.atomicmsg(msg, check_flags(OpFlags, flags))


def fi_inject_atomic(
    ep: AtomicOperations,
    buf: Buffer,
    count: int,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
) -> None:
    """:func:`fi_atomic` with operands that may be changed at once, without completion."""
    ep.inject_atomic(_operands(buf, count, datatype), dest_addr, addr, key, op, datatype)


def fi_fetch_atomic(
    ep: AtomicOperations,
    buf: Buffer,
    count: int,
    desc: MemoryRegion | None,
    result: Buffer,
    result_desc: MemoryRegion | None,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
    context: Any = None,
) -> None:
    """``result[i] = addr[i]; addr[i] = addr[i] op buf[i]``; FI_ATOMIC_READ ignores ``buf``, which may be None."""
    ep.fetch_atomic(
        None if op == Op.FI_ATOMIC_READ else _operands(buf, count, datatype),
        _results(result, count, datatype),
        dest_addr,
        addr,
        key,
        op,
        datatype,
        desc=desc,
        result_desc=result_desc,
        context=context,
    )


def fi_fetch_atomicv(
    ep: AtomicOperations,
    iov: Sequence[Buffer] | None,
    desc: Descs,
    count: int,
    resultv: Sequence[Buffer],
    result_desc: Descs,
    result_count: int,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
    context: Any = None,
) -> None:
    """:func:`fi_fetch_atomic` with several buffers for operands and results; FI_ATOMIC_READ ignores ``iov``."""
    ep.fetch_atomicv(
        None if op == Op.FI_ATOMIC_READ else first_of(iov, count, "iov"),
        first_of(resultv, result_count, "resultv"),
        dest_addr,
        addr,
        key,
        op,
        datatype,
        desc=first_descs(desc, count),
        result_desc=first_descs(result_desc, result_count),
        context=context,
    )


def fi_fetch_atomicmsg(
    ep: AtomicOperations,
    msg: AtomicMsg,
    resultv: Sequence[Buffer],
    result_desc: Descs,
    result_count: int,
    flags: int,
) -> None:
    """:func:`fi_fetch_atomicv` on several segments of the peer's memory."""
    ep.fetch_atomicmsg(
        msg,
        first_of(resultv, result_count, "resultv"),
        result_desc=first_descs(result_desc, result_count),
        flags=check_flags(OpFlags, flags),
    )


def fi_compare_atomic(
    ep: AtomicOperations,
    buf: Buffer,
    count: int,
    desc: MemoryRegion | None,
    compare: Buffer,
    compare_desc: MemoryRegion | None,
    result: Buffer,
    result_desc: MemoryRegion | None,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
    context: Any = None,
) -> None:
    """``result[i] = addr[i]; if compare[i] op addr[i]: addr[i] = buf[i]``; FI_MSWAP swaps the bits in compare."""
    ep.compare_atomicv(
        [_operands(buf, count, datatype)],
        [_operands(compare, count, datatype, "compare")],
        [_results(result, count, datatype)],
        dest_addr,
        addr,
        key,
        op,
        datatype,
        desc=[desc],
        compare_desc=[compare_desc],
        result_desc=[result_desc],
        context=context,
    )


def fi_compare_atomicv(
    ep: AtomicOperations,
    iov: Sequence[Buffer],
    desc: Descs,
    count: int,
    comparev: Sequence[Buffer],
    compare_desc: Descs,
    compare_count: int,
    resultv: Sequence[Buffer],
    result_desc: Descs,
    result_count: int,
    dest_addr: int,
    addr: int,
    key: int,
    datatype: Datatype,
    op: Op,
    context: Any = None,
) -> None:
    """:func:`fi_compare_atomic` with several buffers for operands, compare values and results."""
    ep.compare_atomicv(
        first_of(iov, count, "iov"),
        first_of(comparev, compare_count, "comparev"),
        first_of(resultv, result_count, "resultv"),
        dest_addr,
        addr,
        key,
        op,
        datatype,
        desc=first_descs(desc, count),
        compare_desc=first_descs(compare_desc, compare_count),
        result_desc=first_descs(result_desc, result_count),
        context=context,
    )


def fi_compare_atomicmsg(
    ep: AtomicOperations,
    msg: AtomicMsg,
    comparev: Sequence[Buffer],
    compare_desc: Descs,
    compare_count: int,
    resultv: Sequence[Buffer],
    result_desc: Descs,
    result_count: int,
    flags: int,
) -> None:
    """:func:`fi_compare_atomicv` on several segments of the peer's memory."""
    ep.compare_atomicmsg(
        msg,
        first_of(comparev, compare_count, "comparev"),
        first_of(resultv, result_count, "resultv"),
        compare_desc=first_descs(compare_desc, compare_count),
        result_desc=first_descs(result_desc, result_count),
        flags=check_flags(OpFlags, flags),
    )


def fi_atomicvalid(ep: AtomicOperations, datatype: Datatype, op: Op) -> int:
    """Return the maximum elements of one :func:`fi_atomic`. Raises FI_EOPNOTSUPP if the NIC does not execute it."""
    return ep.atomicvalid(datatype, op)


def fi_fetch_atomicvalid(ep: AtomicOperations, datatype: Datatype, op: Op) -> int:
    """As :func:`fi_atomicvalid`, for :func:`fi_fetch_atomic`."""
    return ep.fetch_atomicvalid(datatype, op)


def fi_compare_atomicvalid(ep: AtomicOperations, datatype: Datatype, op: Op) -> int:
    """As :func:`fi_atomicvalid`, for :func:`fi_compare_atomic`."""
    return ep.compare_atomicvalid(datatype, op)


def fi_query_atomic(domain: Domain, datatype: Datatype, op: Op, flags: int) -> AtomicAttr:
    """:meth:`amoeba.Domain.query_atomic`."""
    return domain.query_atomic(datatype, op, check_flags(QueryFlags, flags))
