"""fi_rma(3). Arguments are those of :class:`amoeba.Endpoint`; ``len`` counts bytes, ``count`` buffers."""

from collections.abc import Sequence
from typing import Any

from amoeba.core.buffers import Buffer
from amoeba.libfabric.calls.arguments import first_bytes, first_descs, first_of
from amoeba.libfabric.objects.checks import check_flags
from amoeba.libfabric.objects.constants import OpFlags
from amoeba.libfabric.objects.domain import MemoryRegion
from amoeba.libfabric.objects.operations.rma import RmaOperations
from amoeba.libfabric.objects.operations.vectors import Descs, RmaMsg

__all__ = [
    "fi_inject_write",
    "fi_inject_writedata",
    "fi_read",
    "fi_readmsg",
    "fi_readv",
    "fi_write",
    "fi_writedata",
    "fi_writemsg",
    "fi_writev",
]


def fi_read(
    ep: RmaOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    src_addr: int,
    addr: int,
    key: int,
    context: Any = None,
) -> None:
    """Copy the peer's memory into the first ``len`` bytes of ``buf``."""
    ep.read(first_bytes(buf, len), src_addr, addr, key, desc=desc, context=context)


def fi_readv(
    ep: RmaOperations,
    iov: Sequence[Buffer],
    desc: Descs,
    count: int,
    src_addr: int,
    addr: int,
    key: int,
    context: Any = None,
) -> None:
    """Copy the peer's memory into the first ``count`` buffers."""
    ep.readv(first_of(iov, count, "iov"), src_addr, addr, key, desc=first_descs(desc, count), context=context)


def fi_readmsg(ep: RmaOperations, msg: RmaMsg, flags: int) -> None:
    """Copy segments of the peer's memory into buffers."""
    ep.readmsg(msg, check_flags(OpFlags, flags))


def fi_write(
    ep: RmaOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    dest_addr: int,
    addr: int,
    key: int,
    context: Any = None,
) -> None:
    """Copy the first ``len`` bytes of ``buf`` into the peer's memory."""
    ep.write(first_bytes(buf, len), dest_addr, addr, key, desc=desc, context=context)


def fi_writev(
    ep: RmaOperations,
    iov: Sequence[Buffer],
    desc: Descs,
    count: int,
    dest_addr: int,
    addr: int,
    key: int,
    context: Any = None,
) -> None:
    """Copy the first ``count`` buffers into the peer's memory."""
    ep.writev(first_of(iov, count, "iov"), dest_addr, addr, key, desc=first_descs(desc, count), context=context)


def fi_writemsg(ep: RmaOperations, msg: RmaMsg, flags: int) -> None:
    """Copy buffers into segments of the peer's memory."""
    ep.writemsg(msg, check_flags(OpFlags, flags))


def fi_inject_write(ep: RmaOperations, buf: Buffer, len: int, dest_addr: int, addr: int, key: int) -> None:
    """:func:`fi_write` from a buffer that may be changed at once, without completion."""
    ep.inject_write(first_bytes(buf, len), dest_addr, addr, key)


def fi_writedata(
    ep: RmaOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    data: int,
    dest_addr: int,
    addr: int,
    key: int,
    context: Any = None,
) -> None:
    """:func:`fi_write`, and then an entry with ``data`` in the peer's queue."""
    ep.writedata(first_bytes(buf, len), data, dest_addr, addr, key, desc=desc, context=context)


def fi_inject_writedata(
    ep: RmaOperations, buf: Buffer, len: int, data: int, dest_addr: int, addr: int, key: int
) -> None:
    """:func:`fi_writedata` as :func:`fi_inject_write` does it."""
    ep.inject_writedata(first_bytes(buf, len), data, dest_addr, addr, key)
