"""Messages, as fi_msg(3) and fi_tagged(3) define them."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventFlags, ReceiveOpcode

from amoeba.constants import FI_ADDR_UNSPEC, Caps, Errno, MrAccess, OpFlags
from amoeba.deferral import Deferral
from amoeba.errors import fabric_error
from amoeba.events import Event
from amoeba.memory import Buffer
from amoeba.operations import NO_FLAGS, TRANSMIT_FLAGS, Local, Operations, gathered, total
from amoeba.receive import MAX_RECEIVE_SEGMENTS, Receiver
from amoeba.receives import Claim, Match, Receive, Receives
from amoeba.rings import Ending, Operation
from amoeba.vectors import Descs, Msg, TaggedMsg

if TYPE_CHECKING:
    from amoeba.domain import MemoryRegion

__all__ = ["MAX_RECEIVE", "MessageOperations"]

MAX_RECEIVE = (1 << 32) - 1
"""Most bytes of a receive's buffers."""
_U64 = 2**64 - 1
_SEND = MrAccess.FI_SEND
_RECV = MrAccess.FI_RECV
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
_REPORT = int(OpFlags.FI_COMPLETION)
_MATCHED = int(OpFlags.FI_MATCH_COMPLETE)
_REMOTE_CQ_DATA = int(OpFlags.FI_REMOTE_CQ_DATA)
_MULTI = int(OpFlags.FI_MULTI_RECV)
_PEEK = int(OpFlags.FI_PEEK)
_CLAIM = int(OpFlags.FI_CLAIM)
_DISCARD = int(OpFlags.FI_DISCARD)
_RECEIVE_FLAGS = _MORE | _REPORT | _MULTI
_SEARCH_FLAGS = _MORE | _REPORT | _PEEK | _CLAIM | _DISCARD
_UNTAGGED = Match(tagged=False)


