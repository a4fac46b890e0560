"""Sums and differences of floating-point numbers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.numbers import (
    Pack,
    Unpack,
    almost_half,
    exponent_bits_of,
    number_layout,
    precision_of,
    select_format,
)
from amoeba_hw.atomic.shift import any_below, leading_group, shift_left, shift_right
from amoeba_hw.stages import delayed, registered

__all__ = ["FloatAdder"]

_GROUP = 16
"""Bits whose leading zeros are counted in one cycle; among these groups, the next one chooses."""


class FloatAdder(wiring.Component):
    """a + b or a - b in one of several formats: rounded to nearest even, subnormals honoured.

    Fully pipelined, one sum per cycle. NaNs and infinities travel as numbers whose other addend is zero, so
    that no registers are spent on carrying them past the arithmetic::

        cycle 1   take apart, compare, subtract exponents
              2   larger and smaller, coarse alignment
              3   fine alignment, add or subtract
              4   count leading zeros, but stop at the exponent of the subnormal numbers
              5   normalise
              (6  round and encode)

    Parameters
    ----------
    formats : sequence of FloatFormat
        Served by the same data path, which is as wide as the widest of them.
    float_format_layout : Layout
        One-hot, with a member for each format's name.

    Members
    -------
    float_format : In
    subtract : In(1)
    a, b : In, as wide as the widest format, numbers in the lowest bits
    result : Out
        ``LATENCY`` cycles later and through the rounding; to be registered by the user.
    """

    LATENCY = 5

    def __init__(self, formats, float_format_layout):
        self._formats = formats
        self._layout = float_format_layout
        self._precision = precision_of(formats)
        width = max(float_format.width for float_format in formats)
        super().__init__(
            {
                "float_format": In(float_format_layout),
                "subtract": In(1),
                "a": In(width),
                "b": In(width),
                "result": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        chosen = delayed(m, "float_format", self.float_format, self.LATENCY)
        operands = self._take_apart(m)
        aligned = self._align(m, chosen[1], *operands)
        total = self._add(m, *aligned)
        counted = self._count(m, chosen[3], *total)
        normal = self._normalise(m, chosen[4], *counted)
        m.submodules.pack = pack = Pack(self._formats, self._layout)
        m.d.comb += [
            pack.float_format.eq(chosen[5]),
            Cat(pack.sign, pack.exponent, pack.significand, pack.rounds, pack.almost_half).eq(Cat(normal)),
            self.result.eq(pack.word),
        ]
        return m

    def _take_apart(self, m):
        numbers = []
        for name, word in (("a", self.a), ("b", self.b)):
            m.submodules[f"unpack_{name}"] = unpack = Unpack(self._formats, self._layout)
            m.d.comb += [unpack.float_format.eq(self.float_format), unpack.word.eq(word)]
            number = Signal(number_layout(self._formats), name=f"number_{name}", reset_less=True)
            m.d.sync += number.eq(unpack.number)
            numbers.append((unpack.number, number))
        (a, a_register), (b, b_register) = numbers
        # A NaN that is handed on keeps its sign in a difference, too.
        b_sign = b.sign ^ (self.subtract & ~b.nan)
        m.d.sync += b_register.sign.eq(b_sign)
        # Of two equal ones, the positive one is taken for the larger: the x87's choice between two NaNs. Where
        # exponents differ, their difference decides, a cycle later.
        smaller = Cat(Const(0, 1), a.significand) < Cat(a.sign & ~b.sign, b.significand)
        # A NaN has the largest magnitude in its format; only between two of them is there anything to decide.
        larger_nan_wins = Cat(self.float_format[f.name] for f in self._formats if f.larger_nan_wins).any()
        return (
            a_register,
            b_register,
            registered(m, "a_is_smaller", smaller),
            registered(m, "a_stays", a.nan & ~larger_nan_wins),
            registered(m, "a_above_b", a.exponent - b.exponent).as_signed(),
            registered(m, "b_above_a", b.exponent - a.exponent).as_signed(),
        )

    def _align(self, m, chosen, a, b, a_is_smaller, a_stays, a_above_b, b_above_a):
        opposed = a.sign ^ b.sign
        invalid = (a.infinite & b.infinite & opposed & ~a.nan & ~b.nan) | a.invalid | b.invalid
        special = a.infinite | a.nan | b.infinite | b.nan | invalid
        take_b = Signal()
        a_below, b_below = a_above_b < 0, b_above_a < 0
        m.d.comb += take_b.eq((a_below | (~b_below & a_is_smaller)) & ~a_stays)
        quiet = Cat(Const(0, self._precision - 2), a.nan | b.nan, Const(0, 1))
        largest = select_format(self._formats, chosen, lambda f: Const(f.exponent_mask, f.exponent_bits))
        default = Const(3 << self._precision - 2, self._precision)
        large = Mux(invalid, default, Mux(take_b, b.significand, a.significand) | quiet)
        small, further = Signal(self._precision), Signal(self._precision)
        distance = Signal(exponent_bits_of(self._formats))
        m.d.comb += [
            small.eq(Mux(take_b, a.significand, b.significand)),
            # Where exponents are equal, the distance is 0 both ways, and nothing is lost.
            further.eq(Mux(a_below, a.significand, b.significand)),
            distance.eq(Mux(a_below, b_above_a, a_above_b)),
        ]
        shift_bits = (self._precision + 2).bit_length()
        far = distance[shift_bits:].any()
        coarse = shift_right(m, Cat(Const(0, 2), small), distance[:shift_bits], steps=range(2, shift_bits, 2))
        lost = any_below(Cat(Const(0, 2), further), distance[:shift_bits] & ~0b11)
        return (
            registered(m, "sign_2", invalid | Mux(take_b, b.sign, a.sign)),
            registered(m, "opposed_2", opposed & ~special),
            registered(m, "special_2", special),
            registered(m, "exponent_2", Mux(invalid, largest, Mux(take_b, b.exponent, a.exponent))),
            registered(m, "large_2", large),
            registered(m, "small_2", coarse & (~(far | special)).replicate(self._precision + 2)),
            # Of a far addend it may be anything: so little less than a number, or more, is rounded to the number.
            registered(m, "sticky_2", lost & ~special),
            registered(m, "distance_2", distance[:2]),
        )

    def _add(self, m, sign, opposed, special, exponent, large, small, sticky, distance):
        lost = sticky | any_below(small[:3], distance)
        addend = Cat(lost, shift_right(m, small, distance, steps=(0,)), Const(0, 1))
        total = Cat(Const(0, 3), large, Const(0, 1)) + (addend ^ opposed.replicate(len(addend))) + opposed
        width = self._precision + 4
        # Shifting further than this would go below the smallest exponent.
        limit = Cat(exponent == width - 1 - position for position in range(width))
        return (
            registered(m, "sign_3", sign),
            registered(m, "opposed_3", opposed),
            registered(m, "special_3", special),
            registered(m, "exponent_3", exponent),
            registered(m, "total_3", total[:width]),
            registered(m, "limit_3", limit),
        )

    def _count(self, m, chosen, sign, opposed, special, exponent, total, limit):
        first, counts = leading_group(m, total | limit, _GROUP)
        # A carry out of the largest exponent: infinity, where there is one. Pack sees to the other formats.
        last = select_format(self._formats, chosen, lambda f: (exponent == f.largest_exponent) & f.has_infinity)
        zero = ~total.any()
        return (
            # An exact zero from two different numbers is positive.
            registered(m, "sign_4", sign & ~(opposed & zero)),
            registered(m, "special_4", special),
            registered(m, "zero_4", ~(total | limit).any()),
            registered(m, "overflow_4", ~special & last & total[-1]),
            registered(m, "exponent_4", exponent),
            registered(m, "total_4", total),
            registered(m, "first_4", first),
            [registered(m, f"count_4_{index}", count) for index, count in enumerate(counts)],
        )

    def _normalise(self, m, chosen, sign, special, zero, overflow, exponent, total, first, counts):
        coarse, fine, groups = Const(0, len(total)), Const(0, len(counts[0])), Const(0)
        for index, count in enumerate(counts):
            here = first[index]
            coarse = coarse | ((total << _GROUP * index)[: len(total)] & here.replicate(len(total)))
            fine = fine | (count & here.replicate(len(count)))
            groups = groups | Mux(here, index, 0)
        count = Cat(fine, groups)
        shifted = shift_left(m, coarse, fine)
        significand = Cat(shifted[:3].any(), shifted[3:])
        fraction = significand[:-1] & (~overflow).replicate(len(significand) - 1)
        below = (exponent - count)[: exponent_bits_of(self._formats)]
        return (
            registered(m, "sign_5", sign),
            registered(m, "exponent_5", below & (~zero).replicate(len(below))),
            registered(m, "significand_5", Cat(fraction, significand[-1])),
            registered(m, "rounds_5", chosen.as_value() & (~special).replicate(len(chosen.as_value()))),
            registered(
                m,
                "almost_half_5",
                almost_half(self._formats, chosen) & (~special).replicate(self._precision + 1),
            ),
        )
