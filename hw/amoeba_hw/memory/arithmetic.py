"""The atomic unit as the executor sees it: single-cycle lanes, and a pipeline whose results come later."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.matrix import is_valid
from amoeba_model.opcodes import Datatype, Form, Op

from amoeba_hw.atomic.control import Control, is_pipelined
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_hw.atomic.measure import Measure, measured_operand
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_hw.atomic.prepare import PrepareOperands, magnitudes, prepared_operands
from amoeba_hw.atomic.schedule import LATENCIES, USES, Kind, kind_of
from amoeba_hw.atomic.wide_products import wide_product_signature
from amoeba_hw.memory.operations import merge

__all__ = ["ISSUE_TO_COMPUTE", "Arithmetic"]

ISSUE_TO_COMPUTE = 2
"""Cycles from the issue of an operation to its operands."""


class Arithmetic(wiring.Component):
    """Decodes operations, and executes them two cycles after their issue.

    ::

        issue        | measure |
        operands               | prepare |
        target                           | lanes, or the pipeline begins |

    The pipeline never refuses an issued operation: the issuer keeps to ``uses``.

    Parameters
    ----------
    width : int
        Bits of a beat.
    datatypes, ops, single_cycle_products
        Cells to build. FI_ATOMIC_WRITE of FI_UINT8 is there in every build: writes pass as that.
    wide_products : bool
        As for ArithmeticPipeline.

    Members
    -------
    op, datatype, cswap_by_bits : in
        To be decoded.
    decoded, latency, kind : out
        Their controls, the cycles from operands to result, and the kind of ``uses``; these are 0 for an operation
        that is not pipelined. Combinational.
    control, compared : in
        Of the operation that might be issued; its compare operand if the control says ``use_compare``, else its
        operand.
    prepare_control, operand, compare : in
        One cycle after the issue.
    is_late, late_operand : in
        With these: the operand of an FI_ATOMIC_WRITE is ``late_operand``.
    next_target : in, array of two
        One cycle after the issue, byte by byte: the target if this is not ``raised``, and if it is.
    target : in
        Two cycles after the issue.
    calculates, calculated : out
        The operation of ``target`` is a sum or a product, and its result, if it is not pipelined. Combinational.
    raised, results : out, array of two
        The result of others, byte by byte: if this is not ``raised``, and if it is, as everything of a sum or product
        is. Known last, as ``calculated`` is: what else happens to all three happens before the choice.
    forward : in
        One cycle after the issue: bytes of a pipelined operation's target that are the ``late_result`` of the cycle
        after.
    start : in
        The operation is pipelined.
    late_result : out
        Of the operation that was started its latency ago.
    wide
        ArithmeticPipeline's, with ``wide_products``.

    Attributes
    ----------
    uses : dict of str to dict of str to set of int
        Of each kind of pipelined operation, as for ``Admission``; its "result" is in one cycle.
    """

    def __init__(self, width: int, datatypes, ops, single_cycle_products: bool, wide_products: bool = False):
        self._ops = tuple(sorted({*ops, Op.FI_ATOMIC_WRITE}))
        self._datatypes = tuple(sorted({*datatypes, Datatype.FI_UINT8}))
        self._single_cycle_products = single_cycle_products
        self._cells = [cell for cell in self._all_cells() if is_pipelined(*cell, single_cycle_products)]
        kinds = {kind_of(*cell) for cell in self._cells}
        self.uses = {kind: USES[kind] for kind in LATENCIES if kind in kinds}
        self._wide_products = wide_products
        wide = {"wide": In(wide_product_signature(width))} if wide_products else {}
        super().__init__(
            wide
            | {
                "op": In(5),
                "datatype": In(5),
                "cswap_by_bits": In(1),
                "decoded": Out(Control),
                "latency": Out(5),
                "kind": Out(Kind),
                "control": In(Control),
                "compared": In(width),
                "prepare_control": In(Control),
                "operand": In(width),
                "compare": In(width),
                "is_late": In(1),
                "late_operand": In(width),
                "next_target": In(width).array(2),
                "target": In(width),
                "calculates": Out(1),
                "calculated": Out(width),
                "raised": Out(width // 8),
                "results": Out(width).array(2),
                "forward": In(width // 8),
                "start": In(1),
                "late_result": Out(width),
            }
        )

    def _all_cells(self):
        return [
            (op, datatype)
            for op in self._ops
            for datatype in self._datatypes
            if any(is_valid(op, datatype, form) for form in Form)
        ]

    def elaborate(self, platform):
        m = Module()
        width = len(self.target)
        m.submodules.decode = decode = DecodeOperation(self._datatypes, self._ops, self._single_cycle_products)
        m.submodules.measure = measure = Measure(width, self._datatypes, self._ops)
        m.submodules.prepare = prepare = PrepareOperands(width, self._datatypes, self._ops)
        m.submodules.lanes = lanes = FastLanes(width, self._datatypes, self._ops, self._single_cycle_products)
        control = Signal(Control)
        measured = Signal(measured_operand(width))
        prepared = Signal(prepared_operands(width))
        compared = Signal(width, reset_less=True)
        if_not, if_raised = (magnitudes(prepare.prepared, target) for target in self.next_target)
        m.d.sync += [
            compared.eq(merge(lanes.raised, if_raised, if_not)),
            measured.eq(measure.measured),
            control.eq(self.prepare_control),
            prepared.eq(prepare.prepared),
        ]
        with m.If(self.is_late):
            m.d.sync += prepared.merged.eq(self.late_operand)
        m.d.comb += [
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            decode.cswap_by_bits.eq(self.cswap_by_bits),
            self.decoded.eq(decode.control),
            measure.control.eq(self.control),
            measure.value.eq(self.compared),
            prepare.control.eq(self.prepare_control),
            prepare.measured.eq(measured),
            prepare.operand.eq(self.operand),
            prepare.compare.eq(self.compare),
            lanes.control.eq(control),
            lanes.prepared.eq(prepared),
            lanes.target.eq(self.target),
            lanes.magnitudes.eq(compared),
            self.calculates.eq(lanes.calculates),
            self.calculated.eq(lanes.calculated),
            self.raised.eq(lanes.raised),
            self.results[0].eq(lanes.if_not),
            self.results[1].eq(lanes.if_raised),
        ]
        if self._cells:
            self._elaborate_pipeline(m)
        return m

    def _elaborate_pipeline(self, m):
        ops, datatypes = (tuple(sorted(set(members))) for members in zip(*self._cells, strict=True))
        m.submodules.pipeline = pipeline = ArithmeticPipeline(
            len(self.target), datatypes, ops, wide_products=self._wide_products
        )
        if self._wide_products:
            wiring.connect(m, wiring.flipped(self.wide), pipeline.wide)
        m.d.comb += [
            pipeline.control.eq(self.prepare_control),
            pipeline.i_valid.eq(self.start),
            pipeline.target.eq(self.target),
            pipeline.forward.eq(self.forward),
            pipeline.operand.eq(self.operand),
            self.late_result.eq(pipeline.result),
        ]
        with m.Switch(self.op):
            for op in ops:
                with m.Case(op), m.Switch(self.datatype):
                    for cell_op, datatype in self._cells:
                        if cell_op == op:
                            with m.Case(datatype):
                                kind = kind_of(op, datatype)
                                m.d.comb += [self.latency.eq(LATENCIES[kind]), self.kind[kind].eq(1)]
