"""Active messages: a number, a header and data, for a handler at the other end.

One packet holds the data, and behind it the header, so that the data begins where the NIC places the message. Longer
data goes in fragments, which the receiver puts together before it calls the handler (eager), or stays at the sender
(rendezvous). With a rendezvous the handler gets a descriptor, and the receiver reads the data when the application
has named a destination. Sending is :mod:`amoeba.openucx.ucp.am_sends`.

Progress calls a handler as soon as its message is whole, so this module queues nothing but incomplete messages: one
for each endpoint, of at most ``MAX_EAGER`` bytes, and as much memory as has come of it. The incomplete messages of
one NIC may take 2 * ``MAX_EAGER`` bytes together; an endpoint that exceeds this is turned away. The inbox grows with
the messages that the application keeps.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from amoeba_model.descriptors import RENDEZVOUS
from amoeba_model.ucp import UCP_ANSWER, UCP_LONG_MESSAGE, MessageFlags, MessageKind
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of, allocate, line_aligned
from amoeba.core.errors import ResourceError, TryAgainError
from amoeba.openucx.ucp.am_sends import LENGTH_SIZE, MAX_EAGER, AmSends, error_of
from amoeba.openucx.ucp.constants import (
    ucp_am_cb_flags,
    ucp_am_recv_attr_t,
    ucp_cb_param_flags,
)
from amoeba.openucx.ucp.datatypes import Layout
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.inbox import Chunk, Letter
from amoeba.openucx.ucp.message_headers import Header
from amoeba.openucx.ucp.messages import Handle
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, status_of_completion, ucs_error
from amoeba.openucx.ucp.structures import ucp_am_recv_param
from amoeba.openucx.ucp.wireup import Wireup
from amoeba.openucx.ucp.worker_base import WorkerBase
from amoeba.transport.rendezvous import Record
from amoeba.transport.requests import Grant, Kind

__all__ = ["ActiveMessages", "AmDescriptor", "Handler"]

_MAX_ENDINGS = 4096
"""Maximum messages that nobody reads whose senders have still to be told; more than a sender has keys for."""
_MAX_INCOMING = 2 * MAX_EAGER
"""Maximum bytes of incomplete messages from one NIC."""
_INCOMING_COST = 1024
"""Bytes that an incomplete message takes besides its data."""
_MAX_PIECES = 16
"""Maximum pieces of a buffer that are read into one by one; more pieces are copied to."""

_DONE = int(ReturnCode.OK)
_OK = UcsStatus.UCS_OK
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_CANCELED = UcsStatus.UCS_ERR_CANCELED
_RECEIVES = int(Kind.RECEIVE)
_PERSISTENT = int(ucp_am_cb_flags.UCP_AM_FLAG_PERSISTENT_DATA)
_WANTS_REPLY = int(MessageFlags.REPLY)
_OLD = int(MessageFlags.OLD)
_AM_OLD = MessageKind.AM_OLD
_CALLBACK_DATA = int(ucp_cb_param_flags.UCP_CB_PARAM_FLAG_DATA)

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
"""``recv_attr`` by the kind of the data, and whether there is a reply endpoint."""


class Handler(NamedTuple):
    """The application's handler for a number."""

    call: Callable[..., Any]
    arg: Any
    flags: int
    old: bool
    """Set by ucp_worker_set_am_handler."""


class AmDescriptor:
    """Data that is still at its sender: handlers get the descriptor in place of the data."""

    __slots__ = ("_endpoint", "_record", "length")

    def __init__(self, endpoint: Endpoint, record: Record, length: int) -> None:
        self._endpoint = endpoint
        self._record = record
        self.length = length
        """Bytes."""

    def __repr__(self) -> str:
        return f"<AmDescriptor of {self.length} bytes from {self._endpoint.remote}>"


