"""The order of host writes among each other, and of reads behind the writes of what they read."""

from unittest import mock

from amaranth.hdl import Assert, Assume, Cat, Cover, Fragment, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.host.hubs import WriteHub
from amoeba_hw.host.line_order import LineOrder
from amoeba_hw.interfaces import READ_REQUEST, write_beat

from tests.formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["LineOrderSpec", "WriteHubSpec"]

_WIDTH = 8
_USERS = (5, 3, 9)


class WriteHubSpec(wiring.Component):
    """A beat that a client of WriteHub has handed over is the next one at the port, with the client's number.

    So what is accepted later, of whichever client, leaves later.
    """

    def __init__(self):
        beats = stream.Signature(write_beat(_WIDTH))
        super().__init__({"writes": In(beats).array(len(_USERS)), "port": Out(beats), "port_user": Out(8)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = WriteHub(_WIDTH, _USERS)
        connect_ports(m, self, dut)
        for index, port in enumerate(self.writes):
            m.submodules[f"environment_{index}"] = StreamRules(port, Assume)
        m.submodules.contract = StreamRules(self.port, Assert)
        accepted = Signal(len(_USERS))
        waiting = Signal()
        beat, user = Signal(write_beat(_WIDTH)), Signal(8)
        leaves = self.port.valid & self.port.ready
        m.d.comb += [
            accepted.eq(Cat(port.valid & port.ready for port in self.writes)),
            Assert((accepted & (accepted - 1)) == 0),
            Assert(self.port.valid == waiting),
            Assert(~accepted.any() | ~waiting | leaves),
            Cover(accepted[1] & leaves & (self.port_user == _USERS[2])),
        ]
        m.d.sync += waiting.eq(accepted.any() | (waiting & ~leaves))
        for index, port in enumerate(self.writes):
            with m.If(accepted[index]):
                m.d.sync += [beat.eq(port.p), user.eq(_USERS[index])]
        with m.If(waiting):
            m.d.comb += [Assert(self.port.p == beat), Assert(self.port_user == user)]
        return m


_LINES, _WRITER, _READER = 2, 6, 7
_MOST = 3
"""Bursts that wait for their answers."""


class LineOrderSpec(wiring.Component):
    """LineOrder offers no read while a write that it has to follow waits for its answer.

    A read of the client of single lines follows all writes of its line that began, or were on offer, before the read
    is offered. A read of the reader follows all writes of the writer that were on offer when the read came. ``line``
    is any line.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(READ_REQUEST)),
                "i_user": In(USER_WIDTH),
                "o": Out(stream.Signature(READ_REQUEST)),
                "o_user": Out(USER_WIDTH),
                "writes": In(stream.Signature(write_beat(_WIDTH))),
                "write_ready": In(1),
                "write_user": In(USER_WIDTH),
                "answered": In(1),
                "line": In(64),
            }
        )
        self._count = Signal(range(_MOST + 1))
        self._of_line, self._of_writer, self._needed = (
            Signal(_MOST, name=name) for name in ("of_line", "of_writer", "needed")
        )
        """Of the bursts that wait for their answers, the oldest first: those of the line, those of the writer, and
        those that the read inside has to follow."""
        self._needs_offered = Signal()
        """The read inside has to follow the burst that is on offer."""

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = LineOrder(_WIDTH, lines=_LINES, writer=_WRITER, reader=_READER)
        with mock.patch.multiple("amoeba_hw.host.pending_lines", _INDEX_BITS=1, _TAG_BITS=1):
            m.submodules.dut = Fragment.get(dut, platform)
        writes = self.writes
        for name, port in (("i", dut.i), ("o", dut.o)):
            outer = getattr(self, name)
            source, sink = (outer, port) if name == "i" else (port, outer)
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        m.d.comb += [
            dut.i_user.eq(self.i_user),
            self.o_user.eq(dut.o_user),
            writes.ready.eq(self.write_ready),
            dut.write_valid.eq(writes.valid),
            dut.write_ready.eq(writes.ready),
            dut.write_beat.eq(writes.p),
            dut.write_user.eq(self.write_user),
            dut.answered.eq(self.answered),
        ]
        self._assume(m)
        begins = writes.valid & writes.ready & writes.p.first
        self._follow(m, begins)
        self._prove(m)
        return m

    def _assume(self, m):
        """Streams keep their rules, bursts are whole, and the host answers each that has begun."""
        m.submodules.reads = StreamRules(self.i, Assume)
        m.submodules.beats = StreamRules(self.writes, Assume)
        m.submodules.contract = StreamRules(self.o, Assert)
        started, inside = Signal(), Signal()
        for kind, port, value in (
            (Assume, self.i, self.i_user),
            (Assume, self.writes, self.write_user),
            (Assert, self.o, self.o_user),
        ):
            waiting, before = Signal(), Signal.like(value)
            m.d.sync += [waiting.eq(port.valid & ~port.ready), before.eq(value)]
            m.d.comb += kind(~waiting | (value == before))
        line = Signal.like(self.line)
        m.d.sync += [line.eq(self.line), started.eq(1)]
        with m.If(self.writes.valid & self.writes.ready):
            m.d.sync += inside.eq(~self.writes.p.last)
        m.d.comb += [
            Assume(~started | (self.line == line)),
            Assume(self.writes.p.first == ~inside),
            Assume(~self.answered | (self._count != 0)),
        ]

    def _follow(self, m, begins):
        """Keep a naive account of the bursts that wait."""
        writes = self.writes
        on_offer = writes.valid & writes.p.first & (self.write_user == _WRITER)
        count, place = Signal.like(self._count), Signal(_MOST)
        m.d.comb += [
            Assume(~begins | (self._count < _MOST)),
            count.eq(self._count - self.answered),
            place.eq(Mux(begins, 1 << count, 0)),
        ]
        of_line = (self.write_user == _LINES) & (writes.p.address == self.line)
        of_writer = Signal(_MOST)
        m.d.comb += of_writer.eq((self._of_writer >> self.answered) | Mux(self.write_user == _WRITER, place, 0))
        m.d.sync += [
            self._count.eq(count + begins),
            self._of_line.eq((self._of_line >> self.answered) | Mux(of_line, place, 0)),
            self._of_writer.eq(of_writer),
            self._needed.eq((self._needed >> self.answered) | Mux(self._needs_offered, place, 0)),
        ]
        with m.If(begins):
            m.d.sync += self._needs_offered.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                self._needed.eq(Mux(self.i_user == _READER, of_writer, 0)),
                self._needs_offered.eq((self.i_user == _READER) & on_offer & ~writes.ready),
            ]

    def _prove(self, m):
        offered_before, answered_before = Signal(), Signal()
        writes, read = self.writes, self.o
        reads_line = read.valid & (self.o_user == _LINES) & (read.p.address == self.line)
        reads_answer = read.valid & (self.o_user == _READER)
        on_offer = writes.valid & writes.p.first & (self.write_user == _LINES) & (writes.p.address == self.line)
        m.d.sync += offered_before.eq(read.valid & ~read.ready)
        with m.If(self.answered & self._of_line[0]):
            m.d.sync += answered_before.eq(1)
        with m.If(~offered_before):
            m.d.comb += [
                Assert(~reads_line | ~(self._of_line.any() | on_offer)),
                Assert(~reads_answer | ~(self._needed.any() | self._needs_offered)),
            ]
        m.d.comb += [Cover(reads_line & answered_before), Cover(reads_answer & self._of_writer.any())]
