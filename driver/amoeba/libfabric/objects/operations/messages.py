"""Messages, as fi_msg(3) and fi_tagged(3) define them: sending (receiving: ``receiving``)."""

import functools
from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorOpcode

from amoeba.core.buffers import Buffer, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.checks import check_instance, check_number, check_op_flags
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, MrAccess, OpFlags
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import local_of, locals_of
from amoeba.libfabric.objects.operations.operations import (
    NO_FLAGS,
    TRANSMIT_FLAGS,
    Operations,
    without_data,
)
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.operations.rights import MAY_SEND, MAY_TAGGED_SEND
from amoeba.libfabric.objects.operations.vectors import Descs, Msg, TaggedMsg
from amoeba.transport.operation import Operation, begun, carry
from amoeba.transport.posting import Local, gathered, grants_of, keep_of, total
from amoeba.transport.receives import ANYBODY
from amoeba.transport.requests import Kind

__all__ = ["MessageOperations"]

_SEND = int(MrAccess.FI_SEND)
_SENDS, _TAGGED_SENDS = int(Kind.SEND), int(Kind.TAGGED_SEND)
_SEND_OPCODE, _TAGGED_SEND_OPCODE = int(DescriptorOpcode.SEND), int(DescriptorOpcode.TAGGED_SEND)
_LONG_OPCODES = {
    _SEND_OPCODE: int(DescriptorOpcode.RENDEZVOUS_SEND),
    _TAGGED_SEND_OPCODE: int(DescriptorOpcode.RENDEZVOUS_TAGGED_SEND),
}
_SEND_FLAGS = TRANSMIT_FLAGS | int(OpFlags.FI_MATCH_COMPLETE)
_TRIGGER = int(OpFlags.FI_TRIGGER)
_INJECT = int(OpFlags.FI_INJECT)
_MATCHED = int(OpFlags.FI_MATCH_COMPLETE)
_REMOTE_CQ_DATA = int(OpFlags.FI_REMOTE_CQ_DATA)


