"""One carry chain that adds elements of every size."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SegmentedAdder", "add_segments"]


def add_segments(adder, lanes, first_carry):
    """Return (sums, carries) of bytes ``lanes``, a range with one carry chain: a byte and a bit for each byte.

    ``adder`` has the rows; they and the carries are as those of ``SegmentedAdder``. The first number takes
    ``first_carry`` instead of ``carry_in``.
    """
    carry_in = adder.carry_in
    left, right = [Const(1)], [first_carry]
    for lane in lanes:
        starts_next = adder.starts[lane + 1] if lane + 1 in lanes else Const(1)
        left += [adder.a.word_select(lane, 8), ~starts_next | carry_in]
        right += [adder.b.word_select(lane, 8), starts_next & carry_in]
    # No number above the last one needs a carry.
    left[-1] = right[-1] = Const(0)
    total = Cat(left) + Cat(right)
    places = range(1, 9 * len(lanes), 9)
    return Cat(total[place : place + 8] for place in places), Cat(total[place + 8] for place in places)


class SegmentedAdder(wiring.Component):
    """Adds two rows of numbers whose borders are chosen at run time; combinational.

    A guard bit between neighbouring bytes lets the carry through, swallows it, or makes one: 1 + 0, 0 + 0 and
    1 + 1 in the same carry chain, so that no multiplexer stands in the way of the carry. Where a guard is
    not passing carries, its own sum bit is the carry that arrived.

    Parameters
    ----------
    width : int
        Bits of a row, a multiple of 8.
    bytes_per_chain : int
        Carries never pass a multiple of this many bytes; shorter chains are faster.

    Members
    -------
    a, b : In(width)
    starts : In(width // 8)
        Bit n: a number begins at byte n. Bytes at a multiple of ``bytes_per_chain`` always begin one.
    carry_in : In(1)
        Added to every number.
    sums : Out(width)
    carries : Out(width // 8)
        Bit n: the carry out of the number that ends at byte n. Meaningless where none ends.
    """

    def __init__(self, width, bytes_per_chain):
        self._bytes_per_chain = bytes_per_chain
        lanes = width // 8
        super().__init__(
            {
                "a": In(width),
                "b": In(width),
                "starts": In(lanes),
                "carry_in": In(1),
                "sums": Out(width),
                "carries": Out(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sums, carries = [], []
        for first in range(0, len(self.starts), self._bytes_per_chain):
            lanes = range(first, min(first + self._bytes_per_chain, len(self.starts)))
            chain = add_segments(self, lanes, self.carry_in)
            sums.append(chain[0])
            carries.append(chain[1])
        m.d.comb += [self.sums.eq(Cat(sums)), self.carries.eq(Cat(carries))]
        return m
