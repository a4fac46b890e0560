"""Writes completion entries, raises interrupts and has completions counted."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import COMPLETION
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.host.ring_writer import RingWriter
from amoeba_hw.initiator.records import COMPLETION_ORDER, GENERATION_BITS
from amoeba_hw.interfaces import CONTEXT, COUNT_ORDER, RING_INDEX, TRACE_SLOT, write_beat
from amoeba_hw.stream import connect_streams

__all__ = ["CompletionWriter"]


class CompletionWriter(wiring.Component):
    """Writes the completion of each finished request that gets one, then has it counted, and interrupts where the
    driver asked for it.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT
        A context that is not enabled has index 0 and is not armed.
    generations : array of GENERATION_BITS
    orders : COMPLETION_ORDER stream
        Orders of an earlier generation are dropped.
    arms : RING_INDEX stream
        Never refused.
    writes : write stream
        One burst per completion, one cycle after its order; one completion every two cycles (three where a
        completion has two beats).
    writes_ordered : In(1)
        As of RingWriter.
    counts : COUNT_ORDER stream
        For each request that completes and has an event counter, written or not, one cycle after its order was taken.
        As long as it is refused, no other order begins.
    skipped : out, a bit per context
        Pulse: a request ended well and wanted no completion.
    interrupts : out, a bit per context
        Pulse, from one cycle after the completion's last beat was taken; at most one context per cycle.
    trace_completion_written : TRACE_SLOT
    count_completions, count_error_completions : out
    """

    def __init__(self, parameters):
        self._contexts = parameters.contexts
        self._width = parameters.data_width
        super().__init__(
            {
                "contexts": In(CONTEXT).array(self._contexts),
                "generations": In(GENERATION_BITS).array(self._contexts),
                "orders": In(stream.Signature(COMPLETION_ORDER)),
                "arms": In(stream.Signature(RING_INDEX)),
                "writes": Out(stream.Signature(write_beat(self._width))),
                "writes_ordered": In(1),
                "counts": Out(stream.Signature(COUNT_ORDER)),
                "skipped": Out(self._contexts),
                "interrupts": Out(self._contexts),
                "trace_completion_written": Out(TRACE_SLOT),
                "count_completions": Out(1),
                "count_error_completions": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.writer = writer = RingWriter(self._contexts, self._width, COMPLETION.size)
        orders, ticket = self.orders, self.orders.p.ticket
        current = Signal()
        failed = Signal()
        wanted = Signal()
        begun = Signal()
        """The entry on offer to the writer stays on offer, whatever becomes of its context."""
        countable = Signal()
        """A count fits, and will until an order is taken."""
        m.d.comb += [
            current.eq(Array(self.generations)[ticket.context] == ticket.generation),
            failed.eq(orders.p.status != ReturnCode.OK),
            wanted.eq(ticket.wants_completion | failed),
            countable.eq(~self.counts.valid | self.counts.ready),
            writer.entries.valid.eq(orders.valid & (begun | (current & wanted & countable))),
            writer.entries.p.context.eq(ticket.context),
            writer.entries.p.data.eq(self._entry()),
            orders.ready.eq(Mux(writer.entries.valid, writer.entries.ready, ~current | countable)),
            self.interrupts.eq(writer.interrupts),
            writer.writes_ordered.eq(self.writes_ordered),
        ]
        m.d.sync += begun.eq(writer.entries.valid & ~writer.entries.ready)
        with m.If(countable):
            # A piece that hands an OK on in its chain does not complete.
            completes = orders.valid & orders.ready & (begun | current) & (failed | ~ticket.chained)
            m.d.sync += [
                self.counts.valid.eq(completes & (ticket.counter != 0)),
                self.counts.p.counter.eq(ticket.counter),
                self.counts.p.error.eq(failed),
                self.counts.p.context.eq(ticket.context),
            ]
        for number, context in enumerate(self.contexts):
            ring = writer.rings[number]
            m.d.comb += [
                ring.enable.eq(context.enable),
                ring.base.eq(context.completion_base),
                ring.size.eq(context.completion_size),
                self.skipped[number].eq(
                    orders.valid & orders.ready & current & ~wanted & ~begun & (ticket.context == number)
                ),
            ]
        connect_streams(m, wiring.flipped(self.arms), writer.arms)
        connect_streams(m, writer.writes, wiring.flipped(self.writes))
        event = self.trace_completion_written.event
        m.d.comb += [
            self.trace_completion_written.valid.eq(writer.entries.valid & writer.entries.ready),
            event.psn.eq(writer.index),
            event.pdc.eq(ticket.peer),
            event.context.eq(ticket.context),
            event.status.eq(orders.p.status),
            self.count_completions.eq(self.trace_completion_written.valid),
            self.count_error_completions.eq(self.count_completions & failed),
        ]
        return m

    def _entry(self):
        ticket = self.orders.p.ticket
        values = {
            "context": ticket.user_context,
            "length": ticket.length,
            "descriptor": ticket.index,
            "opcode": ticket.opcode,
            "status": self.orders.p.status,
        }
        return Cat(values.get(field.name, Const(0, field.width)) for field in COMPLETION.fields)
