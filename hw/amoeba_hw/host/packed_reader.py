"""Reads any range of host memory as one packed packet."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import DMA_COMMAND, READ_REQUEST, packet_beat, read_beat
from amoeba_hw.stream import Queue, SkidBuffer, connect_streams

__all__ = ["PackedReader"]

PAGE = 4096


class PackedReader(wiring.Component):
    """Fetches the bytes of each command and delivers them packed from byte 0.

    Parameters
    ----------
    width : int
        Bits per beat.
    depth : int
        Commands in flight.

    Members
    -------
    commands : DMA_COMMAND stream
    packets : :func:`packet_beat` stream
        One packet per command, in order; ``error`` on its last beat if the host refused any part.
    requests, answers : read client's streams
        Requests are cut at 4 KiB boundaries.

    ``commands.ready`` and ``answers.ready`` come from registers.

    A packet that begins where a line does passes line by line, one per cycle. The first beat of others follows the
    second line's arrival (the first line's, if that holds all of it); then one beat per cycle, and one idle cycle of
    input where the tail of the last line is a beat of its own.
    """

    def __init__(self, width, depth=32):
        self._width = width
        self._depth = depth
        self._job = data.StructLayout({"offset": (width // 8 - 1).bit_length(), "length": 14})
        super().__init__(
            {
                "commands": In(stream.Signature(DMA_COMMAND)),
                "packets": Out(stream.Signature(packet_beat(width))),
                "requests": Out(stream.Signature(READ_REQUEST)),
                "answers": In(stream.Signature(read_beat(width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.jobs = jobs = Queue(self._job, self._depth)
        m.submodules.commands_skid = commands_skid = SkidBuffer(DMA_COMMAND)
        m.submodules.answers_skid = answers_skid = SkidBuffer(read_beat(self._width))
        connect_streams(m, wiring.flipped(self.commands), commands_skid.i)
        connect_streams(m, wiring.flipped(self.answers), answers_skid.i)
        self._elaborate_requests(m, jobs, commands_skid.o)
        self._elaborate_packing(m, jobs, answers_skid.o)
        return m

    def _elaborate_requests(self, m, jobs, command):
        request = self.requests
        done = Signal(14)
        address = Signal(64)
        remaining = Signal(14)
        to_boundary = Signal(13)
        whole = Signal()
        first = Signal()
        m.d.comb += [
            first.eq(done == 0),
            address.eq(command.p.address + done),
            remaining.eq(command.p.length - done),
            to_boundary.eq(PAGE - address[:12]),
            whole.eq(remaining <= to_boundary),
            request.p.address.eq(address),
            request.p.context.eq(command.p.context),
            request.p.length.eq(Mux(whole, remaining[:13], to_boundary)),
            # The job is entered with the first piece.
            request.valid.eq(command.valid & (~first | jobs.i.ready)),
            jobs.i.valid.eq(command.valid & first & request.ready),
            jobs.i.p.offset.eq(command.p.address),
            jobs.i.p.length.eq(command.p.length),
            command.ready.eq(request.valid & request.ready & whole),
        ]
        with m.If(request.valid & request.ready):
            m.d.sync += done.eq(Mux(whole, 0, done + request.p.length))

    def _elaborate_packing(self, m, jobs, line):
        packet, job = self.packets, jobs.o
        line_bytes = self._width // 8
        held = Signal(self._width)
        delivered = Signal(14)
        failed = Signal()
        inside = Signal()
        """A first line is held, part of which belongs to the next beat."""
        remaining = Signal(14)
        in_held = Signal(range(line_bytes + 1))
        arriving = Signal(self._width)
        window = Signal(self._width)
        aligned = Signal()
        needs_line = Signal()
        takes_line = Signal()
        m.d.comb += [
            remaining.eq(job.p.length - delivered),
            in_held.eq(line_bytes - job.p.offset),
            aligned.eq(job.p.offset == 0),
            # Nothing is held before the first line; the tail of the last is delivered without another.
            needs_line.eq(~inside | (remaining > in_held)),
            packet.p.last.eq(remaining <= Mux(inside, line_bytes, in_held)),
            packet.p.count.eq(Mux(remaining < line_bytes, remaining, line_bytes)),
            packet.p.error.eq(failed | (needs_line & line.p.error)),
            # Bytes outside the packet may change while ``packets`` waits.
            arriving.eq(Mux(needs_line, line.p.data, 0)),
            window.eq(Mux(inside, Cat(held, arriving), arriving) >> (job.p.offset << 3)),
            packet.p.data.eq(window),
            packet.valid.eq(job.valid & (inside | aligned | packet.p.last) & (line.valid | ~needs_line)),
            # The first line of several is only stored.
            takes_line.eq(job.valid & needs_line & ((~inside & ~aligned & ~packet.p.last) | packet.ready)),
            line.ready.eq(takes_line),
            job.ready.eq(packet.valid & packet.ready & packet.p.last),
        ]
        with m.If(line.valid & takes_line):
            m.d.sync += [held.eq(line.p.data), inside.eq(~aligned), failed.eq(failed | line.p.error)]
        with m.If(packet.valid & packet.ready):
            m.d.sync += delivered.eq(delivered + line_bytes)
        with m.If(job.ready):
            m.d.sync += [delivered.eq(0), inside.eq(0), failed.eq(0)]
