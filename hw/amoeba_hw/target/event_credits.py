"""Free entries of the contexts' event rings."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import CONTEXT, RING_INDEX
from amoeba_hw.request_records import EVENT_CLAIM, GENERATION_BITS

__all__ = ["EventCredits"]

_MARGIN = 4
"""Entries of a ring that are never reserved."""


class _ContextCredits(wiring.Component):
    """Free entries of one context's ring: counts entries reserved, less those that the driver has consumed."""

    active: In(1)
    size: In(4)
    reservations: In(2)
    returns: In(2)
    heard: In(1)
    head: In(16)
    space: Out(1)
    order_open: Out(1)

    def __init__(self):
        super().__init__()
        self._reserved = Signal(16)
        """Index behind the last entry that was reserved or written before the last cycle."""
        self._balance = Signal(range(-2, 3))
        """Entries reserved, less those released, in the last cycle: a reservation is known late in its cycle."""
        self._consumed = Signal(16)

    def elaborate(self, platform):
        m = Module()
        reserved = Signal(16)
        taken = Signal(16)
        m.d.comb += [
            reserved.eq(self._reserved + self._balance),
            taken.eq(reserved - self._consumed),
            self.space.eq(taken + _MARGIN < Const(1, 16) << self.size),
            self.order_open.eq(taken + _MARGIN + 1 < Const(1, 16) << self.size),
        ]
        m.d.sync += [self._reserved.eq(reserved), self._balance.eq(self.reservations - self.returns)]
        with m.If(self.heard):
            m.d.sync += self._consumed.eq(self.head)
        with m.If(~self.active):
            m.d.sync += [self._reserved.eq(0), self._balance.eq(0), self._consumed.eq(0)]
        return m


class EventCredits(wiring.Component):
    """Counts the entries of event rings that are reserved, written and consumed ("Events" in README.md).

    A ring of n entries is never asked to hold more than n - 4 that the driver has not consumed.

    Parameters
    ----------
    contexts : int

    Members
    -------
    contexts : array of CONTEXT, In
        A context that is not enabled, or has no event ring, has no entries either.
    heads : RING_INDEX stream
        The driver's consumer indices. Never refused.
    promise, release : EVENT_CLAIM, In
        One entry is reserved; a reserved entry is not needed. Claims of an earlier generation are ignored.
    open, blocked : Out, a bit per context
        The context has an event ring with a free entry, or a full one. Shows everything up to the cycle before.
    order_reserve, order_release : EVENT_CLAIM, In
        The same for receive descriptors, at the same time.
    order_open : Out, a bit per context
        ``order_reserve`` may be given now. Stricter than ``open`` by one entry: a user that has seen ``open`` finds
        the entry free, whatever receive descriptors take before its reservation.
    generations : array of GENERATION_BITS, Out
        Changes when the context is disabled.
    """

    def __init__(self, contexts):
        self._contexts = contexts
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "heads": In(stream.Signature(RING_INDEX)),
                "reserve": In(EVENT_CLAIM),
                "release": In(EVENT_CLAIM),
                "order_reserve": In(EVENT_CLAIM),
                "order_release": In(EVENT_CLAIM),
                "open": Out(contexts),
                "blocked": Out(contexts),
                "order_open": Out(contexts),
                "generations": Out(GENERATION_BITS).array(contexts),
            }
        )
        self._credits = [_ContextCredits() for _ in range(contexts)]

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.heads.ready.eq(1)
        for index in range(self._contexts):
            context, generation = self.contexts[index], self.generations[index]
            m.submodules[f"room{index}"] = space = self._credits[index]
            was_enabled = Signal(name=f"was_enabled_{index}")
            m.d.sync += was_enabled.eq(context.enable)
            current = Signal(GENERATION_BITS, name=f"generation_{index}")
            m.d.sync += current.eq(current + (was_enabled & ~context.enable))
            active = context.enable & (context.event_base != 0)
            m.d.comb += [
                generation.eq(current),
                space.active.eq(active),
                space.size.eq(context.event_size),
                space.reservations.eq(self._concerns(index, self.reserve, self.order_reserve)),
                space.returns.eq(self._concerns(index, self.release, self.order_release)),
                space.heard.eq(self.heads.valid & (self.heads.p.context == index)),
                space.head.eq(self.heads.p.index),
                self.open[index].eq(active & space.space),
                self.blocked[index].eq(active & ~space.space),
                self.order_open[index].eq(active & space.order_open),
            ]
        return m

    def _concerns(self, index, *claims):
        """How many of the claims are for the context as it is now."""
        return sum(
            claim.valid & (claim.context == index) & (claim.generation == self.generations[index]) for claim in claims
        )
