"""Raises the interrupts that several rings ask for."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import TRACE_SLOT

__all__ = ["InterruptMerger"]


class InterruptMerger(wiring.Component):
    """Turns the pulses of all sources into one context's interrupt per cycle.

    Parameters
    ----------
    contexts : int
    sources : int

    Members
    -------
    sources : array of a bit per context, In
        A pulse asks for an interrupt of the context. A source that asks again for a context whose interrupt it still
        waits for gets one for both.
    interrupts : Out, a bit per context
        One-cycle pulses, from one cycle after it was asked for; at most one context per cycle, the first source's and
        the lowest first.
    trace_interrupt : TRACE_SLOT
    count_interrupts : Out(1)
    """

    def __init__(self, contexts, sources):
        self._contexts = contexts
        super().__init__(
            {
                "sources": In(contexts).array(sources),
                "interrupts": Out(contexts),
                "trace_interrupt": Out(TRACE_SLOT),
                "count_interrupts": Out(1),
            }
        )
        self._waiting = Signal(contexts * sources)
        """A bit per source and context, all of the first source in the low bits."""

    def elaborate(self, platform):
        m = Module()
        raised = Signal.like(self._waiting)
        raises = Signal()
        m.d.comb += [
            raised.eq(self._waiting & -self._waiting),
            raises.eq(self._waiting.any()),
            self.trace_interrupt.valid.eq(raises),
            self.count_interrupts.eq(raises),
        ]
        m.d.sync += self._waiting.eq((self._waiting & ~raised) | Cat(*self.sources))
        for context in range(self._contexts):
            m.d.comb += self.interrupts[context].eq(raised[context :: self._contexts].any())
            with m.If(self.interrupts[context]):
                m.d.comb += self.trace_interrupt.event.context.eq(context)
        return m
