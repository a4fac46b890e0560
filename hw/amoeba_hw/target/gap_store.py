"""Packets that came before their turn."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import FRAME_HEADER
from amoeba_hw.packed import select

__all__ = ["GapStore"]

_LATE = 2
"""Ticks between which there is at least the whole time of one."""


class GapStore(wiring.Component):
    """Slots that all PDCs share, each for one packet: its header, and whose it is.

    A slot is free, or to be had again when its packet has waited for a timeout, up to two. Given is the first free
    one, else the first of the others.

    Parameters
    ----------
    slots : int
        At least 1.
    pdcs : int

    Members
    -------
    timeout : In(32)
        In cycles.
    pdc, psn, following : In
        A packet of a PDC, and the psn after its own.
    held : Out(1)
        It is kept.
    follows, follower : Out(1), Out
        So is the one after it, in this slot.
    has_slot, slot : Out(1), Out
        There is a slot for the packet: this one.
    keep, header : In(1), In(FRAME_HEADER)
        Pulse: keep it there. Only with ``has_slot`` and without ``held``.
    take : In(1)
        Pulse: free the slot of the one after it. Only with ``follows``.
    taken : Out(FRAME_HEADER)
        In the cycle after ``take``: what was kept there.
    forget : In(1)
        Pulse: throw away all packets of ``pdc``. At most one pulse of the three in two cycles.
    may_count : In(1)
        Always with ``keep``.
    count_thrown : Out(1)
        Pulse, only with ``may_count``: a packet was thrown away, now or earlier.
    """

    def __init__(self, slots, pdcs):
        self._slots = slots
        super().__init__(
            {
                "timeout": In(32),
                "pdc": In(range(pdcs)),
                "psn": In(32),
                "following": In(32),
                "held": Out(1),
                "follows": Out(1),
                "follower": Out(range(slots)),
                "has_slot": Out(1),
                "slot": Out(range(slots)),
                "keep": In(1),
                "header": In(FRAME_HEADER),
                "take": In(1),
                "taken": Out(FRAME_HEADER),
                "forget": In(1),
                "may_count": In(1),
                "count_thrown": Out(1),
            }
        )
        self._valid = Signal(slots)
        self._pdcs = [Signal(range(pdcs), name=f"pdc_{slot}") for slot in range(slots)]
        self._psns = [Signal(32, name=f"psn_{slot}") for slot in range(slots)]
        self._ages = [Signal(range(_LATE + 1), name=f"age_{slot}") for slot in range(slots)]
        """Ticks since the packet was kept; of a free slot too many."""
        self._cycles = Signal(32)
        """Until the next tick: there is one each timeout."""
        self._thrown = Signal(range(slots + 2))
        """Packets that were thrown away and not counted yet. A packet that is kept counts as nothing, and takes two
        cycles: so they are at most one more than there are slots."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.headers = headers = memory.Memory(shape=FRAME_HEADER, depth=self._slots, init=[])
        write, read = headers.write_port(), headers.read_port()
        own, held, follows, late = (Signal(self._slots, name=name) for name in ("own", "held", "follows", "late"))
        m.d.comb += [
            own.eq(self._valid & Cat(pdc == self.pdc for pdc in self._pdcs)),
            held.eq(own & Cat(psn == self.psn for psn in self._psns)),
            follows.eq(own & Cat(psn == self.following for psn in self._psns)),
            late.eq(Cat(age == _LATE for age in self._ages)),
            self.held.eq(held.any()),
            self.follows.eq(follows.any()),
            self.follower.eq(self._number(follows)),
            read.addr.eq(self.follower),
            read.en.eq(self.take),
            self.taken.eq(read.data),
            write.addr.eq(self.slot),
            write.data.eq(self.header),
            write.en.eq(self.keep),
        ]
        self._elaborate_choice(m, late)
        self._elaborate_slots(m, own, follows)
        self._elaborate_thrown(m, own)
        return m

    def _number(self, one_hot):
        return select(len(self.slot), ((one_hot[slot], slot) for slot in range(self._slots)))

    def _elaborate_choice(self, m, late):
        candidates, first = Signal(self._slots), Signal(self._slots)
        m.d.comb += [
            candidates.eq(Mux(self._valid.all(), late, ~self._valid)),
            first.eq(candidates & -candidates),
            self.has_slot.eq(candidates.any()),
            self.slot.eq(self._number(first)),
        ]

    def _elaborate_slots(self, m, own, follows):
        tick = Signal()
        m.d.comb += tick.eq(self._cycles >= self.timeout)
        m.d.sync += self._cycles.eq(Mux(tick, 0, self._cycles + 1))
        for slot in range(self._slots):
            valid, age, given = self._valid[slot], self._ages[slot], self.keep & (self.slot == slot)
            with m.If(tick & (age != _LATE)):
                m.d.sync += age.eq(age + 1)
            with m.If(given):
                m.d.sync += [valid.eq(1), self._pdcs[slot].eq(self.pdc), self._psns[slot].eq(self.psn), age.eq(0)]
            with m.Elif((self.forget & own[slot]) | (self.take & follows[slot])):
                m.d.sync += valid.eq(0)

    def _elaborate_thrown(self, m, own):
        thrown = Signal.like(self._thrown)
        with m.If(self.forget):
            m.d.comb += thrown.eq(sum(own))
        with m.Elif(self.keep):
            m.d.comb += thrown.eq(self._valid.all())
        m.d.comb += self.count_thrown.eq(self.may_count & (self._thrown != 0))
        m.d.sync += self._thrown.eq(self._thrown + thrown - self.count_thrown)
