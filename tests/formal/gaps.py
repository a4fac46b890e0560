"""Packets that came before their turn: which are kept, for how long, and what becomes of each."""

from amaranth.hdl import Assert, Assume, Cover, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.interfaces import FRAME_HEADER
from amoeba_hw.target.gap_store import GapStore

from tests.formal.rules import never_reset

__all__ = ["GapStoreSpec"]

SLOTS, PDCS = 2, 2
LONGEST = 3
_FREE = {
    "timeout": In(range(LONGEST + 1)),
    "pdc": In(range(PDCS)),
    "psn": In(32),
    "header": In(FRAME_HEADER),
    "keep": In(1),
    "take": In(1),
    "forget": In(1),
    "may_count": In(1),
}
"""Inputs of the GapStore that the solver picks."""


class GapStoreSpec(wiring.Component):
    """GapStore of two slots and two PDCs, timeouts of up to three cycles.

    The solver picks a packet to watch: it is found, and leaves with its own header, from when it is kept until it is
    taken, thrown away with its PDC, or displaced, which nobody is who has not waited for a timeout, and only by one
    that finds all slots taken. A packet that has waited for more than two of them is in no packet's way. Every kept
    packet is taken or counted, once.
    """

    def __init__(self):
        super().__init__(
            {
                **_FREE,
                "watched_pdc": In(range(PDCS)),
                "watched_psn": In(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.store = store = GapStore(SLOTS, PDCS)
        following = (self.psn + 1)[:32]
        m.d.comb += [
            *(getattr(store, name).eq(getattr(self, name)) for name in _FREE),
            store.following.eq(following),
            Assume(~self.keep | (store.has_slot & ~store.held)),
            Assume(~self.take | store.follows),
            # What is kept is counted as nothing, so that something else may be.
            Assume(~self.keep | self.may_count),
        ]
        self._assume_pace(m)
        self._prove_watched(m, store, following)
        self._prove_counted(m, store)
        return m

    def _assume_pace(self, m):
        """At most one pulse in two cycles; what is watched, and the timeout, stay the same."""
        pulse = self.keep | self.take | self.forget
        was_pulse, runs = Signal(), Signal()
        same = []
        for signal in (self.watched_pdc, self.watched_psn, self.timeout):
            was = Signal.like(signal)
            m.d.sync += was.eq(signal)
            same.append(was == signal)
        m.d.sync += [was_pulse.eq(pulse), runs.eq(1)]
        m.d.comb += [
            Assume((self.keep + self.take + self.forget) <= 1),
            Assume(~(pulse & was_pulse)),
            *(Assume(~runs | each) for each in same),
        ]

    def _prove_watched(self, m, store, following):
        kept, where, header, waited = Signal(), Signal.like(store.slot), Signal(FRAME_HEADER), Signal(8)
        own = self.pdc == self.watched_pdc
        is_it, is_before = own & (self.psn == self.watched_psn), own & (following == self.watched_psn)
        taken, displaced = Signal(), Signal()
        m.d.comb += displaced.eq(kept & self.keep & (store.slot == where))
        m.d.sync += [waited.eq(waited + ~waited.all()), taken.eq(self.take & is_before)]
        with m.If(self.keep & is_it):
            m.d.sync += [kept.eq(1), where.eq(store.slot), header.eq(self.header), waited.eq(1)]
        with m.Elif(displaced | (self.take & is_before) | (self.forget & own)):
            m.d.sync += kept.eq(0)
        occupied = Signal(range(SLOTS + 1))
        m.d.comb += [
            occupied.eq(sum(store._valid)),
            Assert(~is_it | (store.held == kept)),
            Assert(~is_before | (store.follows == kept)),
            Assert(~(is_before & kept) | (store.follower == where)),
            Assert(~taken | (store.taken.as_value() == header.as_value())),
            Assert(~displaced | ((waited > self.timeout) & (occupied == SLOTS))),
            Assert(store.has_slot | (occupied == SLOTS)),
            Assert(~kept | store.has_slot | (waited <= 2 * (self.timeout + 1) + 1)),
            Cover(taken & (self.watched_psn == 0) & (occupied == SLOTS - 1)),
            Cover(displaced & (self.timeout != 0)),
        ]

    def _prove_counted(self, m, store):
        inside = Signal(8)
        m.d.sync += inside.eq(inside + self.keep - self.take - store.count_thrown)
        m.d.comb += [
            Assert(inside == sum(store._valid) + store._thrown),
            Assert(store._thrown <= SLOTS + 1),
            Cover(store._thrown == SLOTS + 1),
        ]
