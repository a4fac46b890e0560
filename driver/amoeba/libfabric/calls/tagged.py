"""fi_tagged(3). Arguments are those of :class:`amoeba.Endpoint`; ``len`` counts bytes, ``count`` buffers."""

from collections.abc import Sequence
from typing import Any

from amoeba.core.buffers import Buffer
from amoeba.libfabric.calls.arguments import first_bytes, first_descs, first_of
from amoeba.libfabric.objects.checks import check_flags
from amoeba.libfabric.objects.constants import OpFlags
from amoeba.libfabric.objects.domain import MemoryRegion
from amoeba.libfabric.objects.operations.messages import MessageOperations
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.operations.vectors import Descs, TaggedMsg

__all__ = [
    "fi_tinject",
    "fi_tinjectdata",
    "fi_trecv",
    "fi_trecvmsg",
    "fi_trecvv",
    "fi_tsend",
    "fi_tsenddata",
    "fi_tsendmsg",
    "fi_tsendv",
]


def fi_trecv(
    ep: ReceiveOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    src_addr: int,
    tag: int,
    ignore: int,
    context: Any = None,
) -> None:
    """Receive a message into the first ``len`` bytes of ``buf``."""
    ep.trecv(first_bytes(buf, len), tag, ignore, src_addr=src_addr, desc=desc, context=context)


def fi_trecvv(
    ep: ReceiveOperations,
    iov: Sequence[Buffer],
    desc: Descs,
    count: int,
    src_addr: int,
    tag: int,
    ignore: int,
    context: Any = None,
) -> None:
    """Receive a message into the first ``count`` buffers."""
    ep.trecvv(
        first_of(iov, count, "iov"), tag, ignore, src_addr=src_addr, desc=first_descs(desc, count), context=context
    )


def fi_trecvmsg(ep: ReceiveOperations, msg: TaggedMsg, flags: int) -> None:
    """Receive a message, or look for one."""
    ep.trecvmsg(msg, check_flags(OpFlags, flags))


def fi_tsend(
    ep: MessageOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    dest_addr: int,
    tag: int,
    context: Any = None,
) -> None:
    """Send the first ``len`` bytes of ``buf``."""
    ep.tsend(first_bytes(buf, len), dest_addr, tag, desc=desc, context=context)


def fi_tsendv(
    ep: MessageOperations,
    iov: Sequence[Buffer],
    desc: Descs,
    count: int,
    dest_addr: int,
    tag: int,
    context: Any = None,
) -> None:
    """Send the first ``count`` buffers as one message."""
    ep.tsendv(first_of(iov, count, "iov"), dest_addr, tag, desc=first_descs(desc, count), context=context)


def fi_tsendmsg(ep: MessageOperations, msg: TaggedMsg, flags: int) -> None:
    """Send buffers as one message."""
    ep.tsendmsg(msg, check_flags(OpFlags, flags))


def fi_tinject(ep: MessageOperations, buf: Buffer, len: int, dest_addr: int, tag: int) -> None:
    """:func:`fi_tsend` from a buffer that may be changed at once, without completion."""
    ep.tinject(first_bytes(buf, len), dest_addr, tag)


def fi_tsenddata(
    ep: MessageOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    data: int,
    dest_addr: int,
    tag: int,
    context: Any = None,
) -> None:
    """:func:`fi_tsend`, and ``data`` in the entry of the peer's receive."""
    ep.tsenddata(first_bytes(buf, len), data, dest_addr, tag, desc=desc, context=context)


def fi_tinjectdata(ep: MessageOperations, buf: Buffer, len: int, data: int, dest_addr: int, tag: int) -> None:
    """:func:`fi_tsenddata` as :func:`fi_tinject` does it."""
    ep.tinjectdata(first_bytes(buf, len), data, dest_addr, tag)