class _Incoming:
    """An incomplete message."""

    __slots__ = ("data", "flags", "header", "length", "number")

    def __init__(self, length: int, number: int, flags: int, header: memoryview, data: memoryview) -> None:
        self.length = length
        self.number = number
        self.flags = flags
        self.header = header
        self.data = bytearray(data)

    @property
    def cost(self) -> int:
        """Bytes of memory that the message takes now."""
        return _INCOMING_COST + self.header.nbytes + len(self.data)


class AmReceive(Request):
    """A receive of the data of an active message."""

    __slots__ = ("layout",)

    def __init__(self, worker: WorkerBase, layout: Layout, length: int, read: ReadParam) -> None:
        super().__init__(worker, None, _RECEIVES, length, None, (), read.callback, read.user_data)
        self.use(read.request)
        self.layout = layout

    def told(self) -> tuple[Any, ...]:
        """Return how many bytes the message has."""
        return (self.length,)

    def end(self, status: UcsStatus) -> None:
        """End the receive: the data is there, or will not come."""
        self.layout.finish()
        self.complete(status)

    def end_at_once(self, status: UcsStatus, read: ReadParam) -> None:
        """End inside the call; the callback runs only if the application asked for a request."""
        if read.immediate:
            self.callback = None
        self.end(status)


