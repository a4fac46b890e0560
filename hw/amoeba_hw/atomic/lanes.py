"""Everything the atomic unit does to a beat within one cycle."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.formats import is_float
from amoeba_model.opcodes import Datatype, Op

from amoeba_hw.atomic.carry_select_adder import CarrySelectAdder
from amoeba_hw.atomic.compare import Compare
from amoeba_hw.atomic.control import Control, check_datatypes, restrict, spread, starts
from amoeba_hw.atomic.low_products import LowProducts
from amoeba_hw.atomic.prepare import prepared_operands

__all__ = ["FastLanes"]


class FastLanes(wiring.Component):
    """Executes an operation on every element of a beat, for all cells that are not ``pipelined``.

    Combinational, meant to sit in a one-cycle read-modify-write loop with ``target`` arriving last. All that can
    be known without it, PrepareOperands has worked out a cycle before::

        target --+-- carry select adder, low products --+
                 +-- mask and merge ------------------mux--+
                 +-- keep ---------------------------------+-- mux -- result
        magnitudes -- compare -- flags -- spread --------------'

    Parameters
    ----------
    data_width : int
        Bits of a beat: 128, 256 or 512. Element i occupies bytes i*size to (i+1)*size-1, little-endian.
    datatypes : iterable of Datatype
        Datatypes to build; a datatype wider than a beat is refused.
    ops : iterable of Op
        Operations to build; cells of other operations give meaningless results.
    single_cycle_products : bool
        Whether to build multipliers, for FI_PROD on integers.
    registered : bool
        Whether the result comes a cycle later, with registers before the last choice: for those who have the time.

    Members
    -------
    control : In(Control)
        From DecodeOperation, registered.
    prepared : In(prepared_operands(data_width))
        From PrepareOperands under the same control, registered.
    target : In(data_width)
    magnitudes : In(data_width)
        ``magnitudes`` of both. In the loop it has registers of its own, so that carry chains begin where they end.
    result : Out(data_width)
        The new value of the target. The fetched value is ``target`` itself.
    calculates, calculated : Out(1), Out(data_width)
        The operation is a sum or a product, and its result.
    raised, if_raised, if_not : Out(data_width // 8), Out(data_width), Out(data_width)
        For other operations, the choice of the result, byte by byte: ``if_raised`` where ``raised`` is set, else
        ``if_not``. All bytes of a sum or a product are raised.

    ``calculated`` and ``raised`` come last: a user that does more to a result does it to all three, and then chooses.
    """

    def __init__(
        self,
        data_width,
        datatypes=tuple(Datatype),
        ops=tuple(Op),
        single_cycle_products=True,
        *,
        registered=False,
    ):
        self._registered = registered
        self._datatypes = tuple(datatypes)
        self._ops = tuple(ops)
        products = single_cycle_products and Op.FI_PROD in self._ops
        self._multiplies = products and not all(is_float(datatype) for datatype in self._datatypes)
        check_datatypes(data_width, self._datatypes)
        super().__init__(
            {
                "control": In(Control),
                "prepared": In(prepared_operands(data_width)),
                "target": In(data_width),
                "magnitudes": In(data_width),
                "result": Out(data_width),
                "calculates": Out(1),
                "calculated": Out(data_width),
                "raised": Out(data_width // 8),
                "if_raised": Out(data_width),
                "if_not": Out(data_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control = restrict(m, self.control, self._datatypes, self._ops)
        prepared = self.prepared
        width = len(self.target)
        lanes = width // 8
        m.submodules.adder = adder = CarrySelectAdder(width)
        m.submodules.compare = compare = Compare(width, self._datatypes, self._ops)
        domain = m.d.sync if self._registered else m.d.comb
        domain += self.raised.eq(spread(control, compare.flags))
        m.d.comb += [
            adder.a.eq(self.target),
            adder.b.eq(prepared.merged),
            adder.starts.eq(starts(control, lanes)),
            adder.carry_in.eq(control.subtract),
            compare.control.eq(self.control),
            compare.prepared.eq(prepared),
            compare.target.eq(self.target),
            compare.magnitudes.eq(self.magnitudes),
        ]
        calculates, calculated = control.add, adder.sums
        if self._multiplies:
            calculates = control.add | control.multiply
            calculated = Mux(control.multiply, self._products(m, control), adder.sums)
        domain += [self.calculates.eq(calculates), self.calculated.eq(calculated)]
        for byte in range(lanes):
            part = slice(8 * byte, 8 * byte + 8)
            target, merged = self.target[part], prepared.merged[part]
            inverted = prepared.inverted[byte].replicate(8)
            changed = (target & prepared.stays[part]) ^ (merged & ~inverted)
            unchanged = Mux(prepared.inverted[byte], merged, target & control.keep.replicate(8))
            domain += [self.if_raised[part].eq(changed), self.if_not[part].eq(unchanged)]
            if_raised = Mux(self.calculates, self.calculated[part], self.if_raised[part])
            m.d.comb += self.result[part].eq(Mux(self.raised[byte], if_raised, self.if_not[part]))
        return m

    def _products(self, m, control):
        m.submodules.low_products = low_products = LowProducts(len(self.target))
        m.d.comb += [
            low_products.control.eq(control),
            low_products.target.eq(self.target),
            low_products.operand.eq(self.prepared.merged),
        ]
        return low_products.products
