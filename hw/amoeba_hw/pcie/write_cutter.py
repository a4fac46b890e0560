"""Finds in write bursts what one memory write can express."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.interfaces import write_beat
from amoeba_hw.pcie.interfaces import WRITE_NUMBER_BITS
from amoeba_hw.pcie.read_merger import IDLE_CYCLES
from amoeba_hw.pcie.read_requester import size_mask

__all__ = ["RUN", "WriteCutter"]

RUN = data.StructLayout(
    {
        "address": 62,  # of the first DW, in DWs
        "dwords": 11,
        "first_be": 4,
        "last_be": 4,  # also of the only DW
        "user": USER_WIDTH,
        "number": WRITE_NUMBER_BITS,  # lines wholly in this run and those before
    }
)
"""Bytes that one memory write can name: all from the first to the last, or of a single DW any."""


class WriteCutter(wiring.Component):
    """Cuts bursts into runs, line by line, and joins runs over the ends of lines and bursts.

    A run ends at a multiple of Max_Payload_Size, where bytes are left out, where the address or the component that
    asks changes, and after two cycles in which nothing was offered. A DW with bytes left out between others is a
    run of its own. Every byte that is strobed is in one run, and no other is in any.

    Parameters
    ----------
    width : int
        Bits per line.
    limit : int
        Bytes that a run has at most, whatever is configured: a power of two from 128 to 4,096.

    Members
    -------
    writes, user : :func:`write_beat` stream, In; and who asks
        A line for each of its runs takes a cycle; one that has none, too. Lines are wanted in the bursts' order.
    max_payload : In(3)
        Code of Max_Payload_Size.
    lines : stream of ``width`` bits, Out
        For each run the lines that it has bytes of, in order. A run's own lines come before it.
    runs : RUN stream, Out
    taken : Out
        Lines taken, modulo their number.
    open : Out
        A run is begun and not yet in ``runs``.
    """

    def __init__(self, width, limit=512):
        if limit not in (128, 256, 512, 1024, 2048, 4096):
            raise ValueError(f"Expected a power of two from 128 to 4096 as limit, got {limit}")
        self._width, self._limit = width, limit
        self._dword_lanes = width // 32
        self._line_bits = (width // 8).bit_length() - 1
        lane = range(self._dword_lanes)
        self._piece = Signal(
            data.StructLayout(
                {
                    "any": 1,  # there is one
                    "first": lane,
                    "last": lane,
                    "first_be": 4,
                    "last_be": 4,
                    "ends_line": 1,  # no later DW of the line has a strobe
                }
            )
        )
        """The lowest part of the line on offer that one run may have."""
        super().__init__(
            {
                "writes": In(stream.Signature(write_beat(width))),
                "user": In(USER_WIDTH),
                "max_payload": In(3),
                "lines": Out(stream.Signature(width)),
                "runs": Out(stream.Signature(RUN)),
                "taken": Out(WRITE_NUMBER_BITS),
                "open": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat = self.writes
        piece = self._elaborate_pieces(m)
        next_address = Signal(64 - self._line_bits)
        line = Signal(64 - self._line_bits)
        takes = Signal()
        """The piece goes into a run now."""
        m.d.comb += line.eq(Mux(beat.p.first, beat.p.address[self._line_bits :], next_address))
        m.d.comb += beat.ready.eq(Mux(piece.any, takes & piece.ends_line, 1))
        with m.If(beat.valid & beat.ready):
            m.d.sync += [next_address.eq(line + 1), self.taken.eq(self.taken + 1)]
        self._elaborate_runs(m, line, takes)
        return m

    def _elaborate_pieces(self, m):
        beat, piece, lanes = self.writes, self._piece, self._dword_lanes
        done = Signal(lanes)
        """DWs of the line that runs have already."""
        strobes = [beat.p.strobe[4 * lane :][:4] for lane in range(lanes)]
        wanted, from_first, stops, lasts, covered = (
            Signal(lanes, name=f"piece_{name}") for name in ("wanted", "from_first", "stops", "lasts", "covered")
        )
        goes_on = [reaches_end(one) & begins_full(other) for one, other in pairwise(strobes)]
        m.d.comb += [
            wanted.eq(Cat(strobe.any() for strobe in strobes) & ~done),
            from_first.eq(wanted | -wanted),
            stops.eq(~Cat(*goes_on, Const(0, 1)) & from_first),
            lasts.eq(stops & -stops),
            covered.eq((lasts | (lasts - 1)) & from_first),
            piece.any.eq(wanted.any()),
            piece.ends_line.eq((wanted & ~covered) == 0),
        ]
        for lane in reversed(range(lanes)):
            with m.If(wanted[lane]):
                m.d.comb += [piece.first.eq(lane), piece.first_be.eq(strobes[lane])]
            with m.If(lasts[lane]):
                m.d.comb += [piece.last.eq(lane), piece.last_be.eq(strobes[lane])]
        with m.If(self.lines.valid & self.lines.ready):
            m.d.sync += done.eq(Mux(piece.ends_line, 0, done | covered))
        return piece

    def _elaborate_runs(self, m, line, takes):
        beat, piece, run = self.writes, self._piece, self.runs.p
        block = size_mask(self.max_payload, self._limit) >> self._line_bits
        end = Signal(64 - self._line_bits)
        """The line after the run's last one."""
        grows, joins = Signal(), Signal()
        """The run may go on at the beginning of that line; what is on offer does so."""
        offered = Signal()
        idle = Signal(range(IDLE_CYCLES + 1))
        space = Signal()
        m.d.comb += [
            joins.eq((piece.first == 0) & begins_full(piece.first_be) & (line == end) & (self.user == run.user)),
            self.runs.valid.eq(
                self.open & (offered | ~grows | (idle == IDLE_CYCLES) | (beat.valid & piece.any & ~joins))
            ),
            # A piece goes into the open run, or opens one.
            space.eq(~self.runs.valid | self.runs.ready),
            self.lines.p.eq(beat.p.data),
            self.lines.valid.eq(beat.valid & piece.any & space),
            takes.eq(space & self.lines.ready),
        ]
        m.d.sync += offered.eq(self.runs.valid & ~self.runs.ready)
        with m.If(self.runs.valid & self.runs.ready):
            m.d.sync += self.open.eq(0)
        with m.If(self.open & ~beat.valid & (idle != IDLE_CYCLES)):
            m.d.sync += idle.eq(idle + 1)
        with m.If(beat.valid & piece.any & takes):
            dwords = Signal(range(self._dword_lanes + 1))
            m.d.comb += dwords.eq(piece.last - piece.first + 1)
            m.d.sync += [
                self.open.eq(1),
                idle.eq(0),
                end.eq(line + 1),
                grows.eq(
                    (piece.last == self._dword_lanes - 1) & reaches_end(piece.last_be) & (((line + 1) & block) != 0)
                ),
                run.last_be.eq(piece.last_be),
                run.number.eq(self.taken + piece.ends_line),
            ]
            with m.If(self.open & ~self.runs.valid):
                m.d.sync += run.dwords.eq(run.dwords + dwords)
            with m.Else():
                m.d.sync += [
                    run.address.eq(Cat(piece.first, line) if self._dword_lanes > 1 else line),
                    run.dwords.eq(dwords),
                    run.first_be.eq(piece.first_be),
                    run.user.eq(self.user),
                ]


def reaches_end(strobe):
    """Whether a DW's bytes go on without a gap to its end."""
    return (strobe == 0b1111) | (strobe == 0b1110) | (strobe == 0b1100) | (strobe == 0b1000)


def begins_full(strobe):
    """Whether a DW's bytes go on without a gap from its beginning."""
    return (strobe == 0b1111) | (strobe == 0b0111) | (strobe == 0b0011) | (strobe == 0b0001)
