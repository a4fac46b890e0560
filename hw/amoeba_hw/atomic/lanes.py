"""Everything the atomic unit does to a beat within one cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.compare import Compare
from amoeba_hw.atomic.control import COMPONENTS, ELEMENTS, FORMATS, Control, check_datatypes, restrict, starts
from amoeba_hw.atomic.measure import Measure
from amoeba_hw.atomic.segments import SegmentedAdder

__all__ = ["FastLanes"]


class FastLanes(wiring.Component):
    """Executes an operation on every element of a beat, for all cells that are not ``pipelined``.

    Combinational, meant to sit in a one-cycle read-modify-write loop with ``target`` arriving last::

        target --+-- segmented adder -------------------------+
                 +-- borrow chain -- replace -- spread --+     |
                 +-- measure --------^          |        |     |
                 +-- mask and merge ------------|--------mux---mux-- result
        operand, compare ----(all of the above)-+

    Parameters
    ----------
    data_width : int
        Bits of a beat: 128, 256 or 512. Element i occupies bytes i*size to (i+1)*size-1, little-endian.
    datatypes : iterable of Datatype
        What to build; a datatype wider than a beat is refused.
    ops : iterable of Op
        What to build; cells of other operations give meaningless results.

    Members
    -------
    control : In(Control)
        From DecodeOperation, registered.
    target, operand, compare : In(data_width)
    result : Out(data_width)
        The new value of the target. The fetched value is ``target`` itself.
    """

    def __init__(self, data_width, datatypes=tuple(Datatype), ops=tuple(Op)):
        self._datatypes = tuple(datatypes)
        self._ops = tuple(ops)
        check_datatypes(data_width, self._datatypes)
        super().__init__(
            {
                "control": In(Control),
                "target": In(data_width),
                "operand": In(data_width),
                "compare": In(data_width),
                "result": Out(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = restrict(m, self.control, self._datatypes, self._ops)
        width = len(self.target)
        lanes = width // 8
        operand = Signal(width)
        other = Signal(width)
        m.d.comb += [
            operand.eq(_without_padding(control, self.operand)),
            other.eq(Mux(control.use_compare, self.compare, self.operand)),
        ]

        m.submodules.adder = adder = SegmentedAdder(width, bytes_per_chain=16)
        m.d.comb += [
            adder.a.eq(self.target),
            adder.b.eq(self.operand ^ control.subtract.replicate(width)),
            adder.starts.eq(starts(control, lanes)),
            adder.carry_in.eq(control.subtract),
        ]
        m.submodules.measure_target = measure_target = Measure(width, self._datatypes, self._ops)
        m.submodules.measure_other = measure_other = Measure(width, self._datatypes, self._ops)
        m.submodules.relation = relation = Compare(width, self._datatypes, self._ops)
        m.d.comb += [
            measure_target.control.eq(self.control),
            measure_target.value.eq(self.target),
            measure_other.control.eq(self.control),
            measure_other.value.eq(other),
            relation.control.eq(self.control),
            relation.target.eq(self.target),
            relation.other.eq(other),
            relation.target_nan.eq(measure_target.nan),
            relation.other_nan.eq(measure_other.nan),
        ]
        # No operation decides by truth and by relation, so one flag per element serves both.
        both = measure_target.nonzero & measure_other.nonzero
        one = measure_target.nonzero ^ measure_other.nonzero
        decided = Signal(lanes)
        replace = Signal(lanes)
        instead = Signal(width)
        otherwise = Signal(width)
        stays = (other & control.masked.replicate(width)) ^ control.keep.replicate(width)
        merged = operand & control.merge.replicate(width) & (other | control.merge_all.replicate(width))
        m.d.comb += [
            decided.eq(
                (both & control.on_both.replicate(lanes)) | (one & control.on_one.replicate(lanes)) | relation.replace
            ),
            replace.eq(_spread(control, decided)),
            instead.eq(Mux(control.truth, _ones(control, width), operand)),
            otherwise.eq((self.target & stays) ^ merged),
        ]
        for byte in range(lanes):
            part = slice(8 * byte, 8 * byte + 8)
            m.d.comb += self.result[part].eq(
                Mux(control.add, adder.sums[part], Mux(replace[byte], instead[part], otherwise[part]))
            )
        return m


def _without_padding(control, beat):
    """The beat with the padding of 80-bit numbers cleared, as the NIC stores them."""
    keep = ~control.component.x87
    return Cat(
        beat[first : first + 128] & Cat(Const((1 << 80) - 1, 80), keep.replicate(48))
        for first in range(0, len(beat), 128)
    )


def _spread(control, flags):
    """To every byte the flag of the element it belongs to."""
    spread = []
    for byte in range(len(flags)):
        kinds = {}
        for name, span in ELEMENTS.items():
            if span.top(byte) < len(flags):
                kinds.setdefault(span.top(byte), []).append(control.element[name])
        spread.append(Cat(Cat(kind).any() & flags[top] for top, kind in kinds.items()).any())
    return Cat(spread)


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
