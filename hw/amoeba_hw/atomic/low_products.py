"""Products of integers of every size within one cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.control import Control, starts
from amoeba_hw.atomic.segments import SegmentedAdder

__all__ = ["LowProducts"]

_WORD = 16
_SIZES = {"b1": 1, "b2": 1, "b4": 2, "b8": 4, "b16": 8}
"""Words of an integer, by its kind. Two of 8 bits share one."""
_LARGEST = max(_SIZES.values())


class LowProducts(wiring.Component):
    """The lower half of the product of every two integers, signed or not; combinational.

    The multipliers are of 16-bit words, and the same for all sizes. Each word of the result has a column of them,
    which multiply the words of the target from there down to the first that the largest integer could have. By what,
    depends on the size: in the place d of a number, its word d - r meets word r of the operand's, and whatever lies
    below the number meets zero. Only the operand's words are chosen, so that nothing but multipliers, the sum of a
    column and two carry chains is behind a ``target`` that arrives last::

        operand, control -- factors --+
        target -----------------------x-- columns -- adder -- adder --+-- products
          +---- upper bytes ----------x-------------------------------+

    Of the 8-bit numbers in a word, the lower one's product is the lower byte of the word's; the upper one has a
    small multiplier of its own.

    Parameters
    ----------
    width : int
        Bits of a row, a multiple of 128.

    Members
    -------
    control : In(Control)
        Its ``component`` and ``starts``: of integers, or the products mean nothing.
    target, operand : In(width)
    products : Out(width)
    """

    def __init__(self, width):
        super().__init__({"control": In(Control), "target": In(width), "operand": In(width), "products": Out(width)})

    def elaborate(self, platform):
        m = Module()
        width = len(self.target)
        words = range(width // _WORD)
        begins = starts(self.control, width // 8)
        columns = [self._column(m, word) for word in words]
        low, high, top = ([Const(0, _WORD) for _ in words] for _ in range(3))
        for word in words:
            low[word] = self._lowest(m, word, columns[word])
            # Words beyond the upper end of the number are no part of the product.
            if word % _LARGEST >= 1:
                goes_on = ~begins[2 * word]
                high[word] = columns[word - 1][_WORD : 2 * _WORD] & goes_on.replicate(_WORD)
            if word % _LARGEST >= 2:
                goes_on &= ~begins[2 * word - 2]
                top[word] = (columns[word - 2][2 * _WORD :] & goes_on.replicate(_WORD))[:_WORD]
        m.submodules.carries = carries = SegmentedAdder(width, bytes_per_chain=2 * _LARGEST)
        m.submodules.sums = sums = SegmentedAdder(width, bytes_per_chain=2 * _LARGEST)
        m.d.comb += [
            carries.a.eq(Cat(high)),
            carries.b.eq(Cat(top)),
            carries.starts.eq(begins),
            sums.a.eq(Cat(low)),
            sums.b.eq(carries.sums),
            sums.starts.eq(begins),
            self.products.eq(sums.sums),
        ]
        return m

    def _column(self, m, word):
        """Sum all products of words that begin at a word of the result."""
        place = word % _LARGEST
        products = [
            self.target.word_select(word - index, _WORD) * self._factor(m, word, index) for index in range(place + 1)
        ]
        column = Signal(2 * _WORD + place.bit_length(), name=f"column_{word}")
        m.d.comb += column.eq(sum(products[1:], products[0]))
        return column

    def _factor(self, m, word, index):
        """Word ``index`` of the operand's number around ``word``; zero where the target's would lie below it."""
        kinds_by_source = {}
        for kind, size in _SIZES.items():
            if index <= word % size:
                kinds_by_source.setdefault(word - word % size + index, []).append(self.control.component[kind])
        factor = Signal(_WORD, name=f"factor_{word}_{index}")
        for source, kinds in kinds_by_source.items():
            with m.If(Cat(kinds).any()):
                m.d.comb += factor.eq(self.operand.word_select(source, _WORD))
        return factor

    def _lowest(self, m, word, column):
        """Choose the lowest word of a column, or two products of 8-bit numbers."""
        target, operand = (row.word_select(word, _WORD) for row in (self.target, self.operand))
        upper = Signal(8, name=f"upper_{word}")
        m.d.comb += upper.eq(target[8:] * operand[8:])
        return Cat(column[:8], Mux(self.control.component.b1, upper, column[8:_WORD]))
