"""Unexpected slots that drivers are done with."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import SLOT_RELEASE

__all__ = ["SlotReleases"]


class SlotReleases(wiring.Component):
    """Keeps releases until they are asked for: a bit for each slot, so that none needs to be refused.

    Parameters
    ----------
    contexts : int
    slots : int
        Unexpected slots of each context.

    Members
    -------
    enabled : In, a bit per context
        Releases of a context are forgotten while it is not enabled.
    i : SLOT_RELEASE stream
        One per cycle, never refused. Ignored for contexts and slots that do not exist.
    o : SLOT_RELEASE stream
        The lowest slot of the context whose turn it is: of those that released some, the next above the last one; one
        every three cycles. A release on offer stays, even if others are forgotten.
    """

    def __init__(self, contexts, slots):
        self._contexts = contexts
        self._slots = slots
        super().__init__(
            {
                "enabled": In(contexts),
                "i": In(stream.Signature(SLOT_RELEASE)),
                "o": Out(stream.Signature(SLOT_RELEASE)),
            }
        )
        self._released = Array(Signal(slots, name=f"released_{index}") for index in range(contexts))

    def elaborate(self, platform):
        m = Module()
        offered = self.o.p
        context = Signal(range(self._contexts))
        following = Signal.like(context)
        released = Signal(self._slots)
        m.d.comb += self.i.ready.eq(1)
        turns = [index > context for index in range(self._contexts)]
        for is_turn in ([1] * self._contexts, turns):  # the later wins: above the last one before all others
            for index in reversed(range(self._contexts)):
                with m.If(self._released[index].any() & is_turn[index]):
                    m.d.comb += following.eq(index)
        with m.FSM(name="step"):
            with m.State("CONTEXT"), m.If(Cat(slots.any() for slots in self._released).any()):
                m.d.sync += context.eq(following)
                m.next = "SLOT"
            with m.State("SLOT"):
                m.d.comb += released.eq(self._released[context])
                m.d.sync += offered.context.eq(context)
                for slot in reversed(range(self._slots)):
                    with m.If(released[slot]):
                        m.d.sync += offered.slot.eq(slot)
                m.next = "CONTEXT"
                # The context may have been disabled since.
                with m.If(released.any() & self.enabled.bit_select(context, 1)):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += self._released[context].bit_select(offered.slot, 1).eq(0)
                    m.next = "CONTEXT"
        self._elaborate_arrival(m)
        return m

    def _elaborate_arrival(self, m):
        """Note releases. One that comes while its slot's release is being taken is merged with it, or repeats it."""
        arrives = self.i.valid & (self.i.p.slot < self._slots)
        for index, released in enumerate(self._released):
            with m.If(arrives & (self.i.p.context == index)):
                m.d.sync += released.bit_select(self.i.p.slot, 1).eq(1)
            with m.If(~self.enabled[index]):
                m.d.sync += released.eq(0)
