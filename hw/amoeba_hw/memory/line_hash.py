"""Hash from a line to its set of the line table, which nobody can tell from outside."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LineHash"]

_TAPS = (30, 27)
"""Of a maximum-length register of 31 bits: x^31 + x^28 + 1."""


class LineHash(wiring.Component):
    """The sum, modulo 2, of a column of the key for each bit of a line's number that is set.

    Any ``bits`` columns in a row are linearly independent. So lines that follow each other, or lie a power of two
    apart, fill all sets alike whatever the key is; and the number of the set with all of a line's number but its
    lowest ``bits`` bits says the line.

    The key goes on to another one in every cycle until it is held: all columns move down by one, and the new one is
    the last but ``bits`` plus some of those between, by the bits of a shift register. A reset of the NIC does not
    begin anew. The key thus depends on the cycle in which the first line is asked for.

    Parameters
    ----------
    width : int
        Bits of a line's number.
    bits : int
        Of the number of a set; at least 1, and less than ``width``.

    Members
    -------
    hold : In(1)
        The key stays from this cycle on as it is, as long as this does.
    line : In(width)
    set : Out(bits)
        Combinational.
    """

    def __init__(self, width, bits):
        if not 1 <= bits < width:
            raise ValueError(f"expected at least one bit of a set, and less than {width}, got {bits}")
        super().__init__({"hold": In(1), "line": In(width), "set": Out(bits)})
        self.columns = [
            Signal(bits, name=f"column_{place}", init=1 << place % bits, reset_less=True) for place in range(width)
        ]
        """The key."""
        self._chance = Signal(max(_TAPS) + 1, init=0x2B7E1516, reset_less=True)

    def elaborate(self, platform):
        m = Module()
        bits = len(self.set)
        first, *between = self.columns[-bits:]
        added = (Mux(self._chance[index], column, 0) for index, column in enumerate(between))
        fresh = [reduce(xor, (self._chance[tap - step] for tap in _TAPS)) for step in range(bits)]
        m.d.comb += self.set.eq(
            reduce(xor, (Mux(bit, column, 0) for bit, column in zip(self.line, self.columns, strict=True)))
        )
        with m.If(~self.hold):
            m.d.sync += [
                *(here.eq(above) for here, above in zip(self.columns, self.columns[1:], strict=False)),
                self.columns[-1].eq(reduce(xor, added, first)),
                # As many steps at once as bits are used, so that none is used twice.
                self._chance.eq(Cat(*reversed(fresh), self._chance)),
            ]
        return m
