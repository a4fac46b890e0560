"""The evictable PDCs, in the order in which they became so."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.packed import select

__all__ = ["ClosingOrder"]


class ClosingOrder(wiring.Component):
    """A list of numbers that grows at its end and may lose any: a row of registers that moves up over the gap.

    Parameters
    ----------
    pdcs : int
        How many numbers there are, at least 2; each is in the list at most once.
    reserved : range
        Numbers that may be refused.

    Members
    -------
    remove, removed : In
        Take ``removed``, which is in the list, out of it.
    append, appended : In
        Put ``appended`` at the end; it is not in the list, or taken out in this cycle.
    refused : In, a bit per number
        Numbers that do not count.
    first : Out
        The number that has been in the list for longest; means something unless ``empty``.
    empty : Out(1)
        No number counts. Both show a change from the second cycle after it on, and of ``refused`` from the next.
    """

    def __init__(self, pdcs, reserved=range(0)):
        self._pdcs = pdcs
        self._reserved = reserved
        super().__init__(
            {
                "remove": In(1),
                "removed": In(range(pdcs)),
                "append": In(1),
                "appended": In(range(pdcs)),
                "refused": In(pdcs),
                "first": Out(range(pdcs)),
                "empty": Out(1, init=1),
            }
        )
        self._numbers = [Signal(range(pdcs), name=f"number_{place}") for place in range(pdcs)]
        self._level = Signal(range(pdcs + 1))

    def elaborate(self, platform):
        m = Module()
        left = Signal.like(self._level)
        gone = self.remove & (self._numbers[0] == self.removed)
        """The gap is at this place or before it."""
        m.d.comb += left.eq(self._level - self.remove)
        m.d.sync += self._level.eq(left + self.append)
        self._elaborate_first(m)
        for place, number in enumerate(self._numbers):
            last = place + 1 == self._pdcs
            following = number if last else self._numbers[place + 1]
            m.d.sync += number.eq(Mux(self.append & (left == place), self.appended, Mux(gone, following, number)))
            if not last:
                moves = Signal(name=f"moves_{place + 1}")
                # The numbers behind the end of the list are left over, and may be any.
                m.d.comb += moves.eq(gone | (self.remove & (following == self.removed)))
                gone = moves
        return m

    def _elaborate_first(self, m):
        counts, lowest = Signal(self._pdcs), Signal(self._pdcs)
        for place, number in enumerate(self._numbers):
            refused = Cat(self.refused[each] & (number == each) for each in self._reserved).any()
            m.d.comb += counts[place].eq((place < self._level) & ~refused)
        m.d.comb += lowest.eq(counts & -counts)
        m.d.sync += [
            self.first.eq(
                select(len(self.first), ((lowest[place], number) for place, number in enumerate(self._numbers)))
            ),
            self.empty.eq(~counts.any()),
        ]
