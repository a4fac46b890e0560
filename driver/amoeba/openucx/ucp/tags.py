"""Tagged messages (group COMM-TAG of ucp.h): sends, receives, probes.

The NIC matches. The driver takes over messages and receives that do not fit into the NIC
(:mod:`amoeba.transport.software_matching`), so that both lists are unlimited. A message of up to a packet travels
in the packet. It is over for the sender when it has been copied, if a piece of memory is free for that, or is
delivered. The receiver reads a longer one in place, and one that is to be over when it has been matched.

A receive that is shorter than a packet, or scattered, lands in memory of the driver: so a message that does not fit
changes no buffer. A message longer than a packet is read to its destination after its length is known. Other
endpoints may send several packets instead: these are cut where the receive's buffer ends.
"""

import functools
import time
from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorOpcode, EventFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of, line_aligned
from amoeba.core.errors import ResourceError, TryAgainError
from amoeba.nic.event_ring import Event
from amoeba.openucx.ucp.config_keys import AUTO
from amoeba.openucx.ucp.datatypes import GenericLayout, Layout
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_tag_message_h
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.packets import Packet, Packets
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request, number_operation
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, status_of_completion, ucs_error
from amoeba.openucx.ucp.structures import ucp_tag_recv_info
from amoeba.openucx.ucp.worker_base import WorkerBase
from amoeba.transport import receive as engine
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.receive import ANYBODY
from amoeba.transport.receives import Claim
from amoeba.transport.requests import Arrival, Grant, Kind
from amoeba.transport.rings import INJECT_SIZE
from amoeba.transport.transmit_rings import DRAIN_TIME

__all__ = ["TagMessage", "TagReceive", "TagSend", "Tags"]

_SEND = int(DescriptorOpcode.TAGGED_SEND)
_SEND_RECORD = int(DescriptorOpcode.RENDEZVOUS_TAGGED_SEND)
_LONG = int(EventFlags.LONG)
_DONE, _TOO_LONG, _CANCELLED = int(ReturnCode.OK), int(ReturnCode.TOO_LONG), int(ReturnCode.CANCELLED)
_SENDS, _RECEIVES = int(Kind.TAGGED_SEND), int(Kind.TAGGED_RECEIVE)
_OK = UcsStatus.UCS_OK
_CANCELED = UcsStatus.UCS_ERR_CANCELED
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_ALL = (1 << 64) - 1
_MAX_COPIES = 256
"""Maximum messages, each of at most a packet, that are copied and not delivered yet."""
_MAX_SEGMENTS = 16
"""Maximum pieces of memory that one message is read to: more pieces are read to one place, and copied."""
_NOWHERE = memoryview(bytearray(1))
_UNKNOWN = ucp_tag_recv_info(0, 0)
"""Information of a message that has not come."""


class _Copy(Quiet):
    """A message whose buffer the caller may use again."""

    __slots__ = ("_packet", "_packets")

    def __init__(self, lane: Lane, length: int, packet: Packet, packets: Packets) -> None:
        super().__init__(lane, _SENDS, length, packet)
        self._packet = packet
        self._packets = packets

    def over(self) -> None:
        self._packets.free.append(self._packet)
        super().over()


class TagSend(Request):
    """A send."""

    __slots__ = ()
    what = "tag send"


class _LongSend(TagSend):
    """A send that the receiver reads, over when it has, which is later than its lane has done with it."""

    __slots__ = ("endpoint", "token", "unread", "verdict")

    endpoint: Endpoint
    token: int
    """The receiver's name for the message, once it has been posted."""
    unread: "dict[_LongSend, None]"
    """The messages among which this one is until it is over."""
    verdict: UcsStatus | None
    """The status that ended the send before the receiver has read it."""

    def over(self) -> None:
        self.unread.pop(self, None)
        failure = self.endpoint.failure
        if self.verdict is not None:
            self.complete(self.verdict)
        elif self.status == _DONE:
            self.complete(_OK)
        else:
            self.complete(status_of_completion(self.status) if failure is None else failure)


