"""FastLanes and everything before them in one cycle: what benches, proofs and mutation runs look at."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Op

from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_hw.atomic.measure import Measure
from amoeba_hw.atomic.prepare import PrepareOperands, magnitudes

__all__ = ["DecodedLanes"]


class DecodedLanes(wiring.Component):
    """FastLanes under the operation and datatype themselves, without the registers that the NIC has between.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    datatypes : sequence of Datatype
        Datatypes whose elements fit into a beat.
    single_cycle_products : bool
        Whether products of integers are the lanes' or the pipeline's.

    Members
    -------
    op, datatype, cswap_by_bits : in
        As for DecodeOperation.
    target, operand, compare : in
        Beats of whole elements.
    result : out
        In the same cycle; 0 where it means nothing: unless ``supported`` and not ``pipelined``.
    supported, pipelined : out
        As DecodeOperation says.
    """

    def __init__(self, data_width, datatypes, single_cycle_products=True):
        self._decode = DecodeOperation(datatypes, single_cycle_products=single_cycle_products)
        self._measure = Measure(data_width, datatypes, tuple(Op))
        self._prepare = PrepareOperands(data_width, datatypes)
        self._lanes = FastLanes(data_width, datatypes, single_cycle_products=single_cycle_products)
        super().__init__(
            {
                "op": In(5),
                "datatype": In(5),
                "cswap_by_bits": In(1),
                "target": In(data_width),
                "operand": In(data_width),
                "compare": In(data_width),
                "result": Out(data_width),
                "supported": Out(1),
                "pipelined": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = self._decode
        m.submodules.measure = measure = self._measure
        m.submodules.prepare = prepare = self._prepare
        m.submodules.lanes = lanes = self._lanes
        control = decode.control
        meaningful = control.supported & ~control.pipelined
        m.d.comb += [
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            decode.cswap_by_bits.eq(self.cswap_by_bits),
            measure.control.eq(control),
            measure.value.eq(Mux(control.use_compare, self.compare, self.operand)),
            prepare.control.eq(control),
            prepare.measured.eq(measure.measured),
            prepare.operand.eq(self.operand),
            prepare.compare.eq(self.compare),
            lanes.control.eq(control),
            lanes.prepared.eq(prepare.prepared),
            lanes.target.eq(self.target),
            lanes.magnitudes.eq(magnitudes(prepare.prepared, self.target)),
            self.result.eq(lanes.result & meaningful.replicate(len(self.result))),
            self.supported.eq(control.supported),
            self.pipelined.eq(control.pipelined),
        ]
        return m
