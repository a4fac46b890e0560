"""How the numbers of two beats relate, turned straight into "replace" flags."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.atomic.control import ELEMENTS, Control, restrict, starts
from amoeba_hw.atomic.measure import any_per_component, select_component
from amoeba_hw.atomic.segments import SegmentedAdder

__all__ = ["Compare"]


class Compare(wiring.Component):
    """Decides for every element whether the operand replaces the target; combinational.

    One borrow chain tells greater from not greater, on all bits as if unsigned. What depends on sign, kind of
    number, equality and NaN is worked out next to it, once for either answer, so that a single multiplexer
    follows the chain. Only complex numbers need no chain: they have no order.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype
    ops : iterable of Op
    bytes_per_chain : int
        Length of the borrow chains, 8 or 16; wider numbers are put together from several.

    Members
    -------
    control : In(Control)
    target, other : In(data_width)
        The relation is "target is ... than other".
    target_nonzero, target_nan, other_nonzero, other_nan : In(data_width // 8)
        From Measure.
    replace : Out(data_width // 8)
        Bit n: the condition holds for the element whose top byte is n.
    """

    def __init__(self, data_width, datatypes, ops, bytes_per_chain=8):
        self._datatypes = datatypes
        self._ops = ops
        self._bytes_per_chain = bytes_per_chain
        lanes = data_width // 8
        super().__init__(
            {
                "control": In(Control),
                "target": In(data_width),
                "other": In(data_width),
                "target_nonzero": In(lanes),
                "target_nan": In(lanes),
                "other_nonzero": In(lanes),
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
        m.submodules.chain = chain = SegmentedAdder(8 * lanes, self._bytes_per_chain)
        m.d.comb += [
            chain.a.eq(target),
            chain.b.eq(~other),
            chain.starts.eq(starts(control, lanes)),
            chain.carry_in.eq(0),
        ]
        bytes_differ = Signal(lanes)
        same = Signal(lanes)
        unordered = Signal(lanes)
        equal = Signal(lanes)
        m.d.comb += [
            bytes_differ.eq(Cat(target.word_select(byte, 8) != other.word_select(byte, 8) for byte in range(lanes))),
            equal.eq(same & ~unordered),
        ]
        differ = any_per_component(m, bytes_differ)
        for byte in range(lanes):
            both_zero = ~self.target_nonzero[byte] & ~self.other_nonzero[byte]
            m.d.comb += [
                unordered[byte].eq(control.floating & (self.target_nan[byte] | self.other_nan[byte])),
                same[byte].eq(~select_component(control, differ, byte) | (control.floating & both_zero)),
            ]
        for byte in range(lanes):
            fixed, fixed_answer = Signal(name=f"fixed_{byte}"), Signal(name=f"fixed_answer_{byte}")
            m.d.comb += Cat(fixed, fixed_answer).eq(Cat(self._without_order(control, equal, unordered, byte)))
            target_sign, other_sign = self.target[8 * byte + 7], self.other[8 * byte + 7]
            # Taken as unsigned, numbers of different sign come out in the wrong order, and so do two negative
            # floating-point numbers, being sign and magnitude.
            reverse = Signal(name=f"reverse_{byte}")
            m.d.comb += reverse.eq(
                Mux(control.floating, target_sign | other_sign, control.signed & (target_sign ^ other_sign))
            )
            if_above = Mux(fixed, fixed_answer, Mux(reverse, control.on_less, control.on_greater))
            if_not = Mux(fixed, fixed_answer, Mux(reverse, control.on_greater, control.on_less))
            above = self._above(control, chain.carries, differ, byte)
            m.d.comb += self.replace[byte].eq(Mux(above, if_above, if_not))
        return m

    def _above(self, control, carries, differ, byte):
        """Whether the target's number that ends at ``byte`` is greater, as an unsigned one."""
        upper = {15: "b8", 9: "b2"}
        if self._bytes_per_chain >= 16 or byte % 16 not in upper:
            return carries[byte]
        wide = control.component["b16" if byte % 16 == 15 else "x87"]
        return Mux(wide & ~differ[upper[byte % 16]][byte], carries[byte - byte % 16 + 7], carries[byte])

    def _without_order(self, control, equal, unordered, byte):
        """Whether the relation is known without the borrow chain, and then the answer."""
        fixed = unordered[byte] | equal[byte] | control.complex
        answer = Mux(unordered[byte], control.on_unordered, control.on_equal)
        for name, distance in (("b4", 4), ("b8", 8), ("x87", 16)):
            if ELEMENTS["x87_pair" if name == "x87" else f"b{2 * distance}"].ends_at(byte):
                pair = equal[byte] & equal[byte - distance]
                answer = Mux(
                    control.complex & control.component[name], Mux(pair, control.on_equal, control.on_greater), answer
                )
        return fixed, answer


def _canonical(control, beat):
    """The beat with its 80-bit pseudo-denormals written as the normal numbers of the same value."""
    bits = []
    for first in range(0, len(beat), 128):
        number = beat[first : first + 128]
        pseudo_denormal = control.float_format.x87 & number[63] & ~number[64:79].any()
        bits.append(Cat(number[:64], number[64] | pseudo_denormal, number[65:]))
    return Cat(bits)
