"""From lines to packets: the old bytes of a request, packed from byte 0."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import packet_beat
from amoeba_hw.memory.operations import byte_rotate_left, line_address_bits, line_result, merge, thermometer

__all__ = ["ResultPacker"]


class ResultPacker(wiring.Component):
    """Packs what each request got from its lines into one packet.

    The parts of a request follow each other without a gap, and fill ``o``'s beats one after the other: a part
    turns to the place where the beat has got to; what does not fit begins the next beat.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : stream of line_result
        ``count`` 0: no bytes. ``last`` ends a packet.
    open : in
        A part with ``last`` may be taken; once set it holds until ``leaves``.
    leaves : out, pulse
        A part with ``last`` has been taken.
    o : packet_beat stream
        Latency two cycles. One part per cycle, except that a packet whose last part fills one beat and begins
        another delays a next packet of one beat by a cycle. ``error``: some part had it.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        super().__init__(
            {
                "i": In(stream.Signature(line_result(parameters))),
                "open": In(1),
                "leaves": Out(1),
                "o": Out(stream.Signature(packet_beat(parameters.data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat_bytes, width = self._parameters.beat_bytes, self._parameters.data_width
        offset_bits = line_address_bits(self._parameters)
        filled = Signal(offset_bits)  # bytes of the beat that parts before have filled
        part = Signal(line_result(self._parameters))
        part_valid = Signal()
        place = Signal(offset_bits)
        end = Signal(offset_bits + 2)
        ends_beat = Signal()
        advance = Signal()
        taken = Signal()
        turn = Signal(offset_bits)
        next_end = Signal.like(end)
        m.d.comb += [
            self.i.ready.eq(advance & (self.open | ~self.i.p.last)),
            taken.eq(self.i.valid & self.i.ready),
            self.leaves.eq(taken & self.i.p.last),
            turn.eq(filled - self.i.p.offset),
            next_end.eq(filled + self.i.p.count),
        ]
        # First stage: turn to the place in the beat, and see whether that beat leaves.
        turned = byte_rotate_left(m, "part", self.i.p.data, turn)
        with m.If(advance):
            m.d.sync += [
                part_valid.eq(taken),
                part.eq(self.i.p),
                part.data.eq(turned),
                place.eq(filled),
                end.eq(next_end),
                ends_beat.eq(self.i.p.last | (next_end >= beat_bytes)),
            ]
        with m.If(taken):
            m.d.sync += filled.eq(Mux(self.i.p.last, 0, next_end))

        # Second stage: put together with the bytes that are there. The bytes left after the last beat but one of a
        # packet leave while the next part, which then is a packet's first, passes without filling a beat.
        gathered = Signal(width)
        error = Signal()
        tail = Signal(range(beat_bytes))
        has_tail = Signal()
        tail_error = Signal()
        emits = Signal()
        free = Signal()
        below = thermometer(m, "below", place, beat_bytes)
        whole = Signal(width)
        m.d.comb += [
            whole.eq(merge(below, gathered, part.data)),
            free.eq(~self.o.valid | self.o.ready),
            emits.eq(part_valid & ends_beat),
            advance.eq(~part_valid | (free & ~(emits & has_tail)) | (~emits & ~has_tail)),
        ]
        overflows = part.last & (end > beat_bytes)
        with m.If(free):
            m.d.sync += self.o.valid.eq(0)
        with m.If(free & has_tail):
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.p.data.eq(gathered),
                self.o.p.count.eq(tail),
                self.o.p.last.eq(1),
                self.o.p.error.eq(tail_error),
                has_tail.eq(0),
            ]
        with m.Elif(free & emits):
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.p.data.eq(whole),
                self.o.p.count.eq(Mux(end >= beat_bytes, beat_bytes, end)),
                self.o.p.last.eq(part.last & ~overflows),
                self.o.p.error.eq(error | part.error),
            ]
            with m.If(overflows):
                m.d.sync += [has_tail.eq(1), tail.eq(end - beat_bytes), tail_error.eq(error | part.error)]
        with m.If(part_valid & advance):
            m.d.sync += [
                # Bytes turned below `place` are those that did not fit.
                gathered.eq(Mux(end >= beat_bytes, part.data, whole)),
                error.eq(~part.last & (error | part.error)),
            ]
        return m
