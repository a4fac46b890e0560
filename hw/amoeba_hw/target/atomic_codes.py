"""UET's atomic opcodes and datatypes as libfabric's, and what this build executes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.opcodes import Datatype, Form
from amoeba_model.wire.uet import ATOMIC_DATATYPES, ATOMIC_OPCODES, RequestOpcode

from amoeba_hw.byte_order import SWAP_BITS, number_swap, pair_swap

__all__ = ["BASE_ATOMICS", "FETCH_ATOMICS", "AtomicCodes"]

BASE_ATOMICS = (RequestOpcode.ATOMIC.value, RequestOpcode.AMOEBA_ATOMIC.value, RequestOpcode.TSEND_ATOMIC.value)
"""Request opcodes of the form base."""
FETCH_ATOMICS = (RequestOpcode.AMOEBA_FETCHING_ATOMIC.value, RequestOpcode.TSEND_FETCH_ATOMIC.value)
"""Request opcodes of the form fetch. FETCHING_ATOMIC has this form or compare, by its operation."""


class AtomicCodes(wiring.Component):
    """Translates the codes of an atomic request; combinational.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    request_opcode : In(6)
        One of ATOMIC_REQUESTS; decides the form, of a FETCHING_ATOMIC together with the operation.
    opcode, datatype : In(8)
        UET's numbers.
    op, op_datatype : Out(5)
        Libfabric's numbers; 0 for unknown ones.
    size_bits : Out(3)
        log2 of the element's bytes.
    swap, pair_swap : Out(SWAP_BITS)
        Permutations between network order and memory's, as of :mod:`amoeba_hw.byte_order`.
    is_compare : Out(1)
        The operation takes compare values.
    has_op : Out(1)
        The operation is executed in this form on some datatype.
    has_cell : Out(1)
        It is executed on this one.
    """

    def __init__(self, parameters):
        self._capabilities = Capabilities(parameters)
        super().__init__(
            {
                "request_opcode": In(6),
                "opcode": In(8),
                "datatype": In(8),
                "op": Out(5),
                "op_datatype": Out(5),
                "size_bits": Out(3),
                "swap": Out(SWAP_BITS),
                "pair_swap": Out(SWAP_BITS),
                "is_compare": Out(1),
                "has_op": Out(1),
                "has_cell": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        masks = {form: Signal(len(Datatype), name=f"{form.value}_mask") for form in Form}
        with m.Switch(self.opcode):
            for op, code in ATOMIC_OPCODES.items():
                with m.Case(int(code)):
                    m.d.comb += [self.op.eq(int(op)), self.is_compare.eq(op in COMPARE_OPS)]
                    m.d.comb += [mask.eq(self._capabilities.mask(form, op)) for form, mask in masks.items()]

        mask = Signal(len(Datatype))
        with m.Switch(self.request_opcode):
            with m.Case(*BASE_ATOMICS):
                m.d.comb += mask.eq(masks[Form.BASE])
            with m.Case(int(RequestOpcode.FETCHING_ATOMIC)):
                m.d.comb += mask.eq(Mux(self.is_compare, masks[Form.COMPARE], masks[Form.FETCH]))
            with m.Case(int(RequestOpcode.AMOEBA_COMPARE_ATOMIC)):
                m.d.comb += mask.eq(masks[Form.COMPARE])
            with m.Case(*FETCH_ATOMICS):
                m.d.comb += mask.eq(masks[Form.FETCH])
        m.d.comb += self.has_op.eq(mask != 0)

        with m.Switch(self.datatype):
            for datatype, code in ATOMIC_DATATYPES.items():
                with m.Case(int(code)):
                    m.d.comb += [
                        self.op_datatype.eq(int(datatype)),
                        self.size_bits.eq(datatype.size.bit_length() - 1),
                        self.swap.eq(number_swap(datatype)),
                        self.pair_swap.eq(pair_swap(datatype)),
                        self.has_cell.eq(mask[datatype]),
                    ]
        return m
