"""The order of host writes among each other, and of reads behind the writes of what they read."""

from unittest import mock

from amaranth.hdl import Assert, Assume, Cat, Cover, Fragment, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.host.hubs import WriteHub
from amoeba_hw.host.line_order import LineOrder
from amoeba_hw.host.packed_writer import PackedWriter
from amoeba_hw.host.ring_writer import RingWriter, ring_entry
from amoeba_hw.interfaces import DMA_COMMAND, READ_REQUEST, WRITE_BEGUN, packet_beat, write_beat
from amoeba_hw.stream import Queue

from tests.formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["FreeDelay", "LineOrderSpec", "PackedWriterOrderSpec", "RingWriterOrderSpec", "WriteHubSpec"]

_WIDTH = 8
_USERS = (5, 3, 9)


class WriteHubSpec(wiring.Component):
    """Beats leave WriteHub in the order in which they get their place, with the client's number.

    ``ordered`` and ``begun`` report each place, in its cycle and one cycle later.
    """

    def __init__(self):
        self._dut = WriteHub(_WIDTH, _USERS)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = self._dut
        connect_ports(m, self, dut)
        for index, port in enumerate(self.writes):
            m.submodules[f"environment_{index}"] = StreamRules(port, Assume)
        m.submodules.contract = StreamRules(self.port, Assert)
        tagged = data.StructLayout({"beat": write_beat(_WIDTH), "user": 8})
        taken, last = Signal(len(_USERS)), Signal(len(_USERS))
        count, entering, first, second = Signal(range(3)), Signal(tagged), Signal(tagged), Signal(tagged)
        begun = Signal(WRITE_BEGUN)
        leaves = self.port.valid & self.port.ready
        m.d.comb += [
            taken.eq(Cat(port.valid & port.ready for port in self.writes)),
            last.eq(Cat(port.p.last for port in self.writes)),
            Assert((taken & (taken - 1)) == 0),
            Assert(self.ordered == (taken & last)),
            Assert(self.level == count),
            Assert(self.port.valid == (count != 0)),
            Assert(self.begun.valid == begun.valid),
            Assert(~begun.valid | (self.begun == begun)),
            Cover(taken[1] & leaves & (self.port_user == _USERS[2])),
            Cover((count == 2) & leaves),
        ]
        for index, port in enumerate(self.writes):
            with m.If(taken[index]):
                m.d.comb += [entering.beat.eq(port.p), entering.user.eq(_USERS[index])]
        m.d.sync += [
            count.eq(count + taken.any() - leaves),
            begun.valid.eq(taken.any() & entering.beat.first),
            begun.user.eq(entering.user),
            begun.address.eq(entering.beat.address),
        ]
        with m.If(leaves):
            m.d.sync += first.eq(second)
        with m.If(taken.any()):
            with m.If(count == leaves):
                m.d.sync += first.eq(entering)
            with m.Else():
                m.d.sync += second.eq(entering)
        with m.If(count != 0):
            m.d.comb += [Assert(self.port.p == first.beat), Assert(self.port_user == first.user)]
        with m.If(count == 2):
            m.d.comb += Assert(dut._spare.o.p == second)
        return m


