"""The arithmetic of elements that are wider than a beat: FI_LONG_DOUBLE_COMPLEX on a datapath of 128 bits."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.control import EFFECTS, Control
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_hw.atomic.measure import Measure, measured_operand
from amoeba_hw.atomic.prepare import PrepareOperands, magnitudes, prepared_operands
from amoeba_hw.atomic.schedule import WIDE_RESULTS, WIDE_USES
from amoeba_hw.atomic.wide_products import wide_product_signature

__all__ = ["PART_BY_PART", "WideArithmetic"]

PART_BY_PART = (Op.FI_SUM, Op.FI_DIFF, Op.FI_ATOMIC_READ, Op.FI_ATOMIC_WRITE)
"""Operations that treat the parts of a complex number as numbers of their own."""


class WideArithmetic(wiring.Component):
    """Takes an element half by half, and returns the whole result ``latency`` cycles after the target's second half.

    ::

        load     | lower | upper | lower | upper |
        operands         | lower | whole |  ...
        target           | lower | upper | lower | upper |
        element                  | lower | whole |  ...
        result                                           | whole | whole |   one that is not pipelined: latency 3

    Only for operations that need both parts of the number at once; others see two elements of half the size.
    Products are the pipeline's, which takes four products and two sums for each.

    Throughput: an element every two cycles; after the second half of a product, no half is loaded for
    ``PRODUCT_LOADS`` cycles. No two may have their results within two cycles. The user of ``load`` sees to both.

    Parameters
    ----------
    width : int
        Bits of a half.
    ops
        Operations to build.

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
    product : wide_product_signature(width)
        To the pipeline.
    result : out
        In two cycles, from ``latency`` cycles after the target's second half on; of a product, the upper half is
        there in the second of them.

    Attributes
    ----------
    multiplies : bool
        Whether there are products.
    uses : dict of int to dict of str to set of int
        By latency: resources of the element, with the cycles after the second half of its target, for Admission. The
        first half of any element uses "halves" as it comes.
    """

    DATATYPES = (Datatype.FI_LONG_DOUBLE_COMPLEX,)
    PRODUCT_LOADS = 3
    """Cycles in which the pipeline still takes parts of an element that the next one would replace."""
    _STARTS = 1
    """Cycles from the target's second half to the whole element."""
    _AT_ONCE = _STARTS + 2
    """Latency through the lanes' registers and the result's."""
    _PRODUCT = _STARTS + WIDE_RESULTS[0] + 1
    """Latency of the real part, through the result's register; the imaginary part is a cycle behind it."""

    def __init__(self, width: int, ops):
        self._ops = tuple(op for op in ops if op not in PART_BY_PART)
        self._pipelined = tuple(op for op in self._ops if "multiply" in EFFECTS[op])
        self.multiplies = bool(self._pipelined)
        product = {thing: {self._STARTS + cycle for cycle in cycles} for thing, cycles in WIDE_USES.items()}
        product["halves"] = set(range(1 + self.PRODUCT_LOADS))
        self.uses = {self._AT_ONCE: {}} | ({self._PRODUCT: product} if self.multiplies else {})
        super().__init__(
            {
                "load": In(1),
                "half": In(1),
                "op": In(5),
                "cswap_by_bits": In(1),
                "target": In(width),
                "operand": In(width),
                "compare": In(width),
                "product": Out(wide_product_signature(width)),
                "result": Out(2 * width),
            }
        )

    def latency(self, op):
        """Cycles from the target's second half to the result, for a signal ``op``."""
        return Mux(op.matches(*self._pipelined), self._PRODUCT, self._AT_ONCE)

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
        # Of the element that is whole for a cycle: after it, the halves of the next one may arrive. A product's
        # operands are still read, so no half does for PRODUCT_LOADS cycles.
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
        product = self.product
        m.d.comb += [
            product.start.eq(start & whole_control.pipelined),
            product.target.eq(element),
            product.operand.eq(operand),
        ]
        for half in range(2):
            with m.If(product.leaves[half]):
                m.d.sync += self.result.word_select(half, width).eq(product.result)
        return m

    def _gather(self, m, name, load, half, value):
        """Join two halves to an element."""
        element = Signal(2 * len(value), name=name)
        for place in range(2):
            with m.If(load & (half == place)):
                m.d.sync += element.word_select(place, len(value)).eq(value)
        return element
