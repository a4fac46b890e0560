"""Ethernet frames in, checked headers and payloads out."""

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT, packet_beat
from amoeba_hw.stream import connect_streams
from amoeba_hw.wire.frame_store import FrameStore
from amoeba_hw.wire.headers import NO_CONTEXT
from amoeba_hw.wire.parser import FrameParser, frame_limit

__all__ = ["UNKNOWN_PDC", "FrameReceiver"]

REQUESTS = 256
"""Most requests that are stored: with the packets of one window on their way, each may be without a payload."""
UNKNOWN_PDC = 0xFFFF
"""In the trace, of a request with SYN: its PDC has not been looked up yet."""


class FrameReceiver(wiring.Component):
    """Stores each frame until its last byte is there, and hands on what is right and meant for this NIC.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    mac, ip : In
        Own addresses.
    frames : :func:`packet_beat` stream
        Whole Ethernet frames without FCS; ``error`` on the last beat: bad FCS, counted as a wrong CRC. Anything
        else that is not a frame for this NIC is dropped and counted, too; longer ones than :func:`frame_limit` are
        malformed. ``ready`` falls only while the store of responses is almost full.
    requests, responses : FRAME_HEADER streams
        To the target: requests, CLOSE_COMMANDs and ACK_REQUESTs; to the initiator: ACKs, NACKs, and data in the
        return direction. CLEAR_COMMANDs end here: the target keeps the answers of a window, cleared or not. Fields
        that a frame does not have are zero. Responses that are not taken hold up the link when their store is full:
        12 headers, or two full payloads. Requests hold up nothing: one that meets a full store is dropped, as if it
        had been lost. The store holds a window's packets, :data:`REQUESTS` at most, and four full payloads, and one
        more for each entry of the target's out-of-order buffer: requests wait while these are executed one after
        the other.
    request_payload, response_payload : :func:`packet_beat` streams
        One packet of ``payload_length`` bytes for each header that has any. Does not wait for the header's transfer.
    trace_request_received, trace_response_received : TRACE_SLOT
        ``pdc`` is the receiver's, UNKNOWN_PDC with SYN; ``status`` of a NACK is 0.
    count_frames_received, count_dropped_malformed, count_dropped_check, count_dropped_address, \
count_dropped_overflow : Out(1)
        One pulse of one of them for each frame.
    count_marked_requests, count_marked_responses : Out(1)
        With ``count_frames_received``, of a frame that is ``marked``.

    One beat per cycle, no idle cycle between frames. The header is offered four cycles after its last beat.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        width = parameters.data_width
        super().__init__(
            {
                "mac": In(48),
                "ip": In(32),
                "frames": In(stream.Signature(packet_beat(width))),
                "requests": Out(stream.Signature(FRAME_HEADER)),
                "request_payload": Out(stream.Signature(packet_beat(width))),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(packet_beat(width))),
                "trace_request_received": Out(TRACE_SLOT),
                "trace_response_received": Out(TRACE_SLOT),
                "count_frames_received": Out(1),
                "count_dropped_malformed": Out(1),
                "count_dropped_check": Out(1),
                "count_dropped_address": Out(1),
                "count_dropped_overflow": Out(1),
                "count_marked_requests": Out(1),
                "count_marked_responses": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = self._parameters.data_width
        beats = -(-frame_limit(self._parameters) // self._parameters.beat_bytes)
        requests = max(16, min(self._parameters.window, REQUESTS))
        m.submodules.parser = parser = FrameParser(self._parameters)
        payloads = 4 + self._parameters.out_of_order_entries
        m.submodules.request_store = request_store = FrameStore(width, payloads * beats, requests)
        m.submodules.response_store = response_store = FrameStore(width, 2 * beats)
        connect_streams(m, flipped(self.frames), parser.frames)
        connect_streams(m, request_store.headers, flipped(self.requests))
        connect_streams(m, request_store.payload, flipped(self.request_payload))
        connect_streams(m, response_store.headers, flipped(self.responses))
        connect_streams(m, response_store.payload, flipped(self.response_payload))
        marked = self.count_frames_received & parser.header.marked
        requested = parser.is_request | parser.header.returns
        m.d.comb += [
            parser.mac.eq(self.mac),
            parser.ip.eq(self.ip),
            # Nothing that a request may wait for holds up an answer: that is what others may wait for.
            parser.stall.eq(response_store.stall),
            self.count_frames_received.eq(parser.accepted & ~request_store.overflow),
            self.count_dropped_overflow.eq(request_store.overflow),
            self.count_marked_requests.eq(marked & requested),
            self.count_marked_responses.eq(marked & ~requested),
            self.count_dropped_malformed.eq(parser.malformed),
            self.count_dropped_check.eq(parser.corrupt),
            self.count_dropped_address.eq(parser.misdirected),
        ]
        wanted = parser.accepted & ~parser.header.clears
        for store, chosen in ((request_store, parser.is_request), (response_store, ~parser.is_request)):
            m.d.comb += [
                store.beat_valid.eq(parser.payload_valid & chosen),
                store.beat.eq(parser.payload),
                store.header.eq(parser.header),
                store.accept.eq(wanted & chosen),
                store.reject.eq(parser.malformed | parser.misdirected | parser.corrupt),
            ]
        self._elaborate_trace(m, parser, request_store)
        return m

    def _elaborate_trace(self, m, parser, request_store):
        header = parser.header
        request, response = self.trace_request_received, self.trace_response_received
        m.d.comb += [
            request.valid.eq(parser.accepted & parser.is_request & ~header.clears & ~request_store.overflow),
            request.event.psn.eq(header.psn),
            request.event.pdc.eq(Mux(header.syn, UNKNOWN_PDC, header.dpdcid)),
            request.event.context.eq(Mux(header.is_control, NO_CONTEXT, header.resource_index[:8])),
            response.valid.eq(parser.accepted & ~parser.is_request),
            response.event.psn.eq(header.psn),
            response.event.pdc.eq(header.dpdcid),
            response.event.context.eq(NO_CONTEXT),
            response.event.status.eq(header.return_code),
        ]