class MessageOperations(Operations):
    """The calls of fi_msg(3) and fi_tagged(3); :class:`amoeba.Endpoint` says what their arguments are."""

    _receiver: Receiver | None = None
    """The receiving half of the endpoint."""

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
        self._send(msg, flags, msg.data if int(flags) & _REMOTE_CQ_DATA else None)

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
        self._send(msg, flags, msg.data if int(flags) & _REMOTE_CQ_DATA else None)

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

    # fi_recv

    def recv(
        self,
        buf: Buffer,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Receive a message into ``buf``; with FI_MULTI_RECV message after message."""
        self._recv(Msg([buf], src_addr, [desc], context), flags)

    def recvv(
        self,
        iov: Sequence[Buffer],
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Receive a message into buffers, one after the other."""
        self._recv(Msg(iov, src_addr, desc, context), flags)

    def recvmsg(self, msg: Msg, flags: OpFlags = NO_FLAGS) -> None:
        """:meth:`recvv`; ``msg.addr`` is the ``src_addr``."""
        self._recv(msg, flags)

    # fi_trecv

    def trecv(
        self,
        buf: Buffer,
        tag: int,
        ignore: int = 0,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Receive a message whose tag is ``tag``, but for the bits in ``ignore``."""
        self._recv(TaggedMsg([buf], src_addr, tag, ignore, [desc], context), flags)

    def trecvv(
        self,
        iov: Sequence[Buffer],
        tag: int,
        ignore: int = 0,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: Descs = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """:meth:`trecv` into buffers, one after the other."""
        self._recv(TaggedMsg(iov, src_addr, tag, ignore, desc, context), flags)

    def trecvmsg(self, msg: TaggedMsg, flags: OpFlags = NO_FLAGS) -> None:
        """:meth:`trecvv`; ``msg.addr`` is the ``src_addr``. With other flags something else:

        FI_PEEK
            Report whether such a message has come and was not received: an entry with its length, tag, data and
            sender, or an error with FI_ENOMSG. A short message is also copied into the buffers, as much as fits, and
            ``buf`` of the entry is the address of the first.
        FI_PEEK | FI_CLAIM
            The same; the message is kept for the receive with FI_CLAIM and the same ``context``.
        FI_PEEK | FI_DISCARD
            The same; the message is dropped.
        FI_CLAIM
            Receive the message claimed with this ``context``.
        FI_CLAIM | FI_DISCARD
            Drop it.

        Raises FI_EINVAL if nothing was claimed with this ``context``, FI_EBADFLAGS for other combinations.
        """
        bits = int(flags)
        if bits & (_PEEK | _CLAIM | _DISCARD):
            receives = self._receiving()
            receive, buffers = self._checked_receive(msg, bits, _SEARCH_FLAGS)
            if bits & _PEEK:
                self._search(receives, receive, bits)
            else:
                self._use_claim(receives, receive, buffers, bits)
        else:
            self._recv(msg, flags)

    # How sends are done

    def _send(self, msg: Msg | TaggedMsg, flags: OpFlags, data: int | None = None, *, silent: bool = False) -> None:
        rings = self._rings or self._not_enabled()
        tagged = isinstance(msg, TaggedMsg)
        tag = msg.tag if isinstance(msg, TaggedMsg) else 0
        _check_tag(tag)
        buffers = self._locals(msg.msg_iov, msg.desc, "msg_iov", writable=False, access=_SEND)
        length = total(buffers)
        if data is not None:
            self._check_data(data)
            flags &= ~OpFlags.FI_REMOTE_CQ_DATA  # goes without saying
        payload = self._nic.parameters.payload
        # a datagram is never read by its receiver
        allowed = _SEND_FLAGS if self.max_msg_size > payload else TRANSMIT_FLAGS
        bits, silent = self._check_request(flags, length, 0, 0, silent or self._selective, allowed, self.max_msg_size)
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
                "it learns when one has been read if a queue is bound with FI_RECV, or caps with FI_SEND are given, "
                "and its context is not shared",
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
            self._grant([source]),
            length,
            peer,
            tag,
            data or 0,
        )

    # How receives are done

    def _cancel_receive(self, context: Any) -> bool:
        """Take the oldest receive with this ``context`` back; whether there is one."""
        receives = None if self._receiver is None else self._receiver.receives
        return receives is not None and receives.cancel(context)

    def _receiving(self) -> Receives:
        """The receive ring. Raises FI_EOPBADSTATE before enable(), FI_EOPNOTSUPP if there is none, FI_ENOTCONN."""
        if self._rings is None:
            self._not_enabled()
        if self._connection is not None:
            self._connection.check_receiving()
        receives = None if self._receiver is None else self._receiver.receives
        if receives is None:
            raise fabric_error(
                Errno.FI_EOPNOTSUPP,
                "this endpoint receives no messages: bind a queue with FI_RECV, and if you give caps, FI_RECV with "
                "FI_MSG or FI_TAGGED",
            )
        return receives

    def _checked_receive(self, msg: Msg | TaggedMsg, bits: int, allowed: int) -> tuple[Receive, Sequence[Local]]:
        """What a receive of this message would be, and its buffers.

        Raises FI_EBADFLAGS, FI_EMSGSIZE, FI_EINVAL and what buffers raise.
        """
        assert self._receiver is not None
        if bits & ~allowed:
            raise fabric_error(Errno.FI_EBADFLAGS, f"not supported here: {OpFlags(bits & ~allowed)!r}")
        buffers = self._locals(msg.msg_iov, msg.desc, "msg_iov", writable=True, access=_RECV)
        if total(buffers) > MAX_RECEIVE:
            raise fabric_error(Errno.FI_EMSGSIZE, f"a receive has at most {MAX_RECEIVE} bytes, got {total(buffers)}")
        if isinstance(msg, TaggedMsg):
            _check_tag(msg.tag)
            _check_tag(msg.ignore)
            match = Match(True, msg.tag, msg.ignore)
        else:
            match = _UNTAGGED
        if self._connection is None and self._receiver.directed and msg.addr != FI_ADDR_UNSPEC:
            match = replace(match, source=self._receiver.identity_of(msg.addr))
        if sum(1 for buffer in buffers if buffer.length) > MAX_RECEIVE_SEGMENTS:
            raise fabric_error(
                Errno.FI_EINVAL, f"a receive has at most {MAX_RECEIVE_SEGMENTS} buffers, got {len(buffers)}"
            )
        receive = Receive(
            match,
            msg.context,
            self._receiver.selective and not bits & _REPORT,
            tuple(buffer.view for buffer in buffers),
            keep=tuple(buffer.desc for buffer in buffers),
        )
        return receive, buffers

    def _recv(self, msg: Msg | TaggedMsg, flags: OpFlags) -> None:
        receives = self._receiving()
        assert self._receiver is not None
        bits = int(flags)
        receive, buffers = self._checked_receive(msg, bits, _RECEIVE_FLAGS)
        receive.multi = bool(bits & _MULTI)
        if receive.multi and not (self._receiver.multi and len(buffers) == 1 and receive.length):
            raise fabric_error(
                Errno.FI_EINVAL,
                "FI_MULTI_RECV takes one buffer of a byte or more, and caps with FI_MULTI_RECV if caps are given; "
                f"got {len(buffers)} buffers",
            )
        receives.check_space()
        self._prepare(receive, buffers)
        receives.post(receive, self._receiver.min_multi_recv, bool(bits & _MORE))

    def _prepare(self, receive: Receive, buffers: Sequence[Local]) -> None:
        """Make the buffers accessible to the NIC, which reads long messages into each of them.

        Others meet scattered buffers in memory of the driver's.
        """
        used = list(buffers)
        if sum(1 for buffer in buffers if buffer.length) > 1:
            used.append(Local(receive.gather(), None, writable=True))
        receive.grants = self._grant(used)

    def _search(self, receives: Receives, receive: Receive, bits: int) -> None:
        """Post a search for a message."""
        claimed, discarded = bool(bits & _CLAIM), bool(bits & _DISCARD)
        if claimed and discarded:
            raise fabric_error(Errno.FI_EBADFLAGS, "a message is claimed or discarded, not both")

        def found(event: Event) -> int:
            message = receives.slot(event)
            seen = 0
            if not (discarded or event.flags & EventFlags.LONG) and receive.fill(message):
                seen = receive.address
            if claimed:
                receives.claims.append(Claim(receive.context, event, bytes(message)))
            elif discarded:
                receives.discard(event, message)
            if claimed or discarded:
                receives.release_slot(event)
            return seen

        receive.found = found
        receive.opcode = ReceiveOpcode.TAKE if claimed or discarded else ReceiveOpcode.PEEK
        receives.check_space(receive.opcode)
        receives.post(receive, 0, bool(bits & _MORE))

    def _use_claim(self, receives: Receives, receive: Receive, buffers: Sequence[Local], bits: int) -> None:
        """Receive or drop a message that was claimed before."""
        claim = receives.claim(receive.context) if bits & _CLAIM else None
        if claim is None:
            raise fabric_error(Errno.FI_EINVAL, f"no message was claimed with context {receive.context!r}")
        if bits & _DISCARD:
            receives.drop(claim, receive)
            return
        self._prepare(receive, buffers)
        receives.deliver(claim, receive)


def _check_tag(tag: int) -> None:
    if not 0 <= tag <= _U64:
        raise fabric_error(Errno.FI_EINVAL, f"a tag has 64 bits, got {tag:#x}")
