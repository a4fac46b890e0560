"""Messages, as fi_msg(3) and fi_tagged(3) define them: sending (receiving: ``receiving``)."""

import functools
from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode

from amoeba.core.buffers import Buffer, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.checks import check_instance, check_number, check_op_flags
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, MrAccess, OpFlags
from amoeba.libfabric.objects.deferral import Deferral
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import local_of, locals_of
from amoeba.libfabric.objects.operations.operations import (
    NO_FLAGS,
    TRANSMIT_FLAGS,
    Operations,
    deferred,
    without_data,
)
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.operations.rights import MAY_SEND, MAY_TAGGED_SEND
from amoeba.libfabric.objects.operations.vectors import Descs, Msg, TaggedMsg
from amoeba.transport.posting import Local, gathered, grants_of, keep_of, total
from amoeba.transport.receives import ANYBODY
from amoeba.transport.requests import Kind, Request

__all__ = ["MessageOperations"]

_SEND = int(MrAccess.FI_SEND)
_SENDS, _TAGGED_SENDS = int(Kind.SEND), int(Kind.TAGGED_SEND)
_SEND_OPCODE, _TAGGED_SEND_OPCODE = int(DescriptorOpcode.SEND), int(DescriptorOpcode.TAGGED_SEND)
_LONG_OPCODES = {
    _SEND_OPCODE: int(DescriptorOpcode.RENDEZVOUS_SEND),
    _TAGGED_SEND_OPCODE: int(DescriptorOpcode.RENDEZVOUS_TAGGED_SEND),
}
_SEND_FLAGS = TRANSMIT_FLAGS | int(OpFlags.FI_MATCH_COMPLETE)
_MORE = int(OpFlags.FI_MORE)
_FENCE = int(OpFlags.FI_FENCE)
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
        self._send_one(_SEND_OPCODE, buf, dest_addr, 0, desc, context, flags)

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
        data = check_number("data", data)
        self._send_one(_SEND_OPCODE, buf, dest_addr, 0, desc, context, flags, data)

    def inject(self, buf: Buffer, dest_addr: int = FI_ADDR_UNSPEC) -> None:
        """:meth:`send` of at most INJECT_SIZE bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._send_one(_SEND_OPCODE, buf, dest_addr, 0, None, None, OpFlags.FI_INJECT, silent=True)

    def injectdata(self, buf: Buffer, data: int, dest_addr: int = FI_ADDR_UNSPEC) -> None:
        """:meth:`senddata` as :meth:`inject` does it."""
        data = check_number("data", data)
        self._send_one(_SEND_OPCODE, buf, dest_addr, 0, None, None, OpFlags.FI_INJECT, data, silent=True)

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
        self._send_one(_TAGGED_SEND_OPCODE, buf, dest_addr, tag, desc, context, flags)

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
        data = check_number("data", data)
        self._send_one(_TAGGED_SEND_OPCODE, buf, dest_addr, tag, desc, context, flags, data)

    def tinject(self, buf: Buffer, dest_addr: int, tag: int) -> None:
        """:meth:`tsend` as :meth:`inject` does it."""
        self._send_one(_TAGGED_SEND_OPCODE, buf, dest_addr, tag, None, None, OpFlags.FI_INJECT, silent=True)

    def tinjectdata(self, buf: Buffer, data: int, dest_addr: int, tag: int) -> None:
        """:meth:`tsenddata` as :meth:`inject` does it."""
        data = check_number("data", data)
        self._send_one(_TAGGED_SEND_OPCODE, buf, dest_addr, tag, None, None, OpFlags.FI_INJECT, data, silent=True)

    # How sends are done

    def _send_one(
        self,
        opcode: int,
        buf: Buffer,
        dest_addr: int,
        tag: int,
        desc: MemoryRegion | None,
        context: Any,
        flags: OpFlags,
        data: int | None = None,
        *,
        silent: bool = False,
    ) -> None:
        """Send one buffer."""
        rings = self._rings or self._not_enabled()
        needed = MAY_SEND if opcode == _SEND_OPCODE else MAY_TAGGED_SEND
        if needed & ~self._rights:
            raise self._not_permitted(needed)
        source = view_of(buf)
        length = source.nbytes
        if tag.__class__ is not int or tag >> 64:
            tag = check_number("tag", tag)
        bits, silent = self._checked_send(flags, length, data, silent or self._selective, overrides=False)
        if length > self._payload or bits & _MATCHED:
            local = local_of(self.domain, buf, desc, "buf", writable=False, access=MrAccess.FI_SEND)
            self._send_long(opcode, dest_addr, [local], length, tag, context, bits, silent, data)
            return
        self._submit(
            rings, self._open_for_messages, _TAGGED_SENDS if opcode == _TAGGED_SEND_OPCODE else _SENDS, opcode, 0, 0,
            source, None, None, desc, None, _SEND, length, dest_addr, 0, tag, context, bits, silent, data,
        )  # fmt: skip

    def _send(
        self, msg: Msg | TaggedMsg, flags: OpFlags, data: int | None = None, *, overrides: bool = False
    ) -> None:
        """Send buffers. ``overrides``: ``flags`` are instead of the endpoint's."""
        rings = self._rings or self._not_enabled()
        opcode, tag = (_TAGGED_SEND_OPCODE, msg.tag) if isinstance(msg, TaggedMsg) else (_SEND_OPCODE, 0)
        needed = MAY_SEND if opcode == _SEND_OPCODE else MAY_TAGGED_SEND
        if needed & ~self._rights:
            raise self._not_permitted(needed)
        tag = check_number("tag", tag)
        buffers = locals_of(self.domain, msg.msg_iov, msg.desc, "msg_iov", writable=False, access=MrAccess.FI_SEND)
        length = total(buffers)
        bits, silent = self._checked_send(flags, length, data, self._silent(overrides), overrides=overrides)
        if length > self._payload or bits & _MATCHED:
            self._send_long(opcode, msg.addr, buffers, length, tag, msg.context, bits, silent, data)
            return
        source = buffers[0] if len(buffers) == 1 else gathered(buffers, length)
        self._submit(
            rings, self._open_for_messages, _TAGGED_SENDS if opcode == _TAGGED_SEND_OPCODE else _SENDS, opcode, 0, 0,
            source.view, None, None, source.keep, None, _SEND, length, msg.addr, 0, tag, msg.context, bits, silent,
            data,
        )  # fmt: skip

    def _checked_send(
        self, flags: OpFlags, length: int, data: int | None, silent: bool, *, overrides: bool
    ) -> tuple[int, bool]:
        """What :meth:`_check_request` says of a message."""
        if data is not None:
            flags = without_data(flags)
        # a datagram is never read by its receiver
        allowed = _SEND_FLAGS if self.max_msg_size > self._payload else TRANSMIT_FLAGS
        return self._check_request(flags, length, 0, 0, silent, allowed, self.max_msg_size, overrides=overrides)

    def _send_long(
        self,
        opcode: int,
        dest_addr: int,
        buffers: Sequence[Local],
        length: int,
        tag: int,
        context: Any,
        bits: int,
        silent: bool,
        data: int | None,
        deferral: Deferral | None = None,
    ) -> None:
        rings = self._rings or self._not_enabled()
        sends = None if self._receiver is None else self._receiver.long_sends
        if sends is None:
            raise fabric_error(
                Errno.FI_EMSGSIZE,
                f"this endpoint sends {self._payload} bytes at most, without FI_MATCH_COMPLETE: "
                "for more, its caps need FI_SEND with FI_MSG or FI_TAGGED",
            )
        kind = _TAGGED_SENDS if opcode == _TAGGED_SEND_OPCODE else _SENDS
        if bits & _TRIGGER:
            post = functools.partial(self._send_long, opcode, dest_addr, buffers, length, tag)
            self._defer(rings, dest_addr, kind, context, bits, silent, length, data, post, buffers)
            return
        if self._connection is not None:
            dest_addr = self._connection.destination()
        peer = self._open_for_messages.get(dest_addr)
        if peer is None:
            peer = self._find_peer(dest_addr, self._open_for_messages)
        whole = len(buffers) == 1 and length and not bits & _INJECT
        source = buffers[0] if whole else gathered(buffers, length)
        flags = self._fence(dest_addr, peer) if bits & _FENCE else 0
        if data is not None:
            flags |= DescriptorFlags.IMMEDIATE
        request = Request(context, kind, silent, dest_addr, length, keep_of([source]), grants_of([source]))
        deferred(request, deferral)
        sends.post(request, bits & _MORE, peer, _LONG_OPCODES[opcode], flags, source.segment, tag, data or 0)

    # What receives need to know

    def _check_receiving(self) -> None:
        if self._rings is None:
            self._not_enabled()
        if self._connection is not None:
            self._connection.check_receiving()

    def _sender(self, src_addr: int) -> tuple[int, int]:
        return super()._sender(src_addr) if self._connection is None else ANYBODY
