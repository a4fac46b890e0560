"""C99's Annex G for a complex product whose parts both came out as NaN."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["OUTCOME", "PART", "Recovery", "part_of"]

PART = data.StructLayout({"sign": 1, "zero": 1, "infinite": 1, "unordered": 1})
"""Class of a part of a factor; ``unordered``: a NaN, or an invalid encoding."""

OUTCOME = data.StructLayout({"certain": 1, "nan": 2, "sign": 2})
"""A recovered product: infinity with ``sign``, or the default NaN; real part in bit 0, imaginary part in bit 1.

``certain`` says that a factor is infinite. Without it, the product is to be recovered only if one of the four
partial products is infinite.
"""


def part_of(number, precision: int) -> Value:
    """Return the PART of a number of this precision, as Unpack decodes it."""
    zero = ~number.significand[-precision:].any()
    return Cat(number.sign, zero, number.infinite, number.nan | number.invalid)


class Recovery(wiring.Component):
    """Finds the direction of an infinite product (a + bi)(c + di) from its factors; one per cycle.

    Annex G.5.1 replaces an infinite factor by a corner of the unit square or the middle of an edge, NaNs by zeros,
    and multiplies infinity by the product of what is left. Of that product only the signs of its two sums matter,
    and to know these, it takes no arithmetic: in ac - bd and ad + bc, at most one term each is not zero.

    For a product is recovered only if both sums are NaN, and then one of the four parts is zero or replaced by it,
    which takes a term out of either sum. Were there none, then no part would be NaN, each would be a number other
    than zero, and an infinite factor would have two infinite parts. No term would be NaN then, so that both sums
    would be of two infinite terms that cancel; but ac and bd cancel if their signs are the same, that is, if
    an even number of the four parts is negative, and ad and bc if their signs differ, if an odd number is.

    The term that is left is not zero unless a part is: it is a product with 1 or, where there is no infinite
    factor, with a part so large that its product with another is infinite.

    Members
    -------
    a, b, c, d : In(PART)
    outcome : Out(OUTCOME)
        ``LATENCY`` cycles later. It means nothing unless both sums are NaN.
    """

    LATENCY = 2

    a: In(PART)
    b: In(PART)
    c: In(PART)
    d: In(PART)
    outcome: Out(OUTCOME)

    def elaborate(self, platform):
        m = Module()
        vanishes = Signal(4, reset_less=True)
        sign = Signal(4, reset_less=True)
        certain = Signal(reset_less=True)
        factors = ((self.a, self.b), (self.c, self.d))
        infinite = [first.infinite | second.infinite for first, second in factors]
        m.d.sync += [
            certain.eq(Cat(infinite).any()),
            sign.eq(Cat(part.sign for parts in factors for part in parts)),
            vanishes.eq(
                Cat(
                    Mux(whole, ~part.infinite, part.unordered | part.zero)
                    for whole, parts in zip(infinite, factors, strict=True)
                    for part in parts
                )
            ),
            self.outcome.certain.eq(certain),
        ]
        a, b, c, d = range(4)
        for index, (first, second, subtracted) in enumerate((((a, c), (b, d), 1), ((a, d), (b, c), 0))):
            none = [Cat(vanishes[part] for part in term).any() for term in (first, second)]
            signs = [Cat(sign[part] for part in term).xor() for term in (first, second)]
            nan = none[0] & none[1]
            m.d.sync += [
                self.outcome.nan[index].eq(nan),
                # The default NaN is negative.
                self.outcome.sign[index].eq(nan | Mux(none[0], signs[1] ^ subtracted, signs[0])),
            ]
        return m
