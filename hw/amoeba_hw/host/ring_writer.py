"""Writes entries into the rings that contexts have in host memory, and interrupts where the driver asked for it."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import RING_INDEX, write_beat

__all__ = ["RING", "RingWriter", "ring_entry"]

RING = data.StructLayout({"enable": 1, "base": 64, "size": 4})
"""A ring of 2**``size`` entries from ``base`` on, which is a multiple of the entry's size."""


def ring_entry(size: int) -> data.StructLayout:
    """Return the layout of a ring entry of ``size`` bytes. The writer fills its last bit, the phase."""
    return data.StructLayout({"context": 8, "data": 8 * size})


class _RingIndex(wiring.Component):
    """Index of the next entry of one ring, and whether the last one should interrupt."""

    enable: In(1)
    wrote: In(1)
    arm: In(1)
    arm_index: In(16)
    disarm: In(1)
    index: Out(16)
    due: Out(1)

    def elaborate(self, platform):
        m = Module()
        armed = Signal()
        threshold = Signal(16)
        beyond = Signal(16)
        """How far the last entry written is beyond the threshold, modulo 2**16: the upper half is negative."""
        m.d.comb += [
            beyond.eq(self.index - 1 - threshold),
            self.due.eq(armed & ~beyond[15]),
        ]
        m.d.sync += self.index.eq(self.index + self.wrote)
        with m.If(self.disarm):
            m.d.sync += armed.eq(0)
        with m.If(self.arm):
            m.d.sync += [armed.eq(1), threshold.eq(self.arm_index)]
        with m.If(~self.enable):
            m.d.sync += [self.index.eq(0), armed.eq(0)]
        return m


class RingWriter(wiring.Component):
    """Writes each entry to the next place of its context's ring, by one burst, with the phase of this lap.

    Parameters
    ----------
    contexts : int
    width : int
        Bits per beat.
    entry_size : int
        Bytes of an entry: a power of two.

    Members
    -------
    rings : array of RING, In
        One per context. A ring that is not enabled has index 0 and is not armed.
    entries : :func:`ring_entry` stream
        Taken in the cycle in which the last beat of the entry gets its place. An entry of a ring that has been
        disabled since its burst began is written where it would have been, and moves no index.
    index : Out(16)
        Of the entry that is being taken.
    arms : RING_INDEX stream
        Interrupt once, when the entry with this index or a later one is written. Never refused.
    writes : :func:`write_beat` stream
        One burst per entry, one cycle after the entry was offered; no burst waits for anything between its beats. One
        entry in its beats and one more cycle, if they get their places at once.
    writes_ordered : In(1)
        Pulse: WriteHub has given the last beat its place, in the cycle of its handshake or later.
    interrupts : Out, a bit per context
        Pulse, from one cycle after the entry was taken; at most one context per cycle.
    """

    def __init__(self, contexts, width, entry_size):
        if entry_size & (entry_size - 1):
            raise ValueError(f"Expected a power of two as the size of an entry, got {entry_size}")
        self._contexts = contexts
        self._width = width
        self._entry_size = entry_size
        super().__init__(
            {
                "rings": In(RING).array(contexts),
                "entries": In(stream.Signature(ring_entry(entry_size))),
                "index": Out(16),
                "arms": In(stream.Signature(RING_INDEX)),
                "writes": Out(stream.Signature(write_beat(width))),
                "writes_ordered": In(1),
                "interrupts": Out(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        indices = [_RingIndex() for _ in range(self._contexts)]
        entry = self.entries
        taken = Signal()
        stale = Signal()
        m.d.comb += [taken.eq(entry.valid & entry.ready), self.arms.ready.eq(1)]
        for context, index in enumerate(indices):
            m.submodules[f"ring{context}"] = index
            m.d.comb += [
                index.enable.eq(self.rings[context].enable),
                index.wrote.eq(taken & ~stale & (entry.p.context == context)),
                index.arm.eq(self.arms.valid & (self.arms.p.context == context)),
                index.arm_index.eq(self.arms.p.index),
                index.disarm.eq(self.interrupts[context]),
            ]
        # The last assignment wins: the lowest context that is due; the others follow, a cycle each.
        for context, index in reversed(list(enumerate(indices))):
            with m.If(index.due):
                m.d.comb += self.interrupts.eq(1 << context)
        self._elaborate_write(m, Array(index.index for index in indices)[entry.p.context], stale)
        return m

    def _elaborate_write(self, m, index, stale):
        entry, write, ring = self.entries, self.writes, Array(self.rings)[self.entries.p.context]
        line_bits = (self._width // 8).bit_length() - 1
        beats = max(1, 8 * self._entry_size // self._width)
        data_bits = Signal(8 * self._entry_size)
        place = Signal(64)
        phase = Signal()
        shift = place[:line_bits] if beats == 1 else Const(0, line_bits)
        """Bytes from the start of the first line to the entry."""
        beat = Signal(range(max(2, beats)))
        m.d.comb += [
            data_bits.eq(Cat(entry.p.data[:-1], phase)),
            write.p.address.eq(Cat(Const(0, line_bits), place[line_bits:])),
            write.p.beats.eq(beats),
            write.p.context.eq(entry.p.context),
            write.p.first.eq(beat == 0),
            write.p.last.eq(beat == beats - 1),
            write.p.data.eq(data_bits << (shift << 3) if beats == 1 else data_bits.word_select(beat, self._width)),
            write.p.strobe.eq(Const((1 << self._entry_size) - 1, self._entry_size) << shift),
        ]
        with m.FSM(name="write"):
            with m.State("PLACE"), m.If(entry.valid):
                offset = Cat(Const(0, self._entry_size.bit_length() - 1), index & ((1 << ring.size) - 1)[:16])
                m.d.sync += [
                    place.eq(ring.base + offset),
                    # 1 on the first lap, 0 on the second.
                    phase.eq(~index.bit_select(ring.size, 1)),
                    self.index.eq(index),
                    stale.eq(~ring.enable),
                ]
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += write.valid.eq(1)
                with m.If(~ring.enable):
                    m.d.sync += stale.eq(1)
                with m.If(write.ready):
                    m.d.sync += beat.eq(Mux(write.p.last, 0, beat + 1))
                    with m.If(write.p.last):
                        m.next = "ORDER"
                with m.If(self.writes_ordered):
                    m.d.comb += entry.ready.eq(1)
                    m.next = "PLACE"
            with m.State("ORDER"):
                with m.If(~ring.enable):
                    m.d.sync += stale.eq(1)
                with m.If(self.writes_ordered):
                    m.d.comb += entry.ready.eq(1)
                    m.next = "PLACE"
