"""Streams: bytes in order, from an endpoint to the one at its other end.

A sender cuts its bytes into messages of a packet each. They land in the inbox, and stay there until the receiver
takes them: by reference, or copied into its buffer. Unread bytes hold back their sender alone: it may have
STREAM_WINDOW bytes in the stream, each message counted with STREAM_OVERHEAD more. A STREAM_CREDIT message tells the
sender how much was used up. The receiver drops and counts bytes beyond the window. Small messages are copied when no
receive waits for them, and so are all when much of the inbox is held that way: a few bytes must not hold a whole
buffer.
"""

import functools
from collections import deque
from typing import Any

from amoeba_model.ucp import STREAM_OVERHEAD, STREAM_WINDOW, MessageKind

from amoeba.openucx.ucp.datatypes import GenericLayout, Layout
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.inbox import Chunk, Letter
from amoeba.openucx.ucp.message_headers import Header
from amoeba.openucx.ucp.messages import Handle, over, requested, send_copy, will_copy
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.wireup import Wireup
from amoeba.openucx.ucp.worker_base import WorkerBase
from amoeba.transport.requests import Kind

__all__ = ["StreamReceive", "Streams"]

_OK = UcsStatus.UCS_OK
_SENDS = int(Kind.SEND)
_RECEIVES = int(Kind.RECEIVE)
_CREDIT_SIZE = 8
_TELL = STREAM_WINDOW // 2
"""Bytes used up after which the sender is told."""
_SMALL = 512
"""Messages of fewer bytes are copied when they have to wait."""


class StreamReceive(Request):
    """A receive of a stream. ``received``: bytes that have come."""

    __slots__ = ("element", "layout", "received", "whole")

    def __init__(self, worker: WorkerBase, layout: Layout, element: int, read: ReadParam, *, whole: bool) -> None:
        super().__init__(worker, None, _RECEIVES, layout.length, None, (), read.callback, read.user_data)
        self.use(read.request)
        self.layout = layout
        self.element = element
        """The receive takes a multiple of this many bytes."""
        self.whole = whole
        """The receive ends only with all bytes."""
        self.received = 0

    def told(self) -> tuple[Any, ...]:
        """Return how many bytes have come."""
        return (self.received,)

    def fill(self, data: memoryview) -> int:
        """Take as many bytes as still fit; return how many."""
        layout, start = self.layout, self.received
        size = min(data.nbytes, layout.length - start)
        if size < data.nbytes:
            data = data[:size]
        view = layout.view
        if view is None:
            layout.write(start, data)
        else:
            view[start : start + size] = data
        self.received = start + size
        return size

    @property
    def satisfied(self) -> bool:
        """Whether enough has come."""
        received = self.received
        return received == self.length or (not self.whole and received > 0 and not received % self.element)

    def end(self, status: UcsStatus) -> None:
        """End the receive with this status, or the error of unpacking."""
        layout = self.layout
        if status is _OK and isinstance(layout, GenericLayout):
            status = layout.status
        layout.finish()
        self.complete(status)


class _Unread:
    """A received message, or the rest of it."""

    __slots__ = ("chunk", "cost", "view")

    def __init__(self, view: memoryview, chunk: Chunk | None, cost: int) -> None:
        self.view = view
        self.chunk = chunk
        """Its place in the inbox; None: it is copied."""
        self.cost = cost


class _Stream:
    """Both directions of an endpoint's stream."""

    __slots__ = ("allowed", "came", "given", "held", "posted", "sent", "told", "unread", "unread_bytes", "used")

    def __init__(self) -> None:
        self.unread: deque[_Unread] = deque()
        self.unread_bytes = 0
        self.posted: deque[StreamReceive] = deque()
        self.given: dict[int, tuple[memoryview, Chunk | None]] = {}
        """Messages that the application has by reference."""
        # all with overheads, and counted from the beginning
        self.came = 0
        self.used = 0
        """Received bytes that only the application keeps, or that are used up."""
        self.told = 0
        """``used`` as the sender knows it."""
        self.sent = 0
        self.allowed = STREAM_WINDOW
        """Limit of ``sent``."""
        self.held: deque[tuple[memoryview, Request | None]] = deque()
        """Messages that wait for the limit to rise."""


