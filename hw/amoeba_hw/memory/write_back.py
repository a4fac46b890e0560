"""Hands changed lines to the host's write channel."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import TRACE_SLOT, write_beat
from amoeba_hw.memory.operations import (
    LINES_UNORDERED,
    context_bits,
    entries,
    line_address_bits,
    whole_context,
    write_counter_bits,
)
from amoeba_hw.stream import Queue

__all__ = ["WriteBack"]


class WriteBack(wiring.Component):
    """Writes the bytes that operations changed, and only those: other bytes belong to the host.

    A line waits in a queue from its first change on; what changes while it waits goes with it. When its turn
    comes, its dirty bytes are taken to be clean, and a later change queues it again.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    allocated, allocated_entry, allocated_line, allocated_context : in
        Pulse: from now on the entry holds this line of this context.
    dirtied, dirtied_entry : in
        Pulse: the entry has become dirty; it does not wait yet, or its turn was in the cycle before.
    copy, copy_entry : out
        Take a line's dirty bytes from the store.
    copy_data, copy_strobe : in
        From the next cycle on, until the next ``copy``.
    line_writes : write_beat stream
        One line per cycle.
    line_writes_ordered : in
        Pulse: WriteHub has given the oldest line its place.
    written, written_entry : out
        Pulse, one cycle later: what the entry was queued for has its place.
    queued, accepted : out, 8 bits more than an entry's number
        How often a line was queued, and how often one got its place, modulo their range. Bytes committed when
        ``queued`` was n are on their way to the host when ``accepted`` has reached n.
    trace_line_written : TRACE_SLOT
        When ``line_writes`` takes it.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(entries(parameters))
        width = parameters.data_width
        counter = write_counter_bits(parameters)
        super().__init__(
            {
                "allocated": In(1),
                "allocated_entry": In(entry),
                "allocated_line": In(64 - line_address_bits(parameters)),
                "allocated_context": In(context_bits(parameters)),
                "dirtied": In(1),
                "dirtied_entry": In(entry),
                "copy": Out(1),
                "copy_entry": Out(entry),
                "copy_data": In(width),
                "copy_strobe": In(width // 8),
                "line_writes": Out(stream.Signature(write_beat(width))),
                "line_writes_ordered": In(1),
                "written": Out(1),
                "written_entry": Out(entry),
                "queued": Out(counter),
                "accepted": Out(counter),
                "trace_line_written": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = entries(self._parameters)
        offset_bits = line_address_bits(self._parameters)
        # An entry waits at most once, so the queue is never full.
        m.submodules.queue = queue = Queue(range(count), count + 2)
        m.submodules.unordered = unordered = Queue(range(count), LINES_UNORDERED)
        taken, ordered, space = Signal(), Signal(), Signal()
        entry = Signal(range(count))
        """Of the line on ``line_writes``."""
        place = data.StructLayout({"line": 64 - offset_bits, "context": context_bits(self._parameters)})
        m.submodules.lines = lines = memory.Memory(shape=place, depth=count, init=[])
        record, look_up = lines.write_port(), lines.read_port()
        beat = self.line_writes.p
        m.d.comb += [
            record.addr.eq(self.allocated_entry),
            record.data.line.eq(self.allocated_line),
            record.data.context.eq(self.allocated_context),
            record.en.eq(self.allocated),
            queue.i.p.eq(self.dirtied_entry),
            queue.i.valid.eq(self.dirtied),
            # One for the line on offer.
            space.eq(unordered.level <= LINES_UNORDERED - 2),
            queue.o.ready.eq((~self.line_writes.valid | self.line_writes.ready) & space),
            self.copy.eq(queue.o.valid & queue.o.ready),
            self.copy_entry.eq(queue.o.p),
            look_up.addr.eq(queue.o.p),
            look_up.en.eq(self.copy),
            taken.eq(self.line_writes.valid & self.line_writes.ready),
            unordered.i.p.eq(entry),
            unordered.i.valid.eq(taken),
            unordered.o.ready.eq(ordered),
            self.written.eq(ordered),
            self.written_entry.eq(unordered.o.p),
        ]
        with m.If(~self.line_writes.valid | self.line_writes.ready):
            m.d.sync += [self.line_writes.valid.eq(self.copy), entry.eq(queue.o.p)]
        m.d.sync += [
            ordered.eq(self.line_writes_ordered),
            self.queued.eq(self.queued + self.dirtied),
            self.accepted.eq(self.accepted + self.written),
        ]
        m.d.comb += [
            beat.address.eq(look_up.data.line << offset_bits),
            beat.context.eq(whole_context(look_up.data.context)),
            beat.beats.eq(1),
            beat.data.eq(self.copy_data),
            beat.strobe.eq(self.copy_strobe),
            beat.first.eq(1),
            beat.last.eq(1),
            self.trace_line_written.valid.eq(taken),
            self.trace_line_written.event.psn.eq(beat.address[:32]),
            self.trace_line_written.event.context.eq(Const(0xFF, 8)),
        ]
        return m
