"""Remote memory access, as fi_rma(3) defines it."""

from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorOpcode

from amoeba.core.buffers import Buffer, Segment, view_of
from amoeba.libfabric.objects.checks import check_instance, check_number
from amoeba.libfabric.objects.constants import MrAccess, OpFlags
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import locals_of
from amoeba.libfabric.objects.operations.operations import (
    CHANGE_FLAGS,
    NO_FLAGS,
    READ_FLAGS,
    Operations,
    without_data,
)
from amoeba.libfabric.objects.operations.rights import MAY_READ, MAY_WRITE
from amoeba.libfabric.objects.operations.vectors import Descs, RmaMsg
from amoeba.transport.operation import Operation, begun, carry
from amoeba.transport.posting import Scattered, total
from amoeba.transport.requests import Kind

__all__ = ["RmaOperations"]

_WRITE = int(DescriptorOpcode.WRITE)
_READ = int(DescriptorOpcode.READ)
_WRITES, _READS = int(Kind.WRITE), int(Kind.READ)
_SOURCE = int(MrAccess.FI_WRITE)


class RmaOperations(Operations):
    """The calls of fi_rma(3); :class:`amoeba.Endpoint` says what their arguments are."""

    def write(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Copy ``buf`` into the peer's memory."""
        operation = self._number(buf, dest_addr, addr, key, flags) if desc is None else None
        if operation is not None and (rings := self._rings) is not None:
            operation.kind, operation.opcode, operation.op = _WRITES, _WRITE, 0
            operation.context = context
            rings.post(operation)
            return
        self._write(begun(_WRITES, _WRITE, context, dest_addr, addr, key), buf, desc, flags, self._selective)

    def writev(
        self,
        iov: Sequence[Buffer],
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Copy buffers, one after the other, into the peer's memory."""
        self._rma_vector(_WRITE, RmaMsg(iov, dest_addr, (), desc, context), (addr, key), flags)

    def writemsg(self, msg: RmaMsg, flags: OpFlags = NO_FLAGS) -> None:
        """Copy buffers, one after the other, into segments of the peer's memory."""
        self._rma_vector(_WRITE, msg, None, flags)

    def writedata(
        self,
        buf: Buffer,
        data: int,
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`write`, and then an entry with ``data`` (64 bits) in the peer's queue."""
        operation = begun(_WRITES, _WRITE, context, dest_addr, addr, key)
        carry(operation, check_number("data", data))
        self._write(operation, buf, desc, without_data(flags), self._selective)

    def inject_write(self, buf: Buffer, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`write` of at most INJECT_SIZE bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._write(begun(_WRITES, _WRITE, None, dest_addr, addr, key), buf, None, OpFlags.FI_INJECT, True)

    def inject_writedata(self, buf: Buffer, data: int, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`writedata` as :meth:`inject_write` does it."""
        operation = begun(_WRITES, _WRITE, None, dest_addr, addr, key)
        carry(operation, check_number("data", data))
        self._write(operation, buf, None, OpFlags.FI_INJECT, True)

    def read(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Copy the peer's memory into ``buf``."""
        if self._rings is None or MAY_READ & ~self._rights:
            self._refuse(MAY_READ)
        operation = begun(_READS, _READ, context, dest_addr, addr, key)
        sink = view_of(buf, writable=True)
        operation.length = sink.nbytes
        operation.silent = self._selective
        bits = self._check(operation, flags, READ_FLAGS)
        self._submit(operation, bits, None, None, 0, sink, desc)

    def readv(
        self,
        iov: Sequence[Buffer],
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Copy the peer's memory into buffers, one after the other."""
        self._rma_vector(_READ, RmaMsg(iov, dest_addr, (), desc, context), (addr, key), flags)

    def readmsg(self, msg: RmaMsg, flags: OpFlags = NO_FLAGS) -> None:
        """Copy segments of the peer's memory into buffers; FI_REMOTE_CQ_DATA tells the peer that they were read."""
        self._rma_vector(_READ, msg, None, flags)

    def _write(
        self, operation: Operation, buf: Buffer, desc: MemoryRegion | None, flags: OpFlags, silent: bool
    ) -> None:
        if self._rings is None or MAY_WRITE & ~self._rights:
            self._refuse(MAY_WRITE)
        source = view_of(buf)
        operation.length = source.nbytes
        operation.silent = silent
        bits = self._check(operation, flags, CHANGE_FLAGS)
        self._submit(operation, bits, source, desc, _SOURCE)

    def _rma_vector(self, opcode: int, msg: RmaMsg, whole: tuple[int, int] | None, flags: OpFlags) -> None:
        """``whole``: (addr, key) of as many bytes in a row as there are, not the message's; without data."""
        writes = opcode == _WRITE
        needed = MAY_WRITE if writes else MAY_READ
        if self._rings is None or needed & ~self._rights:
            self._refuse(needed)
        check_instance("msg", msg, RmaMsg)
        buffers = locals_of(self.domain, msg.msg_iov, msg.desc, "msg_iov", writable=not writes)
        operation = begun(_WRITES if writes else _READS, opcode, msg.context, msg.addr)
        operation.length = length = total(buffers)
        if whole is None:
            remote = [Segment(iov.addr, iov.len, iov.key) for iov in msg.rma_iov]
        else:
            remote = [Segment(check_number("addr", whole[0]), length, check_number("key", whole[1]))]
        data = check_number("data", msg.data) if whole is None else None
        bits = self._check_vector(operation, flags, remote, data, CHANGE_FLAGS if writes else READ_FLAGS)
        memory = Scattered(buffers, (), (), remote) if writes else Scattered((), (), buffers, remote)
        self._submit_vector(operation, bits, memory)
