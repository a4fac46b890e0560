"""Reads lines from the host."""

from amaranth.hdl import Const, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import READ_REQUEST, TRACE_SLOT, read_beat
from amoeba_hw.memory.entry_records import EntryRecords
from amoeba_hw.memory.line_table import line_fetch
from amoeba_hw.memory.operations import LINE_ANSWER, entries, line_address_bits, whole_context
from amoeba_hw.stream import Queue

__all__ = ["LineFetcher"]

FETCHES_QUEUED = 8
"""Fetches that may wait for the host."""


class LineFetcher(wiring.Component):
    """Asks the host for lines and says which have arrived; ``lines`` are on the way at most.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i, i_valid : line_fetch, in
        At most one fetch per allocation of an entry. Never waits.
    room : out
        A fetch in this cycle will be taken, and one in the next, too.
    line_reads, line_data : streams
        To the host; latency one cycle, one line per cycle. Answers always find their place.
    allocated, allocated_entry : in
        Pulse: the entry holds another line, nothing of which has arrived.
    fill, fill_entry, fill_data, fill_refused : out
        Pulse: a line for the store, or that the host refused it.
    asked_entry : in
    answer : out
        In the same cycle: what had come for the line of that entry before this cycle.
    trace_line_read : TRACE_SLOT
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(entries(parameters))
        width = parameters.data_width
        super().__init__(
            {
                "i": In(line_fetch(parameters)),
                "i_valid": In(1),
                "space": Out(1),
                "line_reads": Out(stream.Signature(READ_REQUEST)),
                "line_data": In(stream.Signature(read_beat(width))),
                "allocated": In(1),
                "allocated_entry": In(entry),
                "fill": Out(1),
                "fill_entry": Out(entry),
                "fill_data": Out(width),
                "fill_refused": Out(1),
                "asked_entry": In(entry),
                "answer": Out(LINE_ANSWER),
                "trace_line_read": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        offset_bits = line_address_bits(self._parameters)
        m.submodules.requests = requests = Queue(line_fetch(self._parameters), FETCHES_QUEUED)
        m.submodules.order = order = Queue(range(entries(self._parameters)), self._parameters.lines)
        event = self.trace_line_read.event
        sent = self.line_reads.valid & self.line_reads.ready
        m.d.comb += [
            requests.i.p.eq(self.i),
            requests.i.valid.eq(self.i_valid),
            self.space.eq(requests.level <= FETCHES_QUEUED - 2),
            self.line_reads.p.address.eq(requests.o.p.line << offset_bits),
            self.line_reads.p.length.eq(self._parameters.beat_bytes),
            self.line_reads.p.context.eq(whole_context(requests.o.p.context)),
            # The order fills up by reads that were sent only, so one on offer is not withdrawn.
            self.line_reads.valid.eq(requests.o.valid & order.i.ready),
            requests.o.ready.eq(self.line_reads.ready & order.i.ready),
            order.i.p.eq(requests.o.p.entry),
            order.i.valid.eq(sent),
            self.trace_line_read.valid.eq(sent),
            event.psn.eq((requests.o.p.line << offset_bits)[:32]),
            event.pdc.eq(requests.o.p.pdc),
            event.context.eq(Const(0xFF, 8)),
        ]
        m.submodules.answers = answers = EntryRecords(LINE_ANSWER, entries(self._parameters), readers=1)
        m.d.comb += [
            self.line_data.ready.eq(order.o.valid),
            order.o.ready.eq(self.line_data.valid),
            self.fill.eq(self.line_data.valid & order.o.valid),
            self.fill_entry.eq(order.o.p),
            self.fill_data.eq(self.line_data.p.data),
            self.fill_refused.eq(self.line_data.p.error),
            answers.forget.eq(self.allocated),
            answers.forget_entry.eq(self.allocated_entry),
            answers.write.eq(self.fill),
            answers.write_entry.eq(self.fill_entry),
            answers.write_data.present.eq(1),
            answers.write_data.refused.eq(self.fill_refused),
            answers.asked[0].eq(self.asked_entry),
            self.answer.eq(answers.records[0]),
        ]
        return m
