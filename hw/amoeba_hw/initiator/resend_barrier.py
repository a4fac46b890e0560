"""Holds completions back while operands may still be read for packets that are sent again."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import COMPLETION_ORDER
from amoeba_hw.stream import Queue

__all__ = ["ResendBarrier"]

_COUNT_BITS = 24
_WAITING = data.StructLayout({"order": COMPLETION_ORDER, "chosen": _COUNT_BITS})


class ResendBarrier(wiring.Component):
    """Passes a completion on when all packets that were on their way again as it came have their operands.

    An answer can come while its packet is about to leave again, with its operands still to be read. Its request is
    complete, but the application's buffers are not its own before they have been read for the last time.

    Parameters
    ----------
    depth : int
        Completions that may wait.

    Members
    -------
    level : range(depth + 1)
        Completions that wait.
    holds : out
        The oldest waits for operands.
    i, o : COMPLETION_ORDER streams
        In the next cycle, unless packets are on their way again; one per cycle.
    resending : in
        Pulse: a packet was chosen to be sent again; not later than the cycle before a completion of it is taken.
    loaded : in
        Pulse: a packet that is sent again has its operands, or has been refused them. In the order of ``resending``.
    """

    def __init__(self, depth):
        self._depth = depth
        super().__init__(
            {
                "level": Out(range(depth + 1)),
                "holds": Out(1),
                "i": In(stream.Signature(COMPLETION_ORDER)),
                "o": Out(stream.Signature(COMPLETION_ORDER)),
                "resending": In(1),
                "loaded": In(1),
            }
        )
        self._chosen = Signal(_COUNT_BITS)
        self._loaded = Signal(_COUNT_BITS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = Queue(_WAITING, self._depth)
        order = waiting.o.p
        beyond = Signal(_COUNT_BITS)
        """How many more have been loaded than must have been, modulo 2**24: the upper half is negative."""
        passes = Signal()
        m.d.sync += [
            self._chosen.eq(self._chosen + self.resending),
            self._loaded.eq(self._loaded + self.loaded),
        ]
        m.d.comb += [
            waiting.i.valid.eq(self.i.valid),
            waiting.i.p.order.eq(self.i.p),
            waiting.i.p.chosen.eq(self._chosen),
            self.i.ready.eq(waiting.i.ready),
            beyond.eq(self._loaded - order.chosen),
            passes.eq(~beyond[-1]),
            self.level.eq(waiting.level),
            self.holds.eq(waiting.o.valid & ~passes),
            self.o.valid.eq(waiting.o.valid & passes),
            self.o.p.eq(order.order),
            waiting.o.ready.eq(self.o.ready & passes),
        ]
        return m