class _Place(engine.Receive):
    """The destination of a receive's message: see the top of this file."""

    landed: memoryview | None = None
    """The message in its first place, before it goes to the layout."""
    packet: Packet | None = None
    """The first place, one of ``packets``, unless it is longer."""
    packets: Packets
    payload: int
    """Bytes of the longest packet: a message between Amoeba NICs that is longer is read."""

    def __init__(self, request: "TagReceive", tag: int, mask: int) -> None:
        super().__init__(True, tag, ~mask & _ALL, ANYBODY, request, 0)
        self.layout = request.layout

    def prepare(self, packets: Packets, payload: int) -> None:
        """Find memory to receive to."""
        self.packets, self.payload = packets, payload
        layout = self.layout
        length = layout.length
        view = layout.view
        if view is not None and length >= payload:
            self.buffers, self.address, self.length, self.keep = (view,), address_of(view), length, view
            self.grants = ((self.address, length, True),)
            return
        self.keep = layout
        self.length = length
        if not length:
            self.whole = memoryview(b"")
            return
        if length > payload:  # a peer that is no Amoeba NIC may send several packets
            self.whole = line_aligned(length)
            self.address, self.length = address_of(self.whole), length
            self.grants = ((self.address, length, True),)
            return
        packet = packets.free.pop() if packets.free else packets.take()
        assert packet is not None  # the packets are unlimited
        self.packet = packet
        self.address = packet.address
        self.whole = packet.view[:length]

    def segments(self, address: int, length: int) -> list[Segment]:
        """Return the segments of a message of ``length`` bytes, which the NIC may write; none if it is too long."""
        layout = self.layout
        if length > layout.length or not length:
            return []
        is_read = self.whole is not None and length > self.payload
        if is_read and layout.views and len(layout.views) <= _MAX_SEGMENTS:
            segments = []
            left = length
            for view in layout.views:
                if left:
                    segments.append(Segment(address_of(view), min(view.nbytes, left)))
                    left -= segments[-1].length
            self._grant(segments)
            return segments
        if self.whole is not None:
            self.landed = self.whole[:length]
        return [Segment(self.address, length)]

    def _grant(self, segments: Sequence[Segment]) -> None:
        """Let the NIC write there until the receive is over."""
        request = self.context
        grants: list[Grant] = [(segment.address, segment.length, True) for segment in segments]
        request.worker.nic.dma.grant_all(grants, request.worker.main.number)
        self.grants = (*self.grants, *grants)

    def land(self, address: int, length: int) -> int:
        """Note that the message is in its packet."""
        if length > self.layout.length:
            return 0
        assert self.whole is not None
        self.landed = self.whole[:length]
        return length

    def fill(self, data: memoryview, offset: int = 0) -> int:
        """Note that the message is there."""
        whole = self.whole
        if whole is None:
            self.buffers[0][: data.nbytes] = data
        elif data.nbytes and self.landed is not None:
            self.landed[:] = data
        return data.nbytes


class TagReceive(Request):
    """A receive. ``info``: information about its message, when it is over."""

    __slots__ = ("info", "layout", "place")

    what = "tag recv"

    def __init__(self, worker: WorkerBase, layout: Layout, tag: int, mask: int, read: ReadParam) -> None:
        super().__init__(worker, None, _RECEIVES, layout.length, None, (), read.callback, read.user_data)
        self.layout = layout
        self.info = _UNKNOWN
        self.place = _Place(self, tag, mask)

    def told(self) -> tuple[Any, ...]:
        """Return the information about the message."""
        return (self.info,)

    def arrived(self, arrival: Arrival) -> None:
        """Finish the receive: its message has arrived, or it has been cancelled."""
        if self.code is _IN_PROGRESS:
            self.complete(self.finish(arrival))

    def finish(self, arrival: Arrival) -> UcsStatus:
        """Bring the message to its destination; return the status."""
        place, layout, code = self.place, self.layout, arrival.status
        status = _OK
        if code == _DONE:
            landed = place.landed
            if landed is not None:
                if layout.views and landed.nbytes <= layout.views[0].nbytes:
                    layout.views[0][: landed.nbytes] = landed
                else:
                    status = layout.write(0, landed)
        elif code == _TOO_LONG:
            status = UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
        else:
            status = status_of_completion(code)
        self.info = ucp_tag_recv_info(arrival.tag, arrival.length + arrival.olen)
        self.drop()
        return status

    def drop(self) -> None:
        """Release the application's state and the driver's memory: nothing arrives any more."""
        place = self.place
        place.landed = None
        if place.packet is not None:
            place.packets.free.append(place.packet)
            place.packet = None
        self.layout.finish()

    def cancel(self) -> None:
        """Cancel the receive if it has met no message; wait for the NIC, which ends the receive."""
        worker = self.worker
        receives, dispatch = worker.receives, worker.dispatch
        if self.code is not _IN_PROGRESS or not receives.cancel(self):
            return
        deadline = time.monotonic() + DRAIN_TIME
        while not self.place.released and time.monotonic() < deadline:
            dispatch.take_all()
            if not self.place.released:
                worker.nic.advance()
        ready = dispatch.ready
        for arrival in ready:
            if arrival.context is self and arrival.status == _CANCELLED:
                ready.remove(arrival)
                self.arrived(arrival)
                return


