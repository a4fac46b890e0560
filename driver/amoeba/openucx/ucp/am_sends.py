"""Sending active messages: copied, in one packet, in fragments, or left for the receiver to read."""

import functools
from typing import Any

from amoeba_model.descriptors import RENDEZVOUS, DescriptorFlags, DescriptorOpcode
from amoeba_model.ucp import UCP_ANSWER, UCP_LONG_MESSAGE, MessageFlags, MessageKind
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of, line_aligned
from amoeba.openucx.ucp.constants import ucp_feature, ucp_send_am_flags
from amoeba.openucx.ucp.datatypes import Layout
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.inbox import Letter
from amoeba.openucx.ucp.message_headers import Header, message_header
from amoeba.openucx.ucp.messages import Handle, over, requested, send_copy, will_copy
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request, number_operation
from amoeba.openucx.ucp.status import UcsStatus, status_of_completion, ucs_error
from amoeba.openucx.ucp.wireup import Wireup
from amoeba.openucx.ucp.worker_base import WorkerBase
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.requests import Grant, Kind

__all__ = ["LENGTH_SIZE", "MAX_EAGER", "AmSends", "error_of"]

MAX_EAGER = 1 << 24
"""Bytes of the longest message that is sent in fragments."""
_RENDEZVOUS_ABOVE = 1 << 16
"""Bytes of the longest message that is sent in fragments if its sender does not choose."""
_MAX_HEADER = 1024
LENGTH_SIZE = 8
"""Bytes of the length in the first fragment."""

_DONE = int(ReturnCode.OK)
_OK = UcsStatus.UCS_OK
_SEND = int(DescriptorOpcode.SEND)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_INLINE_IMMEDIATE = int(DescriptorFlags.INLINE | DescriptorFlags.IMMEDIATE)
_SENDS, _OWN = int(Kind.SEND), int(Kind.OWN)
_EAGER = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_EAGER)
_RNDV = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_RNDV)
_REPLY = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_REPLY)
_WANTS_REPLY = int(MessageFlags.REPLY)
_OLD = int(MessageFlags.OLD)
_AM_OLD, _AM = MessageKind.AM_OLD, MessageKind.AM


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
        """The receiver's name for the message, from its posting on."""
        self.unread: dict[int, _LongSend] = {}
        """The messages by token among which this one is, until it is over."""
        self.verdict: UcsStatus | None = None
        """The status with which the receiver has ended the message."""

    def over(self) -> None:
        """End the message: the receiver has read it, has refused it, or cannot be reached."""
        self.unread.pop(self.token, None)
        status = self.verdict
        if status is None:
            status = _OK if self.status == _DONE else status_of_completion(self.status)
        self.complete(status)


class AmSends:
    """Active messages that a worker sends, until they are over."""

    def __init__(self, worker: WorkerBase, wireup: Wireup) -> None:
        self._worker = worker
        self._wireup = wireup
        self._payload: int = worker.nic.parameters.payload
        self._unread: dict[int, _LongSend] = {}
        """Messages that have not been read, by token."""
        self._waiting: dict[_LongSend, None] = {}
        """Messages that are not posted yet."""
        self.most_header = min(_MAX_HEADER, self._payload - UCP_LONG_MESSAGE.size)
        """Bytes of the longest header."""
        threshold = worker.context.config.value("RNDV_THRESH")
        self._rendezvous_above = _RENDEZVOUS_ABOVE if threshold is None else max(0, threshold - 1)
        """Bytes of the longest message that is sent eagerly unless its sender chooses otherwise."""
        self.allowed = bool(worker.context.features & ucp_feature.UCP_FEATURE_AM)
        """Whether the application has asked for active messages."""
        self.most_inline = min(INLINE_SIZE, self._rendezvous_above) if self.allowed else 0
        """Bytes of the longest message that :meth:`send_number` may send."""
        wireup.handlers[MessageKind.ANSWER] = self._answered

    def send_number(self, endpoint: Endpoint, entry: int, number: int, data: int, length: int) -> None:
        """Send up to ``most_inline`` bytes inside the descriptor, without a header.

        ``entry``: a peer table entry with free space in the ring; the other end knows who sends.
        """
        lane = endpoint.messages
        sent = number_operation(lane, _SENDS, _SEND, length, data)
        sent.flags, sent.peer, sent.more = _INLINE_IMMEDIATE, entry, 0
        sent.remote_address = sent.remote_key = 0
        sent.compare = message_header(_AM, endpoint.remote_number, 0, number)
        self._worker.rings.post(sent)
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
        """Send a message; return a request if the send is not over at once. The layout is used up.

        Raises NO_RESOURCE if the send must be over at once, and cannot be. Raises EXCEEDS_LIMIT if the message must
        go in fragments, and is too long.
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
        if length > MAX_EAGER:
            raise ucs_error(
                UcsStatus.UCS_ERR_EXCEEDS_LIMIT, f"an eager message has at most {MAX_EAGER} bytes, got {length}"
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
        start = min(payload - LENGTH_SIZE - header.nbytes, length - 1)
        first = _joined((memoryview(length.to_bytes(LENGTH_SIZE, "little")), data[:start], header))
        endpoint.send_message(MessageKind.AM_FIRST, first, flags=flags, am_id=number, header_length=header.nbytes)
        while length - start > payload:
            endpoint.send_message(MessageKind.AM_MORE, data[start : start + payload])
            start += payload
        endpoint.send_message(MessageKind.AM_MORE, data[start:], request=request)

    def _send_long(
        self, endpoint: Endpoint, number: int, header: memoryview, layout: Layout, flags: int, read: ReadParam
    ) -> Handle | None:
        worker, length = self._worker, layout.length
        place = line_aligned(UCP_LONG_MESSAGE.size + header.nbytes)
        place[RENDEZVOUS.size : UCP_LONG_MESSAGE.size] = length.to_bytes(LENGTH_SIZE, "little")
        place[UCP_LONG_MESSAGE.size :] = header
        # a message without data needs a readable byte, too: the receiver reads it to say that it is done
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
            carrier.opcode, carrier.flags, carrier.peer = _SEND, _IMMEDIATE, lane.entry()
            carrier.local, carrier.compare = access[0][0], told
            token = worker.long_sends.post_inside(request, source, carrier, place)
            request.token = token
            request.unread = self._unread
            self._unread[token] = request
            self._waiting.pop(request, None)

        lane.submit(post, 1, request)
        return request.answer(immediate=False)

    def _answered(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """End a message that its receiver has refused."""
        view = letter.chunk.view
        if view.nbytes == UCP_ANSWER.size:
            fields = UCP_ANSWER.unpack(view)
            request = self._unread.get(fields["token"])
            status = error_of(-fields["status"])
            if request is not None and request.endpoint is endpoint and status is not None and not fields["reserved"]:
                letter.chunk.release()
                request.verdict = status
                self._worker.long_sends.end(fields["token"])
                return
        self._wireup.drop(letter)

    def endpoint_ended(self, endpoint: Endpoint, status: UcsStatus) -> None:
        """End messages that the other end has not read with this status."""
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


def _joined(parts: tuple[memoryview, ...]) -> memoryview:
    return memoryview(b"".join(parts))


def error_of(status: Any) -> UcsStatus | None:
    """Return the status of a peer or handler if it is the status of an error."""
    try:
        found = UcsStatus(status)
    except ValueError:
        return None
    return found if found < 0 else None
