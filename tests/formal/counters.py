"""Event counters: nothing that is ordered is lost on its way to the host, nor made up."""

from amaranth.hdl import Assert, Assume, Cover, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In
from amoeba_hw.host.counter_writer import CounterWriter
from amoeba_hw.interfaces import COUNT_ORDER, COUNTER_ADMISSION
from amoeba_model.trace import NO_CONTEXT

from tests.formal.rules import StreamRules, never_reset

__all__ = ["CounterWriterSpec"]

_CHOSEN = 1
_COUNT = data.StructLayout({"success": 4, "error": 4})
"""As far as orders of as many cycles as are looked at can count."""


class CounterWriterSpec(wiring.Component):
    """CounterWriter: what is written of a counter is what was ordered, and that is written soon.

    Numbers that count nothing are ordered and cleared, too. A context that is not let in counts nothing, and what a
    register says counts always.

    Parameters
    ----------
    counters : int
        As for CounterWriter.
    patience : int
        Cycles without a new order or a host that waits, after which the newest value has been written.
    """

    def __init__(self, counters=2, patience=4):
        self._counters = counters
        self._patience = patience
        super().__init__(
            {
                "valid": In(2),
                "orders": In(COUNT_ORDER).array(2),
                "clear": In(1),
                "cleared": In(8),
                "admit": In(1),
                "admission": In(COUNTER_ADMISSION),
                "write_ready": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.writer = writer = CounterWriter(128, self._counters)
        m.submodules.contract = StreamRules(writer.writes, Assert)
        takes = Signal()
        error = Signal()
        context = Signal(8)
        for index, order in enumerate(self.orders):
            source = writer.orders[index]
            m.submodules[f"rules{index}"] = StreamRules(source, Assume)
            m.d.comb += [
                source.valid.eq(self.valid[index]),
                source.payload.eq(order),
            ]
            with m.If(source.valid & source.ready & (order.counter == _CHOSEN)):
                m.d.comb += [takes.eq(1), error.eq(order.error), context.eq(order.context)]
        write = writer.writes
        m.d.comb += [
            writer.counter_base.eq(0x1000),
            writer.clears.valid.eq(self.clear),
            writer.clears.payload.eq(self.cleared),
            writer.admissions.valid.eq(self.admit),
            writer.admissions.payload.eq(self.admission),
            write.ready.eq(self.write_ready),
        ]
        # The naive account: an order counts one cycle after it was taken.
        counts = Signal(_COUNT)
        before = Signal(_COUNT)
        written = Signal(_COUNT)
        ordered, takes_now, error_now = Signal(), Signal(), Signal()
        context_now, admitted = Signal(8), Signal(32, init=-1)
        owed = Signal()
        waited = Signal(range(self._patience + 2))
        m.d.comb += [written.success.eq(write.p.data[:64]), written.error.eq(write.p.data[64:])]
        m.d.sync += [ordered.eq(takes), error_now.eq(error), context_now.eq(context), before.eq(counts)]
        m.d.comb += takes_now.eq(ordered & ((context_now == NO_CONTEXT) | admitted.bit_select(context_now[:5], 1)))
        # There are 32 contexts at most.
        m.d.comb += Assume((context < 32) | (context == NO_CONTEXT))
        concerned = write.valid & (write.p.address == 0x1000 + (_CHOSEN << 4))
        with m.If(concerned & write.ready & (written == counts)):
            m.d.sync += owed.eq(0)
        with m.If(takes_now):
            m.d.sync += [
                counts.success.eq(counts.success + ~error_now),
                counts.error.eq(counts.error + error_now),
                owed.eq(1),
            ]
        with m.If(self.clear & (self.cleared == _CHOSEN)):
            m.d.sync += [counts.eq(0), owed.eq(0), admitted.eq(-1)]
        with m.If(self.admit & (self.admission.counter == _CHOSEN)):
            m.d.sync += admitted.eq(self.admission.contexts)
        m.d.sync += waited.eq(waited + (~write.valid | write.ready))
        with m.If(~owed | takes_now):
            m.d.sync += waited.eq(0)
        offered = Signal()
        m.d.sync += offered.eq(write.valid & ~write.ready)
        with m.If(concerned & ~offered):
            m.d.comb += Assert(written == before)
        m.d.comb += [
            Assert(waited <= self._patience),
            Assert(~write.valid | (write.p.strobe == 0xFFFF)),
            Assert(~write.valid | (write.p.address[4:8] != 0)),
            Cover(concerned & (written.success == 1) & (written.error == 2)),
            Cover(ordered & ~takes_now),
        ]
        return m
