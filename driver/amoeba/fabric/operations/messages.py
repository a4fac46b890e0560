"""Messages, as fi_msg(3) and fi_tagged(3) define them: sending (receiving: ``receiving``)."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode

from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.fabric.constants import FI_ADDR_UNSPEC, Caps, MrAccess, OpFlags
from amoeba.fabric.operations.operations import (
    NO_FLAGS,
    TRANSMIT_FLAGS,
    Local,
    Operations,
    gathered,
    grant,
    locals_of,
    total,
)
from amoeba.fabric.operations.receiving import ReceiveOperations, check_tag
from amoeba.fabric.operations.vectors import Descs, Msg, TaggedMsg
from amoeba.fabric.triggered.deferral import Deferral
from amoeba.transport.requests import Ending, Operation

if TYPE_CHECKING:
    from amoeba.fabric.memory_region import MemoryRegion

__all__ = ["MessageOperations"]

_SEND = MrAccess.FI_SEND
_CQ_SEND = int(Caps.FI_MSG | Caps.FI_SEND)
_CQ_TAGGED_SEND = int(Caps.FI_TAGGED | Caps.FI_SEND)
_LONG_OPCODES = {
    DescriptorOpcode.SEND: DescriptorOpcode.RENDEZVOUS_SEND,
    DescriptorOpcode.TAGGED_SEND: DescriptorOpcode.RENDEZVOUS_TAGGED_SEND,
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
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Send ``buf`` to the oldest receive of the peer's."""
        self._send(Msg([buf], dest_addr, [desc], context), flags)

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
        self._send(msg, flags, msg.data if int(flags) & _REMOTE_CQ_DATA else None, overrides=True)

    def senddata(
        self,
        buf: Buffer,
        data: int,
        dest_addr: int = FI_ADDR_UNSPEC,
        *,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`send`, and ``data`` (64 bits) in the entry of the peer's receive."""
        self._send(Msg([buf], dest_addr, [desc], context), flags, data)

    def inject(self, buf: Buffer, dest_addr: int = FI_ADDR_UNSPEC) -> None:
        """:meth:`send` of at most INJECT_SIZE bytes that may be changed at once, and no completion unless it fails.

        Raises FI_EINVAL for more bytes.
        """
        self._send(Msg([buf], dest_addr), OpFlags.FI_INJECT, silent=True)

    def injectdata(self, buf: Buffer, data: int, dest_addr: int = FI_ADDR_UNSPEC) -> None:
        """:meth:`senddata` as :meth:`inject` does it."""
        self._send(Msg([buf], dest_addr), OpFlags.FI_INJECT, data, silent=True)

    # fi_tsend

    def tsend(
        self,
        buf: Buffer,
        dest_addr: int,
        tag: int,
        *,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Send ``buf`` to the oldest receive of the peer's that wants this tag."""
        self._send(TaggedMsg([buf], dest_addr, tag, desc=[desc], context=context), flags)

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
        self._send(msg, flags, msg.data if int(flags) & _REMOTE_CQ_DATA else None, overrides=True)

    def tsenddata(
        self,
        buf: Buffer,
        data: int,
        dest_addr: int,
        tag: int,
        *,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`tsend`, and ``data`` (64 bits) in the entry of the peer's receive."""
        self._send(TaggedMsg([buf], dest_addr, tag, desc=[desc], context=context), flags, data)

    def tinject(self, buf: Buffer, dest_addr: int, tag: int) -> None:
        """:meth:`tsend` as :meth:`inject` does it."""
        self._send(TaggedMsg([buf], dest_addr, tag), OpFlags.FI_INJECT, silent=True)

    def tinjectdata(self, buf: Buffer, data: int, dest_addr: int, tag: int) -> None:
        """:meth:`tsenddata` as :meth:`inject` does it."""
        self._send(TaggedMsg([buf], dest_addr, tag), OpFlags.FI_INJECT, data, silent=True)

    # How sends are done

    def _send(
        self,
        msg: Msg | TaggedMsg,
        flags: OpFlags,
        data: int | None = None,
        *,
        silent: bool = False,
        overrides: bool = False,
    ) -> None:
        rings = self._rings or self._not_enabled()
        tagged = isinstance(msg, TaggedMsg)
        tag = msg.tag if isinstance(msg, TaggedMsg) else 0
        check_tag(tag)
        buffers = locals_of(msg.msg_iov, msg.desc, "msg_iov", writable=False, access=_SEND)
        length = total(buffers)
        if data is not None:
            self._check_data(data)
            flags &= ~OpFlags.FI_REMOTE_CQ_DATA  # goes without saying
        payload = self._nic.parameters.payload
        # a datagram is never read by its receiver
        allowed = _SEND_FLAGS if self.max_msg_size > payload else TRANSMIT_FLAGS
        silent = silent or self._silent(overrides)
        bits, silent = self._check_request(
            flags, length, 0, 0, silent, allowed, self.max_msg_size, overrides=overrides
        )
        opcode = DescriptorOpcode.TAGGED_SEND if tagged else DescriptorOpcode.SEND
        cq_flags = _CQ_TAGGED_SEND if tagged else _CQ_SEND
        if length > payload or bits & _MATCHED:
            self._send_long(opcode, msg.addr, buffers, length, tag, cq_flags, msg.context, bits, silent, data)
            return
        source = buffers[0] if len(buffers) == 1 else gathered(buffers, length)
        self._submit(
            rings, opcode, 0, 0, source, None, None, length, msg.addr, 0, tag, cq_flags, msg.context, bits, silent,
            data,
        )  # fmt: skip

    def _send_long(
        self,
        opcode: DescriptorOpcode,
        dest_addr: int,
        buffers: Sequence[Local],
        length: int,
        tag: int,
        cq_flags: int,
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
                f"this endpoint sends {self._nic.parameters.payload} bytes at most, without FI_MATCH_COMPLETE: "
                "for more, its caps need FI_SEND with FI_MSG or FI_TAGGED",
            )
        if bits & _TRIGGER:
            post = functools.partial(self._send_long, opcode, dest_addr, buffers, length, tag, cq_flags)
            self._defer(rings, dest_addr, cq_flags, context, bits, silent, length, data, post, buffers)
            return
        if self._connection is not None:
            dest_addr = self._connection.destination()
        peer = self._open_peers.get(dest_addr)
        if peer is None:
            peer = self._find_peer(dest_addr)
        rings.check_space()
        whole = len(buffers) == 1 and length and not bits & _INJECT
        source = buffers[0] if whole else gathered(buffers, length)
        flags = int(DescriptorFlags.FENCE) if bits & _FENCE else 0
        if data is not None:
            flags |= DescriptorFlags.IMMEDIATE
        ending = Ending(length)
        ending.deferral = deferral
        sends.post(
            Operation(context, cq_flags, silent, dest_addr, ((source.view, source.desc),), ending),
            bool(bits & _MORE),
            _LONG_OPCODES[opcode],
            flags,
            source.segment,
            grant(self._nic, [source]),
            length,
            peer,
            tag,
            data or 0,
        )

    # What receives need to know

    def _check_receiving(self) -> None:
        if self._rings is None:
            self._not_enabled()
        if self._connection is not None:
            self._connection.check_receiving()

    def _sender(self, src_addr: int) -> tuple[int, int] | None:
        return super()._sender(src_addr) if self._connection is None else None