class ActiveMessages(AmSends):
    """The handlers of a worker, and the messages to them that the application keeps."""

    def __init__(self, worker: WorkerBase, wireup: Wireup, alignment: int) -> None:
        super().__init__(worker, wireup)
        self._alignment = alignment
        self._handlers: dict[int, Handler] = {}
        self._reading: dict[AmReceive, AmDescriptor] = {}
        """Messages that are being read from their senders, or will be."""
        self._kept: dict[int, tuple[Any, Chunk | None]] = {}
        """Data that handlers may keep, by its id, and where it lies in the inbox."""
        self._incoming: Counter[int] = Counter()
        """Bytes of incomplete messages, by the IPv4 address of the sending NIC."""
        self._endings = 0
        """Outstanding reads of no bytes, which tell a sender that a message is over."""
        self.unhandled = 0
        """Messages that were dropped because no handler of their kind was set."""
        handlers = wireup.handlers
        handlers[MessageKind.AM_OLD] = handlers[MessageKind.AM] = self._arrived
        handlers[MessageKind.AM_FIRST] = self._first
        handlers[MessageKind.AM_MORE] = self._more
        handlers[MessageKind.AM_LONG] = self._long
        wireup.strangers[MessageKind.AM_OLD] = wireup.strangers[MessageKind.AM] = self._arrived_late
        wireup.strangers[MessageKind.AM_LONG] = self._refuse

    def set_handler(self, number: int, handler: Handler | None) -> None:
        """Set the handler for messages with a number; None removes it."""
        if handler is None:
            self._handlers.pop(number, None)
        else:
            self._handlers[number] = handler

    # Arrivals

    def _arrived(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """Deliver a message in one packet."""
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
        """Deliver a message in one packet for an endpoint that is closed here."""
        view, headed = letter.chunk.view, header.header_length
        length = view.nbytes - headed
        if length < 0 or headed > self.most_header or header.flags & _WANTS_REPLY:
            self._wireup.drop(letter)
            return
        self._deliver(
            header.am_id, header.kind == _AM_OLD, None, view[length:] if headed else None, view[:length], letter.chunk
        )

    def _first(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """Take the first fragment of a message."""
        view, headed = letter.chunk.view, header.header_length
        end = view.nbytes - headed
        length = int.from_bytes(view[:LENGTH_SIZE], "little")
        fits = headed <= self.most_header and end > LENGTH_SIZE and end - LENGTH_SIZE < length <= MAX_EAGER
        if endpoint.incoming is not None:
            self._forget_incoming(endpoint)
            self._wireup.malformed += 1
        if not fits:
            self._wireup.drop(letter)
            return
        if not self._has_space(endpoint, _INCOMING_COST + view.nbytes):
            self._wireup.drop(letter)
            return
        kept = memoryview(bytes(view[end:]))
        endpoint.incoming = _Incoming(length, header.am_id, header.flags, kept, view[LENGTH_SIZE:end])
        self._incoming[endpoint.remote.main.ip] += endpoint.incoming.cost
        letter.chunk.release()

    def _has_space(self, endpoint: Endpoint, more: int) -> bool:
        """Return whether so many more bytes may wait for further fragments; else turn the endpoint away."""
        if self._incoming[endpoint.remote.main.ip] + more <= _MAX_INCOMING:
            return True
        self._forget_incoming(endpoint)
        self._wireup.turn_away(endpoint)
        return False

    def _forget_incoming(self, endpoint: Endpoint) -> None:
        """Drop an incomplete message."""
        incoming, endpoint.incoming = endpoint.incoming, None
        if incoming is not None:
            ip = endpoint.remote.main.ip
            self._incoming[ip] -= incoming.cost
            if not self._incoming[ip]:
                del self._incoming[ip]

    def _more(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """Take the next fragment of a message."""
        incoming, view = endpoint.incoming, letter.chunk.view
        if incoming is None or not view.nbytes or len(incoming.data) + view.nbytes > incoming.length:
            self._forget_incoming(endpoint)
            self._wireup.drop(letter)
            return
        if not self._has_space(endpoint, view.nbytes):
            self._wireup.drop(letter)
            return
        incoming.data += view
        self._incoming[endpoint.remote.main.ip] += view.nbytes
        letter.chunk.release()
        if len(incoming.data) == incoming.length:
            self._forget_incoming(endpoint)
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
        """Call the handler of a whole message. ``chunk``: where the message lies in the inbox; None: nowhere."""
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
            raise invalid_param(f"the handler of active message {number} keeps data that it may not keep")

    def _aligned(self, data: memoryview, chunk: Chunk | None) -> tuple[memoryview, Chunk | None]:
        """Return data as the application wants it aligned: copied if it is not."""
        alignment = self._alignment
        if alignment <= 1 or not address_of(data) % alignment:
            return data, chunk
        space = allocate(data.nbytes + alignment)
        start = -address_of(space) % alignment
        copy = space[start : start + data.nbytes]
        copy[:] = data
        if chunk is not None:
            chunk.release()
        return copy, None

    # Data left at the sender

    def _long(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """Announce a message that this side is to read."""
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
                error = error_of(status)
                if error is None:
                    self._discard(descriptor)
                else:
                    self._reject(descriptor, error)

    def _read_record(self, header: Header, letter: Letter) -> tuple[Record, int] | None:
        """Return the place of a message to be read, and its length; None if the record makes no sense."""
        view, headed = letter.chunk.view, header.header_length
        if headed > self.most_header or view.nbytes != UCP_LONG_MESSAGE.size + headed:
            return None
        record = Record.unpack(view[: RENDEZVOUS.size], letter.source >> 32)
        length = int.from_bytes(view[RENDEZVOUS.size : UCP_LONG_MESSAGE.size], "little")
        return None if record.token & 1 else (record, length)

    def _refuse(self, header: Header, letter: Letter) -> None:
        """Refuse a message for an endpoint that is closed here: tell the sender that nobody will read it."""
        found = self._read_record(header, letter)
        source = letter.source
        if found is None or found[0].home.resource_index != source & 0xFFFF_FFFF:
            self._wireup.drop(letter)
            return
        letter.chunk.release()
        self._tell_over(found[0].refusal, self._wireup.memory_lane(source >> 32, source & 0xFFFF_FFFF))

    def _tell_over(self, record: Record, number: int) -> None:
        """Tell the sender of a message, by a read of nothing, that the message is over.

        If a sender lets too many wait, the message is dropped and counted.
        """
        if self._endings >= _MAX_ENDINGS:
            self._wireup.malformed += 1
            return
        self._endings += 1

        def told(status: int) -> None:
            self._endings -= 1

        self._worker.long_receives.fetch(record, number, (), told)

    def _reject(self, descriptor: AmDescriptor, status: UcsStatus) -> None:
        """Tell the sender of a message with which status it has ended."""
        endpoint = descriptor._endpoint
        if endpoint.failure is not None or endpoint.closed or endpoint.remote.messages is None:
            return
        if len(endpoint.messages.waiting) >= _MAX_ENDINGS:
            self._wireup.malformed += 1
            return
        answer = UCP_ANSWER.pack(token=descriptor._record.token, status=-status)
        endpoint.send_message(MessageKind.ANSWER, memoryview(answer))

    def _discard(self, descriptor: AmDescriptor) -> None:
        """Tell the sender that the message is over; nothing is read."""
        self._tell_over(descriptor._record, self._lane_to(descriptor._endpoint))

    def _lane_to(self, endpoint: Endpoint) -> int:
        """Return the number of a lane by which to read from the other end of an endpoint."""
        remote = endpoint.remote.main
        if endpoint.closed:
            return self._wireup.memory_lane(remote.ip, remote.resource_index)
        lane = endpoint.memory
        if lane.number not in self._worker.peers:
            with contextlib.suppress(TryAgainError, ResourceError):  # else the data is read as from a stranger
                self._worker.open_lane(lane)
        return lane.number

    # The application's use of the data

    def find(self, data: Any) -> None:
        """Raise INVALID_PARAM for anything but data that a handler keeps and has neither received nor released."""
        kept = self._kept.get(id(data))
        if kept is None or kept[0] is not data:
            raise invalid_param("expected data that a handler keeps, neither released nor received yet")

    def take(self, data: Any) -> tuple[Any, Chunk | None]:
        """Take data that a handler keeps, once. Raises INVALID_PARAM as :meth:`find`."""
        self.find(data)
        return self._kept.pop(id(data))

    def release(self, data: Any) -> None:
        """Release data that the application keeps. Raises INVALID_PARAM as :meth:`take`."""
        _, chunk = self.take(data)
        if isinstance(data, AmDescriptor):
            self._discard(data)
        elif chunk is not None:
            chunk.release()

    def receive(self, data: Any, layout: Layout, read: ReadParam) -> Handle | None:
        """Bring data to the place of a layout; return a request if the receive is not over at once.

        Raises INVALID_PARAM as :meth:`take`. Raises MESSAGE_TRUNCATED if the layout is too short; then it gets no
        byte. Raises NO_RESOURCE if the receive must be over at once, and cannot be; then nothing has happened. In all
        other cases the data is taken.
        """
        long = isinstance(data, AmDescriptor)
        if long and read.forced and data.length and layout.length:
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"{data.length} bytes are still at their sender")
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
        if not views or len(views) > _MAX_PIECES:
            bounce = line_aligned(length)
            views = (bounce,)
        segments, left = [], length
        for view in views:
            size = min(view.nbytes, left)
            if size:
                segments.append(Segment(address_of(view), size))
            left -= size
        grants: list[Grant] = [(segment.address, segment.length, True) for segment in segments]
        dma.grant_all(grants, self._worker.main.number)
        self._reading[request] = descriptor

        def done(code: int) -> None:
            dma.revoke_all(grants, self._worker.main.number)
            del self._reading[request]
            status = _OK
            if code != _DONE:
                status = _CANCELED if descriptor._endpoint.ended else status_of_completion(code)
            if status is _OK and bounce is not None and request.code is _IN_PROGRESS:
                status = layout.write(0, bounce)
            request.end(status)

        request.buffers = views
        number = self._lane_to(descriptor._endpoint)
        self._worker.long_receives.fetch(descriptor._record, number, segments, done)

    # Ends

    def endpoint_ended(self, endpoint: Endpoint, status: UcsStatus) -> None:
        """End the messages that the other end has not read with this status; drop incomplete ones."""
        self._forget_incoming(endpoint)
        if status is _CANCELED:
            for descriptor in list(self._reading.values()):
                if descriptor._endpoint is endpoint:
                    self._worker.long_receives.withdraw(descriptor._record.token)
        super().endpoint_ended(endpoint, status)

    def cancel_all(self) -> None:
        """Forget the data that the application keeps."""
        self._kept.clear()
        self._handlers.clear()
