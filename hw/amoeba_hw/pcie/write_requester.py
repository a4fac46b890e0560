"""Carries the core's write bursts as memory writes."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import RequestKind

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.interfaces import write_beat
from amoeba_hw.pcie.interfaces import WRITE_NUMBER_BITS, request_beat
from amoeba_hw.pcie.write_cutter import RUN, WriteCutter
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["WriteRequester"]


class WriteRequester(wiring.Component):
    """Turns bursts into memory writes: runs as WriteCutter finds them, kept until their length is known.

    Parameters
    ----------
    width : int
        Bits per beat.
    limit : int
        Bytes of payload at most, whatever is configured; twice as many are kept. A power of two from 128 to 4,096.
    runs : int
        Memory writes that are kept at most.

    Members
    -------
    writes, user : :func:`write_beat` stream, In; and who asks
        One line per cycle, if strobes have no holes; a line with holes, a cycle for each of its runs.
    max_payload : In(3)
        Code of Max_Payload_Size.
    requests : :func:`request_beat` stream, Out
        A beat per line, one per cycle, if the run begins where a line does; others take a cycle more. The first one
        comes three cycles after the run was complete. A request once begun waits for nothing.
    accepted, settled : Out, 16 bits
        Lines taken from ``writes``, and lines all bytes of which have left in ``requests``, modulo 65,536. The lines
        taken when ``accepted`` was n have left when ``settled`` has reached n.
    """

    def __init__(self, width, limit=512, runs=16):
        self._width, self._limit, self._runs = width, limit, runs
        self.cutter = WriteCutter(width, limit)
        super().__init__(
            {
                "writes": In(stream.Signature(write_beat(width))),
                "user": In(USER_WIDTH),
                "max_payload": In(3),
                "requests": Out(stream.Signature(request_beat(width))),
                "accepted": Out(WRITE_NUMBER_BITS),
                "settled": Out(WRITE_NUMBER_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.cutter = cutter = self.cutter
        m.submodules.runs = runs = Queue(RUN, self._runs)
        m.submodules.lines = lines = Queue(self._width, 2 * self._limit // (self._width // 8))
        connect_streams(m, wiring.flipped(self.writes), cutter.writes)
        connect_streams(m, cutter.runs, runs.i)
        connect_streams(m, cutter.lines, lines.i)
        m.d.comb += [
            cutter.user.eq(self.user),
            cutter.max_payload.eq(self.max_payload),
            self.accepted.eq(cutter.taken),
        ]
        self._elaborate_requests(m, runs.o, lines.o)
        request = self.requests
        with m.If(request.valid & request.ready & request.p.last):
            m.d.sync += self.settled.eq(runs.o.p.number)
        with m.Elif(~cutter.open & (runs.level == 0)):
            # Lines without a strobe are in no run.
            m.d.sync += self.settled.eq(cutter.taken)
        return m

    def _elaborate_requests(self, m, run, line):
        """Packs a run's lines from its first DW on, as PackedReader does."""
        lanes, request = self._width // 32, self.requests
        lane = Signal(range(lanes))
        held = Signal(self._width)
        inside, holds = Signal(), Signal()
        """A beat has left; a line is held, part of which belongs to the next one."""
        delivered, remaining = Signal(11), Signal(11)
        in_held = Signal(range(lanes + 1))
        needs_line, takes_line = Signal(), Signal()
        header = request.p.header
        m.d.comb += [
            lane.eq(run.p.address if lanes > 1 else 0),
            remaining.eq(run.p.dwords - delivered),
            in_held.eq(lanes - lane),
            needs_line.eq(~holds | (remaining > in_held)),
            request.p.first.eq(~inside),
            request.p.last.eq(remaining <= Mux(holds | (lane == 0), lanes, in_held)),
            request.p.data.eq(
                Mux(holds, Cat(held, line.p), Cat(line.p, Const(0, self._width))) >> Cat(Const(0, 5), lane)
            ),
            request.valid.eq(run.valid & (holds | (lane == 0) | request.p.last) & (line.valid | ~needs_line)),
            # The first line of several is only held.
            takes_line.eq(run.valid & needs_line & (request.ready | ~(holds | (lane == 0) | request.p.last))),
            line.ready.eq(takes_line),
            run.ready.eq(request.valid & request.ready & request.p.last),
            header.kind.eq(RequestKind.MEMORY_WRITE),
            header.address.eq(run.p.address << 2),
            header.dwords.eq(run.p.dwords),
            header.first_be.eq(run.p.first_be),
            header.last_be.eq(Mux(run.p.dwords == 1, 0, run.p.last_be)),
            header.user.eq(run.p.user),
        ]
        with m.If(line.valid & takes_line):
            m.d.sync += [held.eq(line.p), holds.eq(lane != 0)]
        with m.If(request.valid & request.ready):
            m.d.sync += [delivered.eq(delivered + lanes), inside.eq(1)]
        with m.If(run.ready):
            m.d.sync += [delivered.eq(0), inside.eq(0), holds.eq(0)]
