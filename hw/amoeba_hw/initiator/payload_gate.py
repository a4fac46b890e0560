"""Lets payloads go with their frames, or nowhere."""

from amaranth.hdl import Module
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import packet_beat

__all__ = ["PayloadGate"]

_DEPTH = 4


class PayloadGate(wiring.Component):
    """Passes on each packet, or swallows it.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    route, swallow : in
        Pulse, only with ``space``: pass one more packet on, or swallow it, in order.
    room : out
        From a register.
    i, o : packet streams
        Latency zero, from the cycle after the packet's ``route`` on; one beat per cycle.
    """

    def __init__(self, width):
        beat = packet_beat(width)
        super().__init__(
            {
                "route": In(1),
                "swallow": In(1),
                "space": Out(1),
                "i": In(stream.Signature(beat)),
                "o": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Not a Queue, whose latency of two cycles would delay a payload behind its header.
        m.submodules.waiting = waiting = fifo.SyncFIFO(width=1, depth=_DEPTH)
        swallow = waiting.r_data
        m.d.comb += [
            waiting.w_data.eq(self.swallow),
            waiting.w_en.eq(self.route),
            self.space.eq(waiting.w_rdy),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & waiting.r_rdy & ~swallow),
            self.i.ready.eq(waiting.r_rdy & (self.o.ready | swallow)),
            waiting.r_en.eq(self.i.valid & self.i.ready & self.i.p.last),
        ]
        return m
