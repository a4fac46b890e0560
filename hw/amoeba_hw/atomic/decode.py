"""From (operation, datatype) to the controls of the arithmetic."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.formats import float_format, is_complex, is_float, is_signed
from amoeba_model.atomic.matrix import is_valid
from amoeba_model.opcodes import Datatype, Form, Op

from amoeba_hw.atomic.control import COMPONENTS, EFFECTS, Control, component_of, element_of, is_pipelined

__all__ = ["DecodeOperation"]


class DecodeOperation(wiring.Component):
    """Decodes an operation and a datatype into ``Control``; combinational, its user registers the result.

    Parameters
    ----------
    datatypes : iterable of Datatype
        Datatypes for which the lanes and the pipeline were built.
    ops : iterable of Op
        Likewise.
    single_cycle_products : bool
        Likewise.

    Members
    -------
    op, datatype : In(5)
        Numbers as in libfabric; unknown ones are unsupported.
    cswap_by_bits : In(1)
        FI_CSWAP compares floating-point numbers by their bits instead of by their values.
    control : Out(Control)
    """

    def __init__(self, datatypes=tuple(Datatype), ops=tuple(Op), single_cycle_products=True):
        self._datatypes = tuple(datatypes)
        self._ops = tuple(ops)
        self._single_cycle_products = single_cycle_products
        super().__init__({"op": In(5), "datatype": In(5), "cswap_by_bits": In(1), "control": Out(Control)})

    def elaborate(self, platform):
        m = Module()
        with m.Switch(self.op):
            for op in self._ops:
                with m.Case(op):
                    self._decode_op(m, op)
        with m.Switch(self.datatype):
            for datatype in self._datatypes:
                with m.Case(datatype):
                    self._decode_datatype(m, datatype)
        return m

    def _decode_op(self, m, op):
        m.d.comb += [self.control[member].eq(1) for member in EFFECTS[op]]
        valid = [datatype for datatype in self._datatypes if any(is_valid(op, datatype, form) for form in Form)]
        if valid:
            m.d.comb += self.control.supported.eq(self.datatype.matches(*valid))
        pipelined = [datatype for datatype in valid if is_pipelined(op, datatype, self._single_cycle_products)]
        if pipelined:
            m.d.comb += self.control.pipelined.eq(self.datatype.matches(*pipelined))

    def _decode_datatype(self, m, datatype):
        control = self.control
        component = component_of(datatype)
        stride = COMPONENTS[component].stride
        m.d.comb += [
            control.component[component].eq(1),
            control.element[element_of(datatype)].eq(1),
            control.starts.eq((0b11111 * stride) & 0b11111),
            control.signed.eq(is_signed(datatype)),
            control.complex.eq(is_complex(datatype)),
        ]
        if is_float(datatype):
            by_value = ~(self.cswap_by_bits & (self.op == Op.FI_CSWAP))
            m.d.comb += [
                control.floating.eq(by_value),
                control.float_format[float_format(datatype).name].eq(by_value),
            ]
