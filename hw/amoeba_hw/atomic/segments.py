"""One carry chain that adds elements of every size."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SegmentedAdder"]


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
        lanes = len(self.starts)
        for first in range(0, lanes, self._bytes_per_chain):
            left, right = [Const(1)], [self.carry_in]
            chain = range(first, min(first + self._bytes_per_chain, lanes))
            for lane in chain:
                starts_next = self.starts[lane + 1] if lane + 1 in chain else Const(1)
                left += [self.a.word_select(lane, 8), ~starts_next | self.carry_in]
                right += [self.b.word_select(lane, 8), starts_next & self.carry_in]
            # Above the last number there is none to make a carry for.
            left[-1] = right[-1] = Const(0)
            total = Cat(left) + Cat(right)
            for index, lane in enumerate(chain):
                position = 1 + 9 * index
                m.d.comb += [
                    self.sums.word_select(lane, 8).eq(total[position : position + 8]),
                    self.carries[lane].eq(total[position + 8]),
                ]
        return m
