"""Remote memory access, as fi_rma(3) defines it."""

from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from numpy import ndarray

from amoeba.core.buffers import DATATYPES, Buffer, Segment, view_of
from amoeba.libfabric.objects.checks import check_instance, check_number
from amoeba.libfabric.objects.constants import MrAccess, OpFlags
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import locals_of
from amoeba.libfabric.objects.operations.operations import (
    CHANGE_FLAGS,
    NO_FLAGS,
    NOT_AT_ONCE,
    READ_FLAGS,
    Operations,
    without_data,
)
from amoeba.libfabric.objects.operations.rights import MAY_READ, MAY_WRITE
from amoeba.libfabric.objects.operations.vectors import Descs, RmaMsg
from amoeba.transport.posting import INLINE_SIZE, total
from amoeba.transport.requests import Kind, Request

__all__ = ["RmaOperations"]

_WRITE = int(DescriptorOpcode.WRITE)
_READ = int(DescriptorOpcode.READ)
_WRITES, _READS = int(Kind.WRITE), int(Kind.READ)
_SOURCE = int(MrAccess.FI_WRITE)
_number = int.from_bytes
_INLINE = int(DescriptorFlags.INLINE)
_MORE = int(OpFlags.FI_MORE)
_REPORT = int(OpFlags.FI_COMPLETION)


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
        if (
            buf.__class__ is ndarray
            and buf.size == 1
            and (length := buf.nbytes) <= INLINE_SIZE
            and buf.dtype in DATATYPES
            and flags.__class__ is OpFlags
            and desc is None
            and not ((bits := flags + 0) | self._default_bits) & NOT_AT_ONCE
            and addr.__class__ is key.__class__ is dest_addr.__class__ is int
            and not (addr | key) >> 64
            and (peer := self._near.get(dest_addr)) is not None
            and (rings := self._rings) is not None
        ):
            # one number, to a peer that is known: most writes of a program that counts in cycles
            rings.post(
                Request(context, _WRITES, self._selective and not bits & _REPORT, dest_addr, length),
                bits & _MORE, peer, _WRITE, _INLINE, 0, 0, length, addr, key,
                _number(buf, "little"), 0, 0,
            )  # fmt: skip
            return
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
        data = check_number("data", data)
        flags = without_data(flags)
        self._write(buf, dest_addr, addr, key, desc, context, flags, self._selective, data)

    def inject_write(self, buf: Buffer, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`write` of at most INJECT_SIZE bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._write(buf, dest_addr, addr, key, None, None, OpFlags.FI_INJECT, True)

    def inject_writedata(self, buf: Buffer, data: int, dest_addr: int, addr: int, key: int) -> None:
        """:meth:`writedata` as :meth:`inject_write` does it."""
        data = check_number("data", data)
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
        if MAY_READ & ~self._rights:
            raise self._not_permitted(MAY_READ)
        sink = view_of(buf, writable=True)
        length = sink.nbytes
        if addr.__class__ is not int or key.__class__ is not int:
            addr, key = check_number("addr", addr), check_number("key", key)
        bits, silent = self._check_request(flags, length, addr, key, self._selective, READ_FLAGS)
        self._submit(
            rings, self._open_peers, _READS, _READ, 0, 0, None, None, sink, None, desc, 0, length, dest_addr, addr,
            key, context, bits, silent,
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
        if MAY_WRITE & ~self._rights:
            raise self._not_permitted(MAY_WRITE)
        source = view_of(buf)
        length = source.nbytes
        if addr.__class__ is not int or key.__class__ is not int:
            addr, key = check_number("addr", addr), check_number("key", key)
        bits, silent = self._check_request(flags, length, addr, key, silent, CHANGE_FLAGS)
        self._submit(
            rings, self._open_peers, _WRITES, _WRITE, 0, 0, source, None, None, desc, None, _SOURCE, length,
            dest_addr, addr, key, context, bits, silent, data,
        )  # fmt: skip

    def _rma_vector(self, opcode: int, msg: RmaMsg, whole: tuple[int, int] | None, flags: OpFlags) -> None:
        """``whole``: (addr, key) of as many bytes in a row as there are, not the message's; without data."""
        rings = self._rings or self._not_enabled()
        check_instance("msg", msg, RmaMsg)
        writes = opcode == _WRITE
        needed = MAY_WRITE if writes else MAY_READ
        if needed & ~self._rights:
            raise self._not_permitted(needed)
        buffers = locals_of(self.domain, msg.msg_iov, msg.desc, "msg_iov", writable=not writes)
        length = total(buffers)
        if whole is None:
            remote = [Segment(iov.addr, iov.len, iov.key) for iov in msg.rma_iov]
        else:
            remote = [Segment(check_number("addr", whole[0]), length, check_number("key", whole[1]))]
        bits, silent, data = self._check_vector_request(
            flags,
            length,
            remote,
            check_number("data", msg.data) if whole is None else None,
            CHANGE_FLAGS if writes else READ_FLAGS,
        )
        self._submit_vector(
            rings, self._open_peers, _WRITES if writes else _READS, opcode, 0, 0, buffers if writes else (), (),
            () if writes else buffers, length, remote, msg.addr, msg.context, bits, silent, data,
        )  # fmt: skip