class TagMessage(ucp_tag_message_h):
    """A message that a probe has found. ``claim``: the removed message, until it is received."""

    __slots__ = ("claim", "worker")

    def __init__(self, worker: WorkerBase, claim: Claim | None) -> None:
        self.worker = worker
        self.claim = claim


class Tags:
    """Tagged messages of a worker."""

    def __init__(self, worker: WorkerBase) -> None:
        self._worker = worker
        self._payload = worker.nic.parameters.payload
        threshold = worker.context.config.value("RNDV_THRESH")
        self._most = self._payload if threshold is AUTO else min(max(threshold - 1, 0), self._payload)
        """Bytes of the longest message that travels in a packet."""
        self.most_inline = min(INLINE_SIZE, self._most)
        """Bytes of the longest message that :meth:`send_number` may send."""
        self._copies = Packets(worker.nic, worker.main.number, self._payload, writable=False, most=_MAX_COPIES)
        self.places = Packets(worker.nic, worker.main.number, self._payload, writable=True)
        """Where short messages land."""
        self._unread: dict[_LongSend, None] = {}
        """Messages that receivers are to read."""

    # Sending

    def send_number(self, lane: Lane, entry: int, length: int, number: int, tag: int, more: bool) -> None:
        """Send up to ``most_inline`` bytes, which travel in the descriptor.

        ``entry``: a peer table entry with free space in the ring. ``more`` follow at once.
        """
        sent = number_operation(lane, _SENDS, _SEND, length, number)
        sent.peer, sent.more = entry, more
        sent.remote_address, sent.remote_key = 0, tag
        self._worker.rings.post(sent)
        lane.posted += 1

    def send(self, endpoint: Endpoint, layout: Layout, tag: int, read: ReadParam, *, sync: bool) -> Request | None:
        """Send a layout; return the request if the send is not over at once.

        ``sync``: the send is over when it has been matched. Raises NO_RESOURCE if the send must be over at once, and
        cannot be; then nothing is sent. The layout has been read, or is kept alive.
        """
        length = layout.length
        if sync or length > self._most:
            if read.forced:
                raise ucs_error(
                    UcsStatus.UCS_ERR_NO_RESOURCE, f"a message of {length} bytes is over only when it is read"
                )
            return self._send_long(endpoint, layout, tag, read)
        lane = endpoint.tagged
        request = None
        if not read.immediate:
            request = self._request(lane, length, read)
        if self._copy(lane, layout, length, tag, read.many):
            if request is None:
                return None
            request.complete(_OK)
            return request.answer(immediate=False)
        if read.forced:
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"no free space for a message of {length} bytes now")
        return self._queue(lane, layout, tag, self._request(lane, length, read) if request is None else request)

    def _request(self, lane: Lane, length: int, read: ReadParam) -> TagSend:
        request = TagSend(self._worker, lane, _SENDS, length, None, (), read.callback, read.user_data)
        request.use(read.request)
        return request

    def _copy(self, lane: Lane, layout: Layout, length: int, tag: int, more: bool) -> bool:
        """Send a message of up to a packet as it is now. Return False if that is impossible now."""
        entry = lane.entry_now()
        if entry is None:
            if not lane.may_post():
                return False
            try:
                entry = lane.entry()
            except (TryAgainError, ResourceError):
                return False
        rings = self._worker.rings
        sent: Quiet
        if length <= INJECT_SIZE and not isinstance(layout, GenericLayout):
            sent = Quiet(lane, _SENDS, length)
            sent.local = rings.bounce(layout.views) if length else 0
        else:
            packet = self._copies.take()
            if packet is None:
                return False
            try:
                layout.read(0, packet.view[:length])
            except BaseException:
                self._copies.free.append(packet)
                raise
            sent = _Copy(lane, length, packet, self._copies)
            sent.local = packet.address
        sent.opcode, sent.remote_key, sent.peer, sent.more = _SEND, tag, entry, more
        rings.post(sent)
        lane.posted += 1
        return True

    def _queue(self, lane: Lane, layout: Layout, tag: int, request: TagSend) -> Request | None:
        """Send a message of up to a packet in place, when it is its turn."""
        data = layout.packed()
        length = data.nbytes
        request.opcode, request.remote_key = _SEND, tag
        request.local = place = address_of(data) if length else 0
        request.buffers = data
        request.grants = ((place, length, False),) if length else ()
        lane.post(request)
        return request.answer(immediate=True)

    def _send_long(self, endpoint: Endpoint, layout: Layout, tag: int, read: ReadParam) -> Request | None:
        """Let the receiver read the message."""
        worker, lane, unread = self._worker, endpoint.tagged, self._unread
        data = layout.packed()
        length = data.nbytes
        place = data if length else _NOWHERE
        source = Segment(address_of(place), place.nbytes)
        grants = ((source.address, source.length, False),)
        request = _LongSend(worker, lane, _SENDS, length, data, grants, read.callback, read.user_data)
        request.opcode = _SEND_RECORD
        request.endpoint, request.unread, request.verdict = endpoint, unread, None
        request.use(read.request)

        def post_record() -> None:
            request.peer = lane.entry()
            request.token = worker.long_sends.post(request, source, tag, Quiet(lane, _SENDS, 0))
            unread[request] = None

        lane.submit(post_record, request=request)
        return request.answer(immediate=True)

    # Receiving

    def receive(self, layout: Layout, tag: int, mask: int, read: ReadParam) -> Request | None:
        """Receive to a layout; return the request if the receive is not over at once.

        Raises the status with which the receive has ended at once. Raises NO_RESOURCE if the receive must end at once
        and cannot; then it takes no message.
        """
        worker = self._worker
        request = TagReceive(worker, layout, tag, mask, read)
        try:
            if read.request is not None:
                request.use(read.request)
            if read.forced:
                self._check_waiting(worker.receives.oldest(request.place))
            request.place.prepare(self.places, self._payload)
            worker.receives.post(request.place, 0, False)
        except BaseException:
            request.drop()
            raise
        return self._answer(request, read)

    def _check_waiting(self, event: Event | None) -> None:
        if event is None or event.flags & _LONG:
            why = "no such message has come" if event is None else "the message is to be read"
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"{why}: the receive is not over at once")

    def _answer(self, request: TagReceive, read: ReadParam) -> Request | None:
        """Return the result of a call whose receive has been posted."""
        ready = self._worker.dispatch.ready
        if not ready or id(ready[-1].context) != id(request):
            return request.answer(immediate=False)
        status = request.finish(ready.pop())
        if read.immediate:
            request.callback = None
        request.complete(status)
        if read.recv_info is not None:
            read.recv_info.sender_tag, read.recv_info.length = request.info.sender_tag, request.info.length
        return request.answer(immediate=read.immediate)

    # Probing

    def probe(self, tag: int, mask: int, *, remove: bool) -> tuple[TagMessage, ucp_tag_recv_info] | None:
        """Return the oldest message that would be received, of those that progress has seen."""
        worker = self._worker
        pattern = engine.Receive(True, tag, ~mask & _ALL, ANYBODY, None, 0)
        claim = None
        if remove:
            claim = worker.receives.take(pattern)
            event = None if claim is None else claim.event
            if claim is not None:
                worker.receives.claims.append(claim)
        else:
            event = worker.receives.oldest(pattern)
        if event is None:
            return None
        return TagMessage(worker, claim), ucp_tag_recv_info(event.tag, event.length)

    def receive_message(self, message: TagMessage, layout: Layout, read: ReadParam) -> Request | None:
        """Receive a message that a probe has removed: as :meth:`receive`."""
        worker, claim = self._worker, message.claim
        if claim is None:
            raise invalid_param("message: expected one that a probe has removed, not received yet")
        request = TagReceive(worker, layout, 0, 0, read)
        try:
            request.use(read.request)
            if read.forced:
                self._check_waiting(claim.event)
            place = request.place
            place.prepare(self.places, self._payload)
            if not claim.event.flags & _LONG:
                place.grants = ()
            message.claim = None
            worker.receives.claims = [each for each in worker.receives.claims if each is not claim]
            worker.receives.deliver(claim, place)
        except BaseException:
            request.drop()
            raise
        return self._answer(request, read)

    # Ends

    def endpoint_ended(self, endpoint: Endpoint, status: UcsStatus) -> None:
        """End messages that the other end has not read with this status."""
        for request in [each for each in self._unread if each.endpoint is endpoint]:
            request.verdict = status
            self._worker.long_sends.end(request.token)
            self._worker.soon.append(functools.partial(request.complete, status))

    def cancel_all(self) -> None:
        """End posted receives with CANCELED."""
        for request in self._worker.receives.contexts():
            if isinstance(request, TagReceive) and not request.done:
                request.layout.finish()
                self._worker.soon.append(functools.partial(request.complete, _CANCELED))

    def release(self) -> None:
        """Withdraw the NIC's access to the packets."""
        self._copies.release()
        self.places.release()