class MessageOperations(Operations, ReceiveOperations):
    """The calls of fi_msg(3) and fi_tagged(3); :class:`amoeba.Endpoint` says what their arguments are."""

    # fi_send

    def send(
        self,
        buf: Buffer,
        dest_addr: int = FI_ADDR_UNSPEC,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Send ``buf`` to the oldest receive of the peer's."""
        self._send_one(begun(_SENDS, _SEND_OPCODE, context, dest_addr), buf, desc, flags, self._selective)

    def sendv(
        self,
        iov: Sequence[Buffer],
        dest_addr: int = FI_ADDR_UNSPEC,
        *,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Send buffers, one after the other, as one message."""
        self._send(Msg(iov, dest_addr, desc, context), flags)

    def sendmsg(self, msg: Msg, flags: OpFlags = NO_FLAGS) -> None:
        """:meth:`sendv`, with FI_REMOTE_CQ_DATA also with ``msg.data``."""
        check_instance("msg", msg, Msg)
        data = check_number("data", msg.data) if check_op_flags(flags) & _REMOTE_CQ_DATA else None
        self._send(msg, flags, data, overrides=True)

    def senddata(
        self,
        buf: Buffer,
        data: int,
        dest_addr: int = FI_ADDR_UNSPEC,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`send`, and ``data`` (64 bits) in the entry of the peer's receive."""
        operation = begun(_SENDS, _SEND_OPCODE, context, dest_addr)
        carry(operation, check_number("data", data))
        self._send_one(operation, buf, desc, flags, self._selective)

    def inject(self, buf: Buffer, dest_addr: int = FI_ADDR_UNSPEC) -> None:
        """:meth:`send` of at most INJECT_SIZE bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._send_one(begun(_SENDS, _SEND_OPCODE, None, dest_addr), buf, None, OpFlags.FI_INJECT, True)

    def injectdata(self, buf: Buffer, data: int, dest_addr: int = FI_ADDR_UNSPEC) -> None:
        """:meth:`senddata` as :meth:`inject` does it."""
        operation = begun(_SENDS, _SEND_OPCODE, None, dest_addr)
        carry(operation, check_number("data", data))
        self._send_one(operation, buf, None, OpFlags.FI_INJECT, True)

    # fi_tsend

    def tsend(
        self,
        buf: Buffer,
        dest_addr: int,
        tag: int,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Send ``buf`` to the oldest receive of the peer's that wants this tag."""
        operation = begun(_TAGGED_SENDS, _TAGGED_SEND_OPCODE, context, dest_addr, 0, tag)
        self._send_one(operation, buf, desc, flags, self._selective)

    def tsendv(
        self,
        iov: Sequence[Buffer],
        dest_addr: int,
        tag: int,
        *,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Send buffers, one after the other, as one tagged message."""
        self._send(TaggedMsg(iov, dest_addr, tag, desc=desc, context=context), flags)

    def tsendmsg(self, msg: TaggedMsg, flags: OpFlags = NO_FLAGS) -> None:
        """:meth:`tsendv`, with FI_REMOTE_CQ_DATA also with ``msg.data``."""
        check_instance("msg", msg, TaggedMsg)
        data = check_number("data", msg.data) if check_op_flags(flags) & _REMOTE_CQ_DATA else None
        self._send(msg, flags, data, overrides=True)

    def tsenddata(
        self,
        buf: Buffer,
        data: int,
        dest_addr: int,
        tag: int,
        *,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`tsend`, and ``data`` (64 bits) in the entry of the peer's receive."""
        operation = begun(_TAGGED_SENDS, _TAGGED_SEND_OPCODE, context, dest_addr, 0, tag)
        carry(operation, check_number("data", data))
        self._send_one(operation, buf, desc, flags, self._selective)

    def tinject(self, buf: Buffer, dest_addr: int, tag: int) -> None:
        """:meth:`tsend` as :meth:`inject` does it."""
        operation = begun(_TAGGED_SENDS, _TAGGED_SEND_OPCODE, None, dest_addr, 0, tag)
        self._send_one(operation, buf, None, OpFlags.FI_INJECT, True)

    def tinjectdata(self, buf: Buffer, data: int, dest_addr: int, tag: int) -> None:
        """:meth:`tsenddata` as :meth:`inject` does it."""
        operation = begun(_TAGGED_SENDS, _TAGGED_SEND_OPCODE, None, dest_addr, 0, tag)
        carry(operation, check_number("data", data))
        self._send_one(operation, buf, None, OpFlags.FI_INJECT, True)

    # How sends are done

    def _send_one(
        self, operation: Operation, buf: Buffer, desc: MemoryRegion | None, flags: OpFlags, silent: bool
    ) -> None:
        """Send one buffer."""
        needed = MAY_SEND if operation.opcode == _SEND_OPCODE else MAY_TAGGED_SEND
        if self._rings is None or needed & ~self._rights:
            self._refuse(needed)
        source = view_of(buf)
        operation.length = source.nbytes
        operation.silent = silent
        bits = self._checked_send(operation, flags, overrides=False)
        if operation.length > self._payload or bits & _MATCHED:
            local = local_of(self.domain, buf, desc, "buf", writable=False, access=MrAccess.FI_SEND)
            self._send_long(operation, bits, [local])
            return
        self._submit(operation, bits, source, desc, _SEND)

    def _send(
        self, msg: Msg | TaggedMsg, flags: OpFlags, data: int | None = None, *, overrides: bool = False
    ) -> None:
        """Send buffers. ``overrides``: ``flags`` are instead of the endpoint's."""
        needed = MAY_TAGGED_SEND if isinstance(msg, TaggedMsg) else MAY_SEND
        if self._rings is None or needed & ~self._rights:
            self._refuse(needed)
        if isinstance(msg, TaggedMsg):
            operation = begun(_TAGGED_SENDS, _TAGGED_SEND_OPCODE, msg.context, msg.addr, 0, msg.tag)
        else:
            operation = begun(_SENDS, _SEND_OPCODE, msg.context, msg.addr)
        if data is not None:
            carry(operation, data)
        buffers = locals_of(self.domain, msg.msg_iov, msg.desc, "msg_iov", writable=False, access=MrAccess.FI_SEND)
        operation.length = length = total(buffers)
        operation.silent = self._selective_queue if overrides else self._selective
        bits = self._checked_send(operation, flags, overrides=overrides)
        if length > self._payload or bits & _MATCHED:
            self._send_long(operation, bits, buffers)
            return
        source = buffers[0] if len(buffers) == 1 else gathered(buffers, length)
        self._submit(operation, bits, source.view, source.keep, _SEND)

    def _checked_send(self, operation: Operation, flags: OpFlags, *, overrides: bool) -> int:
        """Check a message as :meth:`_check` does; returns the flags as bits."""
        if operation.flags:
            flags = without_data(flags)
        tag = operation.remote_key
        if tag.__class__ is not int or tag >> 64:
            operation.remote_key = check_number("tag", tag)
        # a datagram is never read by its receiver
        allowed = _SEND_FLAGS if self.max_msg_size > self._payload else TRANSMIT_FLAGS
        return self._check(operation, flags, allowed, self.max_msg_size, overrides=overrides)

    def _send_long(self, operation: Operation, bits: int, buffers: Sequence[Local]) -> None:
        """Send a message that its receiver reads."""
        sends = None if self._receiver is None else self._receiver.long_sends
        if sends is None:
            raise fabric_error(
                Errno.FI_EMSGSIZE,
                f"this endpoint sends {self._payload} bytes at most, without FI_MATCH_COMPLETE: "
                "for more, its caps need FI_SEND with FI_MSG or FI_TAGGED",
            )
        if bits & _TRIGGER:
            bits &= ~_TRIGGER
            self._defer(operation, bits, functools.partial(self._send_long, operation, bits, buffers), buffers)
            return
        self._address(operation, bits)
        whole = len(buffers) == 1 and operation.length and not bits & _INJECT
        source = buffers[0] if whole else gathered(buffers, operation.length)
        operation.buffers, operation.grants = keep_of([source]), grants_of([source])
        operation.opcode = _LONG_OPCODES.get(operation.opcode, operation.opcode)
        sends.post(operation, source.segment, operation.remote_key)

    # What receives need to know

    def _check_receiving(self) -> None:
        if self._rings is None:
            self._not_enabled()
        if self._connection is not None:
            self._connection.check_receiving()

    def _sender(self, src_addr: int) -> tuple[int, int]:
        return super()._sender(src_addr) if self._connection is None else ANYBODY
