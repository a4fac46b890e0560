"""Makes reads of the NIC's own state see its writes of it, where the bus does not."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.host.pending_lines import NUMBER_BITS, PendingLines
from amoeba_hw.interfaces import READ_REQUEST, WRITE_BEGUN
from amoeba_hw.stream import Queue, RegisterSlice, connect_streams

__all__ = ["LineOrder"]

_REQUEST = data.StructLayout({"request": READ_REQUEST, "user": USER_WIDTH})
"""A read, and who asks."""


class LineOrder(wiring.Component):
    """Holds a read back until the writes of what it reads that were ordered before it have been answered.

    AXI4 orders writes among each other, but no read after a write that was not answered yet. Two need that order:
    the memory engine, which drops a line when the changes have their place in the order of writes, and may read it
    again at once; and the target's answer memory, which is written for every answer and seldom read, so a read of it
    waits for all its writes. All other reads and writes are ordered by software, which waits for completions::

        cycle           0          1            2           3
        a read          on i       asked for    looked at   on o, or waits

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
        All reads, and who asks. ``i.ready`` comes from a register.
    o, o_user : READ_REQUEST stream, out
        Latency three cycles, one request per cycle. A read that waits holds up those behind it, and leaves two
        cycles after the answer.
    begun : WRITE_BEGUN, In
        From WriteHub: the write stream at the bus adapter has this order.
    answered : in
        Pulse: the host has answered a write burst, in their order, in a later cycle than it has begun.
    ordered, settled : out
        Numbers of the bursts that have begun, and of those answered, as WriteFence wants them.
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
                "begun": In(WRITE_BEGUN),
                "answered": In(1),
                "ordered": Out(NUMBER_BITS),
                "settled": Out(NUMBER_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        line_bits = (self._width // 8).bit_length() - 1
        m.submodules.asked = asked = Queue(_REQUEST, 2)
        m.submodules.looked_at = looked_at = RegisterSlice(_REQUEST)
        m.submodules.leaving = leaving = RegisterSlice(_REQUEST)
        m.submodules.pending = pending = PendingLines(64 - line_bits)
        connect_streams(m, asked.o, looked_at.i)
        connect_streams(m, looked_at.o, leaving.i)
        m.d.comb += [
            asked.i.p.request.eq(self.i.p),
            asked.i.p.user.eq(self.i_user),
            asked.i.valid.eq(self.i.valid),
            self.i.ready.eq(asked.i.ready),
            pending.begins.eq(self.begun.valid),
            pending.line.eq(self.begun.address >> line_bits),
            pending.remembered.eq(self.begun.user == self._lines),
            pending.answered.eq(self.answered),
            self.ordered.eq(pending.next_number),
            self.settled.eq(pending.oldest),
            pending.ask.eq(looked_at.i.ready),
            pending.asked.eq(asked.o.p.request.address >> line_bits),
        ]
        self._elaborate_wait(m, pending, looked_at, leaving)
        return m

    def _elaborate_wait(self, m, pending, looked_at, leaving):
        """Let a request that arrives in ``leaving`` wait for one burst, the last one that it has to follow."""
        last_written = Signal(NUMBER_BITS)
        """Number of the writer's last burst."""
        after = Signal(NUMBER_BITS)
        """Number of the writer's last burst when the request that is looked at was asked for."""
        follows, before = Signal(), Signal(NUMBER_BITS)
        """Whether that request follows a burst, and its number."""
        waits, number = Signal(), Signal(NUMBER_BITS)
        """Whether the leaving request waits, and for which burst."""
        user = looked_at.o.p.user
        m.d.comb += [
            before.eq(Mux(user == self._reader, after, pending.number)),
            follows.eq((user == self._reader) | ((user == self._lines) & pending.found)),
            self.o.p.eq(leaving.o.p.request),
            self.o_user.eq(leaving.o.p.user),
            self.o.valid.eq(leaving.o.valid & ~waits),
            leaving.o.ready.eq(self.o.ready & ~waits),
        ]
        with m.If(self.begun.valid & (self.begun.user == self._writer)):
            m.d.sync += last_written.eq(pending.next_number)
        with m.If(looked_at.i.ready):
            m.d.sync += after.eq(last_written)
        with m.If(leaving.i.ready):
            m.d.sync += [number.eq(before), waits.eq(looked_at.o.valid & follows & pending.waits(before))]
        with m.Else():
            m.d.sync += waits.eq(waits & pending.waits(number))
