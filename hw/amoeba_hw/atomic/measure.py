"""Classes of a beat's numbers: zero, not a number, or neither."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.control import COMPONENTS, ELEMENTS, FORMATS, Control, restrict

__all__ = ["Measure", "any_per_component", "magnitudes", "measured_operand", "select_component"]


def any_per_component(m, bits):
    """From one flag per byte, "any byte of the number" per kind of component.

    Returns a dictionary: kind of component to {position of the number's top byte: flag}.
    """
    result = {"b1": dict(enumerate(bits))}
    for name in ("b2", "b4", "b8", "b16", "x87"):
        span = COMPONENTS[name]
        result[name] = {}
        for first in range(0, len(bits), span.stride):
            if name == "x87":
                halves = result["b8"][first + 7], result["b2"][first + 9]
            else:
                half = result[f"b{span.stride // 2}"]
                halves = half[first + span.stride // 2 - 1], half[first + span.last]
            flag = Signal(name=f"any_{name}_{first}")
            m.d.comb += flag.eq(halves[0] | halves[1])
            result[name][first + span.last] = flag
    return result


def select_component(control, flags, byte):
    """Select the flag of the number that ends at ``byte``, out of the flags from ``any_per_component``."""
    return Cat(
        control.component[name] & flags[name][byte] for name, span in COMPONENTS.items() if span.ends_at(byte)
    ).any()


def magnitudes(m, control, beat):
    """One flag per byte: a bit other than a floating-point number's sign is set."""
    flags = Signal(len(beat) // 8, name="magnitudes")
    for byte in range(len(flags)):
        signs = Cat(control.component[name] for name, span in COMPONENTS.items() if span.ends_at(byte))
        bits = beat.word_select(byte, 8)
        m.d.comb += flags[byte].eq(bits[:7].any() | (bits[7] & ~(control.floating & signs.any())))
    return flags


def measured_operand(data_width: int) -> data.StructLayout:
    """Return the layout of what is known of the compared numbers, or of those whose truth counts.

    Members
    -------
    nonzero
        Bit n: the element that ends at byte n is not zero; -0 is zero, NaN is not. Zero where none ends.
    zero
        Bit n: the number that ends at byte n is zero. Bits elsewhere are meaningless.
    nan
        Bit n: the number that ends at byte n compares with nothing, being a NaN or no valid encoding.
    """
    lanes = data_width // 8
    return data.StructLayout({"nonzero": lanes, "zero": lanes, "nan": lanes})


class Measure(wiring.Component):
    """Finds the zeros and the NaNs of a beat's (compare) operand; combinational.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype
    ops : iterable of Op

    Members
    -------
    control : In(Control)
    value : In(data_width)
        The operand, or the compare operand if ``control.use_compare``.
    measured : Out(measured_operand(data_width))
    """

    def __init__(self, data_width, datatypes, ops):
        self._datatypes = datatypes
        self._ops = ops
        super().__init__(
            {
                "control": In(Control),
                "value": In(data_width),
                "measured": Out(measured_operand(data_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = restrict(m, self.control, self._datatypes, self._ops)
        lanes = len(self.measured.nonzero)
        for byte in range(lanes):
            nans = []
            for float_format in FORMATS.values():
                span = COMPONENTS["x87" if float_format.explicit_integer else f"b{float_format.storage_bytes}"]
                if span.ends_at(byte):
                    number = self.value[8 * (byte + 1) - float_format.width : 8 * (byte + 1)]
                    nans.append(control.float_format[float_format.name] & _is_nan(float_format, number))
            m.d.comb += self.measured.nan[byte].eq(Cat(nans).any())
        flags = any_per_component(m, magnitudes(m, control, self.value))
        pairs = flags["x87"]
        flags["x87_pair"] = {byte: pairs[byte] | pairs[byte - 16] for byte in range(25, lanes, 32)}
        for byte in range(lanes):
            of_element = Cat(
                control.element[name] & flags[name][byte] for name, span in ELEMENTS.items() if span.ends_at(byte)
            )
            m.d.comb += [
                self.measured.nonzero[byte].eq(of_element.any()),
                self.measured.zero[byte].eq(~select_component(control, flags, byte)),
            ]
        return m


def _is_nan(float_format, number):
    """Whether one encoding is a NaN or, having an explicit integer bit, no number at all."""
    fraction = number[: float_format.fraction_bits]
    exponent = number[float_format.significand_bits : -1]
    if not float_format.has_infinity:
        return exponent.all() & fraction.all()
    if float_format.explicit_integer:
        integer = number[float_format.fraction_bits]
        return Mux(integer, exponent.all() & fraction.any(), exponent.any())
    return exponent.all() & fraction.any()
