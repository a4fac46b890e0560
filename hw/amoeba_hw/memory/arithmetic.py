"""The atomic unit as the executor sees it: one cycle for most operations, a fixed latency for the others."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

from amoeba_hw.atomic.control import Control
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.lanes import FastLanes

__all__ = ["Arithmetic"]


class Arithmetic(wiring.Component):
    """Decodes an operation in one cycle and executes it in the next.

    Parameters
    ----------
    parameters : NicParameters
        FI_ATOMIC_WRITE of FI_UINT8 is there in every build: writes pass as that.

    Members
    -------
    op, datatype, cswap_by_bits : in
        Of the operation whose operands come in the next cycle.
    target, operand, compare : in
    result : out
        Combinational, of an operation that is not pipelined.
    start : in
        The operation is pipelined.
    late_result : out
        Of the pipelined operation that was started ``latency`` cycles ago.

    Attributes
    ----------
    latency : int
    """

    def __init__(self, parameters: NicParameters):
        width = parameters.data_width
        self.latency = 1
        self._ops = tuple(sorted({*parameters.ops, Op.FI_ATOMIC_WRITE}))
        fitting = {datatype for datatype in parameters.datatypes if datatype.size <= parameters.beat_bytes}
        self._datatypes = tuple(sorted({*fitting, Datatype.FI_UINT8}))
        super().__init__(
            {
                "op": In(5),
                "datatype": In(5),
                "cswap_by_bits": In(1),
                "target": In(width),
                "operand": In(width),
                "compare": In(width),
                "result": Out(width),
                "start": In(1),
                "late_result": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = DecodeOperation(self._datatypes, self._ops)
        m.submodules.lanes = lanes = FastLanes(len(self.target), self._datatypes, self._ops)
        control = Signal(Control)
        m.d.comb += [
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            decode.cswap_by_bits.eq(self.cswap_by_bits),
            lanes.control.eq(control),
            lanes.target.eq(self.target),
            lanes.operand.eq(self.operand),
            lanes.compare.eq(self.compare),
            self.result.eq(lanes.result),
        ]
        m.d.sync += control.eq(decode.control)
        return m
