"""How many unexpected slots the contexts have for messages on their way."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import CONTEXT
from amoeba_hw.request_records import EVENT_CLAIM, GENERATION_BITS

__all__ = ["SlotCredits"]


class SlotCredits(wiring.Component):
    """Counts the slots that are reserved for messages which have not been matched yet.

    Whenever a message is matched there is a free slot for it, and one for every message accepted after it: no more
    slots are reserved than are free.

    Parameters
    ----------
    contexts : int
    slots : int
        Unexpected slots of each context.

    Members
    -------
    contexts : array of CONTEXT, In
    generations : array of GENERATION_BITS, In
        When a context is disabled, its reservations are forgotten.
    free : array of in
        Slots that are free. A message takes its slot before or while it settles its reservation.
    settled : In, a bit per context
        ``free`` counts those of the current generation.
    promise, settle : EVENT_CLAIM, In
        One slot is reserved; its message has been matched, or will not be. Claims of an earlier generation are
        ignored.
    open : Out, a bit per context
        The context has slots, and a free one that is not reserved. Shows everything up to the cycle before.
    """

    def __init__(self, contexts, slots):
        self._contexts = contexts
        self._slots = slots
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "generations": In(GENERATION_BITS).array(contexts),
                "free": In(range(slots + 1)).array(contexts),
                "settled": In(contexts),
                "reserve": In(EVENT_CLAIM),
                "settle": In(EVENT_CLAIM),
                "open": Out(contexts),
            }
        )
        self._reserved = [Signal(range(slots + 1), name=f"promised_{index}") for index in range(contexts)]

    def elaborate(self, platform):
        m = Module()
        for index, reserved in enumerate(self._reserved):
            context = self.contexts[index]
            has_slots = context.enable & (context.unexpected_base != 0) & self.settled[index]
            m.d.comb += self.open[index].eq(has_slots & (self.free[index] > reserved))
            m.d.sync += reserved.eq(
                reserved + self._concerns(self.reserve, index) - self._concerns(self.settle, index)
            )
            with m.If(~context.enable):
                m.d.sync += reserved.eq(0)
        return m

    def _concerns(self, claim, index):
        return claim.valid & (claim.context == index) & (claim.generation == self.generations[index])
