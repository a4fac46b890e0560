"""Remote memory access, as fi_rma(3) defines it."""

from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorOpcode

from amoeba.core.buffers import Buffer, Segment, view_of
from amoeba.fabric.constants import MrAccess, OpFlags
from amoeba.fabric.memory_region import MemoryRegion
from amoeba.fabric.operations.local_buffers import locals_of
from amoeba.fabric.operations.operations import CHANGE_FLAGS, NO_FLAGS, TRANSMIT_FLAGS, Operations
from amoeba.fabric.operations.vectors import Descs, RmaMsg
from amoeba.transport.posting import total
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
        self._write(buf, dest_addr, addr, key, desc, context, flags, self._selective)

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
        self._check_data(data)
        flags &= ~OpFlags.FI_REMOTE_CQ_DATA  # goes without saying
        self._write(buf, dest_addr, addr, key, desc, context, flags, self._selective, data)

    def inject_write(self, buf: Buffer, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`write` of at most INJECT_SIZE bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._write(buf, dest_addr, addr, key, None, None, OpFlags.FI_INJECT, True)

    def inject_writedata(self, buf: Buffer, data: int, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`writedata` as :meth:`inject_write` does it."""
        self._check_data(data)
        self._write(buf, dest_addr, addr, key, None, None, OpFlags.FI_INJECT, True, data)

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
        rings = self._rings or self._not_enabled()
        sink = view_of(buf, writable=True)
        length = sink.nbytes
        bits, silent = self._check_request(flags, length, addr, key, self._selective)
        self._submit(
            rings, _READS, _READ, 0, 0, None, None, sink, None, desc, 0, length, dest_addr, addr, key, context, bits,
            silent,
        )  # fmt: skip

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
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        desc: MemoryRegion | None,
        context: Any,
        flags: OpFlags,
        silent: bool,
        data: int | None = None,
    ) -> None:
        rings = self._rings or self._not_enabled()
        source = view_of(buf)
        length = source.nbytes
        bits, silent = self._check_request(flags, length, addr, key, silent, CHANGE_FLAGS)
        self._submit(
            rings, _WRITES, _WRITE, 0, 0, source, None, None, desc, None, _SOURCE, length, dest_addr, addr, key,
            context, bits, silent, data,
        )  # fmt: skip

    def _rma_vector(self, opcode: int, msg: RmaMsg, whole: tuple[int, int] | None, flags: OpFlags) -> None:
        """``whole``: (addr, key) of as many bytes in a row as there are, not the message's; without data."""
        rings = self._rings or self._not_enabled()
        writes = opcode == _WRITE
        buffers = locals_of(msg.msg_iov, msg.desc, "msg_iov", writable=not writes)
        length = total(buffers)
        if whole is None:
            remote = [Segment(iov.addr, iov.len, iov.key) for iov in msg.rma_iov]
        else:
            remote = [Segment(whole[0], length, whole[1])]
        bits, silent, data = self._check_vector_request(
            flags,
            length,
            remote,
            msg.data if whole is None else None,
            CHANGE_FLAGS if writes else TRANSMIT_FLAGS,
        )
        self._submit_vector(
            rings, _WRITES if writes else _READS, opcode, 0, 0, buffers if writes else (), (),
            () if writes else buffers, length, remote, msg.addr, msg.context, bits, silent, data,
        )  # fmt: skip
