"""Messages' sharp edge: slots that were promised before there is a message to put into them."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.messages.slot_rooms import SlotRooms

from formal.rules import never_reset

__all__ = ["SlotRoomSpec"]

SLOTS = 4


class SlotRoomSpec(wiring.Component):
    """SlotRooms of one context with 4 slots: whoever was promised one finds a free one when he is matched.

    Messages look for a slot and promise it in a later cycle, one at a time. Those on their way are matched one by
    one: each takes a slot or does not, and in that cycle or later settles its promise; slots that were taken come
    back at any time. The context may be disabled at any time: claims of messages from before come late. When its
    lists have been emptied all slots are free.
    """

    def __init__(self):
        super().__init__(
            {
                "look": In(1),
                "promise": In(1),
                "take": In(1),
                "settle": In(1),
                "stale_settle": In(1),
                "release": In(1),
                "disable": In(1),
                "empty": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.rooms = rooms = SlotRooms(1, SLOTS)
        # The naive account: promised messages of the current generation, and slots in use.
        accepted, used = Signal(range(SLOTS + 2)), Signal(range(SLOTS + 1))
        generation = Signal(4)
        was_enabled, settled, seen, has_taken = Signal(), Signal(init=1), Signal(), Signal()
        m.d.comb += [
            rooms.contexts[0].enable.eq(~self.disable),
            rooms.contexts[0].unexpected_base.eq(64),
            rooms.generations[0].eq(generation),
            rooms.free[0].eq(SLOTS - used),
            rooms.settled[0].eq(settled),
            rooms.promise.valid.eq(self.promise),
            rooms.promise.generation.eq(generation),
            rooms.settle.valid.eq(self.settle | self.stale_settle),
            rooms.settle.generation.eq(generation - self.stale_settle),
            # What was seen and what is on its way is forgotten with its generation; that begins a cycle later.
            Assume(~self.promise | (seen & ~self.look)),
            Assume(~(self.take | self.settle) | ((accepted != 0) & settled)),
            Assume(~self.take | ~has_taken),
            Assume(~(self.settle & self.stale_settle)),
            Assume(~self.release | (used != 0)),
            Assume(~self.empty | ~settled),
            Assume(~self.disable | ~(self.promise | self.take | self.settle)),
        ]
        m.d.sync += [
            was_enabled.eq(~self.disable),
            generation.eq(generation + (was_enabled & self.disable)),
            accepted.eq(Mux(self.disable, 0, accepted + self.promise - self.settle)),
            seen.eq(Mux(self.disable, 0, Mux(self.look, rooms.open[0], seen & ~self.promise))),
            has_taken.eq((has_taken | self.take) & ~self.settle & ~self.disable),
            used.eq(Mux(self.empty, 0, used + self.take - self.release)),
            settled.eq((settled | self.empty) & ~(was_enabled & self.disable)),
        ]
        owed = Signal(range(SLOTS + 2))
        m.d.comb += [
            owed.eq(accepted - has_taken),
            # Nobody finds all slots taken.
            Assert(~settled | (used + owed <= SLOTS)),
            Assert(~self.take | (used < SLOTS)),
            Assert(accepted <= SLOTS),
            # Nothing that is free and not promised is kept back.
            Assert(rooms.open[0] | self.disable | ~settled | (used + accepted >= SLOTS)),
            # For the induction: how the component keeps the account, and what was seen.
            Assert(rooms._promised[0] == accepted),
            Assert(~has_taken | (accepted != 0)),
            Assert(settled | ((accepted == 0) & ~seen & ~has_taken)),
            Assert(~seen | ((used + owed < SLOTS) & (accepted < SLOTS))),
            Cover((used == SLOTS - 1) & (accepted == 1) & ~rooms.open[0]),
            Cover((used == 0) & (accepted == SLOTS)),
            Cover((generation == 1) & rooms.open[0] & self.stale_settle & (accepted == 2)),
        ]
        return m
