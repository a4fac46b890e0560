"""How long the entries of the line table are in use."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.operations import (
    LINES_UNORDERED,
    entries,
    operations_in_flight,
    table_sets,
    table_ways,
)

__all__ = ["LineUse"]


class LineUse(wiring.Component):
    """Counts per entry what begins and what ends; the entry is in use while the numbers differ.

    Operations join and retire, and lines are queued for writing and written. Each of the four numbers, modulo its
    range, is in a memory of its own, so that each memory has one writer. All are cleared in the first cycles after
    a reset, a set of entries in each cycle.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    clearing : out
        The numbers are being cleared: nothing may begin.
    looked_set : in
        The set that ``in_use`` and ``joined`` are about.
    moves, next_set : in
        ``looked_set`` of the next cycle is ``next_set``; otherwise it stays, and nothing joins.
    in_use : out, one bit per way
        From registers: everything that joined until the cycle before counts, and of what ended, what ended until
        the one before that.
    joined : in, one bit per way
        Pulse: an operation begins to refer to the entry.
    retired, retired_entry, retired_queues : in
        Pulse: an operation on the entry has ended; whether the entry was queued for writing with it.
    written, written_entry : in
        Pulse: what the entry was queued for has been written. It may be queued once more often than LINES_UNORDERED
        without it.
    """

    def __init__(self, parameters: NicParameters):
        self._ways = table_ways(parameters)
        self._sets = table_sets(parameters)
        self._most_joins = operations_in_flight(parameters)
        entry = range(entries(parameters))
        super().__init__(
            {
                "clearing": Out(1),
                "looked_set": In(range(self._sets)),
                "moves": In(1),
                "next_set": In(range(self._sets)),
                "in_use": Out(self._ways),
                "joined": In(self._ways),
                "retired": In(1),
                "retired_entry": In(entry),
                "retired_queues": In(1),
                "written": In(1),
                "written_entry": In(entry),
            }
        )
        self._cleared = Signal(range(self._sets + 1))
        """Sets whose numbers were cleared since the reset."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.clearing.eq(self._cleared != self._sets)
        m.d.sync += self._cleared.eq(self._cleared + self.clearing)
        retired = self._place(self.retired_entry)
        counts = [
            self._count(m, "joins", self._most_joins, self.looked_set, self.joined),
            self._count(m, "retirements", self._most_joins, *retired, self.retired),
            self._count(m, "queued", LINES_UNORDERED + 1, *retired, self.retired_queues),
            self._count(m, "writes", LINES_UNORDERED + 1, *self._place(self.written_entry), self.written),
        ]
        stays_in_use, next_in_use = (
            Cat((joins[way] != retirements[way]) | (queued[way] != writes[way]) for way in range(self._ways))
            for joins, retirements, queued, writes in zip(*counts, strict=True)
        )
        # The moves and the joining way are known late in the cycle, so they meet looked-up counts behind registers.
        stayed, came, joined = (Signal(self._ways, name=name) for name in ("stayed", "came", "came_along"))
        moved, same_set = Signal(), Signal()
        m.d.sync += [
            stayed.eq(stays_in_use),
            came.eq(next_in_use),
            joined.eq(self.joined),
            moved.eq(self.moves),
            same_set.eq(self.next_set == self.looked_set),
        ]
        m.d.comb += self.in_use.eq(Mux(moved, came | Mux(same_set, joined, 0), stayed))
        return m

    def _place(self, entry):
        """Set of an entry, and its way as one bit of as many."""
        bits = (self._sets - 1).bit_length()
        return entry[:bits], Cat(entry[bits:] == way for way in range(self._ways))

    def _count(self, m, name, most, changed_set, changed_ways, enable=1):
        """Numbers up to ``most``, of which those of some ways of a set grow by one; returns two sets of them:
        those of ``looked_set`` and those of ``next_set``.
        """
        layout = data.ArrayLayout(most.bit_length(), self._ways)
        m.submodules[name] = numbers = memory.Memory(shape=layout, depth=self._sets, init=[])
        write = numbers.write_port(granularity=1)
        old, *looked_up = (numbers.read_port(domain="comb") for _ in range(3))
        m.d.comb += [
            old.addr.eq(changed_set),
            looked_up[0].addr.eq(self.looked_set),
            looked_up[1].addr.eq(self.next_set),
        ]
        with m.If(self.clearing):
            m.d.comb += [write.addr.eq(self._cleared), write.en.eq(-1)]
        with m.Else():
            m.d.comb += [write.addr.eq(changed_set), write.en.eq(Mux(enable, changed_ways, 0))]
            m.d.comb += [write.data[way].eq(old.data[way] + 1) for way in range(self._ways)]
        return [port.data for port in looked_up]
