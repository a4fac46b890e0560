"""Writes completion entries and raises interrupts."""

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import COMPLETION
from amoeba_model.wire.uet import ReturnCode

from amoeba_hw.initiator.records import COMPLETION_ORDER, GENERATION_BITS
from amoeba_hw.interfaces import CONTEXT, RING_INDEX, TRACE_SLOT, write_beat

__all__ = ["CompletionWriter"]


class _CompletionRing(wiring.Component):
    """Index of the next completion of one context, and whether it should interrupt."""

    enable: In(1)
    wrote: In(1)
    arm: In(1)
    arm_index: In(16)
    disarm: In(1)
    index: Out(16)
    due: Out(1)

    def elaborate(self, platform):
        m = Module()
        armed = Signal()
        threshold = Signal(16)
        beyond = Signal(16)
        """How far the last completion written is beyond the threshold, modulo 2**16: the upper half is negative."""
        m.d.comb += [
            beyond.eq(self.index - 1 - threshold),
            self.due.eq(armed & ~beyond[15]),
        ]
        m.d.sync += self.index.eq(self.index + self.wrote)
        with m.If(self.disarm):
            m.d.sync += armed.eq(0)
        with m.If(self.arm):
            m.d.sync += [armed.eq(1), threshold.eq(self.arm_index)]
        with m.If(~self.enable):
            m.d.sync += [self.index.eq(0), armed.eq(0)]
        return m


class CompletionWriter(wiring.Component):
    """Writes the completion of each finished request that gets one, then interrupts where the driver asked for it.

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
                "skipped": Out(self._contexts),
                "interrupts": Out(self._contexts),
                "trace_completion_written": Out(TRACE_SLOT),
                "count_completions": Out(1),
                "count_error_completions": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        rings = [_CompletionRing() for _ in range(self._contexts)]
        ticket = self.orders.p.ticket
        current = Signal()
        wanted = Signal()
        wrote = Signal()
        m.d.comb += [
            current.eq(Array(self.generations)[ticket.context] == ticket.generation),
            wanted.eq(ticket.wants_completion | (self.orders.p.status != ReturnCode.OK)),
            self.arms.ready.eq(1),
        ]
        for context, ring in enumerate(rings):
            m.submodules[f"ring{context}"] = ring
            concerned = ticket.context == context
            m.d.comb += [
                ring.enable.eq(self.contexts[context].enable),
                ring.wrote.eq(wrote & concerned),
                ring.arm.eq(self.arms.valid & (self.arms.p.context == context)),
                ring.arm_index.eq(self.arms.p.index),
                ring.disarm.eq(self.interrupts[context]),
                self.skipped[context].eq(self.orders.valid & self.orders.ready & current & ~wanted & concerned),
            ]
        self._elaborate_write(m, Array(ring.index for ring in rings)[ticket.context], current, wanted, wrote)
        self._elaborate_interrupts(m, rings)
        return m

    def _elaborate_write(self, m, index, current, wanted, wrote):
        order, ticket, write = self.orders.payload, self.orders.p.ticket, self.writes
        entry = Signal(8 * COMPLETION.size)
        shift = Signal(range(max(2, self._width // 8)))
        """Bytes from the start of the first line to the entry."""
        written_index = Signal(16)
        address = Signal(64)
        context = Array(self.contexts)[ticket.context]
        line_bits = (self._width // 8).bit_length() - 1
        beats = max(1, 8 * COMPLETION.size // self._width)
        beat = Signal(range(2))
        m.d.comb += [
            write.p.address.eq(address),
            write.p.beats.eq(beats),
            write.p.first.eq(beat == 0),
            write.p.last.eq(beat == beats - 1),
            write.p.data.eq(entry << (shift << 3) if beats == 1 else entry.word_select(beat, self._width)),
            write.p.strobe.eq(Const((1 << COMPLETION.size) - 1, COMPLETION.size) << shift),
        ]
        with m.FSM(name="write"):
            with m.State("TAKE"), m.If(self.orders.valid):
                with m.If(current & wanted):
                    offset = Signal(21)
                    place = Signal(64)
                    m.d.comb += [
                        offset.eq(Cat(Const(0, 5), index & ((1 << context.completion_size) - 1))),
                        place.eq(context.completion_base + offset),
                    ]
                    m.d.sync += [
                        entry.eq(self._entry(index, context)),
                        written_index.eq(index),
                        address.eq(Cat(Const(0, line_bits), place[line_bits:])),
                        shift.eq(place[:line_bits] if beats == 1 else 0),
                    ]
                    m.next = "WRITE"
                with m.Else():
                    m.d.comb += self.orders.ready.eq(1)
            with m.State("WRITE"):
                m.d.comb += write.valid.eq(1)
                with m.If(write.ready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(write.p.last):
                        m.d.sync += beat.eq(0)
                        m.d.comb += [self.orders.ready.eq(1), wrote.eq(current)]
                        m.d.comb += self.trace_completion_written.valid.eq(1)
                        m.next = "TAKE"
        event = self.trace_completion_written.event
        m.d.comb += [
            event.psn.eq(written_index),
            event.pdc.eq(ticket.peer),
            event.context.eq(ticket.context),
            event.status.eq(order.status),
            self.count_completions.eq(self.trace_completion_written.valid),
            self.count_error_completions.eq(self.count_completions & (order.status != ReturnCode.OK)),
        ]

    def _entry(self, index, context):
        ticket = self.orders.p.ticket
        values = {
            "context": ticket.user_context,
            "length": ticket.length,
            "descriptor": ticket.index,
            "opcode": ticket.opcode,
            "status": self.orders.p.status,
            # Phase 1 on the first lap, 0 on the second, in bit 7.
            "flags": Cat(Const(0, 7), ~index.bit_select(context.completion_size, 1)),
        }
        return Cat(values.get(field.name, Const(0, field.width)) for field in COMPLETION.fields)

    def _elaborate_interrupts(self, m, rings):
        for context, ring in reversed(list(enumerate(rings))):
            # The last assignment wins: the lowest context that is due; the others follow, a cycle each.
            with m.If(ring.due):
                m.d.comb += self.interrupts.eq(1 << context)
