"""The PDCs to spare, in the order in which they came to be so."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ClosingOrder"]


class ClosingOrder(wiring.Component):
    """A list of numbers that grows at its end and may lose any: a row of registers that moves up over the gap.

    Parameters
    ----------
    pdcs : int
        How many numbers there are, at least 2; each is in the list at most once.

    Members
    -------
    remove, removed : In
        Take ``removed``, which is in the list, out of it.
    append, appended : In
        Put ``appended`` at the end; it is not in the list, or taken out in this cycle.
    first : Out
        The number that has been in the list for longest; means something unless ``empty``.
    empty : Out(1)
        Both show a change from the next cycle on.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "remove": In(1),
                "removed": In(range(pdcs)),
                "append": In(1),
                "appended": In(range(pdcs)),
                "first": Out(range(pdcs)),
                "empty": Out(1),
            }
        )
        self._numbers = [Signal(range(pdcs), name=f"number_{place}") for place in range(pdcs)]
        self._level = Signal(range(pdcs + 1))

    def elaborate(self, platform):
        m = Module()
        left = Signal.like(self._level)
        gone = self.remove & (self._numbers[0] == self.removed)
        """The gap is at this place or before it."""
        m.d.comb += [
            left.eq(self._level - self.remove),
            self.first.eq(self._numbers[0]),
            self.empty.eq(self._level == 0),
        ]
        m.d.sync += self._level.eq(left + self.append)
        for place, number in enumerate(self._numbers):
            last = place + 1 == self._pdcs
            following = number if last else self._numbers[place + 1]
            m.d.sync += number.eq(Mux(self.append & (left == place), self.appended, Mux(gone, following, number)))
            if not last:
                moves = Signal(name=f"moves_{place + 1}")
                # What stands behind the end of the list is left over, and may be any number.
                m.d.comb += moves.eq(gone | (self.remove & (following == self.removed)))
                gone = moves
        return m
