"""Makes reads of the NIC's own state see its writes of it, where the bus does not."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.host.pending_lines import NUMBER_BITS, PendingLines
from amoeba_hw.interfaces import READ_REQUEST, write_beat
from amoeba_hw.stream import RegisterSlice

__all__ = ["LineOrder"]

_REQUEST = data.StructLayout({"request": READ_REQUEST, "user": USER_WIDTH, "after": NUMBER_BITS})
"""A read, who asks, and the number of the writer's last burst before it."""


class LineOrder(wiring.Component):
    """Holds a read back until the writes of what it reads that were offered before it have been answered.

    AXI4 orders writes among each other, but no read after a write that was not answered yet. Two need that order:
    the memory engine, which drops a line when it has handed over the changes, and may read it again at once; and
    the target's answer memory, which is written for every answer and seldom read, so a read of it waits for all its
    writes. All other reads and writes are ordered by software, which waits for completions.

    Parameters
    ----------
    width : int
        Bits per beat.
    lines : int
        The client that reads and writes single lines, and is kept in order line by line.
    writer, reader : int
        Clients of which the one reads what the other writes.

    Members
    -------
    i, i_user : READ_REQUEST stream, in
        All reads, and who asks.
    o, o_user : READ_REQUEST stream, out
        Latency one cycle, one request per cycle. A read that waits holds up those behind it.
    write_valid, write_ready, write_beat, write_user : in
        The write stream at the bus adapter, only looked at.
    answered : in
        Pulse: the host has answered a write burst, in their order.
    """

    def __init__(self, width, *, lines, writer, reader):
        self._width = width
        self._lines, self._writer, self._reader = int(lines), int(writer), int(reader)
        super().__init__(
            {
                "i": In(stream.Signature(READ_REQUEST)),
                "i_user": In(USER_WIDTH),
                "o": Out(stream.Signature(READ_REQUEST)),
                "o_user": Out(USER_WIDTH),
                "write_valid": In(1),
                "write_ready": In(1),
                "write_beat": In(write_beat(width)),
                "write_user": In(USER_WIDTH),
                "answered": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        line_bits = (self._width // 8).bit_length() - 1
        m.submodules.requests = requests = RegisterSlice(_REQUEST)
        m.submodules.pending = pending = PendingLines(64 - line_bits)
        request, beat = requests.o, self.write_beat
        offered = Signal()
        waits = Signal()
        writes_now = Signal()
        """A burst of the writer is on offer, and has not begun."""
        last_written = Signal(NUMBER_BITS)
        """Number of the writer's last burst."""
        m.d.comb += [
            requests.i.p.request.eq(self.i.p),
            requests.i.p.user.eq(self.i_user),
            requests.i.p.after.eq(Mux(writes_now, pending.number, last_written)),
            requests.i.valid.eq(self.i.valid),
            self.i.ready.eq(requests.i.ready),
            pending.begins.eq(self.write_valid & self.write_ready & beat.first),
            pending.line.eq(beat.address >> line_bits),
            pending.remembered.eq(self.write_user == self._lines),
            pending.answered.eq(self.answered),
            pending.asked.eq(request.p.request.address >> line_bits),
            pending.asked_number.eq(request.p.after),
            writes_now.eq(self.write_valid & beat.first & (self.write_user == self._writer)),
            # A write on offer was made before, too.
            waits.eq(
                ~offered
                & Mux(
                    request.p.user == self._lines,
                    pending.waits | (self.write_valid & (pending.line == pending.asked)),
                    (request.p.user == self._reader) & (pending.number_waits | writes_now),
                )
            ),
            self.o.p.eq(request.p.request),
            self.o_user.eq(request.p.user),
            self.o.valid.eq(request.valid & ~waits),
            request.ready.eq(self.o.ready & ~waits),
        ]
        with m.If(writes_now & self.write_ready):
            m.d.sync += last_written.eq(pending.number)
        # An offered read stays, even if other lines are written meanwhile.
        m.d.sync += offered.eq(self.o.valid & ~self.o.ready)
        return m
