"""What Annex G of C99 makes of a complex product whose parts both came out as NaN."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.numbers import number_layout

__all__ = ["OUTCOME", "Recovery"]

OUTCOME = data.StructLayout({"certain": 1, "nan": 2, "sign": 2})
"""A recovered product: infinity with ``sign``, or the default NaN; real part in bit 0, imaginary part in bit 1.

``certain`` says that a factor is infinite. Without it, the product is to be recovered only if one of the four
partial products is infinite.
"""


class Recovery(wiring.Component):
    """Finds the direction of an infinite product (a + bi)(c + di) from its factors; one per cycle.

    Annex G.5.1 replaces an infinite factor by a corner of the unit square, NaNs next to it by zeros, and
    multiplies infinity by the product of what is left. Of that product only the signs of its two sums matter,
    and to know these, it takes no multiplication: in each sum, either at most one term is not zero, or
    the terms are, but for their signs, the two parts of the finite factor.

    Why at most one, when an overflow is all that is infinite: products of finite numbers whose sums are both
    NaN do not exist, so one part is a NaN and becomes zero, and with it a term of either sum. The other term
    is not zero unless a part is: what is multiplied with it to overflow is greater than one.

    Parameters
    ----------
    float_format : FloatFormat

    Members
    -------
    a, b, c, d : In(number_layout([float_format]))
    outcome : Out(OUTCOME)
        ``LATENCY`` cycles later.
    """

    LATENCY = 3

    def __init__(self, float_format):
        number = number_layout([float_format])
        super().__init__(
            {"a": In(number), "b": In(number), "c": In(number), "d": In(number), "outcome": Out(OUTCOME)}
        )

    def elaborate(self, platform):
        m = Module()
        factors = ((self.a, self.b), (self.c, self.d))
        infinite = [first.infinite | second.infinite for first, second in factors]
        zero = []
        for whole, parts in zip(infinite, factors, strict=True):
            for part in parts:
                # What C's isnan() says of a part, that is, including invalid encodings.
                unordered = part.nan | part.invalid
                vanishes = Mux(whole, ~part.infinite, unordered)
                zero.append(vanishes | ~(part.significand.any() | part.infinite))
        signs = [part.sign for parts in factors for part in parts]
        # Of an infinite factor both parts that are left are 1, so that the other one's parts are to be compared.
        first, second = (
            Cat(Mux(infinite[0], other.significand, own.significand), Mux(infinite[0], other.exponent, own.exponent))
            for own, other in zip(*factors, strict=True)
        )
        parts = data.StructLayout({"certain": 1, "zero": 4, "sign": 4, "both": 1, "left": 1})
        chosen, compared = (Signal(parts, name=name, reset_less=True) for name in ("chosen", "compared"))
        left, right = (Signal(len(first), name=name, reset_less=True) for name in ("left_number", "right_number"))
        above, equal = (Signal(name=name, reset_less=True) for name in ("above", "equal"))
        m.d.sync += [
            chosen.certain.eq(Cat(infinite).any()),
            chosen.zero.eq(Cat(zero)),
            chosen.sign.eq(Cat(signs)),
            chosen.both.eq(Cat(infinite).all()),
            chosen.left.eq(infinite[0]),
            left.eq(first),
            right.eq(second),
            compared.eq(chosen),
            above.eq(left > right),
            equal.eq((left == right) | chosen.both),
        ]
        a, b, c, d = range(4)
        larger_first = Mux(compared.left, ~above, above)
        real = self._direction(compared, equal, (a, c), (b, d), 1, above)
        imaginary = self._direction(compared, equal, (a, d), (b, c), 0, larger_first)
        m.d.sync += [
            self.outcome.certain.eq(compared.certain),
            Cat(self.outcome.nan[0], self.outcome.sign[0]).eq(real),
            Cat(self.outcome.nan[1], self.outcome.sign[1]).eq(imaginary),
        ]
        return m

    def _direction(self, parts, equal, first, second, subtract, first_is_larger):
        """Whether a sum or difference of two products is NaN once multiplied by infinity, and else its sign."""
        none = [parts.zero[left] | parts.zero[right] for left, right in (first, second)]
        first_sign = parts.sign[first[0]] ^ parts.sign[first[1]]
        second_sign = parts.sign[second[0]] ^ parts.sign[second[1]] ^ subtract
        cancels = (first_sign != second_sign) & equal & ~none[0] & ~none[1]
        nan = (none[0] & none[1]) | cancels
        take_second = none[0] | (~none[1] & ~first_is_larger)
        return Cat(nan, nan | Mux(take_second, second_sign, first_sign))
