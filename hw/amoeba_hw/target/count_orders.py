"""Orders to the event counters, one by one."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import COUNT_ORDER
from amoeba_hw.target.records import ADVANCES

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
        first, second = advances.p.counters[0], advances.p.counters[1]
        on_second = Signal()
        is_last = Signal()
        m.d.comb += [
            is_last.eq(on_second | (first == 0) | (second == 0)),
            orders.p.counter.eq(Mux(on_second | (first == 0), second, first)),
            orders.p.error.eq(advances.p.error),
            orders.p.context.eq(advances.p.context),
            orders.valid.eq(advances.valid & (orders.p.counter != 0)),
            advances.ready.eq(is_last & (orders.ready | (orders.p.counter == 0))),
        ]
        with m.If(orders.valid & orders.ready):
            m.d.sync += on_second.eq(~is_last)
        return m
