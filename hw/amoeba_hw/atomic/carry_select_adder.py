"""Adds elements of every size, of which the largest take two carry chains of half their length."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.segments import add_segments

__all__ = ["CarrySelectAdder"]

_BYTES = 8
"""In a chain; an element takes at most two."""


class CarrySelectAdder(wiring.Component):
    """Adds two rows of numbers whose borders are chosen at run time; combinational.

    The upper eight bytes of every sixteen are added twice, without a carry from those below and with one, which
    chooses: that takes less time than a chain of sixteen bytes. Where a number begins with the upper bytes, both
    sums are its own.

    Parameters
    ----------
    width : int
        Bits of a row, a multiple of 128.

    Members
    -------
    a, b, starts, carry_in, sums
        As those of ``SegmentedAdder``; a number begins at every sixteenth byte.
    """

    def __init__(self, width):
        super().__init__(
            {
                "a": In(width),
                "b": In(width),
                "starts": In(width // 8),
                "carry_in": In(1),
                "sums": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for first in range(0, len(self.starts), 2 * _BYTES):
            middle, end = first + _BYTES, first + 2 * _BYTES
            lower, carries = add_segments(self, range(first, middle), self.carry_in)
            begins = self.starts[middle]
            without, _ = add_segments(self, range(middle, end), begins & self.carry_in)
            with_carry, _ = add_segments(self, range(middle, end), ~begins | self.carry_in)
            m.d.comb += self.sums[8 * first : 8 * end].eq(Cat(lower, Mux(carries[-1], with_carry, without)))
        return m
