"""Puts the payload behind the headers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import packet_beat
from amoeba_hw.packed import funnel, masked, select
from amoeba_hw.wire.headers import BUILT_HEADER, HEADER_MAXIMUM, SENT_SHAPES, by_shape

__all__ = ["FrameAssembler"]


class FrameAssembler(wiring.Component):
    """Merges headers and payloads into frames without CRC.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    headers : BUILT_HEADER stream
    request_payload, response_payload : :func:`packet_beat` streams
        One packet for each header of that kind with a payload, of the length it says.
    o : :func:`packet_beat` stream
        The frames; bytes beyond ``count`` are zero. Latency zero, one beat per cycle, no idle cycle between frames
        and none between headers and payload.
    begins : Out(1)
        Pulse in the cycle in which a frame's first beat is taken.

    ::

        o beat      0        1        2         3          4
        headers   | 0..31  | 32..63 | 64..95  | 96..101  |          an atomic request, 256 bits
        payload   |        |        |         |  0..25   | 26..57
    """

    def __init__(self, width):
        self._line_bytes = width // 8
        beat = stream.Signature(packet_beat(width))
        super().__init__(
            {
                "headers": In(stream.Signature(BUILT_HEADER)),
                "request_payload": In(beat),
                "response_payload": In(beat),
                "o": Out(beat),
                "begins": Out(1),
            }
        )
        self._beat = Signal(range(-(-HEADER_MAXIMUM // self._line_bytes) + 1))
        """Number of the beat on offer; stays at the first one beyond all headers."""
        self._sent = Signal(15)
        """Bytes of the frame given away."""
        self._taken = Signal(14)
        """Bytes of the payload taken, its last beat counted as full."""
        self._previous = Signal(width)
        """Payload beat whose tail has not left yet; zero without one."""

    def elaborate(self, platform):
        m = Module()
        header, line_bytes = self.headers.p, self._line_bytes
        width = 8 * line_bytes
        remaining = Signal(15)
        reaches_payload = Signal()
        needs_payload = Signal()
        payload_valid = Signal()
        payload = Signal(packet_beat(width))
        current = Signal(width)
        shift = Signal(range(line_bytes + 1))
        """Where in the two payload beats this beat begins."""
        shifts = {shape: line_bytes - shape.header_bytes % line_bytes for shape in SENT_SHAPES}
        m.d.comb += [
            shift.eq(by_shape(header.kind, len(shift), lambda kind: shifts.get(kind, 0))),
            reaches_payload.eq(
                self._beat >= by_shape(header.kind, len(self._beat), lambda kind: kind.header_bytes // line_bytes)
            ),
            remaining.eq(header.length - self._sent),
            needs_payload.eq(reaches_payload & (self._taken < header.payload_length)),
            payload.eq(Mux(header.is_request, self.request_payload.p, self.response_payload.p)),
            payload_valid.eq(Mux(header.is_request, self.request_payload.valid, self.response_payload.valid)),
            current.eq(Mux(needs_payload, masked(payload.data, payload.count), 0)),
            self.o.p.data.eq(self._header_beat() | funnel(self._previous, current, shift, shifts.values())),
            self.o.p.last.eq(remaining <= line_bytes),
            self.o.p.count.eq(Mux(remaining < line_bytes, remaining, line_bytes)),
            self.o.valid.eq(self.headers.valid & (payload_valid | ~needs_payload)),
        ]
        transfer = self.o.valid & self.o.ready
        takes = transfer & needs_payload
        m.d.comb += [
            self.request_payload.ready.eq(takes & header.is_request),
            self.response_payload.ready.eq(takes & ~header.is_request),
            self.headers.ready.eq(transfer & self.o.p.last),
            self.begins.eq(transfer & (self._sent == 0)),
        ]
        with m.If(transfer):
            m.d.sync += [
                self._sent.eq(self._sent + line_bytes),
                self._taken.eq(Mux(takes, self._taken + line_bytes, self._taken)),
                self._previous.eq(current),
                self._beat.eq(Mux(self._beat == self._header_beats, self._beat, self._beat + 1)),
            ]
        with m.If(self.headers.ready):
            m.d.sync += [register.eq(0) for register in (self._sent, self._taken, self._previous, self._beat)]
        return m

    @property
    def _header_beats(self):
        return -(-HEADER_MAXIMUM // self._line_bytes)

    def _header_beat(self):
        """Return the part of the headers that belongs to this beat."""
        width = 8 * self._line_bytes
        padding = Const(0, self._header_beats * width - len(self.headers.p.bytes))
        whole = Cat(self.headers.p.bytes, padding)
        return select(
            width, ((self._beat == n, whole[width * n : width * (n + 1)]) for n in range(self._header_beats))
        )