class FreeDelay(wiring.Component):
    """The way from a client of WriteHub to its place in the order: any number of cycles, or none.

    Parameters
    ----------
    shape : shape-like
        The fields that the specification reads of a beat at its place.

    Members
    -------
    beat, valid, ready
        The client's beats.
    is_direct : In
        Beats get their place in the cycle in which they are taken. Constant.
    takes : In
        Free: the hub takes a beat in this cycle.
    placed, place : Out
        Pulse: a beat gets its place; which.
    """

    def __init__(self, shape):
        self._shape = shape
        super().__init__(
            {
                "beat": In(shape),
                "valid": In(1),
                "ready": Out(1),
                "is_direct": In(1),
                "takes": In(1),
                "placed": Out(1),
                "place": Out(shape),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(self._shape, 2)
        is_direct, begun = Signal(), Signal()
        m.d.sync += [is_direct.eq(self.is_direct), begun.eq(1)]
        m.d.comb += [
            Assume(~begun | (is_direct == self.is_direct)),
            queue.i.p.eq(self.beat),
            queue.i.valid.eq(self.valid & ~self.is_direct),
            queue.o.ready.eq(self.takes),
            self.ready.eq(Mux(self.is_direct, self.takes, queue.i.ready)),
            self.placed.eq(self.takes & Mux(self.is_direct, self.valid, queue.o.valid)),
        ]
        with m.If(self.is_direct):
            m.d.comb += self.place.eq(self.beat)
        with m.Else():
            m.d.comb += self.place.eq(queue.o.p)
        return m


_DELAY = {"is_direct": In(1), "takes": In(1)}


class PackedWriterOrderSpec(wiring.Component):
    """PackedWriter says that a command is done one cycle after its last beat has got its place."""

    WIDTH = 16
    BURST = 4
    """Bytes, so that commands have several bursts."""

    def __init__(self):
        super().__init__(
            {
                "commands": In(stream.Signature(DMA_COMMAND)),
                "packets": In(stream.Signature(packet_beat(self.WIDTH))),
                **_DELAY,
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = PackedWriter(self.WIDTH)
        with mock.patch("amoeba_hw.host.packed_writer.BURST", self.BURST):
            m.submodules.dut = Fragment.get(dut, platform)
        m.submodules.delay = delay = FreeDelay(data.StructLayout({"last": 1, "final": 1}))
        m.submodules.commands = StreamRules(self.commands, Assume)
        m.submodules.packets = StreamRules(self.packets, Assume)
        m.submodules.contract = StreamRules(dut.writes, Assert)
        for outer, inner in ((self.commands, dut.commands), (self.packets, dut.packets)):
            m.d.comb += [inner.valid.eq(outer.valid), inner.payload.eq(outer.payload), outer.ready.eq(inner.ready)]
        final = self._final_beat(m, dut.writes)
        done = Signal()
        m.d.comb += [
            # Several bursts, from any byte on; what is written says nothing about when.
            Assume((self.commands.p.length != 0) & (self.commands.p.length < 12)),
            Assume((self.commands.p.address >> 3) == 0),
            Assume(self.packets.p.data == 0),
            delay.beat.last.eq(dut.writes.p.last),
            delay.beat.final.eq(final),
            delay.valid.eq(dut.writes.valid),
            dut.writes.ready.eq(delay.ready),
            delay.is_direct.eq(self.is_direct),
            delay.takes.eq(self.takes),
            dut.writes_ordered.eq(delay.placed & delay.place.last),
            Assert(dut.done == done),
            Assert(~(delay.placed & delay.place.final) | delay.place.last),
            Cover(done & self.is_direct),
            Cover(done & ~self.is_direct),
        ]
        m.d.sync += done.eq(delay.placed & delay.place.final)
        return m

    def _final_beat(self, m, writes):
        """Return whether the beat on ``writes`` is its command's last, by a count of the command's lines."""
        line_bytes = self.WIDTH // 8
        command = self.commands.p
        inside, kept, lines, line = Signal(), Signal(3), Signal(3), Signal(3)
        final, transfer = Signal(), Signal()
        m.d.comb += [
            # A command is taken before its last beat leaves. Lengths have four bits.
            lines.eq(Mux(inside, kept, (command.address[:1] + command.length[:4] + line_bytes - 1) // line_bytes)),
            final.eq(line == lines - 1),
            transfer.eq(writes.valid & writes.ready),
            Assert(~writes.valid | inside | self.commands.valid),
            Assert(~inside | ~self.commands.ready),
        ]
        with m.If(transfer):
            m.d.sync += line.eq(Mux(final, 0, line + 1))
        m.d.sync += [kept.eq(lines), inside.eq((inside | self.commands.valid) & ~(transfer & final))]
        return final


class RingWriterOrderSpec(wiring.Component):
    """RingWriter takes an entry, and moves the index, as the entry's last beat gets its place."""

    WIDTH = 16
    ENTRY = 4

    def __init__(self):
        super().__init__({"entries": In(stream.Signature(ring_entry(self.ENTRY))), "enable": In(1), **_DELAY})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = RingWriter(1, self.WIDTH, self.ENTRY)
        m.submodules.delay = delay = FreeDelay(1)
        m.submodules.entries = StreamRules(self.entries, Assume)
        m.submodules.contract = StreamRules(dut.writes, Assert)
        ordered, beats = Signal(), Signal(range(3))
        m.d.comb += [
            Assume(self.entries.p.context == 0),
            dut.rings[0].enable.eq(self.enable),
            dut.rings[0].size.eq(2),
            dut.entries.p.eq(self.entries.p),
            dut.entries.valid.eq(self.entries.valid),
            self.entries.ready.eq(dut.entries.ready),
            delay.beat.eq(dut.writes.p.last),
            delay.valid.eq(dut.writes.valid),
            dut.writes.ready.eq(delay.ready),
            delay.is_direct.eq(self.is_direct),
            delay.takes.eq(self.takes),
            ordered.eq(delay.placed & delay.place),
            dut.writes_ordered.eq(ordered),
            Assert((self.entries.valid & self.entries.ready) == ordered),
            Assert(~ordered | (beats == 1)),
            Cover(ordered & (dut.index == 1)),
        ]
        m.d.sync += beats.eq(Mux(ordered, 0, beats + delay.placed))
        return m


_LINES, _WRITER, _READER = 2, 6, 7
_MOST = 3
"""Bursts that wait for their answers."""
_INSIDE = 4
"""Reads in LineOrder."""


class LineOrderSpec(wiring.Component):
    """LineOrder offers no read while a write that it has to follow waits for its answer.

    A read of the client of single lines follows all writes of its line that were ordered in a cycle before it came; a
    read of the reader all such writes of the writer. ``line`` is any line, ``chosen`` any read.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(READ_REQUEST)),
                "i_user": In(USER_WIDTH),
                "o": Out(stream.Signature(READ_REQUEST)),
                "o_user": Out(USER_WIDTH),
                "begun": In(WRITE_BEGUN),
                "answered": In(1),
                "line": In(64),
                "chosen": In(3),
            }
        )
        self._count = Signal(range(_MOST + 1))
        self._of_line, self._of_writer, self._needed = (
            Signal(_MOST, name=name) for name in ("of_line", "of_writer", "needed")
        )
        """Of the bursts that wait for their answers, the oldest first: those of the line, those of the writer, and
        those that the chosen read has to follow."""
        self._came, self._went = Signal(3), Signal(3)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = LineOrder(_WIDTH, lines=_LINES, writer=_WRITER, reader=_READER)
        # Numbers of bursts begin anew after eight.
        sizes = mock.patch.multiple("amoeba_hw.host.pending_lines", _INDEX_BITS=1, _TAG_BITS=1, NUMBER_BITS=3)
        with sizes, mock.patch("amoeba_hw.host.line_order.NUMBER_BITS", 3):
            m.submodules.dut = Fragment.get(dut, platform)
        for name, port in (("i", dut.i), ("o", dut.o)):
            outer = getattr(self, name)
            source, sink = (outer, port) if name == "i" else (port, outer)
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        m.d.comb += [
            dut.i_user.eq(self.i_user),
            self.o_user.eq(dut.o_user),
            dut.begun.eq(self.begun),
            dut.answered.eq(self.answered),
        ]
        self._assume(m)
        self._follow(m)
        self._prove(m)
        return m

    def _assume(self, m):
        """Streams keep their rules, and the host answers each burst that has begun."""
        m.submodules.reads = StreamRules(self.i, Assume)
        m.submodules.contract = StreamRules(self.o, Assert)
        started = Signal()
        m.d.sync += started.eq(1)
        for kind, port, value in ((Assume, self.i, self.i_user), (Assert, self.o, self.o_user)):
            waiting, before = Signal(), Signal.like(value)
            m.d.sync += [waiting.eq(port.valid & ~port.ready), before.eq(value)]
            m.d.comb += kind(~waiting | (value == before))
        for constant in (self.line, self.chosen):
            before = Signal.like(constant)
            m.d.sync += before.eq(constant)
            m.d.comb += Assume(~started | (constant == before))
        m.d.comb += [
            Assume(~self.answered | (self._count != 0)),
            Assume(~self.begun.valid | (self._count < _MOST)),
            Assume((self._came != 7) & (self.chosen != 7)),
            # Eight lines: four in each place of the table, two of those with the same tag.
            *(Assume((address >> 3) == 0) for address in (self.line, self.begun.address, self.i.p.address)),
            Assume((self.i.p.length == 0) & (self.i.p.context == 0)),
        ]

    def _follow(self, m):
        """Keep a naive account of the bursts that wait, and of those that the chosen read has to follow."""
        begun = self.begun
        count, place = Signal.like(self._count), Signal(_MOST)
        of_line, of_writer = Signal(_MOST), Signal(_MOST)
        m.d.comb += [
            count.eq(self._count - self.answered),
            place.eq(Mux(begun.valid, 1 << count, 0)),
            of_line.eq(
                (self._of_line >> self.answered)
                | Mux((begun.user == _LINES) & (begun.address == self.line), place, 0)
            ),
            of_writer.eq((self._of_writer >> self.answered) | Mux(begun.user == _WRITER, place, 0)),
        ]
        m.d.sync += [
            self._count.eq(count + begun.valid),
            self._of_line.eq(of_line),
            self._of_writer.eq(of_writer),
            self._needed.eq(self._needed >> self.answered),
            self._came.eq(self._came + (self.i.valid & self.i.ready)),
            self._went.eq(self._went + (self.o.valid & self.o.ready)),
        ]
        # WriteHub reports a burst in the cycle after the one in which it was ordered.
        reads_line = (self.i_user == _LINES) & (self.i.p.address == self.line)
        with m.If(self.i.valid & self.i.ready & (self._came == self.chosen)):
            m.d.sync += self._needed.eq(Mux(self.i_user == _READER, of_writer, Mux(reads_line, of_line, 0)))

    def _prove(self, m):
        answered_before, idle = Signal(), Signal(range(4))
        inside = Signal(3)
        is_chosen = self.o.valid & (self._went == self.chosen)
        with m.If(self.answered & self._needed.any()):
            m.d.sync += answered_before.eq(1)
        m.d.sync += idle.eq(Mux((inside == 0) | (self._count != 0) | self.o.valid, 0, idle + 1))
        m.d.comb += [
            inside.eq(self._came - self._went),
            Assert(inside <= _INSIDE),
            Assert(~self.o.valid | (inside != 0)),
            Assert(~is_chosen | (self._needed == 0)),
            # With nothing to follow, a read leaves when its stages are through.
            Assert(idle != 3),
            Cover(is_chosen & answered_before & (self.o_user == _LINES)),
            Cover(is_chosen & (self.o_user == _READER) & self._of_writer.any()),
        ]
