"""How the numbers of two beats relate, turned straight into "replace" flags."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.control import ELEMENTS, Control, restrict, starts
from amoeba_hw.atomic.measure import any_per_component, magnitudes, select_component
from amoeba_hw.atomic.segments import SegmentedAdder

__all__ = ["Compare"]

_BYTES_PER_CHAIN = 8
"""Borrow chains twice as long would be slower than putting 16-byte numbers together from two."""


class Compare(wiring.Component):
    """Decides for every element whether the operand replaces the target; combinational.

    Two borrow chains tell greater, less, or neither, on all bits as if unsigned. What depends on sign, zero and
    NaN is worked out next to them, once for each of the three answers, so that one multiplexer follows the
    chains.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype
    ops : iterable of Op

    Members
    -------
    control : In(Control)
    target, other : In(data_width)
        The relation is "target is ... than other".
    target_nan, other_nan : In(data_width // 8)
        From Measure.
    replace : Out(data_width // 8)
        Bit n: the condition holds for the element whose top byte is n.
    """

    def __init__(self, data_width, datatypes, ops):
        self._datatypes = datatypes
        self._ops = ops
        lanes = data_width // 8
        super().__init__(
            {
                "control": In(Control),
                "target": In(data_width),
                "other": In(data_width),
                "target_nan": In(lanes),
                "other_nan": In(lanes),
                "replace": Out(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = restrict(m, self.control, self._datatypes, self._ops)
        lanes = len(self.replace)
        target = Signal(8 * lanes)
        other = Signal(8 * lanes)
        m.d.comb += [
            target.eq(_canonical(control, self.target)),
            other.eq(_canonical(control, self.other)),
        ]
        above, below = self._relate(m, control, target, other)
        zero, unordered, equal = (Signal(lanes, name=name) for name in ("zero", "unordered", "equal"))
        nonzero = any_per_component(m, magnitudes(m, control, self.target | self.other))
        for byte in range(lanes):
            m.d.comb += [
                zero[byte].eq(control.floating & ~select_component(control, nonzero, byte)),
                unordered[byte].eq(control.floating & (self.target_nan[byte] | self.other_nan[byte])),
                equal[byte].eq(~unordered[byte] & (zero[byte] | ~(above[byte] | below[byte]))),
            ]
        for byte in range(lanes):
            if_above, if_below, if_equal = self._answers(m, control, zero[byte], unordered[byte], byte)
            ordered = Mux(above[byte], if_above, Mux(below[byte], if_below, if_equal))
            m.d.comb += self.replace[byte].eq(self._of_pairs(control, equal, byte, ordered))
        return m

    def _relate(self, m, control, target, other):
        """One flag per number, at its top byte, each: above and below, as unsigned numbers."""
        lanes = len(self.replace)
        carries, relations = [], []
        for name, left, right in (("above", target, other), ("below", other, target)):
            m.submodules[name] = chain = SegmentedAdder(8 * lanes, _BYTES_PER_CHAIN)
            m.d.comb += [
                chain.a.eq(left),
                chain.b.eq(~right),
                chain.starts.eq(starts(control, lanes)),
                chain.carry_in.eq(0),
            ]
            carries.append(chain.carries)
        for own, opposite in (carries, reversed(carries)):
            relation = Signal(lanes)
            m.d.comb += relation.eq(own)
            for byte in range(lanes):
                if byte % 16 in (9, 15):
                    wide = control.component.b16 if byte % 16 == 15 else control.component.x87
                    lower = own[byte - byte % 16 + 7]
                    m.d.comb += relation[byte].eq(own[byte] | (wide & ~opposite[byte] & lower))
            relations.append(relation)
        return relations

    def _answers(self, m, control, zero, unordered, byte):
        """Whether to replace if the target is above, below, or neither, as an unsigned number."""
        target_sign, other_sign = self.target[8 * byte + 7], self.other[8 * byte + 7]
        # Taken as unsigned, numbers of different sign come out in the wrong order, and so do two negative
        # floating-point numbers, being sign and magnitude.
        reverse, known, answer = (Signal(name=f"{name}_{byte}") for name in ("reverse", "known", "answer"))
        m.d.comb += [
            reverse.eq(Mux(control.floating, target_sign | other_sign, control.signed & (target_sign ^ other_sign))),
            known.eq(unordered | zero),
            answer.eq(Mux(unordered, control.on_unordered, control.on_equal)),
        ]
        return (
            Mux(known, answer, Mux(reverse, control.on_less, control.on_greater)),
            Mux(known, answer, Mux(reverse, control.on_greater, control.on_less)),
            answer,
        )

    def _of_pairs(self, control, equal, byte, ordered):
        """The answer for a complex number that ends at ``byte``, if one may: it has no order, but equality."""
        for name, distance in (("b4", 4), ("b8", 8), ("x87", 16)):
            if ELEMENTS["x87_pair" if name == "x87" else f"b{2 * distance}"].ends_at(byte):
                pair = Mux(equal[byte] & equal[byte - distance], control.on_equal, control.on_greater)
                ordered = Mux(control.complex & control.component[name], pair, ordered)
        return ordered


def _canonical(control, beat):
    """The beat with its 80-bit pseudo-denormals written as the normal numbers of the same value."""
    bits = []
    for first in range(0, len(beat), 128):
        number = beat[first : first + 128]
        pseudo_denormal = control.float_format.x87 & number[63] & ~number[64:79].any()
        bits.append(Cat(number[:64], number[64] | pseudo_denormal, number[65:]))
    return Cat(bits)
