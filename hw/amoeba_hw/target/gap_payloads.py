"""Payloads of packets that came before their turn."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import packet_beat
from amoeba_hw.request_records import GAP_PASSAGE
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["GapPayloads"]


class GapPayloads(wiring.Component):
    """Puts payloads in order: those of packets whose turn has not come wait in their slots until it has.

    Parameters
    ----------
    parameters : NicParameters
        ``out_of_order_entries`` at least 1.
    passages : int
        Payloads that may be announced ahead of their bytes.

    Members
    -------
    passages : GAP_PASSAGE stream
        One for each payload that comes, and one for each that is to leave its slot. One that enters is stored
        instead of what was in the slot: as many bytes as any request may have. One that leaves entered before, and
        has no more bytes than that. All others pass.
    i, o : :func:`packet_beat` streams
        One beat per cycle, also out of a slot, after two cycles; other payloads pass within the cycle. A payload that
        enters a slot waits for nothing.
    """

    def __init__(self, parameters, passages=16):
        self._depth = passages
        self._slots = parameters.out_of_order_entries
        self._beats = -(-parameters.payload // parameters.beat_bytes)
        self._beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "passages": In(stream.Signature(GAP_PASSAGE)),
                "i": In(stream.Signature(self._beat)),
                "o": Out(stream.Signature(self._beat)),
            }
        )
        self._position = Signal(range(self._beats + 1))
        """The next beat of the slot: to write, or to read."""
        self._shown = Signal()
        """The read port shows the beat before it."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.passages = waiting = Queue(GAP_PASSAGE, self._depth)
        connect_streams(m, flipped(self.passages), waiting.i)
        size = (self._beats - 1).bit_length()
        m.submodules.beats = beats = memory.Memory(
            shape=self._beat, depth=self._slots << size, init=[], attrs={"ram_style": "block"}
        )
        write, read = beats.write_port(), beats.read_port()
        place = Cat(self._position[:size], waiting.o.p.slot)
        m.d.comb += [
            write.addr.eq(place),
            write.data.eq(self.i.p),
            read.addr.eq(place),
            # Otherwise the port goes on showing the beat.
            read.en.eq(0),
        ]
        with m.If(waiting.o.valid & waiting.o.p.enters):
            self._elaborate_entry(m, waiting.o, write)
        with m.Elif(waiting.o.valid & waiting.o.p.leaves):
            self._elaborate_exit(m, waiting.o, read)
        with m.Elif(waiting.o.valid):
            m.d.comb += [
                self.o.valid.eq(self.i.valid),
                self.o.p.eq(self.i.p),
                self.i.ready.eq(self.o.ready),
                waiting.o.ready.eq(self.i.valid & self.o.ready & self.i.p.last),
            ]
        return m

    def _elaborate_entry(self, m, passage, write):
        has_space = self._position != self._beats
        m.d.comb += [
            self.i.ready.eq(1),
            write.en.eq(self.i.valid & has_space),
            passage.ready.eq(self.i.valid & self.i.p.last),
        ]
        with m.If(passage.ready):
            m.d.sync += self._position.eq(0)
        with m.Elif(write.en):
            m.d.sync += self._position.eq(self._position + 1)

    def _elaborate_exit(self, m, passage, read):
        m.d.comb += [
            self.o.valid.eq(self._shown),
            self.o.p.eq(read.data),
            read.en.eq(~self._shown | self.o.ready),
            passage.ready.eq(self._shown & self.o.ready & read.data.last),
        ]
        with m.If(passage.ready):
            m.d.sync += [self._position.eq(0), self._shown.eq(0)]
        with m.Elif(read.en):
            m.d.sync += [self._position.eq(self._position + 1), self._shown.eq(1)]
