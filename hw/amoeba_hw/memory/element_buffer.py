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
    halves : int
        2 if elements may be twice as wide as a line, else 1 and the members ``..._half`` are ignored.

    Members
    -------
    gather : in, pulse
        A part of an element: the bytes of ``gather_line`` that ``gather_strobe`` marks, turned left by
        ``gather_turn`` bytes, in this half. ``gather_starts``: the first part. ``gather_error``: the element
        cannot be used. Takes effect two cycles later.
    element, error : out
        The gathered element, from byte 0, the half that ``element_half`` chooses. Other bytes are meaningless.
    store, store_data : in
        Pulse: the element's result.
    scatter_turn, scatter_half : in
        Bytes by which ``gather`` turned the part, and where it put it.
    scattered : out
        Combinational from ``scatter_turn``: the result turned back.
    """

    def __init__(self, parameters: NicParameters, halves: int = 1):
        self._parameters = parameters
        self._halves = halves
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
                "gather_half": In(1),
                "element": Out(width),
                "element_half": In(1),
                "error": Out(1),
                "store": In(1),
                "store_data": In(width * halves),
                "scatter_turn": In(turn),
                "scatter_half": In(1),
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
        halves = [Signal(width, name=f"gathered_{half}") for half in range(self._halves)]
        marked_half = Signal()
        m.d.sync += marked_half.eq(self.gather_half)
        for half, gathered in enumerate(halves):
            with m.If((marked_half == half) | (self._halves == 1)):
                m.d.sync += gathered.eq(merge(marked, turned, gathered))
        with m.If(self.gather):
            m.d.sync += self.error.eq(self.gather_error | (self.error & ~self.gather_starts))
        result = Signal(width * self._halves)
        with m.If(self.store):
            m.d.sync += result.eq(self.store_data)
        back = Signal(len(self.scatter_turn))
        chosen = Signal(width)
        m.d.comb += [
            self.element.eq(Mux(self.element_half, halves[-1], halves[0])),
            back.eq(-self.scatter_turn),
            chosen.eq(Mux(self.scatter_half, result[-width:], result[:width])),
            self.scattered.eq(byte_rotate_left(m, "result", chosen, back)),
        ]
        return m
