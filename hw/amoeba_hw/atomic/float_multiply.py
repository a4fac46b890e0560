"""Products of floating-point numbers: what comes before and after the multiplier array."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.multiply import SegmentedMultiplier
from amoeba_hw.atomic.numbers import (
    Pack,
    Unpack,
    almost_half,
    exponent_bits_of,
    number_layout,
    precision_of,
    select_format,
)
from amoeba_hw.atomic.shift import any_below, count_leading_zeros, shift_left, shift_right
from amoeba_hw.stages import delayed, registered

__all__ = ["FloatFactors", "FloatProduct", "expectation_layout"]


def expectation_layout(formats) -> data.StructLayout:
    """Return the layout of what is known of a product while its significand is still being multiplied.

    special
        The significand is a NaN's or infinity's: it is not to be rounded.
    normal
        The exponent is that of a normal number wherever the highest one of the significand is.
    exponent
        If ``normal``, the biased exponent minus one of a significand below 2, else 0.
    shift
        Places to shift right from there, unless ``normal``.
    beyond, at_limit
        The exponent is too large for the format, or is so if the significand is 2 or more.
    """
    return data.StructLayout(
        {
            "sign": 1,
            "special": 1,
            "normal": 1,
            "exponent": exponent_bits_of(formats),
            "shift": (precision_of(formats) + 3).bit_length(),
            "beyond": 1,
            "at_limit": 1,
        }
    )


class FloatFactors(wiring.Component):
    """Prepares two numbers for the multiplier array; one pair per cycle.

    Of two subnormal factors only one is normalised: their product vanishes in every format. NaNs and infinities
    become products with 1.0, so that no registers are spent on carrying them past the multipliers::

        cycle 1  take apart    2  choose, add exponents    3  count leading zeros    (4  normalise)

    Parameters
    ----------
    formats : sequence of FloatFormat
    float_format_layout : Layout

    Members
    -------
    float_format : In
    a, b : In, as wide as the widest format
    numbers : Out, array of two number_layout(formats)
        a and b taken apart, one cycle later.
    significands : Out, array of two, each as wide as the precision
        ``LATENCY`` cycles later and through the shifters, left-aligned; to be registered by the user.
    expectation : Out(expectation_layout(formats))
        ``EXPECTATION_LATENCY`` cycles later, when the multiplier array returns the product.
    """

    LATENCY = 3
    EXPECTATION_LATENCY = LATENCY + 1 + SegmentedMultiplier.LATENCY

    def __init__(self, formats, float_format_layout):
        self._formats = formats
        self._layout = float_format_layout
        self._precision = precision_of(formats)
        width = max(float_format.width for float_format in formats)
        super().__init__(
            {
                "float_format": In(float_format_layout),
                "a": In(width),
                "b": In(width),
                "numbers": Out(data.ArrayLayout(number_layout(formats), 2)),
                "significands": Out(data.ArrayLayout(self._precision, 2)),
                "expectation": Out(expectation_layout(formats)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        chosen = delayed(m, "float_format", self.float_format, 4)
        zero, smaller = self._take_apart(m)
        choice = self._choose(m, chosen[1], zero, smaller)
        counted = self._count(m, *choice)
        significands, exponent, flags = self._normalise(m, *counted)
        m.d.comb += self.significands.eq(Cat(significands))
        expectation = self._expect(m, chosen[4], exponent, flags)
        expectations = delayed(m, "expectation", expectation, SegmentedMultiplier.LATENCY - 1)
        m.d.comb += self.expectation.eq(expectations[-1])
        return m

    def _take_apart(self, m):
        numbers = []
        for name, word in (("a", self.a), ("b", self.b)):
            m.submodules[f"unpack_{name}"] = unpack = Unpack(self._formats, self._layout)
            m.d.comb += [unpack.float_format.eq(self.float_format), unpack.word.eq(word)]
            numbers.append(unpack.number)
        a, b = numbers
        m.d.sync += [self.numbers[0].eq(a), self.numbers[1].eq(b)]
        zero = Cat(~number.significand.any() & ~number.invalid for number in numbers)
        smaller = Const(0, 1)
        if any(f.larger_nan_wins for f in self._formats):
            # Of two equal ones, the positive one counts as larger, as in FloatAdder.
            smaller = Cat(Const(0, 1), a.significand) < Cat(a.sign & ~b.sign, b.significand)
        return registered(m, "zero_1", zero), registered(m, "smaller_1", smaller)

    def _choose(self, m, chosen, zero, smaller):
        a, b = self.numbers[0], self.numbers[1]
        precision = self._precision
        larger_nan_wins = Cat(chosen[f.name] for f in self._formats if f.larger_nan_wins).any()
        nan = a.nan | b.nan
        invalid = a.invalid | b.invalid | (~nan & ((a.infinite & zero[1]) | (b.infinite & zero[0])))
        special = nan | invalid | a.infinite | b.infinite
        take_b = Mux(a.nan & b.nan, larger_nan_wins & smaller, Mux(nan, b.nan, b.infinite))
        one, default = Const(1 << precision - 1, precision), Const(3 << precision - 2, precision)
        quiet = Cat(Const(0, precision - 2), nan, Const(0, 1))
        handed_on = Mux(invalid, default, Mux(take_b, b.significand, a.significand) | quiet)
        swap = a.significand[-1]
        first = Mux(special, handed_on, Mux(swap, b.significand, a.significand))
        second = Mux(special, one, Mux(swap, a.significand, b.significand))
        sign = Mux(invalid, 1, Mux(nan, Mux(take_b, b.sign, a.sign), a.sign ^ b.sign))

        bits = exponent_bits_of(self._formats) + 3
        offset = select_format(self._formats, chosen, lambda f: Const(f.bias - 1, bits))
        infinite = select_format(self._formats, chosen, lambda f: Const(f.exponent_mask + 1, bits))
        exponent = Signal(signed(bits))
        m.d.comb += exponent.eq(a.exponent + b.exponent - offset)
        return (
            registered(m, "first_2", first),
            registered(m, "second_2", second),
            registered(m, "exponent_2", Mux(special, infinite, Mux(zero.any(), 1, exponent))[:bits].as_signed()),
            registered(m, "flags_2", Cat(sign, special)),
        )

    def _count(self, m, first, second, exponent, flags):
        count, _ = count_leading_zeros(m, first)
        return (
            registered(m, "first_3", first),
            registered(m, "second_3", second),
            registered(m, "count_3", count),
            registered(m, "exponent_3", exponent),
            registered(m, "flags_3", flags),
        )

    def _normalise(self, m, first, second, count, exponent, flags):
        lowered = Signal(exponent.shape())
        m.d.comb += lowered.eq(exponent - count)
        significands = [shift_left(m, first, count), second]
        return significands, registered(m, "exponent_4", lowered), registered(m, "flags_4", flags)

    def _expect(self, m, chosen, exponent, flags):
        expectation = Signal(expectation_layout(self._formats))
        largest_shift = (1 << len(expectation.shift)) - 1
        beyond_normal = 2 - exponent
        limit = Signal(exponent.shape())
        m.d.comb += [
            limit.eq(select_format(self._formats, chosen, lambda f: Const(f.largest_exponent + 1))),
            expectation.sign.eq(flags[0]),
            expectation.special.eq(flags[1]),
            expectation.normal.eq(exponent >= 2),
            expectation.exponent.eq(Mux(exponent >= 2, exponent - 2, 0)),
            expectation.shift.eq(Mux(beyond_normal > largest_shift, largest_shift, beyond_normal)),
            expectation.beyond.eq((exponent > limit) & ~flags[1]),
            expectation.at_limit.eq((exponent == limit) & ~flags[1]),
        ]
        return registered(m, "expectation_5", expectation)


class FloatProduct(wiring.Component):
    """Normalises, rounds and encodes what the multiplier array returns; one product per cycle.

    ::

        cycle 1  (choose)
              2  normalise, or shift to the exponent of subnormal numbers
              3  round
             (4  encode)

    Parameters
    ----------
    formats : sequence of FloatFormat
    float_format_layout : Layout

    Members
    -------
    float_format : In
    expectation : In(expectation_layout(formats))
    product : In(128)
        The product of the two significands, left-aligned: bit 127 set means 2 or more.
    result : Out, as wide as the widest format
        ``LATENCY`` cycles later and through the encoding; to be registered by the user.
    """

    LATENCY = 3

    def __init__(self, formats, float_format_layout):
        self._formats = formats
        self._layout = float_format_layout
        super().__init__(
            {
                "float_format": In(float_format_layout),
                "expectation": In(expectation_layout(formats)),
                "product": In(128),
                "result": Out(max(float_format.width for float_format in formats)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The product comes from far and is chosen among the places that a number may have.
        expectation, product, float_format = (
            Signal.like(port, reset_less=True) for port in (self.expectation, self.product, self.float_format)
        )
        m.d.sync += [
            expectation.eq(self.expectation),
            product.eq(self.product),
            float_format.eq(self.float_format),
        ]
        precision = precision_of(self._formats)
        kept = product[-(precision + 3) :]
        # Below its 2 * precision bits, the product is zero.
        rest = product[-2 * precision : -(precision + 3)].any()
        two_or_more = product[-1]
        shift = expectation.shift
        subnormal = shift_right(m, kept, shift, steps=range(0, len(shift), 2))
        normal = Signal(len(kept))
        shifted, sticky = Signal(len(kept)), Signal()
        m.d.comb += [
            normal.eq(Mux(two_or_more, kept[1:], kept)),
            shifted.eq(Mux(expectation.normal, normal, subnormal)),
            sticky.eq(rest | Mux(expectation.normal, two_or_more & kept[0], any_below(kept, shift))),
        ]
        overflow = Signal()
        m.d.comb += overflow.eq(expectation.beyond | (expectation.at_limit & two_or_more))
        limit = select_format(self._formats, float_format, lambda f: Const(f.largest_exponent, f.exponent_bits))

        m.submodules.pack = pack = Pack(self._formats, self._layout, registered=True)
        rounds = ~(expectation.special | overflow)
        chosen = float_format.as_value()
        fraction = Cat(shifted[0] | sticky, shifted[1 : precision + 1])
        for port, value in (
            (pack.float_format, float_format),
            (pack.rounds, chosen & rounds.replicate(len(chosen))),
            (pack.almost_half, almost_half(self._formats, float_format) & rounds.replicate(precision + 1)),
            (pack.sign, expectation.sign),
            (pack.exponent, Mux(overflow, limit, expectation.exponent + (expectation.normal & two_or_more))),
            (
                pack.significand,
                Cat(fraction & (~overflow).replicate(precision + 1), shifted[precision + 1] | overflow),
            ),
        ):
            register = Signal.like(port, reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += port.eq(register)
        m.d.comb += self.result.eq(pack.word)
        return m
