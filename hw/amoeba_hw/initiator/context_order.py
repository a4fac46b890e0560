"""FENCE_ALL: the requests that it waits for, and the requests that wait for it."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import order_tag, wake_order

__all__ = ["ContextOrder"]


class ContextOrder(wiring.Component):
    """Counts the requests of each context that come and leave, and its FENCE_ALLs that come and begin.

    Every request bears how many came before it, and how many FENCE_ALLs, itself included. A FENCE_ALL is in order
    when it is the next one, as many requests have left as came before it, and no packet of its context is unanswered;
    any other request when as many FENCE_ALLs have begun as came before it.

    Parameters
    ----------
    contexts, queues : int
    depth : int
        Requests that a context may have; a power of two.

    Members
    -------
    arrives, arriving, arriving_fence : in; tag : out
        Pulse: a request of this context comes, with FENCE_ALL or not, and gets this tag.
    context, queue, fence, asked : in; in_order : out
        Whether the request of this tag may begin; ``fence``: it has FENCE_ALL.
    passes, leaves, waits : in
        Pulses: that request begins, or ends without having begun; it leaves; it is to be woken.
    generations : in, a bit per context
        Changes whenever the context's generation does: then all of its requests are to be looked at.
    context_answered : in, a bit per context
    wake : out
        Queues that are to be tried again.
    """

    def __init__(self, contexts, queues, depth):
        self._contexts = contexts
        self._tag = tag = order_tag(depth)
        self._bits = (2 * depth - 1).bit_length()
        super().__init__(
            {
                "arrives": In(1),
                "arriving": In(range(contexts)),
                "arriving_fence": In(1),
                "tag": Out(tag),
                "context": In(range(contexts)),
                "queue": In(range(queues)),
                "fence": In(1),
                "asked": In(tag),
                "in_order": Out(1),
                "passes": In(1),
                "leaves": In(1),
                "waits": In(1),
                "generations": In(contexts),
                "context_answered": In(contexts),
                "wake": Out(wake_order(contexts, queues)),
            }
        )
        self._known = Signal(contexts)
        """A FENCE_ALL waits that is the next one to begin ..."""

    def elaborate(self, platform):
        m = Module()
        came, fences_came, left, fences_begun = (
            Array(Signal(self._bits, name=f"{name}{context}") for context in range(self._contexts))
            for name in ("came", "fences_came", "left", "fences_begun")
        )
        is_next, clear = Signal(), Signal()
        begun = fences_begun[self.context]
        m.d.comb += [
            self.tag.number.eq(came[self.arriving]),
            self.tag.fences.eq(fences_came[self.arriving] + self.arriving_fence),
            is_next.eq((self.asked.fences - 1)[: self._bits] == begun),
            clear.eq((left[self.context] == self.asked.number) & self.context_answered.bit_select(self.context, 1)),
            self.in_order.eq(Mux(self.fence, is_next & clear, self.asked.fences == begun)),
        ]
        with m.If(self.arrives):
            m.d.sync += [came[self.arriving].eq(self.tag.number + 1), fences_came[self.arriving].eq(self.tag.fences)]
        with m.If(self.leaves):
            m.d.sync += left[self.context].eq(left[self.context] + 1)
        with m.If(self.passes & self.fence):
            m.d.sync += fences_begun[self.context].eq(begun + 1)
        self._elaborate_waking(m, left, is_next)
        return m

    def _elaborate_waking(self, m, left, is_next):
        contexts = range(self._contexts)
        number = [Signal(self._bits, name=f"number{context}") for context in contexts]
        queue = [Signal.like(self.queue, name=f"queue{context}") for context in contexts]
        """... its number, and where it is."""
        before, changed = Signal(self._contexts), Signal(self._contexts)
        told = Signal(self._contexts)
        m.d.sync += [before.eq(self.generations), changed.eq((changed & ~told) | (before ^ self.generations))]
        wake = self.wake
        with m.If(self.passes & self.fence):
            m.d.comb += [wake.ordered.eq(1), wake.context.eq(self.context)]
        with m.Else():
            for context in reversed(contexts):
                with m.If(changed[context]):
                    m.d.comb += [wake.all.eq(1), wake.context.eq(context), told.eq(1 << context)]
        goes = Signal(self._contexts)
        m.d.comb += goes.eq(
            Cat(self._known[context] & (left[context] == number[context]) for context in contexts)
            & self.context_answered
        )
        chosen = (goes & (~goes + 1))[: self._contexts]
        m.d.comb += wake.one.eq(goes.any())
        m.d.sync += self._known.eq(self._known & ~chosen)
        for context in reversed(contexts):
            with m.If(goes[context]):
                m.d.comb += wake.queue.eq(queue[context])
            with m.If(self.waits & self.fence & is_next & (self.context == context)):
                m.d.sync += [
                    self._known[context].eq(1),
                    number[context].eq(self.asked.number),
                    queue[context].eq(self.queue),
                ]
