"""How much room the contexts' event rings have."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import CONTEXT, RING_INDEX
from amoeba_hw.target.records import EVENT_CLAIM, GENERATION_BITS

__all__ = ["EventRooms"]

_MARGIN = 4
"""Entries of a ring that are never promised."""


class _EventRoom(wiring.Component):
    """The room in one context's ring: entries promised, less those the driver has consumed."""

    active: In(1)
    size: In(4)
    promise: In(1)
    return_: In(1)
    heard: In(1)
    head: In(16)
    room: Out(1)

    def __init__(self):
        super().__init__()
        self._promised = Signal(16)
        """Index behind the last entry that is promised or written."""
        self._consumed = Signal(16)

    def elaborate(self, platform):
        m = Module()
        taken = Signal(16)
        m.d.comb += [
            taken.eq(self._promised - self._consumed),
            self.room.eq(taken + _MARGIN < Const(1, 16) << self.size),
        ]
        m.d.sync += self._promised.eq(self._promised + self.promise - self.return_)
        with m.If(self.heard):
            m.d.sync += self._consumed.eq(self.head)
        with m.If(~self.active):
            m.d.sync += [self._promised.eq(0), self._consumed.eq(0)]
        return m


class EventRooms(wiring.Component):
    """Counts the entries of event rings that are promised, written and consumed (section 6 of the architecture).

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
    promise, give_back : EVENT_CLAIM, In
        Room for one entry is taken; an entry that was promised is not needed. Of an earlier generation they are
        ignored.
    open, blocked : Out, a bit per context
        Has an event ring, and there is room in it, or not. Shows everything up to the cycle before.
    generations : array of GENERATION_BITS, Out
        Changes when the context is disabled.
    """

    def __init__(self, contexts):
        self._contexts = contexts
        super().__init__(
            {
                "contexts": In(CONTEXT).array(contexts),
                "heads": In(stream.Signature(RING_INDEX)),
                "promise": In(EVENT_CLAIM),
                "give_back": In(EVENT_CLAIM),
                "open": Out(contexts),
                "blocked": Out(contexts),
                "generations": Out(GENERATION_BITS).array(contexts),
            }
        )
        self._rooms = [_EventRoom() for _ in range(contexts)]

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.heads.ready.eq(1)
        for index in range(self._contexts):
            context, generation = self.contexts[index], self.generations[index]
            m.submodules[f"room{index}"] = room = self._rooms[index]
            was_enabled = Signal(name=f"was_enabled_{index}")
            m.d.sync += was_enabled.eq(context.enable)
            current = Signal(GENERATION_BITS, name=f"generation_{index}")
            m.d.sync += current.eq(current + (was_enabled & ~context.enable))
            active = context.enable & (context.event_base != 0)
            m.d.comb += [
                generation.eq(current),
                room.active.eq(active),
                room.size.eq(context.event_size),
                room.promise.eq(self._concerns(self.promise, index)),
                room.return_.eq(self._concerns(self.give_back, index)),
                room.heard.eq(self.heads.valid & (self.heads.p.context == index)),
                room.head.eq(self.heads.p.index),
                self.open[index].eq(active & room.room),
                self.blocked[index].eq(active & ~room.room),
            ]
        return m

    def _concerns(self, claim, index):
        return claim.valid & (claim.context == index) & (claim.generation == self.generations[index])
