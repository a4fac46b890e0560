"""A number between its encoding and the arithmetic: one shape for all the formats a unit serves."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Pack", "Unpack", "almost_half", "number_layout", "precision_of", "select_format"]


def precision_of(formats) -> int:
    """Significant bits of the most precise format."""
    return max(float_format.precision for float_format in formats)


def exponent_bits_of(formats) -> int:
    """Exponent bits of the widest format."""
    return max(float_format.exponent_bits for float_format in formats)


def number_layout(formats) -> data.StructLayout:
    """Return the layout of an encoding taken apart.

    ``exponent`` is biased as its own format has it, but 1 for subnormal numbers: so two numbers of one format
    are ordered as (exponent, significand) pairs. ``significand`` is left-aligned and includes the integer bit.
    """
    return data.StructLayout(
        {
            "sign": 1,
            "exponent": exponent_bits_of(formats),
            "significand": precision_of(formats),
            "infinite": 1,
            "nan": 1,
            "invalid": 1,
        }
    )


def select_format(formats, chosen, value) -> Value:
    """``value(format)`` of the chosen format, zero if none is; ``chosen`` is the one-hot ``float_format``."""
    result = Const(0)
    for float_format in formats:
        candidate = Value.cast(value(float_format))
        result = result | Mux(chosen[float_format.name], candidate, Const(0, len(candidate)))
    return result


class Unpack(wiring.Component):
    """Takes an encoding apart; combinational.

    Parameters
    ----------
    formats : sequence of FloatFormat
        Formats that may arrive, each in the lowest bits of ``word``.

    Members
    -------
    float_format : In, one-hot member of Control
    word : In, as wide as the widest format
    number : Out(number_layout(formats))
    """

    def __init__(self, formats, float_format_layout):
        self._formats = formats
        super().__init__(
            {
                "float_format": In(float_format_layout),
                "word": In(max(float_format.width for float_format in formats)),
                "number": Out(number_layout(formats)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        number = self.number
        precision = precision_of(self._formats)
        fraction_bits = precision - 1

        def pick(value):
            return select_format(self._formats, self.float_format, value)

        exponent = Signal(len(number.exponent))
        fraction = Signal(fraction_bits)
        nonzero = Signal()
        m.d.comb += [
            exponent.eq(pick(lambda f: self.word[f.significand_bits : f.width - 1])),
            fraction.eq(pick(lambda f: self.word[: f.fraction_bits] << (fraction_bits - f.fraction_bits))),
            nonzero.eq(self._exponent_bits().any()),
        ]
        integer = nonzero
        invalid = Const(0)
        for f in self._formats:
            if f.explicit_integer:
                stored = self.word[f.fraction_bits]
                integer = Mux(self.float_format[f.name], stored, nonzero)
                invalid = self.float_format[f.name] & nonzero & ~stored
        largest = pick(lambda f: self.word[f.significand_bits : f.width - 1].all())
        nan, infinite = self._classify_fraction()
        m.d.comb += [
            number.sign.eq(pick(lambda f: self.word[f.width - 1])),
            number.exponent.eq(exponent | ~nonzero),
            number.significand.eq(Cat(fraction, integer)),
            number.infinite.eq(largest & infinite & ~invalid),
            number.nan.eq(largest & nan & ~invalid),
            number.invalid.eq(invalid),
        ]
        return m

    def _exponent_bits(self):
        """All bits of the exponent, in no order: masked by the format, which is known sooner than the word."""
        return Cat(
            self.word[position]
            & Cat(
                self.float_format[f.name] for f in self._formats if f.significand_bits <= position < f.width - 1
            ).any()
            for position in range(len(self.word))
        )

    def _classify_fraction(self):
        """Whether the fraction is one of a NaN, and that of infinity, where the exponent is the largest."""

        def chosen(formats):
            return Cat(self.float_format[f.name] for f in formats).any()

        with_infinity = [f for f in self._formats if f.has_infinity]
        # Masked by the format, which is known early, instead of chosen among the fractions of all formats.
        some = Cat(
            self.word[position] & chosen(f for f in with_infinity if position < f.fraction_bits)
            for position in range(max((f.fraction_bits for f in with_infinity), default=0))
        ).any()
        full = Cat(
            self.float_format[f.name] & self.word[: f.fraction_bits].all()
            for f in self._formats
            if not f.has_infinity
        ).any()
        return some | full, chosen(with_infinity) & ~some


def almost_half(formats, chosen) -> Value:
    """One half of the last place of the chosen format less the least that a significand for Pack holds."""
    bits = precision_of(formats) + 1
    return select_format(formats, chosen, lambda f: Const((1 << bits - f.precision) - 1, bits))


class Pack(wiring.Component):
    """Rounds to nearest even and encodes; combinational unless ``registered``, one carry chain.

    The chain adds all but one half of the last place below the last place, and the last place itself: its
    carry is the rounding of IEEE 754 without looking at the bits dropped. Exponent and fraction are
    neighbours in the chain, so a significand that rounds up to the next power of two, or a subnormal one
    that becomes normal, finds its exponent by itself; and one that overflows becomes infinity.

    Parameters
    ----------
    formats : sequence of FloatFormat
    registered : bool
        Whether there is a register between rounding and encoding.

    Members
    -------
    float_format : In, one-hot member of Control
    rounds : In
        The same, or zero to hand on the significand of a NaN or infinity as it is.
    almost_half : In(precision + 1)
        Of what ``rounds``, by the function of this name: it costs the chain less if it comes from a register.
    sign : In(1)
    exponent : In
        The biased exponent minus one; the integer bit is added to it. The caller has replaced what overflows
        before rounding by infinity, or, in a format without one, by an exponent beyond the largest.
    significand : In(precision + 2)
        Left-aligned, with the integer bit; a guard and a sticky bit at the end.
    word : Out, as wide as the widest format
    """

    def __init__(self, formats, float_format_layout, *, registered=False):
        self._formats = formats
        self._layout = float_format_layout
        self._registered = registered
        super().__init__(
            {
                "float_format": In(float_format_layout),
                "rounds": In(float_format_layout),
                "almost_half": In(precision_of(formats) + 1),
                "sign": In(1),
                "exponent": In(exponent_bits_of(formats)),
                "significand": In(precision_of(formats) + 2),
                "word": Out(max(float_format.width for float_format in formats)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        precision = precision_of(self._formats)
        fraction = self.significand[:-1]
        integer = self.significand[-1]

        def last_place(f):
            return 2 + precision - f.precision

        odd = select_format(self._formats, self.rounds, lambda f: self.significand[last_place(f)])
        total = Signal(precision + 2 + len(self.exponent), reset_less=True)
        float_format = Signal(self._layout, reset_less=True)
        sign, low = Signal(reset_less=True), Signal(2, reset_less=True)
        domain = m.d.sync if self._registered else m.d.comb
        domain += [
            total.eq(Cat(fraction, self.exponent) + Cat(self.almost_half, integer) + odd),
            float_format.eq(self.float_format),
            sign.eq(self.sign),
            low.eq(Cat(integer, self.exponent[0])),
        ]
        fraction_sum = total[2 : precision + 1]
        exponent_sum = total[precision + 1 :]
        integer = low[0]
        # A carry out of the fraction into the integer bit, seen in the exponent's last place.
        carry = exponent_sum[0] ^ low.xor()

        def encode(f):
            stored = fraction_sum[precision - f.precision :]
            exponent = exponent_sum[: f.exponent_bits]
            if f.explicit_integer:
                stored = Cat(stored, integer | carry)
            if not f.has_infinity:
                overflow = exponent_sum[f.exponent_bits]
                stored = stored | overflow.replicate(len(stored))
                exponent = exponent | overflow.replicate(len(exponent))
            return Cat(stored, exponent, sign)

        m.d.comb += self.word.eq(select_format(self._formats, float_format, encode))
        return m
