"""Receiving messages, as fi_msg(3) and fi_tagged(3) define it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.descriptors import EventFlags, ReceiveOpcode

from amoeba.core.buffers import Buffer, address_of, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.checks import check_flags, check_instance, check_number, check_op_flags
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, MrAccess, OpFlags
from amoeba.libfabric.objects.deferral import Deferral
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import check_region, check_unregistered, locals_of
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import Descs, Msg, TaggedMsg
from amoeba.libfabric.objects.receiver import MAX_RECEIVE_SEGMENTS, Receiver
from amoeba.libfabric.objects.triggered import trigger_of
from amoeba.nic.event_ring import Event
from amoeba.nic.nic import Nic
from amoeba.transport.operation import filled
from amoeba.transport.posting import Local, grants_of, total
from amoeba.transport.receives import ANYBODY, Claim, Receive, Receives

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase
    from amoeba.libfabric.objects.queues.completion import CompletionQueue

__all__ = ["MAX_RECEIVE", "RX_OP_FLAGS", "ReceiveOperations", "Receiving"]

MAX_RECEIVE = (1 << 32) - 1
"""Maximum bytes of a receive's buffers."""
_RECV = int(MrAccess.FI_RECV)
_MORE = int(OpFlags.FI_MORE)
_REPORT = int(OpFlags.FI_COMPLETION)
RX_OP_FLAGS = OpFlags.FI_COMPLETION | OpFlags.FI_MULTI_RECV
"""Flags that ``op_flags`` of a receiving object may hold."""
_MULTI = int(OpFlags.FI_MULTI_RECV)
_PEEK = int(OpFlags.FI_PEEK)
_CLAIM = int(OpFlags.FI_CLAIM)
_DISCARD = int(OpFlags.FI_DISCARD)
_TRIGGER = int(OpFlags.FI_TRIGGER)
_LEVEL = int(OpFlags.FI_TRANSMIT_COMPLETE)
"""Completion level that a receive may ask for. Completions always guarantee more: that everybody sees the message."""
_RECEIVE_FLAGS = _MORE | _REPORT | _MULTI | _TRIGGER | _LEVEL
_SEARCH_FLAGS = _MORE | _REPORT | _PEEK | _CLAIM | _DISCARD


def _check_flags(bits: int, allowed: int) -> None:
    if bits & ~allowed:
        raise fabric_error(Errno.FI_EBADFLAGS, f"not supported here: {OpFlags(bits & ~allowed)!r}")


def _check_length(length: int) -> None:
    if length > MAX_RECEIVE:
        raise fabric_error(Errno.FI_EMSGSIZE, f"a receive has at most {MAX_RECEIVE} bytes, got {length}")


