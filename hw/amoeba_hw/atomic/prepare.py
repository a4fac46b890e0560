"""Effect of an operation's operands on a beat, worked out before the target is known."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.control import COMPONENTS, FORMATS, Control, check_datatypes, restrict, spread, starts
from amoeba_hw.atomic.measure import measured_operand

__all__ = ["PrepareOperands", "magnitudes", "prepared_operands"]


def prepared_operands(data_width: int) -> data.StructLayout:
    """Everything that FastLanes has to know of the operands of one beat.

    Members
    -------
    starts, continues
        Bit n: a number begins at byte n; and its complement, since carry chains take one or the other, with no gate.
    stays, merged
        New value of the target's bits: ``(target & stays) ^ merged``, or, if the operation adds,
        ``target + merged`` with the control ``subtract`` as carry, or, if it multiplies, ``target * merged``.
    inverted
        Bit n: byte n takes ``merged`` where no flag is raised, instead of where one is.
    signs
        Bit n: the top bit of byte n is a sign that the comparison leaves out.
    other
        Complement of what the target's numbers are compared with, without signs.
    smallest
        Bit n: 16-byte group n is compared with an 80-bit number whose exponent is 1. It then counts as 0 on
        both sides: that makes equal a pseudo-denormal and the normal number of the same value.
    limit
        Complement of the largest magnitude that is not a NaN, of an 80-bit number the exponent less one; zero
        where NaNs need no answer of their own.
    check_encoding
        80-bit targets without an integer bit, but with an exponent, are NaNs.
    if_above, if_equal, if_below
        Bit 2*n + sign: raise the flag of the number that ends at byte n, if the target is so related to ``other``
        and has this sign. Zero where no number ends.
    """
    lanes = data_width // 8
    return data.StructLayout(
        {
            "starts": lanes,
            "continues": lanes,
            "stays": data_width,
            "merged": data_width,
            "inverted": lanes,
            "signs": lanes,
            "other": data_width,
            "smallest": data_width // 128,
            "limit": data_width,
            "check_encoding": 1,
            "if_above": 2 * lanes,
            "if_equal": 2 * lanes,
            "if_below": 2 * lanes,
        }
    )


def magnitudes(prepared: data.View, target: Value) -> Value:
    """Return the compared bits of the target: its numbers without ``signs``.

    Where ``smallest``, the exponent's lowest bit is left out, too.
    """
    lowest_exponent_bits = Cat(Cat(Const(0, 64), smallest, Const(0, 63)) for smallest in prepared.smallest)
    return target & ~_sign_bits(prepared) & ~lowest_exponent_bits


def _sign_bits(prepared):
    return Cat(Cat(Const(0, 7), sign) for sign in prepared.signs)


class PrepareOperands(wiring.Component):
    """Turns the operands of a beat into what FastLanes does to any target; combinational.

    It stands a register before FastLanes, so that only what depends on the target is left for the one-cycle
    read-modify-write. All operations come down to one question per number, "how does the target's magnitude
    relate to another?", with an answer per relation and sign:

    - an operation without a condition answers yes to everything;
    - a truth operation compares with zero, the truth of the operand being in the answers;
    - a comparison with a NaN has the same answer for every target. NaNs among the targets are looked for
      only if they differ from every number in the answer: if they answer no, and some number yes;
    - complex numbers are asked whether they differ, since the flags of both parts come together by "or"; an
      operation on equal ones is ``inverted``.

    Parameters
    ----------
    data_width : int
    datatypes : iterable of Datatype
    ops : iterable of Op

    Members
    -------
    control : In(Control)
    operand, compare : In(data_width)
    measured : In(measured_operand(data_width))
        From Measure, of the same operands.
    prepared : Out(prepared_operands(data_width))
    """

    def __init__(self, data_width, datatypes=tuple(Datatype), ops=tuple(Op)):
        self._datatypes = tuple(datatypes)
        self._ops = tuple(ops)
        check_datatypes(data_width, self._datatypes)
        super().__init__(
            {
                "control": In(Control),
                "operand": In(data_width),
                "compare": In(data_width),
                "measured": In(measured_operand(data_width)),
                "prepared": Out(prepared_operands(data_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = restrict(m, self.control, self._datatypes, self._ops)
        width = len(self.operand)
        other = Signal(width)
        m.d.comb += other.eq(Mux(control.use_compare, self.compare, self.operand))
        compares = Signal()
        m.d.comb += compares.eq(control.on_greater | control.on_less | control.on_equal | control.on_unordered)
        begins = starts(control, width // 8)
        m.d.comb += [self.prepared.starts.eq(begins), self.prepared.continues.eq(~begins)]
        self._answer(m, control, compares, other)
        self._compare_with(m, control, other)
        self._find_nans(m, control, compares)
        self._change(m, control, compares, other)
        return m

    def _answer(self, m, control, compares, other):
        """Per number and relation, whether to raise its flag."""
        prepared = self.prepared
        measured = self.measured
        true = Signal(len(measured.nonzero))
        m.d.comb += true.eq(spread(control, measured.nonzero))
        for byte in range(len(true)):
            ends = Cat(control.component[name] for name, span in COMPONENTS.items() if span.ends_at(byte)).any()
            if_nonzero = Mux(true[byte], control.on_both, control.on_one)
            if_zero = true[byte] & control.on_one
            differs = Mux(control.truth, if_nonzero, control.on_greater)
            equals = Mux(control.truth, if_zero, control.on_equal)
            m.d.comb += [
                prepared.inverted[byte].eq(control.complex & equals & ~differs),
                prepared.signs[byte].eq(control.floating & ends),
            ]
            sign = other[8 * byte + 7]
            for target_sign in range(2):
                relations = _relations(control, sign, measured.zero[byte], target_sign)
                for member, relation, truth in zip(
                    (prepared.if_above, prepared.if_equal, prepared.if_below),
                    relations,
                    (if_nonzero, if_zero, if_nonzero),
                    strict=True,
                ):
                    compared = Mux(measured.nan[byte], control.on_unordered, relation)
                    raised = Mux(control.truth, truth, Mux(compares, compared, 1))
                    m.d.comb += member[2 * byte + target_sign].eq(ends & (raised ^ prepared.inverted[byte]))

    def _compare_with(self, m, control, other):
        """Set the magnitudes that the target's are compared with: zero for truth operations."""
        prepared = self.prepared
        compared = Signal(len(other))
        m.d.comb += [
            compared.eq(other & ~_sign_bits(prepared) & ~control.truth.replicate(len(other))),
            prepared.other.eq(~compared),
        ]
        for group in range(len(prepared.smallest)):
            integer = compared[128 * group + 63]
            exponent = compared[128 * group + 64 : 128 * group + 79]
            # 1, or 0 with an integer bit.
            smallest = control.float_format.x87 & ~exponent[1:].any() & (exponent[0] | integer)
            m.d.comb += prepared.smallest[group].eq(smallest)
            with m.If(smallest):
                m.d.comb += prepared.other[128 * group + 64].eq(1)

    def _find_nans(self, m, control, compares):
        """NaNs of the target, unless they are answered like the numbers that are above and below."""
        prepared = self.prepared
        looks = Signal()
        m.d.comb += [
            looks.eq(control.floating & ~control.complex & compares & ~control.on_unordered),
            prepared.check_encoding.eq(looks & control.float_format.x87),
        ]
        for name, float_format in FORMATS.items():
            storage = 8 * float_format.storage_bytes
            complement = Const(~_largest(float_format) & ((1 << storage) - 1), storage)
            with m.If(looks & control.float_format[name]):
                m.d.comb += prepared.limit.eq(complement.replicate(len(prepared.limit) // storage))

    def _change(self, m, control, compares, other):
        """Set the change of the target where a flag is raised, or, inverted, where none is."""
        prepared = self.prepared
        width = len(other)
        operand = Signal(width)
        merged = Signal(width)
        conditional = compares | control.truth
        inverted = Cat(flag.replicate(8) for flag in prepared.inverted)
        stays = (other & control.masked.replicate(width)) ^ control.keep.replicate(width)
        m.d.comb += [
            operand.eq(_without_padding(control, self.operand)),
            merged.eq(operand & control.merge.replicate(width) & (other | control.merge_all.replicate(width))),
            prepared.stays.eq(Mux(conditional, inverted & control.keep.replicate(width), stays)),
        ]
        with m.If(control.truth):
            m.d.comb += prepared.merged.eq(_ones(control, width))
        with m.Elif(compares):
            m.d.comb += prepared.merged.eq(operand)
        with m.Elif(control.add | control.multiply):
            m.d.comb += prepared.merged.eq(self.operand ^ control.subtract.replicate(width))
        with m.Else():
            m.d.comb += prepared.merged.eq(merged)


def _relations(control, sign, zero, target_sign):
    """Return whether to raise the flag if the target's magnitude is above, equal to, or below the other's."""
    differ = (control.floating | control.signed) & (sign ^ target_sign)
    # Of integers, which are compared with their signs, only those of unequal sign come out in the wrong order.
    by_sign = Mux(sign, control.on_greater, control.on_less)
    reverse = control.floating & sign
    return (
        Mux(differ, by_sign, Mux(reverse, control.on_less, control.on_greater)),
        Mux(differ & ~zero, by_sign, control.on_equal),
        Mux(differ, by_sign, Mux(reverse, control.on_greater, control.on_less)),
    )


def _largest(float_format):
    """See ``prepared_operands``, ``limit``."""
    if not float_format.has_infinity:
        return float_format.encode(0, float_format.exponent_mask, float_format.nan_significand - 1)
    exponent = float_format.exponent_mask - float_format.explicit_integer
    return float_format.encode(0, exponent, float_format.infinity_significand)


def _without_padding(control, beat):
    """Clear the padding of 80-bit numbers in a beat, as the NIC stores them."""
    keep = ~control.component.x87
    return Cat(
        beat[first : first + 128] & Cat(Const((1 << 80) - 1, 80), keep.replicate(48))
        for first in range(0, len(beat), 128)
    )


def _ones(control, width):
    """1, 1.0 or 1+0i in every element."""
    bits = [[] for _ in range(width)]
    for name, span in COMPONENTS.items():
        for first in range(0, width, 8 * span.stride):
            if name != "x87":
                bits[first].append(control.component[name] & ~control.floating)
    for name, float_format in FORMATS.items():
        for first in range(0, width, 8 * float_format.storage_bytes):
            imaginary = control.complex if first // (8 * float_format.storage_bytes) % 2 else 0
            for position in range(float_format.width):
                if float_format.one >> position & 1:
                    bits[first + position].append(control.float_format[name] & ~imaginary)
    return Cat(Cat(kinds).any() if kinds else 0 for kinds in bits)
