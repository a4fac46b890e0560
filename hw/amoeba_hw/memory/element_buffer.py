"""Where a misaligned element is put together, and its result taken apart."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.operations import byte_rotate_left, line_address_bits, merge

__all__ = ["ElementBuffer"]


class ElementBuffer(wiring.Component):
    """Collects the parts of an element from lines, and gives the parts of its result back to lines.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    gather : in, pulse
        A part of an element: the bytes of ``gather_line`` that ``gather_strobe`` marks, turned left by
        ``gather_turn`` bytes. ``gather_starts``: the first part. ``gather_error``: the element cannot be used.
        Takes effect two cycles later.
    element, error : out
        What has been gathered, from byte 0. Other bytes are meaningless.
    store, store_data : in
        Pulse: the element's result.
    scatter_turn : in
        Bytes by which ``gather`` turned the part.
    scattered : out
        Combinational from ``scatter_turn``: the result turned back.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        width = parameters.data_width
        turn = line_address_bits(parameters)
        super().__init__(
            {
                "gather": In(1),
                "gather_line": In(width),
                "gather_strobe": In(width // 8),
                "gather_turn": In(turn),
                "gather_starts": In(1),
                "gather_error": In(1),
                "element": Out(width),
                "error": Out(1),
                "store": In(1),
                "store_data": In(width),
                "scatter_turn": In(turn),
                "scattered": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = self._parameters.data_width
        turned = Signal(width)
        marked = Signal(width // 8)
        m.d.sync += [
            turned.eq(byte_rotate_left(m, "line", self.gather_line, self.gather_turn)),
            marked.eq(
                Mux(self.gather, byte_rotate_left(m, "strobe", self.gather_strobe, self.gather_turn, unit=1), 0)
            ),
        ]
        m.d.sync += self.element.eq(merge(marked, turned, self.element))
        with m.If(self.gather):
            m.d.sync += self.error.eq(self.gather_error | (self.error & ~self.gather_starts))
        result = Signal(width)
        with m.If(self.store):
            m.d.sync += result.eq(self.store_data)
        back = Signal(len(self.scatter_turn))
        m.d.comb += [
            back.eq(-self.scatter_turn),
            self.scattered.eq(byte_rotate_left(m, "result", result, back)),
        ]
        return m