class Streams:
    """The streams of a worker."""

    def __init__(self, worker: WorkerBase, wireup: Wireup) -> None:
        self._worker = worker
        self._wireup = wireup
        self._payload: int = worker.nic.parameters.payload
        self._ready: dict[Endpoint, None] = {}
        """Endpoints with unread bytes that no poll has returned since these came."""
        wireup.handlers[MessageKind.STREAM] = self._arrived
        wireup.handlers[MessageKind.STREAM_CREDIT] = self._credited

    @staticmethod
    def _of(endpoint: Endpoint) -> _Stream:
        stream = endpoint.stream
        if stream is None:
            stream = endpoint.stream = _Stream()
        return stream  # type: ignore[no-any-return]

    # Sending

    def send(self, endpoint: Endpoint, layout: Layout, read: ReadParam) -> Handle | None:
        """Send the bytes of a layout, which is used up; return a request if the send is not over at once.

        Raises NO_RESOURCE if the send must be over at once, and cannot be.
        """
        length, payload = layout.length, self._payload
        stream = self._of(endpoint)
        views = layout.views
        if not length:
            return over(None if read.immediate else requested(self._worker, None, _SENDS, 0, None, read))
        scattered = len(views) != 1
        if isinstance(layout, GenericLayout):
            views = (layout.packed(),)
        cost = length + STREAM_OVERHEAD
        if (
            will_copy(length, read, payload, scattered=scattered)
            and not stream.held
            and stream.sent + cost <= stream.allowed
        ):
            done = None if read.immediate else requested(self._worker, None, _SENDS, length, None, read)
            if send_copy(endpoint, MessageKind.STREAM, views, length):
                stream.sent += cost
                return over(done)
        if read.forced:
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"{length} bytes of a stream cannot be sent at once")
        view = views[0] if len(views) == 1 else layout.packed()
        request = requested(self._worker, endpoint.messages, _SENDS, length, view, read)
        last = (length - 1) // payload * payload
        for start in range(0, last, payload):
            self._send_packet(endpoint, stream, view[start : start + payload], None)
        self._send_packet(endpoint, stream, view[last:], request)
        return request.answer(immediate=False)

    def _send_packet(self, endpoint: Endpoint, stream: _Stream, view: memoryview, request: Request | None) -> None:
        if stream.held or stream.sent + view.nbytes + STREAM_OVERHEAD > stream.allowed:
            stream.held.append((view, request))
            return
        stream.sent += view.nbytes + STREAM_OVERHEAD
        endpoint.send_message(MessageKind.STREAM, view, request=request)

    def _credited(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """Raise the sender's limit: the receiver has used something up."""
        stream = self._of(endpoint)
        view = letter.chunk.view
        used = int.from_bytes(view, "little")
        if view.nbytes != _CREDIT_SIZE or not stream.allowed <= used + STREAM_WINDOW <= stream.sent + STREAM_WINDOW:
            self._wireup.drop(letter)
            return
        letter.chunk.release()
        stream.allowed = used + STREAM_WINDOW
        held = stream.held
        while held and stream.sent + held[0][0].nbytes + STREAM_OVERHEAD <= stream.allowed:
            view, request = held.popleft()
            stream.sent += view.nbytes + STREAM_OVERHEAD
            endpoint.send_message(MessageKind.STREAM, view, request=request)

    def holds_back(self, endpoint: Endpoint) -> bool:
        """Return whether bytes to be sent wait for the receiver to take earlier ones."""
        return endpoint.stream is not None and bool(endpoint.stream.held)

    # Arrivals

    def _arrived(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        chunk = letter.chunk
        view = chunk.view
        stream = self._of(endpoint)
        length = view.nbytes
        cost = length + STREAM_OVERHEAD
        if not length or stream.came + cost - stream.used > STREAM_WINDOW or endpoint.remote.messages is None:
            self._wireup.drop(letter)
            return
        stream.came += cost
        posted = stream.posted
        ended = []
        while posted and length:
            receive = posted[0]
            size = receive.fill(view)
            length -= size
            view = view[size:]
            if receive.satisfied:
                ended.append(posted.popleft())
        if not length:
            chunk.release()
            self._use(endpoint, stream, cost)
        else:
            self._keep(stream, chunk, view, cost)
            self._ready[endpoint] = None
        self._end(ended, _OK)

    def _end(self, receives: list[StreamReceive], status: UcsStatus) -> None:
        """End receives; if a callback raises, the others end in the next progress."""
        while receives:
            receive = receives.pop(0)
            try:
                receive.end(status)
            except BaseException:
                self._worker.soon.extend(functools.partial(other.end, status) for other in receives)
                raise

    def _keep(self, stream: _Stream, chunk: Chunk, view: memoryview, cost: int) -> None:
        stream.unread_bytes += view.nbytes
        inbox = self._worker.inbox
        assert inbox is not None
        if view.nbytes < _SMALL or inbox.crowded:
            stream.unread.append(_Unread(memoryview(bytearray(view)), None, cost))
            chunk.release()
        else:
            stream.unread.append(_Unread(view, chunk, cost))

    def _use(self, endpoint: Endpoint, stream: _Stream, cost: int) -> None:
        """Count bytes as used up, and tell the sender if they are many."""
        stream.used += cost
        if stream.used - stream.told >= _TELL and endpoint.failure is None and not endpoint.closed:
            stream.told = stream.used
            credit = memoryview(stream.used.to_bytes(_CREDIT_SIZE, "little"))
            if not send_copy(endpoint, MessageKind.STREAM_CREDIT, (credit,), _CREDIT_SIZE):
                endpoint.send_message(MessageKind.STREAM_CREDIT, credit)

    # Receiving

    def receive(self, endpoint: Endpoint, receive: StreamReceive, read: ReadParam) -> Handle | None:
        """Receive into the layout of a request; return the request if the receive is not over at once.

        Raises NO_RESOURCE if the receive must be over at once, and cannot be; then nothing is received.
        """
        stream = self._of(endpoint)
        if read.forced and not self._suffices(stream, receive):
            receive.layout.finish()
            raise ucs_error(
                UcsStatus.UCS_ERR_NO_RESOURCE,
                f"{receive.length} bytes of a stream requested at once, only {stream.unread_bytes} have come",
            )
        if not stream.posted:
            self._take(endpoint, stream, receive)
            if receive.satisfied:
                if read.immediate:  # the call itself says that it is over
                    receive.callback = None
                receive.end(_OK)
                return receive.answer(immediate=read.immediate)
        stream.posted.append(receive)
        return receive.answer(immediate=False)

    @staticmethod
    def _suffices(stream: _Stream, receive: StreamReceive) -> bool:
        """Return whether the unread bytes end a receive."""
        if stream.posted:
            return False
        size = min(stream.unread_bytes, receive.length)
        return size == receive.length or (not receive.whole and size > 0 and not size % receive.element)

    def _take(self, endpoint: Endpoint, stream: _Stream, receive: StreamReceive) -> None:
        unread = stream.unread
        while unread and receive.received < receive.length:
            first = unread[0]
            size = receive.fill(first.view)
            stream.unread_bytes -= size
            if size < first.view.nbytes:
                first.view = first.view[size:]
                break
            unread.popleft()
            if first.chunk is not None:
                first.chunk.release()
            self._use(endpoint, stream, first.cost)

    def take_data(self, endpoint: Endpoint) -> memoryview | None:
        """Return the oldest message, or the rest of it, in place; None: nothing has come."""
        stream = self._of(endpoint)
        if not stream.unread:
            return None
        first = stream.unread.popleft()
        stream.unread_bytes -= first.view.nbytes
        stream.given[id(first.view)] = first.view, first.chunk
        self._use(endpoint, stream, first.cost)
        return first.view

    def release(self, endpoint: Endpoint, data: Any) -> None:
        """Release a message of :meth:`take_data`. Raises INVALID_PARAM for others, and the second time."""
        stream = self._of(endpoint)
        given = stream.given.get(id(data))
        if given is None or given[0] is not data:
            raise invalid_param("data: expected a result of ucp_stream_recv_data_nb() that is not released")
        del stream.given[id(data)]
        if given[1] is not None:
            given[1].release()

    def poll(self, most: int) -> list[Endpoint]:
        """Return endpoints of the application with unread bytes, each once until more comes."""
        found: list[Endpoint] = []
        for endpoint in list(self._ready):
            if len(found) == most:
                break
            if endpoint.unasked:
                continue
            del self._ready[endpoint]
            if endpoint.stream.unread_bytes:
                found.append(endpoint)
        return found

    # Ends

    def endpoint_ended(self, endpoint: Endpoint, status: UcsStatus) -> None:
        """End posted receives and waiting sends with this status; closing drops unread bytes."""
        stream = endpoint.stream
        if stream is None:
            return
        if status is UcsStatus.UCS_ERR_CANCELED:
            self._ready.pop(endpoint, None)
            for message in stream.unread:
                if message.chunk is not None:
                    message.chunk.release()
            for _, chunk in stream.given.values():
                if chunk is not None:
                    chunk.abandon()
            stream.given.clear()
            stream.unread.clear()
            stream.unread_bytes = 0
        posted, held = list(stream.posted), list(stream.held)
        stream.posted.clear()
        stream.held.clear()
        for _, request in held:
            if request is not None:
                self._worker.soon.append(functools.partial(request.complete, status))
        self._worker.soon.extend(functools.partial(receive.end, status) for receive in posted)

    def cancel_all(self) -> None:
        """Do nothing: everything belongs to endpoints, which end first."""
