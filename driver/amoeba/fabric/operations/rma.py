"""Remote memory access, as fi_rma(3) defines it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorOpcode

from amoeba.core.buffers import Buffer, Segment, view_of
from amoeba.fabric.constants import Caps, OpFlags
from amoeba.fabric.operations.operations import (
    CHANGE_FLAGS,
    NO_FLAGS,
    TRANSMIT_FLAGS,
    Local,
    Operations,
    locals_of,
    total,
)
from amoeba.fabric.operations.vectors import Descs, RmaMsg

if TYPE_CHECKING:
    from amoeba.fabric.memory_region import MemoryRegion

__all__ = ["RmaOperations"]

_WRITE = DescriptorOpcode.WRITE
_READ = DescriptorOpcode.READ
_CQ_WRITE = int(Caps.FI_RMA | Caps.FI_WRITE)
_CQ_READ = int(Caps.FI_RMA | Caps.FI_READ)


class RmaOperations(Operations):
    """The calls of fi_rma(3); :class:`amoeba.Endpoint` says what their arguments are."""

    def write(
        self,
        buf: Buffer,
        dest_addr: int,
        addr: int,
        key: int,
        *,
        desc: "MemoryRegion | None" = None,
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
        desc: "MemoryRegion | None" = None,
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
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Copy the peer's memory into ``buf``."""
        rings = self._rings or self._not_enabled()
        result = Local(view_of(buf, writable=True), desc, writable=True)
        bits, silent = self._check_request(flags, result.length, addr, key, self._selective)
        self._submit(
            rings, _READ, 0, 0, None, None, result, result.length, dest_addr, addr, key, _CQ_READ, context, bits,
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
        desc: "MemoryRegion | None",
        context: Any,
        flags: OpFlags,
        silent: bool,
        data: int | None = None,
    ) -> None:
        rings = self._rings or self._not_enabled()
        source = Local(view_of(buf), desc, writable=False)
        bits, silent = self._check_request(flags, source.length, addr, key, silent, CHANGE_FLAGS)
        self._submit(
            rings, _WRITE, 0, 0, source, None, None, source.length, dest_addr, addr, key, _CQ_WRITE, context, bits,
            silent, data,
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
            rings, opcode, 0, 0, buffers if writes else (), (), () if writes else buffers, length, remote, msg.addr,
            _CQ_WRITE if writes else _CQ_READ, msg.context, bits, silent, data,
        )  # fmt: skip
