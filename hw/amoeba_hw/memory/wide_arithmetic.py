"""The arithmetic of elements that are wider than a beat: FI_LONG_DOUBLE_COMPLEX on a datapath of 128 bits."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.control import EFFECTS, Control
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_hw.atomic.measure import Measure, measured_operand
from amoeba_hw.atomic.pipeline import ArithmeticPipeline
from amoeba_hw.atomic.prepare import PrepareOperands, magnitudes, prepared_operands

__all__ = ["PART_BY_PART", "WideArithmetic"]

PART_BY_PART = (Op.FI_SUM, Op.FI_DIFF, Op.FI_ATOMIC_READ, Op.FI_ATOMIC_WRITE)
"""Operations that treat the parts of a complex number as numbers of their own."""


class WideArithmetic(wiring.Component):
    """Takes an element half by half and gives back the whole result, ``latency`` cycles after the target's
    second half.

    ::

        load     | lower | upper | lower | upper |
        operands         | lower | whole |  ...
        target           | lower | upper | lower | upper |
        element                  | lower | whole |  ...
        result                                           | whole | whole |   one that is not pipelined: latency 3

    Only for operations that need both parts of the number at once; others see two elements of half the size.
    Throughput: an element every two cycles. No two may have their results within two cycles; who loads sees to it.

    Parameters
    ----------
    width : int
        Bits of a half.
    ops
        What to build.

    Members
    -------
    load, half : in
        Pulse: take the first half, or the second, which starts the operation.
    op, cswap_by_bits : in
        With each half.
    operand, compare : in
        The half.
    target : in
        The half, one cycle later.
    result : out
        In two cycles, from ``latency`` cycles after the target's second half on.

    Attributes
    ----------
    latencies : tuple of int
        All that ``latency`` can be, in ascending order.
    """

    DATATYPES = (Datatype.FI_LONG_DOUBLE_COMPLEX,)

    def __init__(self, width: int, ops):
        self._ops = tuple(op for op in ops if op not in PART_BY_PART)
        self._pipelined = tuple(op for op in self._ops if "multiply" in EFFECTS[op])
        through_pipeline = [ArithmeticPipeline.latency(op, *self.DATATYPES) for op in self._pipelined]
        # The registers of the element and of the result come on top; the lanes have one, too.
        self.latencies = tuple(sorted({3, *(2 + latency for latency in through_pipeline)}))
        super().__init__(
            {
                "load": In(1),
                "half": In(1),
                "op": In(5),
                "cswap_by_bits": In(1),
                "target": In(width),
                "operand": In(width),
                "compare": In(width),
                "result": Out(2 * width),
            }
        )

    def latency(self, op):
        """Cycles from the target's second half to the result, for a signal ``op``."""
        return Mux(op.matches(*self._pipelined), self.latencies[-1], self.latencies[0])

    def elaborate(self, platform):
        m = Module()
        width = len(self.target)
        m.submodules.decode = decode = DecodeOperation(self.DATATYPES, self._ops)
        m.submodules.measure = measure = Measure(2 * width, self.DATATYPES, self._ops)
        m.submodules.prepare = prepare = PrepareOperands(2 * width, self.DATATYPES, self._ops)
        m.submodules.lanes = lanes = FastLanes(2 * width, self.DATATYPES, self._ops, registered=True)
        loaded = Signal()
        loaded_half = Signal()
        control = Signal(Control)
        m.d.comb += [
            decode.op.eq(self.op),
            decode.datatype.eq(self.DATATYPES[0]),
            decode.cswap_by_bits.eq(self.cswap_by_bits),
            prepare.control.eq(control),
        ]
        m.d.sync += [loaded.eq(self.load), loaded_half.eq(self.half)]
        with m.If(self.load):
            m.d.sync += control.eq(decode.control)
        element = self._gather(m, "element", loaded, loaded_half, self.target)
        operand = self._gather(m, "operand", self.load, self.half, self.operand)
        compare = self._gather(m, "compare", self.load, self.half, self.compare)
        # Held no longer than a cycle: meanwhile, the halves of the next element arrive.
        start = Signal()
        whole_control = Signal(Control)
        prepared = Signal(prepared_operands(2 * width))
        measured = Signal(measured_operand(2 * width))
        m.d.comb += [
            prepare.operand.eq(operand),
            prepare.compare.eq(compare),
            prepare.measured.eq(measured),
            # As the second half arrives: the control is that of the first.
            measure.control.eq(control),
            measure.value.eq(
                Mux(control.use_compare, Cat(compare[:width], self.compare), Cat(operand[:width], self.operand))
            ),
        ]
        m.d.sync += [
            start.eq(loaded & loaded_half),
            whole_control.eq(control),
            measured.eq(measure.measured),
            prepared.eq(prepare.prepared),
        ]
        m.d.comb += [
            lanes.control.eq(whole_control),
            lanes.prepared.eq(prepared),
            lanes.target.eq(element),
            lanes.magnitudes.eq(magnitudes(prepared, element)),
        ]
        changes = Signal()
        m.d.sync += changes.eq(start & ~whole_control.pipelined)
        with m.If(changes):
            m.d.sync += self.result.eq(lanes.result)
        if self._pipelined:
            m.submodules.pipeline = pipeline = ArithmeticPipeline(2 * width, self.DATATYPES, self._ops)
            m.d.comb += [
                pipeline.control.eq(control),
                pipeline.i_valid.eq(start & whole_control.pipelined),
                pipeline.target.eq(element),
                pipeline.operand.eq(operand),
            ]
            with m.If(pipeline.o_valid):
                m.d.sync += self.result.eq(pipeline.result)
        return m

    def _gather(self, m, name, load, half, value):
        """The element that two halves make."""
        element = Signal(2 * len(value), name=name)
        for place in range(2):
            with m.If(load & (half == place)):
                m.d.sync += element.word_select(place, len(value)).eq(value)
        return element
