"""From partial products of complex numbers to what is added up."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.formats import FloatFormat, float_format, is_complex

from amoeba_hw.atomic.control import component_of
from amoeba_hw.atomic.recovery import OUTCOME
from amoeba_hw.atomic.slots import SLOT_BITS

__all__ = [
    "COMPLEX_PARTS",
    "Pair",
    "PartialProducts",
    "classify",
    "exchange_neighbours",
    "infinity_of",
    "is_lost",
    "pairs_of",
]

COMPLEX_PARTS = {"b4": 4, "b8": 8, "x87": 16}
"""Bytes from one part of a complex number to the other, by its kind of component."""


@dataclass(frozen=True)
class Pair:
    """A complex number of one kind: its component, its format, and the slots of its two parts."""

    component: str
    float_format: FloatFormat
    real: int
    imaginary: int


def pairs_of(data_width, datatypes) -> list[Pair]:
    """Every place of a beat in which one of the complex datatypes may lie."""
    pairs = []
    for datatype in datatypes:
        if is_complex(datatype):
            slots = datatype.size * 8 // SLOT_BITS
            pairs += [
                Pair(component_of(datatype), float_format(datatype), first, first + slots // 2)
                for first in range(0, data_width // SLOT_BITS, slots)
            ]
    return pairs


def exchange_neighbours(beat, size):
    """Exchange neighbours of ``size`` bytes in a beat."""
    bits = 8 * size
    return Cat(beat.word_select(index ^ 1, bits) for index in range(len(beat) // bits))


class PartialProducts(wiring.Component):
    """Lines up ac - bd and ad + bc for the adders, or what Annex G puts in their place.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype

    Members
    -------
    products : In(data_width)
        (ac, bd) in one cycle, (ad, bc) in the next.
    component : In, one-hot
        Kind of component, in the second cycle after that.
    outcomes : In, array of OUTCOME
        One for each of ``pairs_of``, in the same cycle.
    a, b : Out(data_width)
        In the same cycle: (ac, ad) and (bd, bc), or (infinity, infinity) and zeros; all zeros without a component.
    """

    def __init__(self, data_width, datatypes):
        self._pairs = pairs_of(data_width, datatypes)
        super().__init__(
            {
                "products": In(data_width),
                "component": In(data.StructLayout(dict.fromkeys(COMPLEX_PARTS, 1))),
                "outcomes": In(data.ArrayLayout(OUTCOME, len(self._pairs))),
                "a": Out(data_width),
                "b": Out(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        second = Signal.like(self.products, reset_less=True)
        first = Signal.like(self.products, reset_less=True)
        m.d.sync += [second.eq(self.products), first.eq(second)]
        a, b = Const(0, len(self.products)), Const(0, len(self.products))
        for index, pair in enumerate(self._pairs):
            width = pair.float_format.width
            parts = [slice(SLOT_BITS * slot, SLOT_BITS * slot + width) for slot in (pair.real, pair.imaginary)]
            flags = [self._classify(m, pair, index, part) for part in parts]
            (ac, ad), (bd, bc) = flags
            recovered = self.component[pair.component] & is_lost(ac, bd, ad, bc, self.outcomes[index])
            infinity = [infinity_of(pair.float_format, self.outcomes[index], part) for part in range(2)]
            sums = ((first[parts[0]], first[parts[1]]), (second[parts[0]], second[parts[1]]))
            active = self.component[pair.component].replicate(width)
            for part, addends, instead in zip(parts, sums, infinity, strict=True):
                chosen = Mux(recovered, instead, addends[0]) & active
                a |= Cat(Const(0, part.start), chosen)
                b |= Cat(Const(0, part.start), addends[1] & active & (~recovered).replicate(width))
        m.d.comb += [self.a.eq(a), self.b.eq(b)]
        return m

    def _classify(self, m, pair, index, part):
        """Classify a partial product of the first cycle, and of the second."""
        second = Signal(3, name=f"second_{index}_{part.start}", reset_less=True)
        first = Signal(3, name=f"first_{index}_{part.start}", reset_less=True)
        m.d.sync += [second.eq(classify(pair.float_format, self.products[part])), first.eq(second)]
        return first, second


def classify(f: FloatFormat, word) -> Value:
    """NaN, infinite, sign of a product, from bit 0 on: all that ``is_lost`` asks."""
    largest = word[f.significand_bits : -1].all()
    fraction = word[: f.fraction_bits].any()
    return Cat(largest & fraction, largest & ~fraction, word[-1])


def is_lost(ac, bd, ad, bc, outcome) -> Value:
    """Whether both sums of products of these classes are NaN, and Annex G knows better."""
    nan = [
        left[0] | right[0] | (left[1] & right[1] & (left[2] ^ right[2] ^ subtracted))
        for left, right, subtracted in ((ac, bd, 1), (ad, bc, 0))
    ]
    infinite = Cat(product[1] for product in (ac, ad, bd, bc)).any()
    return nan[0] & nan[1] & (outcome.certain | infinite)


def infinity_of(f: FloatFormat, outcome, part) -> Value:
    """Return the infinity, or NaN, of a recovered product in its real part, 0, or its imaginary one, 1."""
    infinity = Const(f.encode(0, f.exponent_mask, f.infinity_significand), f.width - 1)
    default = Const(f.default_nan, f.width - 1)
    return Cat(Mux(outcome.nan[part], default, infinity), outcome.sign[part])
