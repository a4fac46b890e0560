"""The integer operations of FastLanes against each element on its own, in Amaranth's plain arithmetic."""

from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.atomic.decoded_lanes import DecodedLanes
from amoeba_model.atomic.formats import is_signed
from amoeba_model.opcodes import Datatype, Op

__all__ = ["IntegerLanesSpec", "proven_ops"]


def _truth(condition):
    return Mux(condition, 1, 0)


NAIVE = {
    Op.FI_MIN: lambda target, operand, compare: Mux(operand < target, operand, target),
    Op.FI_MAX: lambda target, operand, compare: Mux(operand > target, operand, target),
    Op.FI_SUM: lambda target, operand, compare: target + operand,
    Op.FI_DIFF: lambda target, operand, compare: target - operand,
    Op.FI_PROD: lambda target, operand, compare: target * operand,
    Op.FI_LOR: lambda target, operand, compare: _truth((target != 0) | (operand != 0)),
    Op.FI_LAND: lambda target, operand, compare: _truth((target != 0) & (operand != 0)),
    Op.FI_LXOR: lambda target, operand, compare: _truth((target != 0) ^ (operand != 0)),
    Op.FI_BOR: lambda target, operand, compare: target | operand,
    Op.FI_BAND: lambda target, operand, compare: target & operand,
    Op.FI_BXOR: lambda target, operand, compare: target ^ operand,
    Op.FI_ATOMIC_READ: lambda target, operand, compare: target,
    Op.FI_ATOMIC_WRITE: lambda target, operand, compare: operand,
    Op.FI_CSWAP: lambda target, operand, compare: Mux(compare == target, operand, target),
    Op.FI_CSWAP_NE: lambda target, operand, compare: Mux(compare != target, operand, target),
    Op.FI_CSWAP_LE: lambda target, operand, compare: Mux(compare <= target, operand, target),
    Op.FI_CSWAP_LT: lambda target, operand, compare: Mux(compare < target, operand, target),
    Op.FI_CSWAP_GE: lambda target, operand, compare: Mux(compare >= target, operand, target),
    Op.FI_CSWAP_GT: lambda target, operand, compare: Mux(compare > target, operand, target),
    Op.FI_MSWAP: lambda target, operand, compare: (operand & compare) | (target & ~compare),
}
"""One element, as fi_atomic(3) defines the operation."""


def proven_ops(datatype: Datatype) -> tuple[Op, ...]:
    """The operations that the proof of a datatype is about: no products of more than 8 bits, which no solver ends."""
    return tuple(op for op in NAIVE if op is not Op.FI_PROD or datatype.size == 1)


class IntegerLanesSpec(wiring.Component):
    """Every one of ``proven_ops`` on an integer datatype gives in every element what it gives in that element alone.

    Combinational: one cycle proves it for all time. The lanes are those of a NIC with every datatype that fits
    the beat, so that what floating point adds to them is proven harmless here.
    """

    def __init__(self, datatype: Datatype, data_width=128):
        self._datatype = datatype
        self._data_width = data_width
        super().__init__(
            {
                "op": In(5),
                "cswap_by_bits": In(1),
                "target": In(data_width),
                "operand": In(data_width),
                "compare": In(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        datatypes = [datatype for datatype in Datatype if 8 * datatype.size <= self._data_width]
        m.submodules.lanes = lanes = DecodedLanes(self._data_width, datatypes)
        m.d.comb += [
            lanes.op.eq(self.op),
            lanes.datatype.eq(Const(self._datatype, 5)),
            lanes.cswap_by_bits.eq(self.cswap_by_bits),
            lanes.target.eq(self.target),
            lanes.operand.eq(self.operand),
            lanes.compare.eq(self.compare),
            Assume(self.op.matches(*proven_ops(self._datatype))),
            Assert(lanes.supported & ~lanes.pipelined),
        ]
        bits = 8 * self._datatype.size
        expected = Signal(self._data_width)
        with m.Switch(self.op):
            for op in proven_ops(self._datatype):
                with m.Case(op):
                    m.d.comb += expected.eq(
                        Cat(self._element(m, NAIVE[op], index) for index in range(len(expected) // bits))
                    )
        m.d.comb += Assert(lanes.result == expected)
        return m

    def _element(self, m, naive, index):
        bits = 8 * self._datatype.size
        parts = [beat.word_select(index, bits) for beat in (self.target, self.operand, self.compare)]
        if is_signed(self._datatype):
            parts = [part.as_signed() for part in parts]
        element = Signal(bits, name=f"element_{index}")
        m.d.comb += element.eq(naive(*parts))
        return element