class ReceiveOperations(FabricObject):
    """The calls that receive; :class:`amoeba.Endpoint` says what their arguments are."""

    domain: "DomainBase"
    _nic: Nic
    _receiver: Receiver | None = None
    """The receiving half of the endpoint."""
    _receive_bits: int = 0
    """Flags of receives whose call takes none in C: ``rx_attr.op_flags``."""

    def _take_receive_flags(self, flags: OpFlags) -> None:
        """Set the default ``op_flags``. Raises FI_EBADFLAGS for flags that cannot be a default."""
        flags = check_flags(OpFlags, flags, "op_flags")
        if flags & ~RX_OP_FLAGS:
            raise fabric_error(Errno.FI_EBADFLAGS, f"op_flags can have {RX_OP_FLAGS!r}, got {flags!r}")
        self._receive_bits = int(flags)

    def _check_receiving(self) -> None:
        """Raise FI_EOPBADSTATE before enable(), FI_ENOTCONN before there is a peer that one is needed for."""
        raise NotImplementedError

    def _sender(self, src_addr: int) -> tuple[int, int]:
        """IPv4 address and context of the only sender whose messages are wanted; ANYBODY: of all.

        Raises FI_EINVAL for an unknown number.
        """
        assert self._receiver is not None
        if src_addr == FI_ADDR_UNSPEC or not self._receiver.directed:
            return ANYBODY
        return self._receiver.identity_of(src_addr)

    # fi_recv

    def recv(
        self,
        buf: Buffer,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Receive a message into ``buf``; with FI_MULTI_RECV message after message."""
        self._recv_one(False, buf, 0, 0, src_addr, desc, context, flags)

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
        self._recv(Msg(iov, src_addr, desc, context), flags, self._receive_bits)

    def recvmsg(self, msg: Msg, flags: OpFlags = NO_FLAGS) -> None:
        """:meth:`recvv`; ``msg.addr`` is the ``src_addr``.

        FI_PEEK, FI_CLAIM and FI_DISCARD do with messages that have no tag what they do in :meth:`trecvmsg`.
        """
        check_instance("msg", msg, Msg)
        self._receive(msg, flags)

    # fi_trecv

    def trecv(
        self,
        buf: Buffer,
        tag: int,
        ignore: int = 0,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
    ) -> None:
        """Receive a message whose tag is ``tag``, but for the bits in ``ignore``."""
        self._recv_one(True, buf, tag, ignore, src_addr, desc, context, flags)

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
        self._recv(TaggedMsg(iov, src_addr, tag, ignore, desc, context), flags, self._receive_bits)

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
        check_instance("msg", msg, TaggedMsg)
        self._receive(msg, flags)

    # How receives are done

    def _receive(self, msg: Msg | TaggedMsg, flags: OpFlags) -> None:
        """Post a receive, or do with messages that have come what other flags say."""
        bits = check_op_flags(flags)
        if not bits & (_PEEK | _CLAIM | _DISCARD):
            self._recv(msg, flags)
            return
        receives = self._receiving()
        receive, buffers = self._checked_receive(msg, bits, _SEARCH_FLAGS)
        if bits & _PEEK:
            self._search(receives, receive, bits)
        else:
            self._use_claim(receives, receive, buffers, bits)

    def _cancel_receive(self, context: Any) -> None:
        """Withdraw the oldest receive with this ``context``, which may still wait for its counter.

        Raises FI_ENOENT if no such receive can be cancelled.
        """
        receives = None if self._receiver is None else self._receiver.receives
        if receives is None or not (self.domain._deferrals.cancel(context, receives) or receives.cancel(context)):
            raise fabric_error(Errno.FI_ENOENT, f"nothing that can be cancelled has context {context!r}")

    def _stop_receiving(self) -> None:
        """Report nothing any more."""
        assert self._receiver is not None
        if self._receiver.receives is not None:
            self.domain._deferrals.leave(self._receiver.receives)
        self._receiver.stop()

    def _receiving(self) -> Receives:
        """Return the receive ring.

        Raises FI_EOPBADSTATE before enable(), FI_EOPNOTSUPP if the endpoint has no receive ring, and FI_ENOTCONN.
        """
        self._check_receiving()
        receives = None if self._receiver is None else self._receiver.receives
        if receives is None and self._receiver is not None and self._receiver.srx is not None:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"receives are posted to {self._receiver.srx!r}")
        if receives is None:
            raise fabric_error(
                Errno.FI_EOPNOTSUPP,
                "this endpoint receives no messages: bind a queue with FI_RECV, and if you give caps, FI_RECV with "
                "FI_MSG or FI_TAGGED",
            )
        return receives

    def _checked_receive(self, msg: Msg | TaggedMsg, bits: int, allowed: int) -> tuple[Receive, Sequence[Local]]:
        """Make a receive from the arguments in ``msg``; returns it with its buffers.

        Raises FI_EBADFLAGS, FI_EMSGSIZE, FI_EINVAL and what buffers raise.
        """
        assert self._receiver is not None
        _check_flags(bits, allowed)
        buffers = locals_of(self.domain, msg.msg_iov, msg.desc, "msg_iov", writable=True, access=MrAccess.FI_RECV)
        length = total(buffers)
        _check_length(length)
        tagged = isinstance(msg, TaggedMsg)
        tag, ignore = (msg.tag, msg.ignore) if isinstance(msg, TaggedMsg) else (0, 0)
        tag, ignore = check_number("tag", tag), check_number("ignore", ignore)
        if sum(1 for buffer in buffers if buffer.length) > MAX_RECEIVE_SEGMENTS:
            raise fabric_error(
                Errno.FI_EINVAL, f"a receive has at most {MAX_RECEIVE_SEGMENTS} buffers, got {len(buffers)}"
            )
        receive = Receive(
            tagged,
            tag,
            ignore,
            self._sender(msg.addr),
            msg.context,
            self._receiver.selective and not bits & _REPORT,
            tuple(buffer.view for buffer in buffers),
            tuple(buffer.keep for buffer in buffers),
        )
        receive.address = next((buffer.address for buffer in buffers if buffer.length), 0)
        receive.length = length
        return receive, buffers

    def _recv_one(
        self,
        tagged: bool,
        buf: Buffer,
        tag: int,
        ignore: int,
        src_addr: int,
        desc: MemoryRegion | None,
        context: Any,
        flags: OpFlags,
    ) -> None:
        """Post a receive into one buffer."""
        receives = self._receiving()
        receiver = self._receiver
        assert receiver is not None
        bits = self._receive_bits
        if flags is not NO_FLAGS:
            bits |= check_op_flags(flags)
        if bits:
            _check_flags(bits, _RECEIVE_FLAGS)
        view = view_of(buf, writable=True)
        length = view.nbytes
        _check_length(length)
        if tag.__class__ is not int or ignore.__class__ is not int or (tag | ignore) >> 64:
            tag, ignore = check_number("tag", tag), check_number("ignore", ignore)
        address = address_of(view)
        if desc is not None:
            check_region(self.domain, desc, address, length, _RECV)
        elif length:
            check_unregistered(self.domain, "buf")
        receive = Receive(
            tagged,
            tag,
            ignore,
            ANYBODY if src_addr == FI_ADDR_UNSPEC else self._sender(src_addr),
            context,
            receiver.selective and not bits & _REPORT,
            (view,),
            desc,
        )
        receive.address, receive.length = address, length
        if bits & (_MULTI | _TRIGGER):
            self._recv_specially(receives, receive, [Local(view, desc, writable=True)], bits)
            return
        if desc is None and length:
            receive.grants = ((address, length, True),)
        receives.post(receive, receiver.min_multi_recv, bits & _MORE)

    def _recv(self, msg: Msg | TaggedMsg, flags: OpFlags, defaults: int = 0) -> None:
        receives = self._receiving()
        bits = check_op_flags(flags) | defaults
        receive, buffers = self._checked_receive(msg, bits, _RECEIVE_FLAGS)
        self._recv_specially(receives, receive, buffers, bits)

    def _recv_specially(self, receives: Receives, receive: Receive, buffers: Sequence[Local], bits: int) -> None:
        """Post a receive whose flags or buffers ask for more."""
        assert self._receiver is not None
        if bits & _MULTI:
            if not (self._receiver.multi and len(buffers) == 1 and receive.length):
                raise fabric_error(
                    Errno.FI_EINVAL,
                    "FI_MULTI_RECV takes one buffer of a byte or more, and caps with FI_MULTI_RECV if caps are "
                    f"given; got {len(buffers)} buffers",
                )
            receive.multi = True
        if bits & _TRIGGER:
            self._defer_receive(receives, receive, buffers, bits & ~_TRIGGER)
        else:
            self._post_receive(receives, receive, buffers, bits)

    def _post_receive(self, receives: Receives, receive: Receive, buffers: Sequence[Local], bits: int) -> None:
        """Post a receive whose arguments are right. Raises FI_EAGAIN."""
        assert self._receiver is not None
        self._prepare(receive, buffers)
        receives.post(receive, self._receiver.min_multi_recv, bits & _MORE)

    def _defer_receive(self, receives: Receives, receive: Receive, buffers: Sequence[Local], bits: int) -> None:
        """Let a receive with FI_TRIGGER, whose other arguments are right, wait for its counter.

        Raises what :func:`trigger_of` does.
        """
        assert self._receiver is not None
        trigger = trigger_of(receive.context, self.domain)
        receive.context, receive.silent = trigger.op_context, trigger.is_silent(bool(receive.silent), bits)

        def start(deferral: Deferral) -> None:
            for buffer in buffers:
                if buffer.keep is not None:
                    buffer.keep._check_open()
            self._post_receive(self._receiving(), receive, buffers, bits)

        deferral = trigger.defer(start, bits)
        receive.ended, receive.counted = deferral.finish, deferral.counted
        deferral.place, deferral.queue = receives, self._telling_queue()
        deferral.reported = filled(receive.kind, context=receive.context)
        self.domain._deferrals.add(deferral)

    def _telling_queue(self) -> "CompletionQueue[Any] | None":
        """Return the queue that reports receives which fail before they are posted."""
        assert self._receiver is not None
        return self._receiver.queue

    def _telling_queues(self) -> "Sequence[CompletionQueue[Any] | None]":
        """Return all queues that may report a receive; None in place of a missing queue."""
        return [None if self._receiver is None else self._receiver.queue]

    def _prepare(self, receive: Receive, buffers: Sequence[Local]) -> None:
        """Say what makes the buffers accessible to the NIC, which reads long messages into each of them.

        Others meet scattered buffers in memory of the driver's.
        """
        used = list(buffers)
        if sum(1 for buffer in buffers if buffer.length) > 1:
            used.append(Local(receive.gather(), None, writable=True))
        receive.grants = grants_of(used)

    def _search(self, receives: Receives, receive: Receive, bits: int) -> None:
        """Post a search for a message."""
        claimed, discarded = bool(bits & _CLAIM), bool(bits & _DISCARD)
        if claimed and discarded:
            raise fabric_error(Errno.FI_EBADFLAGS, "a message is claimed or discarded, not both")

        def found(event: Event, message: memoryview) -> int:
            seen = 0
            if not (discarded or event.flags & EventFlags.LONG) and receive.fill(message):
                seen = receive.address
            if claimed:
                receives.claims.append(Claim(receive.context, event, bytes(message)))
            elif discarded:
                receives.discard(event, message)
            return seen

        receive.found = found
        receive.opcode = int(ReceiveOpcode.TAKE if claimed or discarded else ReceiveOpcode.PEEK)
        receives.post(receive, 0, bits & _MORE)

    def _use_claim(self, receives: Receives, receive: Receive, buffers: Sequence[Local], bits: int) -> None:
        """Receive or drop a message that was claimed before."""
        claim = receives.claim(receive) if bits & _CLAIM else None
        if claim is None:
            kind = "tagged message" if receive.tagged else "message without a tag"
            raise fabric_error(Errno.FI_EINVAL, f"no {kind} was claimed with context {receive.context!r}")
        if bits & _DISCARD:
            receives.drop(claim, receive)
            return
        self._prepare(receive, buffers)
        receives.deliver(claim, receive)


class Receiving(ReceiveOperations):
    """An object that receives by itself: an endpoint, or a context that receives are posted to."""

    _receiver: Receiver

    @property
    def rx_size(self) -> int:
        """Entries about peers that may wait to be read, before peers must wait."""
        return self._receiver.rx_size

    @property
    def rx_size_left(self) -> int:
        """Receives that can be posted, and entries that may come, within ``rx_size`` of either: ``fi_rx_size_left``.

        Only memory limits the receives beyond ``rx_size``.
        """
        self._check_open()
        return self._receiver.size_left
