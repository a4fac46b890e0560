"""Headers and payloads in, Ethernet frames out."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT, packet_beat
from amoeba_hw.stream import Queue, RegisteredArbiter, SkidBuffer, connect_streams
from amoeba_hw.wire.assembler import FrameAssembler
from amoeba_hw.wire.crc_appender import CrcAppender
from amoeba_hw.wire.headers import SHORTEST_FRAME, HeaderBuilder

__all__ = ["FrameTransmitter"]

_DEPARTURE = data.StructLayout({"is_request": 1, "is_control": 1, "context": 8, "pdc": 16, "psn": 32, "status": 8})
"""Fields of the trace for a frame."""

_FRAMES_INSIDE = 8
"""More than the stages between assembler and output can hold frames."""


class FrameTransmitter(wiring.Component):
    """Builds a frame from every header, with the payload that belongs to it, and its CRC.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    mac, ip : In
        Own addresses.
    dscp : In(6)
        Of requests.
    requests, responses, acknowledgements : FRAME_HEADER streams
        Frame by frame, round robin, responses first. ``acknowledgements`` are responses without data, and
        CLEAR_COMMANDs. In the other two, ``is_request`` must be that of the stream. ``payload_length`` is above 0
        only where the frame may have a payload: not with ``is_control``, and a response has one if its opcode is
        WITH_DATA; with NONE it is an ACK alone. An ACK's ``psn`` lies within 16 signed bits of its ``cack_psn``.
        ``job_id``, ``message_id`` and all else are sent as given.
    request_payload, response_payload : :func:`packet_beat` streams
        One packet of ``payload_length`` bytes for every header with a payload, in the order of the headers. Once a
        header is there its payload must follow without waiting for the other kind's frames.
    frames : :func:`packet_beat` stream
        Whole Ethernet frames without FCS.
    trace_request_sent, trace_response_sent : TRACE_SLOT
        With the first beat of a frame. ``pdc`` is the sender's; ``status`` of a NACK is 0.
    count_responses_sent, count_nacks_sent : Out(1)
        Pulse with the first beat of an ACK, and of a NACK.

    One beat per cycle, no idle cycle between frames; a frame whose CRC reaches into a beat of
    its own takes that cycle, too. The first beat is on offer 6 cycles after its header was taken. All ``ready`` come
    from registers.
    """

    def __init__(self, parameters):
        self._width = width = parameters.data_width
        self._peers = parameters.peers
        super().__init__(
            {
                "mac": In(48),
                "ip": In(32),
                "dscp": In(6),
                "requests": In(stream.Signature(FRAME_HEADER)),
                "request_payload": In(stream.Signature(packet_beat(width))),
                "responses": In(stream.Signature(FRAME_HEADER)),
                "response_payload": In(stream.Signature(packet_beat(width))),
                "acknowledgements": In(stream.Signature(FRAME_HEADER)),
                "frames": Out(stream.Signature(packet_beat(width))),
                "trace_request_sent": Out(TRACE_SLOT),
                "trace_response_sent": Out(TRACE_SLOT),
                "count_responses_sent": Out(1),
                "count_nacks_sent": Out(1),
            }
        )
        self._inside = Signal()
        """A frame's first beat has left, its last has not."""

    def elaborate(self, platform):
        m = Module()
        # The arbiter begins with its first input.
        m.submodules.arbiter = arbiter = RegisteredArbiter(FRAME_HEADER, 3)
        m.submodules.builder = builder = HeaderBuilder(self._width // 8 >= SHORTEST_FRAME, self._peers)
        m.submodules.assembler = assembler = FrameAssembler(self._width)
        m.submodules.appender = appender = CrcAppender(self._width)
        m.submodules.departures = departures = Queue(_DEPARTURE, _FRAMES_INSIDE)
        connect_streams(m, flipped(self.responses), arbiter.i[0])
        connect_streams(m, flipped(self.requests), arbiter.i[1])
        connect_streams(m, flipped(self.acknowledgements), arbiter.i[2])
        connect_streams(m, arbiter.o, builder.i)
        connect_streams(m, builder.o, assembler.headers)
        for name in ("request_payload", "response_payload"):
            m.submodules[f"{name}_skid"] = skid = SkidBuffer(packet_beat(self._width))
            connect_streams(m, flipped(getattr(self, name)), skid.i)
            connect_streams(m, skid.o, getattr(assembler, name))
        connect_streams(m, assembler.o, appender.i)
        connect_streams(m, appender.o, flipped(self.frames))
        m.d.comb += [builder.mac.eq(self.mac), builder.ip.eq(self.ip), builder.dscp.eq(self.dscp)]
        m.d.comb += [
            departures.i.valid.eq(assembler.begins),
            *(departures.i.p[name].eq(assembler.headers.p[name]) for name, _ in _DEPARTURE),
        ]
        self._elaborate_trace(m, departures)
        return m

    def _elaborate_trace(self, m, departures):
        leaves = Signal()
        departure = departures.o.p
        m.d.comb += [
            leaves.eq(self.frames.valid & self.frames.ready & ~self._inside),
            departures.o.ready.eq(leaves),
            self.count_responses_sent.eq(leaves & ~departure.is_request & ~departure.is_control),
            self.count_nacks_sent.eq(leaves & ~departure.is_request & departure.is_control),
        ]
        for slot, kind in ((self.trace_request_sent, 1), (self.trace_response_sent, 0)):
            m.d.comb += slot.valid.eq(leaves & (departure.is_request == kind))
            m.d.comb += [slot.event[name].eq(departure[name]) for name in ("psn", "pdc", "context", "status")]
        with m.If(self.frames.valid & self.frames.ready):
            m.d.sync += self._inside.eq(~self.frames.p.last)
