"""Active messages: a number, a header and data, for a handler at the other end.

One packet holds the data, and behind it the header, so that the data begins where the NIC places the message. Longer
data goes in fragments, which the receiver puts together before it calls the handler (eager), or stays where it is:
then the handler gets a descriptor, and the receiver reads when the application has said where to (rendezvous).

A handler is called as soon as its message is whole, so nothing is queued here, but a message of which fragments are
to come: one for each endpoint, of at most MOST_EAGER bytes, and as much memory as has come of it. What the
application keeps is its own affair: the inbox grows with it.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from amoeba_model.descriptors import RENDEZVOUS, DescriptorFlags, DescriptorOpcode
from amoeba_model.ucp import UCP_ANSWER, UCP_LONG_MESSAGE, MessageFlags, MessageKind
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of, allocate
from amoeba.core.errors import ResourceError, TryAgainError
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.rendezvous import Record
from amoeba.transport.requests import Grant, Kind
from amoeba.ucp.constants import (
    ucp_am_cb_flags,
    ucp_am_recv_attr_t,
    ucp_cb_param_flags,
    ucp_feature,
    ucp_send_am_flags,
)
from amoeba.ucp.datatypes import Layout
from amoeba.ucp.endpoint import Endpoint
from amoeba.ucp.inbox import Chunk, Letter
from amoeba.ucp.message_headers import Header, message_header
from amoeba.ucp.messages import Handle, over, requested, send_copy, will_copy
from amoeba.ucp.request_params import ReadParam
from amoeba.ucp.requests import Quiet, Request
from amoeba.ucp.status import UcsStatus, invalid_param, status_of_completion, ucs_error
from amoeba.ucp.structures import ucp_am_recv_param
from amoeba.ucp.wireup import Wireup
from amoeba.ucp.worker_base import WorkerBase

__all__ = ["MOST_EAGER", "ActiveMessages", "AmDescriptor", "Handler"]

MOST_EAGER = 1 << 24
"""Bytes of the longest message that is sent in fragments."""
_RENDEZVOUS_ABOVE = 1 << 16
"""Bytes of the longest message that is sent in fragments where the sender leaves it open."""
_MOST_HEADER = 1024
_MOST_ENDINGS = 4096
"""Messages that nobody reads whose senders have still to be told; more than a sender has keys for."""
_LENGTH_SIZE = 8
_MOST_PIECES = 16
"""Pieces of a buffer that are read into one by one; more are copied to."""

_DONE = int(ReturnCode.OK)
_OK = UcsStatus.UCS_OK
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_CANCELED = UcsStatus.UCS_ERR_CANCELED
_SEND = int(DescriptorOpcode.SEND)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_INLINE_IMMEDIATE = int(DescriptorFlags.INLINE | DescriptorFlags.IMMEDIATE)
_SENDS, _RECEIVES, _OWN = int(Kind.SEND), int(Kind.RECEIVE), int(Kind.OWN)
_EAGER = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_EAGER)
_RNDV = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_RNDV)
_REPLY = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_REPLY)
_PERSISTENT = int(ucp_am_cb_flags.UCP_AM_FLAG_PERSISTENT_DATA)
_WANTS_REPLY = int(MessageFlags.REPLY)
_OLD = int(MessageFlags.OLD)
_AM_OLD, _AM = MessageKind.AM_OLD, MessageKind.AM
_CALLBACK_DATA = int(ucp_cb_param_flags.UCP_CB_PARAM_FLAG_DATA)
_NO_DATA = memoryview(b"")

_HELD, _LONG = 1, 2
_ATTRIBUTES = {
    (kind, reply): ucp_am_recv_attr_t(
        (ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FLAG_DATA if kind == _HELD else 0)
        | (ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FLAG_RNDV if kind == _LONG else 0)
        | (ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FIELD_REPLY_EP if reply else 0)
    )
    for kind in (0, _HELD, _LONG)
    for reply in (False, True)
}
"""``recv_attr`` by what the data is, and whether there is a reply endpoint."""


class Handler(NamedTuple):
    """What the application has set for a number."""

    call: Callable[..., Any]
    arg: Any
    flags: int
    old: bool
    """Of ucp_worker_set_am_handler."""


class AmDescriptor:
    """Data that is still at its sender: handlers get it in its place."""

    __slots__ = ("_endpoint", "_record", "length")

    def __init__(self, endpoint: Endpoint, record: Record, length: int) -> None:
        self._endpoint = endpoint
        self._record = record
        self.length = length
        """Bytes."""

    def __repr__(self) -> str:
        return f"<AmDescriptor of {self.length} bytes from {self._endpoint.remote}>"


class _LongSend(Request):
    """A message that its receiver reads."""

    __slots__ = ("endpoint", "token", "unread", "verdict")

    def __init__(self, endpoint: Endpoint, length: int, data: memoryview, read: ReadParam) -> None:
        grants: tuple[Grant, ...] = ((address_of(data), data.nbytes, False),)
        super().__init__(endpoint.worker, None, _SENDS, length, data, grants, read.callback, read.user_data)
        self.use(read.request)
        self.dest_addr = endpoint.messages.number
        self.endpoint = endpoint
        self.token = 0
        """By which the receiver knows it, from when it is posted."""
        self.unread: dict[int, _LongSend] = {}
        """Where it is filed under that until it is over."""
        self.verdict: UcsStatus | None = None
        """With what the receiver has ended it."""

    def over(self) -> None:
        """The receiver has read it, or has not and said so, or cannot be reached."""
        self.unread.pop(self.token, None)
        status = self.verdict
        if status is None:
            status = _OK if self.status == _DONE else status_of_completion(self.status)
        self.complete(status)


class _Incoming:
    """A message of which fragments have come."""

    __slots__ = ("data", "flags", "header", "length", "number")

    def __init__(self, length: int, number: int, flags: int, header: memoryview, data: memoryview) -> None:
        self.length = length
        self.number = number
        self.flags = flags
        self.header = header
        self.data = bytearray(data)


class AmReceive(Request):
    """A receive of the data of an active message."""

    __slots__ = ("layout",)

    def __init__(self, worker: WorkerBase, layout: Layout, length: int, read: ReadParam) -> None:
        super().__init__(worker, None, _RECEIVES, length, None, (), read.callback, read.user_data)
        self.use(read.request)
        self.layout = layout

    def told(self) -> tuple[Any, ...]:
        """How many bytes the message has."""
        return (self.length,)

    def end(self, status: UcsStatus) -> None:
        """The data is there, or will not come."""
        self.layout.finish()
        self.complete(status)

    def end_at_once(self, status: UcsStatus, read: ReadParam) -> None:
        """It is over inside the call, which says so itself unless a request was asked for."""
        if read.immediate:
            self.callback = None
        self.end(status)


class ActiveMessages:
    """The handlers of a worker, what it sends, and what of its messages the application keeps."""

    def __init__(self, worker: WorkerBase, wireup: Wireup, alignment: int) -> None:
        self._worker = worker
        self._wireup = wireup
        self._payload: int = worker.nic.parameters.payload
        self._alignment = alignment
        self._handlers: dict[int, Handler] = {}
        self._kept: dict[int, tuple[Any, Chunk | None]] = {}
        """What handlers were given that can be kept, by its id, and where it lies in the inbox."""
        self._unread: dict[int, _LongSend] = {}
        """Messages that have not been read, by token."""
        self._waiting: dict[_LongSend, None] = {}
        """Those that are not posted yet."""
        self.most_header = min(_MOST_HEADER, self._payload - UCP_LONG_MESSAGE.size)
        """Bytes of the longest header."""
        threshold = worker.context.config.value("RNDV_THRESH")
        self._rendezvous_above = _RENDEZVOUS_ABOVE if threshold is None else max(0, threshold - 1)
        """Longer messages than this are left for the receiver to read, unless their sender says otherwise."""
        self.allowed = bool(worker.context.features & ucp_feature.UCP_FEATURE_AM)
        """The application has asked for them."""
        self.most_inline = min(INLINE_SIZE, self._rendezvous_above) if self.allowed else 0
        """Bytes of the longest message that :meth:`send_number` may send."""
        self._endings = 0
        """Reads of no bytes under way, which tell a sender that a message is over."""
        self.unhandled = 0
        """Messages that were dropped because there was no such handler for them."""
        handlers = wireup.handlers
        handlers[MessageKind.AM_OLD] = handlers[MessageKind.AM] = self._arrived
        handlers[MessageKind.AM_FIRST] = self._first
        handlers[MessageKind.AM_MORE] = self._more
        handlers[MessageKind.AM_LONG] = self._long
        handlers[MessageKind.ANSWER] = self._answered
        wireup.strangers[MessageKind.AM_OLD] = wireup.strangers[MessageKind.AM] = self._arrived_late
        wireup.strangers[MessageKind.AM_LONG] = self._refuse

    def set_handler(self, number: int, handler: Handler | None) -> None:
        """Call this for messages with a number; None: nobody."""
        if handler is None:
            self._handlers.pop(number, None)
        else:
            self._handlers[number] = handler

    # Sending

    def send_number(self, endpoint: Endpoint, entry: int, number: int, data: int, length: int) -> None:
        """Send up to ``most_inline`` bytes, which the descriptor has room for, without a header.

        ``entry``: of the peer table, and there is room; the other end has been told who sends.
        """
        lane = endpoint.messages
        told = message_header(_AM, endpoint.remote_number, 0, number)
        self._worker.rings.post(
            Quiet(lane, _SENDS, length), False, entry, _SEND, _INLINE_IMMEDIATE, 0, 0, length, 0, 0, data, 0, told
        )
        lane.posted += 1

    def send(
        self,
        endpoint: Endpoint,
        number: int,
        header: memoryview,
        layout: Layout,
        flags: int,
        read: ReadParam,
        *,
        old: bool,
    ) -> Handle | None:
        """Send a message; a request if it is not over at once. The layout is used up.

        Raises NO_RESOURCE if it has to be over at once, and cannot be; EXCEEDS_LIMIT if it has to go in fragments,
        and is too long for that.
        """
        length, headed = layout.length, header.nbytes
        total = length + headed
        long = not flags & _EAGER and not old and (length > self._rendezvous_above or flags & _RNDV)
        told = _WANTS_REPLY if flags & _REPLY else 0
        if not long and total <= self._payload:
            kind = _AM_OLD if old else _AM
            views = layout.views
            if length and not views:
                views = (layout.packed(),)
            parts = (*views, header) if headed else views
            scattered = len(parts) > 1
            copied = will_copy(total, read, self._payload, scattered=scattered)
            if copied:
                done = None if read.immediate else requested(self._worker, None, _SENDS, length, None, read)
                if send_copy(endpoint, kind, parts, total, flags=told, am_id=number, header_length=headed):
                    return over(done)
        if read.forced:
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"an active message of {total} bytes is not over at once")
        if long:
            return self._send_long(endpoint, number, header, layout, told, read)
        if length > MOST_EAGER:
            raise ucs_error(
                UcsStatus.UCS_ERR_EXCEEDS_LIMIT, f"an eager message has at most {MOST_EAGER} bytes, got {length}"
            )
        request = requested(self._worker, endpoint.messages, _SENDS, length, None, read)
        if total <= self._payload:
            packet = parts[0] if len(parts) == 1 else _joined(parts)
            endpoint.send_message(kind, packet, flags=told, am_id=number, header_length=headed, request=request)
        else:
            told |= _OLD if old else 0
            self._send_fragments(endpoint, number, header, layout.packed(), told, request)
        return request.answer(immediate=False)

    def _send_fragments(
        self, endpoint: Endpoint, number: int, header: memoryview, data: memoryview, flags: int, request: Request
    ) -> None:
        payload, length = self._payload, data.nbytes
        start = min(payload - _LENGTH_SIZE - header.nbytes, length - 1)
        first = _joined((memoryview(length.to_bytes(_LENGTH_SIZE, "little")), data[:start], header))
        endpoint.send_message(MessageKind.AM_FIRST, first, flags=flags, am_id=number, header_length=header.nbytes)
        while length - start > payload:
            endpoint.send_message(MessageKind.AM_MORE, data[start : start + payload])
            start += payload
        endpoint.send_message(MessageKind.AM_MORE, data[start:], request=request)

    def _send_long(
        self, endpoint: Endpoint, number: int, header: memoryview, layout: Layout, flags: int, read: ReadParam
    ) -> Handle | None:
        worker, length = self._worker, layout.length
        place = memoryview(bytearray(UCP_LONG_MESSAGE.size + header.nbytes))
        place[RENDEZVOUS.size : UCP_LONG_MESSAGE.size] = length.to_bytes(_LENGTH_SIZE, "little")
        place[UCP_LONG_MESSAGE.size :] = header
        # of no data, too, something has to be readable for the receiver to say that it is done
        data = layout.packed() if length else memoryview(bytearray(1))
        request = _LongSend(endpoint, length, data, read)
        if not endpoint.wired:
            endpoint.wire()
        lane = endpoint.messages
        told = message_header(MessageKind.AM_LONG, endpoint.remote_number, flags, number, header.nbytes)
        source = Segment(address_of(data), data.nbytes)
        access = ((address_of(place), place.nbytes, False),)
        self._waiting[request] = None

        def post() -> None:
            carrier = Quiet(lane, _OWN, place.nbytes, place, access)
            token = worker.long_sends.post_inside(
                request, carrier, place, lane.entry(), _SEND, _IMMEDIATE, source, told
            )
            request.token = token
            request.unread = self._unread
            self._unread[token] = request
            self._waiting.pop(request, None)

        lane.submit(post, 1, request)
        return request.answer(immediate=False)

    def _answered(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """A receiver has ended a message without reading it."""
        view = letter.chunk.view
        if view.nbytes == UCP_ANSWER.size:
            fields = UCP_ANSWER.unpack(view)
            request = self._unread.get(fields["token"])
            status = _error(-fields["status"])
            if request is not None and request.endpoint is endpoint and status is not None and not fields["reserved"]:
                letter.chunk.release()
                request.verdict = status
                self._worker.long_sends.end(fields["token"])
                return
        self._wireup.drop(letter)

    # What comes

    def _arrived(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """A message in one packet."""
        view, chunk, headed = letter.chunk.view, letter.chunk, header.header_length
        length = view.nbytes - headed
        if length < 0 or headed > self.most_header:
            self._wireup.drop(letter)
            return
        self._deliver(
            header.am_id,
            header.kind == _AM_OLD,
            endpoint if header.flags & _WANTS_REPLY else None,
            view[length:] if headed else None,
            view[:length] if headed else view,
            chunk,
        )

    def _arrived_late(self, header: Header, letter: Letter) -> None:
        """The same for an endpoint that is closed here."""
        view, headed = letter.chunk.view, header.header_length
        length = view.nbytes - headed
        if length < 0 or headed > self.most_header or header.flags & _WANTS_REPLY:
            self._wireup.drop(letter)
            return
        self._deliver(
            header.am_id, header.kind == _AM_OLD, None, view[length:] if headed else None, view[:length], letter.chunk
        )

    def _first(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """The first fragment of a message."""
        view, headed = letter.chunk.view, header.header_length
        end = view.nbytes - headed
        length = int.from_bytes(view[:_LENGTH_SIZE], "little")
        fits = headed <= self.most_header and end > _LENGTH_SIZE and end - _LENGTH_SIZE < length <= MOST_EAGER
        if endpoint.incoming is not None:
            endpoint.incoming = None
            self._wireup.malformed += 1
        if not fits:
            self._wireup.drop(letter)
            return
        kept = memoryview(bytes(view[end:]))
        endpoint.incoming = _Incoming(length, header.am_id, header.flags, kept, view[_LENGTH_SIZE:end])
        letter.chunk.release()

    def _more(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """The next fragment."""
        incoming, view = endpoint.incoming, letter.chunk.view
        if incoming is None or not view.nbytes or len(incoming.data) + view.nbytes > incoming.length:
            endpoint.incoming = None
            self._wireup.drop(letter)
            return
        incoming.data += view
        letter.chunk.release()
        if len(incoming.data) == incoming.length:
            endpoint.incoming = None
            self._deliver(
                incoming.number,
                bool(incoming.flags & _OLD),
                endpoint if incoming.flags & _WANTS_REPLY else None,
                incoming.header if incoming.header.nbytes else None,
                memoryview(incoming.data),
                None,
            )

    def _deliver(
        self,
        number: int,
        old: bool,
        reply: Endpoint | None,
        header: memoryview | None,
        data: memoryview,
        chunk: Chunk | None,
    ) -> None:
        """Call the handler of a message that has come. ``chunk``: where it lies in the inbox; None: nowhere."""
        handler = self._handlers.get(number)
        if handler is None or handler.old is not old:
            self.unhandled += 1
            if chunk is not None:
                chunk.release()
            return
        held = (old or chunk is None or handler.flags & _PERSISTENT) and data.nbytes > 0
        if held:
            data, chunk = self._aligned(data, chunk)
            key = id(data)
            self._kept[key] = data, chunk
        status = None
        try:
            if old:
                status = handler.call(handler.arg, data, data.nbytes, reply, _CALLBACK_DATA if held else 0)
            else:
                param = ucp_am_recv_param(_ATTRIBUTES[_HELD if held else 0, reply is not None], reply)
                status = handler.call(
                    handler.arg,
                    header,
                    0 if header is None else header.nbytes,
                    data if data.nbytes else None,
                    data.nbytes,
                    param,
                )
        finally:
            if held:
                if status != _IN_PROGRESS and self._kept.pop(key, None) is not None and chunk is not None:
                    chunk.release()
            elif chunk is not None:
                chunk.release()
        if not held and status == _IN_PROGRESS:
            raise invalid_param(f"the handler of active message {number} keeps data that it was not given to keep")

    def _aligned(self, data: memoryview, chunk: Chunk | None) -> tuple[memoryview, Chunk | None]:
        """Data as the application wants it aligned: copied if it is not."""
        alignment = self._alignment
        if alignment <= 1 or not address_of(data) % alignment:
            return data, chunk
        room = allocate(data.nbytes + alignment)
        start = -address_of(room) % alignment
        copy = room[start : start + data.nbytes]
        copy[:] = data
        if chunk is not None:
            chunk.release()
        return copy, None

    # What is left at its sender

    def _long(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """A message that this side is to read."""
        found = self._read_record(header, letter)
        if found is None or found[0].home != endpoint.remote.main:
            self._wireup.drop(letter)
            return
        record, length = found
        descriptor = AmDescriptor(endpoint, record, length)
        handler = self._handlers.get(header.am_id)
        if handler is None or handler.old:
            self.unhandled += 1
            letter.chunk.release()
            self._reject(descriptor, UcsStatus.UCS_ERR_INVALID_PARAM)
            return
        headed = header.header_length
        reply = endpoint if header.flags & _WANTS_REPLY else None
        param = ucp_am_recv_param(_ATTRIBUTES[_LONG, reply is not None], reply)
        self._kept[id(descriptor)] = descriptor, None
        status: Any = None
        try:
            status = handler.call(
                handler.arg,
                letter.chunk.view[UCP_LONG_MESSAGE.size :] if headed else None,
                headed,
                descriptor,
                length,
                param,
            )
        finally:
            letter.chunk.release()
            if status != _IN_PROGRESS and self._kept.pop(id(descriptor), None) is not None:
                error = _error(status)
                if error is None:
                    self._discard(descriptor)
                else:
                    self._reject(descriptor, error)

    def _read_record(self, header: Header, letter: Letter) -> tuple[Record, int] | None:
        """Where a message is to be read, and its length; None if that makes no sense."""
        view, headed = letter.chunk.view, header.header_length
        if headed > self.most_header or view.nbytes != UCP_LONG_MESSAGE.size + headed:
            return None
        record = Record.unpack(view[: RENDEZVOUS.size], letter.source >> 32)
        length = int.from_bytes(view[RENDEZVOUS.size : UCP_LONG_MESSAGE.size], "little")
        return None if record.token & 1 else (record, length)

    def _refuse(self, header: Header, letter: Letter) -> None:
        """A message for an endpoint that is closed here: its sender hears that nobody will read it."""
        found = self._read_record(header, letter)
        source = letter.source
        if found is None or found[0].home.resource_index != source & 0xFFFF_FFFF:
            self._wireup.drop(letter)
            return
        letter.chunk.release()
        self._tell_over(found[0].refusal, self._wireup.memory_lane(source >> 32, source & 0xFFFF_FFFF))

    def _tell_over(self, record: Record, number: int) -> None:
        """Tell the sender of a message, by a read of nothing, that it is over. Of one who lets too many wait, the
        message is dropped and counted."""
        if self._endings >= _MOST_ENDINGS:
            self._wireup.malformed += 1
            return
        self._endings += 1

        def told(status: int) -> None:
            self._endings -= 1

        self._worker.long_receives.fetch(record, number, (), told)

    def _reject(self, descriptor: AmDescriptor, status: UcsStatus) -> None:
        """Tell the sender of a message with what it has ended."""
        endpoint = descriptor._endpoint
        if endpoint.failure is not None or endpoint.closed or endpoint.remote.messages is None:
            return
        if len(endpoint.messages.waiting) >= _MOST_ENDINGS:
            self._wireup.malformed += 1
            return
        answer = UCP_ANSWER.pack(token=descriptor._record.token, status=-status)
        endpoint.send_message(MessageKind.ANSWER, memoryview(answer))

    def _discard(self, descriptor: AmDescriptor) -> None:
        """Tell the sender that he may go on; nothing is read."""
        self._tell_over(descriptor._record, self._lane_to(descriptor._endpoint))

    def _lane_to(self, endpoint: Endpoint) -> int:
        """The number of a lane by which to read from the other end of an endpoint."""
        remote = endpoint.remote.main
        if endpoint.closed:
            return self._wireup.memory_lane(remote.ip, remote.resource_index)
        lane = endpoint.memory
        if lane.number not in self._worker.peers:
            with contextlib.suppress(TryAgainError, ResourceError):  # else it is read from as from a stranger
                self._worker.open_lane(lane)
        return lane.number

    # What the application does with it

    def find(self, data: Any) -> None:
        """Raise INVALID_PARAM for anything but what a handler keeps and has neither received nor released."""
        kept = self._kept.get(id(data))
        if kept is None or kept[0] is not data:
            raise invalid_param("expected what a handler was given to keep, neither released nor received yet")

    def take(self, data: Any) -> tuple[Any, Chunk | None]:
        """What a handler was given and keeps, once. Raises INVALID_PARAM as :meth:`find`."""
        self.find(data)
        return self._kept.pop(id(data))

    def release(self, data: Any) -> None:
        """The application does not need it any more. Raises INVALID_PARAM as :meth:`take`."""
        _, chunk = self.take(data)
        if isinstance(data, AmDescriptor):
            self._discard(data)
        elif chunk is not None:
            chunk.release()

    def receive(self, data: Any, layout: Layout, read: ReadParam) -> Handle | None:
        """Bring data to where a layout says; a request if it is not over at once.

        Raises INVALID_PARAM as :meth:`take`, MESSAGE_TRUNCATED where there is not room for all: then there is none of
        it in the buffer. NO_RESOURCE if it has to be over at once, and cannot be: then nothing has happened. Else the
        data is taken, whatever comes.
        """
        long = isinstance(data, AmDescriptor)
        if long and read.forced and data.length and layout.length:
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"{data.length} bytes have to be read from their sender")
        _, chunk = self.take(data)
        length = data.length if long else data.nbytes
        request = AmReceive(self._worker, layout, length, read)
        if not layout.length or length > layout.length:
            if long:
                self._discard(data)
            elif chunk is not None:
                chunk.release()
            request.end_at_once(UcsStatus.UCS_ERR_MESSAGE_TRUNCATED if layout.length else _OK, read)
        elif long and length:
            self._read(data, layout, request)
        else:
            status = _OK
            if long:
                self._discard(data)
            else:
                status = layout.write(0, data)
                if chunk is not None:
                    chunk.release()
            request.end_at_once(status, read)
        if read.recv_info is not None and request.done:
            read.recv_info.length = length
        return request.answer(immediate=read.immediate)

    def _read(self, descriptor: AmDescriptor, layout: Layout, request: AmReceive) -> None:
        """Read a message from its sender, straight into the buffer if that has few pieces."""
        dma, length = self._worker.nic.dma, descriptor.length
        bounce: memoryview | None = None
        views = layout.views
        if not views or len(views) > _MOST_PIECES:
            bounce = memoryview(bytearray(length))
            views = (bounce,)
        segments, left = [], length
        for view in views:
            size = min(view.nbytes, left)
            if size:
                segments.append(Segment(address_of(view), size))
            left -= size
        grants: list[Grant] = [(segment.address, segment.length, True) for segment in segments]
        dma.grant_all(grants)

        def done(code: int) -> None:
            dma.revoke_all(grants)
            status = _OK if code == _DONE else status_of_completion(code)
            if status is _OK and bounce is not None and request.code is _IN_PROGRESS:
                status = layout.write(0, bounce)
            request.end(status)

        request.buffers = views
        number = self._lane_to(descriptor._endpoint)
        self._worker.long_receives.fetch(descriptor._record, number, segments, done)

    # Ends

    def endpoint_ended(self, endpoint: Endpoint, status: UcsStatus) -> None:
        """What its other end has not read ends with this status; what has come in part is dropped."""
        endpoint.incoming = None
        soon = self._worker.soon
        for token, request in list(self._unread.items()):
            if request.endpoint is endpoint:
                del self._unread[token]
                request.verdict = status
                self._worker.long_sends.end(token)
                soon.append(functools.partial(request.complete, status))
        for request in list(self._waiting):
            if request.endpoint is endpoint:
                del self._waiting[request]
                soon.append(functools.partial(request.complete, status))

    def cancel_all(self) -> None:
        """Forget what the application keeps."""
        self._kept.clear()
        self._handlers.clear()


def _joined(parts: tuple[memoryview, ...]) -> memoryview:
    return memoryview(b"".join(parts))


def _error(status: Any) -> UcsStatus | None:
    """A status that a peer, or a handler, says, if it is that of an error."""
    try:
        found = UcsStatus(status)
    except ValueError:
        return None
    return found if found < 0 else None
