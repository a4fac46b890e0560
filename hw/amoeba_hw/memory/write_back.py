"""Hands changed lines to the host's write channel."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import TRACE_SLOT, write_beat
from amoeba_hw.memory.line_table import one_hot
from amoeba_hw.memory.operations import commit_of, line_address_bits
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
    allocated, allocated_entry, allocated_line : in
        Pulse: from now on the entry holds this line.
    commit : in, commit_of
    copy, copy_entry : out
        Read a line's newest value from the store.
    copy_data : in
    line_writes : write_beat stream
        One line per cycle.
    held : out, one bit per entry
        The entry has changes that ``line_writes`` has not accepted.
    queued, accepted : out, 8 bits more than an entry's number
        How often a line was queued, and how often one was accepted, modulo their range. What was committed when
        ``queued`` was n is on its way to the host when ``accepted`` has reached n.
    trace_line_written : TRACE_SLOT
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(parameters.lines)
        width = parameters.data_width
        counter = (parameters.lines - 1).bit_length() + 8
        super().__init__(
            {
                "allocated": In(1),
                "allocated_entry": In(entry),
                "allocated_line": In(64 - line_address_bits(parameters)),
                "commit": In(commit_of(parameters)),
                "copy": Out(1),
                "copy_entry": Out(entry),
                "copy_data": In(width),
                "line_writes": Out(stream.Signature(write_beat(width))),
                "held": Out(parameters.lines),
                "queued": Out(counter),
                "accepted": Out(counter),
                "trace_line_written": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = self._parameters.lines
        offset_bits = line_address_bits(self._parameters)
        # An entry waits at most once, so the queue always has room.
        m.submodules.queue = queue = Queue(range(count), count + 2)
        m.submodules.lines = lines = memory.Memory(shape=64 - offset_bits, depth=count, init=[])
        record = lines.write_port()
        look_up = lines.read_port()
        changed = Signal()
        start = Signal()
        waiting = Signal(count)
        dirty = [Signal(self._parameters.beat_bytes, name=f"dirty_{index}") for index in range(count)]
        writing_entry = Signal(range(count))
        beat = self.line_writes.p
        m.d.comb += [
            record.addr.eq(self.allocated_entry),
            record.data.eq(self.allocated_line),
            record.en.eq(self.allocated),
            changed.eq(self.commit.valid & self.commit.strobe.any()),
            start.eq(queue.o.valid & (~self.line_writes.valid | self.line_writes.ready)),
            queue.o.ready.eq(~self.line_writes.valid | self.line_writes.ready),
            self.copy.eq(start),
            self.copy_entry.eq(queue.o.p),
            look_up.addr.eq(queue.o.p),
            look_up.en.eq(start),
            queue.i.p.eq(self.commit.entry),
            queue.i.valid.eq(
                changed & (~Array(waiting)[self.commit.entry] | (start & (queue.o.p == self.commit.entry)))
            ),
        ]
        commits = one_hot(m, "commits", self.commit.entry, changed, count)
        starts = one_hot(m, "starts", queue.o.p, start, count)
        writing = one_hot(m, "writing", writing_entry, self.line_writes.valid, count)
        for index, mask in enumerate(dirty):
            m.d.sync += mask.eq(Mux(starts[index], 0, mask) | Mux(commits[index], self.commit.strobe, 0))
        accepted = self.line_writes.valid & self.line_writes.ready
        with m.If(start):
            m.d.sync += [writing_entry.eq(queue.o.p), beat.strobe.eq(Array(dirty)[queue.o.p])]
        with m.If(start | accepted):
            m.d.sync += self.line_writes.valid.eq(start)
        m.d.sync += [
            waiting.eq((waiting & ~starts) | commits),
            self.queued.eq(self.queued + queue.i.valid),
            self.accepted.eq(self.accepted + accepted),
        ]
        m.d.comb += [
            self.held.eq(waiting | writing),
            beat.address.eq(look_up.data << offset_bits),
            beat.beats.eq(1),
            beat.data.eq(self.copy_data),
            beat.first.eq(1),
            beat.last.eq(1),
            self.trace_line_written.valid.eq(accepted),
            self.trace_line_written.event.psn.eq(beat.address[:32]),
            self.trace_line_written.event.context.eq(Const(0xFF, 8)),
        ]
        return m
