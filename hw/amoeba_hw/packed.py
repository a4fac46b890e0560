"""Packed packets cut and shifted at byte boundaries."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import packet_beat

__all__ = ["CUT", "Realign", "first_of", "funnel", "masked", "select"]

CUT = data.StructLayout({"skip": 14, "length": 14})
"""The part of a packet to deliver: ``length`` bytes, at least 1, from byte ``skip``."""


def select(width, choices):
    """Select the value whose condition holds, of pairs (condition, value); zero if none does.

    An OR of ANDs: the conditions must exclude each other.
    """
    result = Const(0, width)
    for condition, value in choices:
        result |= Mux(condition, value, 0)
    return result[:width]


def first_of(m, pdcs):
    """Find the lowest of these, a bit each: its bit, and its number; zeros without any."""
    size = len(pdcs)
    lowest, choice = Signal(size), Signal(range(size))
    m.d.comb += [
        lowest.eq(pdcs & -pdcs),
        choice.eq(select(len(choice), ((lowest[number], number) for number in range(size)))),
    ]
    return lowest, choice


def funnel(previous, current, offset, offsets):
    """As many bytes as a beat has, from byte ``offset`` of two neighbouring beats.

    All three are signals; ``offsets`` lists the constants that it can be, from 0 to the bytes of a beat. For
    any other the result is zero.
    """
    window = Cat(previous, current)
    width = len(previous)
    return select(width, ((offset == n, window[8 * n : 8 * n + width]) for n in sorted(set(offsets))))


def masked(value, count):
    """Keep the first ``count`` bytes of ``value``, with zeros behind them."""
    return Cat(Mux(count > n, value.word_select(n, 8), 0) for n in range(len(value) // 8))


class Realign(wiring.Component):
    """Delivers a part of each packet, packed anew from byte 0; the rest of the packet is swallowed.

    Parameters
    ----------
    width : int
        Bits per beat.
    offsets : iterable of int
        Values that ``skip`` modulo the bytes of a beat may have; by default all.

    Members
    -------
    cuts : CUT stream
        One per packet. The packet must have the bytes of the part.
    i, o : :func:`packet_beat` stream
        A beat of ``o`` is offered in the cycle in which the beat that completes it is on offer at ``i``; one beat
        per cycle, and one more where the tail of the part is a beat of its own. ``i.ready`` depends on ``o.ready``
        combinationally. ``error`` of ``i`` is not passed on. Bytes of ``o`` beyond ``count`` are undefined.
    """

    def __init__(self, width, offsets=None):
        self._line_bytes = width // 8
        self._offsets = range(self._line_bytes) if offsets is None else tuple(offsets)
        super().__init__(
            {
                "cuts": In(stream.Signature(CUT)),
                "i": In(stream.Signature(packet_beat(width))),
                "o": Out(stream.Signature(packet_beat(width))),
            }
        )
        self._previous = Signal(width)
        self._holding = Signal()
        """``previous`` has bytes of the part that are still to be delivered."""
        self._finished = Signal()
        """The whole part is delivered; what comes of the packet is swallowed."""
        self._exhausted = Signal()
        """The packet's last beat has been taken."""
        self._skipped = Signal(14)
        self._delivered = Signal(14)

    def elaborate(self, platform):
        m = Module()
        cut, line_bytes = self.cuts.p, self._line_bytes
        line_bits = line_bytes.bit_length() - 1
        offset = Signal(line_bits)
        remaining = Signal(14)
        at_hand = Signal(line_bits + 1)
        """Bytes of the part in the older of the two beats."""
        before = Signal()
        needs_beat = Signal()
        first, current = Signal(8 * line_bytes), Signal(8 * line_bytes)
        complete = Signal()
        m.d.comb += [
            offset.eq(cut.skip[:line_bits]),
            remaining.eq(cut.length - self._delivered),
            at_hand.eq(line_bytes - offset),
            before.eq(~self._holding & (self._skipped[line_bits:] != cut.skip[line_bits:])),
            needs_beat.eq(~self._holding | (remaining > at_hand)),
            # Of a part that spreads over several beats, the first is only stored.
            complete.eq(self._holding | (remaining <= at_hand)),
            # Bytes outside the packet may change while ``o`` waits.
            current.eq(Mux(needs_beat, self.i.p.data, 0)),
            first.eq(Mux(self._holding, self._previous, current)),
            self.o.p.data.eq(funnel(first, current, offset, self._offsets)),
            self.o.p.last.eq(remaining <= Mux(self._holding, line_bytes, at_hand)),
            self.o.p.count.eq(Mux(remaining < line_bytes, remaining, line_bytes)),
            self.o.valid.eq(self.cuts.valid & ~self._finished & ~before & complete & (self.i.valid | ~needs_beat)),
            self.i.ready.eq(
                self.cuts.valid
                & ~self._exhausted
                & (self._finished | before | (needs_beat & (~complete | self.o.ready)))
            ),
        ]
        self._elaborate_progress(m, before)
        return m

    def _elaborate_progress(self, m, before):
        taken = self.i.valid & self.i.ready
        given = self.o.valid & self.o.ready
        part_done = self._finished | (given & self.o.p.last)
        packet_done = self._exhausted | (taken & self.i.p.last)
        m.d.comb += self.cuts.ready.eq(part_done & packet_done)
        with m.If(taken):
            m.d.sync += [self._previous.eq(self.i.p.data), self._exhausted.eq(self.i.p.last)]
            with m.If(before):
                m.d.sync += self._skipped.eq(self._skipped + self._line_bytes)
            with m.Else():
                m.d.sync += self._holding.eq(1)
        with m.If(given):
            m.d.sync += [
                self._delivered.eq(self._delivered + self._line_bytes),
                self._finished.eq(self.o.p.last),
            ]
            with m.If(self.o.p.last):
                m.d.sync += self._holding.eq(0)
        with m.If(self.cuts.ready):
            m.d.sync += [
                register.eq(0)
                for register in (
                    self._holding,
                    self._finished,
                    self._exhausted,
                    self._skipped,
                    self._delivered,
                )
            ]
