"""Reads lines from the host."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import READ_REQUEST, TRACE_SLOT, read_beat
from amoeba_hw.memory.line_table import line_fetch, one_hot
from amoeba_hw.memory.operations import line_address_bits
from amoeba_hw.stream import Queue

__all__ = ["LineFetcher"]


class LineFetcher(wiring.Component):
    """Asks the host for lines and says which have arrived; as many on the way as the table has entries.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : stream of line_fetch
        At most one fetch per allocation of an entry.
    line_reads, line_data : streams
        To the host; latency two cycles, one line per cycle. Answers always find their place.
    allocated, allocated_entry : in
        Pulse: the entry holds another line, nothing of which has arrived.
    fill, fill_entry, fill_data : out
        Pulse: a line for the store.
    present : out, one bit per entry
        The line's answer has come.
    refused : out, one bit per entry
        The answer was that the host refused.
    trace_line_read : TRACE_SLOT
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(parameters.lines)
        width = parameters.data_width
        super().__init__(
            {
                "i": In(stream.Signature(line_fetch(parameters))),
                "line_reads": Out(stream.Signature(READ_REQUEST)),
                "line_data": In(stream.Signature(read_beat(width))),
                "allocated": In(1),
                "allocated_entry": In(entry),
                "fill": Out(1),
                "fill_entry": Out(entry),
                "fill_data": Out(width),
                "present": Out(parameters.lines),
                "refused": Out(parameters.lines),
                "trace_line_read": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = self._parameters.lines
        offset_bits = line_address_bits(self._parameters)
        m.submodules.requests = requests = Queue(line_fetch(self._parameters), 4)
        # Every entry is on the way at most once, so the order always has room.
        m.submodules.order = order = Queue(range(count), count + 2)
        event = self.trace_line_read.event
        sent = self.line_reads.valid & self.line_reads.ready
        m.d.comb += [
            requests.i.p.eq(self.i.p),
            requests.i.valid.eq(self.i.valid),
            self.i.ready.eq(requests.i.ready),
            self.line_reads.p.address.eq(requests.o.p.line << offset_bits),
            self.line_reads.p.length.eq(self._parameters.beat_bytes),
            self.line_reads.valid.eq(requests.o.valid),
            requests.o.ready.eq(self.line_reads.ready),
            order.i.p.eq(requests.o.p.entry),
            order.i.valid.eq(sent),
            self.trace_line_read.valid.eq(sent),
            event.psn.eq((requests.o.p.line << offset_bits)[:32]),
            event.pdc.eq(requests.o.p.pdc),
            event.context.eq(Const(0xFF, 8)),
        ]
        answered = Signal()
        m.d.comb += [
            self.line_data.ready.eq(order.o.valid),
            answered.eq(self.line_data.valid & order.o.valid),
            order.o.ready.eq(answered),
            self.fill.eq(answered),
            self.fill_entry.eq(order.o.p),
            self.fill_data.eq(self.line_data.p.data),
        ]
        arriving = one_hot(m, "arriving", order.o.p, answered, count)
        leaving = one_hot(m, "leaving", self.allocated_entry, self.allocated, count)
        m.d.sync += [
            self.present.eq((self.present & ~leaving) | arriving),
            self.refused.eq((self.refused & ~leaving) | Mux(self.line_data.p.error, arriving, 0)),
        ]
        return m
