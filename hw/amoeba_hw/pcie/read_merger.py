"""Joins reads of neighbouring lines, so that one request asks for many."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.interfaces import READ_REQUEST
from amoeba_hw.pcie.read_requester import WIDE_READ, size_mask

__all__ = ["IDLE_CYCLES", "ReadMerger"]

IDLE_CYCLES = 2
"""How long what could be joined with more waits for it."""


class ReadMerger(wiring.Component):
    """Joins reads of one whole line each, that one component asks for one after the other in the order of addresses.

    A joined read ends at a multiple of Max_Read_Request_Size. All other reads pass.

    Parameters
    ----------
    width : int
        Bits per line.
    limit : int
        As of ReadRequester.

    Members
    -------
    reads, user : READ_REQUEST stream, In; and who asks
        One per cycle. Ready depends on what is offered.
    max_read_request : In(3)
        Code of Max_Read_Request_Size.
    wide : WIDE_READ stream, Out
        A read that nothing can be joined to comes one cycle after it was taken; the last line of others after two
        cycles in which nothing was offered.
    """

    def __init__(self, width, limit=4096):
        self._line_bytes = width // 8
        self._limit = limit
        super().__init__(
            {
                "reads": In(stream.Signature(READ_REQUEST)),
                "user": In(USER_WIDTH),
                "max_read_request": In(3),
                "wide": Out(stream.Signature(WIDE_READ)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read, wide = self.reads, self.wide.p
        line_bits = self._line_bytes.bit_length() - 1
        full, filled, joins = Signal(), Signal(), Signal()
        """There is one; it cannot grow; what is offered is its neighbour."""
        offered = Signal()
        idle = Signal(range(IDLE_CYCLES + 1))
        end = Signal(64)
        single = Signal()
        m.d.comb += [
            end.eq(wide.request.address + wide.request.length),
            single.eq((read.p.length == self._line_bytes) & (read.p.address[:line_bits] == 0)),
            filled.eq(~wide.each | ((end & size_mask(self.max_read_request, self._limit)) == 0)),
            joins.eq(single & (self.user == wide.user) & (read.p.address == end)),
            self.wide.valid.eq(full & (offered | filled | (idle == IDLE_CYCLES) | (read.valid & ~joins))),
            read.ready.eq(~full | self.wide.ready | ~self.wide.valid),
        ]
        m.d.sync += offered.eq(self.wide.valid & ~self.wide.ready)
        with m.If(self.wide.valid & self.wide.ready):
            m.d.sync += full.eq(0)
        with m.If(full & ~read.valid & (idle != IDLE_CYCLES)):
            m.d.sync += idle.eq(idle + 1)
        with m.If(read.valid & read.ready):
            m.d.sync += [full.eq(1), idle.eq(0)]
            with m.If(full & ~self.wide.valid):
                m.d.sync += wide.request.length.eq(wide.request.length + self._line_bytes)
            with m.Else():
                m.d.sync += [wide.request.eq(read.p), wide.user.eq(self.user), wide.each.eq(single)]
        return m
