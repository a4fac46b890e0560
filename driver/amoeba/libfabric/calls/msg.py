"""fi_msg(3). Arguments are those of :class:`amoeba.Endpoint`; ``len`` counts bytes, ``count`` buffers."""

from collections.abc import Sequence
from typing import Any

from amoeba.core.buffers import Buffer
from amoeba.libfabric.calls.arguments import first_bytes, first_descs, first_of
from amoeba.libfabric.objects.checks import check_flags
from amoeba.libfabric.objects.constants import OpFlags
from amoeba.libfabric.objects.domain import MemoryRegion
from amoeba.libfabric.objects.operations.messages import MessageOperations
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.operations.vectors import Descs, Msg

__all__ = [
    "fi_inject",
    "fi_injectdata",
    "fi_recv",
    "fi_recvmsg",
    "fi_recvv",
    "fi_send",
    "fi_senddata",
    "fi_sendmsg",
    "fi_sendv",
]


def fi_recv(
    ep: ReceiveOperations, buf: Buffer, len: int, desc: MemoryRegion | None, src_addr: int, context: Any = None
) -> None:
    """Receive a message into the first ``len`` bytes of ``buf``."""
    ep.recv(first_bytes(buf, len), src_addr=src_addr, desc=desc, context=context)


def fi_recvv(
    ep: ReceiveOperations, iov: Sequence[Buffer], desc: Descs, count: int, src_addr: int, context: Any = None
) -> None:
    """Receive a message into the first ``count`` buffers."""
    ep.recvv(first_of(iov, count, "iov"), src_addr=src_addr, desc=first_descs(desc, count), context=context)


def fi_recvmsg(ep: ReceiveOperations, msg: Msg, flags: int) -> None:
    """Receive a message into buffers, or with FI_MULTI_RECV several."""
    ep.recvmsg(msg, check_flags(OpFlags, flags))


def fi_send(
    ep: MessageOperations, buf: Buffer, len: int, desc: MemoryRegion | None, dest_addr: int, context: Any = None
) -> None:
    """Send the first ``len`` bytes of ``buf``."""
    ep.send(first_bytes(buf, len), dest_addr, desc=desc, context=context)


def fi_sendv(
    ep: MessageOperations, iov: Sequence[Buffer], desc: Descs, count: int, dest_addr: int, context: Any = None
) -> None:
    """Send the first ``count`` buffers as one message."""
    ep.sendv(first_of(iov, count, "iov"), dest_addr, desc=first_descs(desc, count), context=context)


def fi_sendmsg(ep: MessageOperations, msg: Msg, flags: int) -> None:
    """Send buffers as one message."""
    ep.sendmsg(msg, check_flags(OpFlags, flags))


def fi_inject(ep: MessageOperations, buf: Buffer, len: int, dest_addr: int) -> None:
    """:func:`fi_send` from a buffer that may be changed at once, without completion."""
    ep.inject(first_bytes(buf, len), dest_addr)


def fi_senddata(
    ep: MessageOperations,
    buf: Buffer,
    len: int,
    desc: MemoryRegion | None,
    data: int,
    dest_addr: int,
    context: Any = None,
) -> None:
    """:func:`fi_send`, and ``data`` in the entry of the peer's receive."""
    ep.senddata(first_bytes(buf, len), data, dest_addr, desc=desc, context=context)


def fi_injectdata(ep: MessageOperations, buf: Buffer, len: int, data: int, dest_addr: int) -> None:
    """:func:`fi_senddata` as :func:`fi_inject` does it."""
    ep.injectdata(first_bytes(buf, len), data, dest_addr)
