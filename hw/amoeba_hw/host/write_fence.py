"""Says when the host writes that were ordered before one moment have reached the host."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FENCE_BITS", "WriteFence"]

FENCE_BITS = 16


class WriteFence(wiring.Component):
    """Waits for the host writes that have their place in WriteHub's order as it is asked.

    Members
    -------
    ask : In
        Stays until ``done``; a question that is withdrawn is forgotten.
    ordered, settled : In
        Numbers of the writes that had their place in the cycle before, and of those that have left the adapter since
        or before, modulo 65,536; fewer than 32,768 are between.
    leaves : In
        All that left the adapter before this cycle is behind its last register. Constant 1 without such a register.
    done : Out
        Until ``ask`` falls. Four cycles after it rose at the earliest.
    """

    ask: In(1)
    ordered: In(FENCE_BITS)
    settled: In(FENCE_BITS)
    leaves: In(1)
    done: Out(1)

    def elaborate(self, platform):
        m = Module()
        last, ahead = Signal(FENCE_BITS), Signal(FENCE_BITS)
        m.d.comb += ahead.eq(self.settled - last)
        with m.FSM(name="step"):
            with m.State("REST"), m.If(self.ask):
                m.next = "NUMBER"
            with m.State("NUMBER"):
                m.d.sync += last.eq(self.ordered)
                m.next = "SETTLE"
                with m.If(~self.ask):
                    m.next = "REST"
            with m.State("SETTLE"):
                with m.If(~self.ask):
                    m.next = "REST"
                with m.Elif(~ahead[-1]):
                    m.next = "LEAVE"
            with m.State("LEAVE"):
                with m.If(~self.ask):
                    m.next = "REST"
                with m.Elif(self.leaves):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                with m.If(~self.ask):
                    m.next = "REST"
        return m
