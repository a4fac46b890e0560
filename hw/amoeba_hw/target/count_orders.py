"""Orders to the event counters, one by one."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import COUNT_ORDER
from amoeba_hw.request_records import ADVANCES

__all__ = ["CountOrders"]


class CountOrders(wiring.Component):
    """Gives an order for each counter that an answer advances.

    Members
    -------
    advances : ADVANCES stream
    orders : COUNT_ORDER stream
        In order, counter 0 left out. Latency zero, one order per cycle; an answer without counters takes one, too.
        ``advances.ready`` depends on ``orders.ready`` combinationally.
    """

    advances: In(stream.Signature(ADVANCES))
    orders: Out(stream.Signature(COUNT_ORDER))

    def elaborate(self, platform):
        m = Module()
        advances, orders = self.advances, self.orders
        first, second, third = advances.p.counters
        given = Signal(2)
        """The first and the second counter of the answer at hand have had their order, or have none."""
        is_first, is_second, is_third = Signal(), Signal(), Signal()
        is_last = Signal()
        m.d.comb += [
            is_first.eq(~given[0] & (first != 0)),
            is_second.eq(~given[1] & (second != 0)),
            is_third.eq(third != 0),
            is_last.eq(~((is_first & is_second) | (is_first & is_third) | (is_second & is_third))),
            orders.p.counter.eq(Mux(is_first, first, Mux(is_second, second, third))),
            orders.p.error.eq(advances.p.error),
            orders.p.context.eq(advances.p.context),
            orders.valid.eq(advances.valid & (orders.p.counter != 0)),
            advances.ready.eq(is_last & (orders.ready | (orders.p.counter == 0))),
        ]
        with m.If(orders.valid & orders.ready):
            m.d.sync += given.eq(Mux(is_last, 0b00, Mux(is_first, 0b01, 0b11)))
        return m
