"""Writes packed packets to any range of host memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import DMA_COMMAND, packet_beat, write_beat
from amoeba_hw.stream import Queue, SkidBuffer, connect_streams

__all__ = ["PackedWriter"]

PAGE = 4096
BURST = 1024
"""Bytes per burst at most: short enough that no other client waits long, and within 128 beats of any width."""
BURSTS = 8
"""Bursts that may be on their way to their place in the order of writes."""


class PackedWriter(wiring.Component):
    """Writes one packet per command, its first byte at the command's address.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    commands : DMA_COMMAND stream
        ``length`` must be the packet's.
    packets : :func:`packet_beat` stream
        Must be able to complete without waiting for ``writes``.
    writes : :func:`write_beat` stream
        Bursts that cross neither a 4 KiB boundary nor a 1 KiB one.
    writes_ordered : in
        Pulse: WriteHub has given the last beat of the oldest burst its place.
    done : out
        Pulse: the same of a command's last burst, one cycle later.

    ``commands.ready`` and ``packets.ready`` come from registers. One line per cycle; a tail that reaches into one
    more line than the packet has beats costs one cycle.
    """

    def __init__(self, width):
        self._width = width
        super().__init__(
            {
                "commands": In(stream.Signature(DMA_COMMAND)),
                "packets": In(stream.Signature(packet_beat(width))),
                "writes": Out(stream.Signature(write_beat(width))),
                "writes_ordered": In(1),
                "done": Out(1),
            }
        )
        self._carry = Signal(width)
        self._line = Signal(14)
        """Lines of this command written so far."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.commands_skid = commands_skid = SkidBuffer(DMA_COMMAND)
        m.submodules.packets_skid = packets_skid = SkidBuffer(packet_beat(self._width))
        connect_streams(m, wiring.flipped(self.commands), commands_skid.i)
        connect_streams(m, wiring.flipped(self.packets), packets_skid.i)
        command, packet, write = commands_skid.o, packets_skid.o, self.writes
        line_bytes = self._width // 8
        line_bits = line_bytes.bit_length() - 1
        offset = command.p.address[:line_bits]
        lines = Signal(14)
        beats = Signal(14)
        flush = Signal()
        final = Signal()
        # A bit for each burst on its way to its place: it is its command's last.
        m.submodules.bursts = bursts = Queue(1, BURSTS)
        shifted = Signal(2 * self._width)
        m.d.comb += [
            lines.eq((offset + command.p.length + line_bytes - 1) >> line_bits),
            beats.eq((command.p.length + line_bytes - 1) >> line_bits),
            # All beats are taken, but their tail is not written: a line without a beat of its own.
            flush.eq(self._line == beats),
            shifted.eq(Mux(flush, 0, packet.p.data) << (offset << 3)),
            write.p.data.eq(shifted[: self._width] | Mux(self._line == 0, 0, self._carry)),
            write.valid.eq(command.valid & (flush | packet.valid) & bursts.i.ready),
            packet.ready.eq(command.valid & ~flush & write.ready & bursts.i.ready),
        ]
        self._elaborate_addressing(m, command, offset, lines)
        transfer = write.valid & write.ready
        ordered = Signal()
        m.d.sync += ordered.eq(self.writes_ordered)
        m.d.comb += [
            final.eq(self._line == lines - 1),
            bursts.i.p.eq(final),
            bursts.i.valid.eq(transfer & write.p.last),
            bursts.o.ready.eq(ordered),
            self.done.eq(ordered & bursts.o.p),
            command.ready.eq(transfer & final),
        ]
        with m.If(transfer):
            m.d.sync += [self._line.eq(Mux(final, 0, self._line + 1)), self._carry.eq(shifted[self._width :])]
        return m

    def _elaborate_addressing(self, m, command, offset, lines):
        write = self.writes
        line_bytes = self._width // 8
        line_bits = line_bytes.bit_length() - 1
        lines_per_burst = BURST // line_bytes
        address = Signal(64)
        in_burst = Signal(range(lines_per_burst))
        to_boundary = Signal(range(lines_per_burst + 1))
        remaining = Signal(14)
        end = Signal(15)
        skip_tail = Signal(range(line_bytes))
        ones = Const((1 << line_bytes) - 1, line_bytes)
        m.d.comb += [
            address.eq(Cat(Const(0, line_bits), command.p.address[line_bits:] + self._line)),
            in_burst.eq(address[line_bits:]),
            to_boundary.eq(lines_per_burst - in_burst),
            remaining.eq(lines - self._line),
            write.p.address.eq(address),
            write.p.context.eq(command.p.context),
            write.p.first.eq((self._line == 0) | (in_burst == 0)),
            write.p.beats.eq(Mux(remaining < to_boundary, remaining, to_boundary)),
            write.p.last.eq((remaining == 1) | (to_boundary == 1)),
            end.eq(offset + command.p.length),
            skip_tail.eq(-end),
            write.p.strobe.eq(
                (Mux(self._line == 0, ones << offset, ones)) & Mux(remaining == 1, ones >> skip_tail, ones)
            ),
        ]
