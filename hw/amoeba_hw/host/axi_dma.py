"""Carries the core's DMA streams over AXI4."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.trace import AXI_USER

from amoeba_hw.host.axi import OKAY, USER_WIDTH, Axi4Signature
from amoeba_hw.interfaces import READ_REQUEST, read_beat, write_beat
from amoeba_hw.stream import SkidBuffer

__all__ = ["AxiDma"]

INCR = 1

_ADDRESS = data.StructLayout({"address": 64, "length": 8, "user": 8 * AXI_USER.size})


class AxiDma(wiring.Component):
    """Turns read requests and write bursts into AXI4 transactions.

    Parameters
    ----------
    width : int
        Bits per beat of the streams and of the bus.

    Members
    -------
    reads, read_data : streams
        READ_REQUEST and :func:`read_beat`. Latency zero to the bus and back, one beat per cycle.
    writes : stream
        :func:`write_beat`. A burst's address and first beat are offered together in the same cycle; the next beat
        follows when the bus has taken both. One beat per cycle, also with single-beat bursts.
    read_user, write_user : 8 bits
        Requester and context: sampled with the request and the first beat.
    write_error : out
        One pulse per write burst that the host refused. Writes are posted: nobody waits for their answer.
    bus : AXI4

    ``reads.ready`` and ``writes.ready`` come from registers.
    """

    def __init__(self, width):
        self._width = width
        self._write_addresses = SkidBuffer(_ADDRESS)
        self._write_beats = SkidBuffer(data.StructLayout({"data": width, "strobe": width // 8, "last": 1}))
        super().__init__(
            {
                "reads": In(stream.Signature(READ_REQUEST)),
                "read_data": Out(stream.Signature(read_beat(width))),
                "writes": In(stream.Signature(write_beat(width))),
                "read_user": In(USER_WIDTH),
                "write_user": In(USER_WIDTH),
                "write_error": Out(1),
                "bus": Out(Axi4Signature(width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._elaborate_reads(m)
        self._elaborate_writes(m)
        return m

    def _elaborate_reads(self, m):
        bus, beat = self.bus, self.read_data
        m.submodules.reads_skid = reads = SkidBuffer(data.StructLayout({"request": READ_REQUEST, "user": USER_WIDTH}))
        m.d.comb += [
            reads.i.valid.eq(self.reads.valid),
            reads.i.p.request.eq(self.reads.p),
            reads.i.p.user.eq(self.read_user),
            self.reads.ready.eq(reads.i.ready),
        ]
        request = reads.o.p.request
        line_bits = (self._width // 8).bit_length() - 1
        first_line = request.address >> line_bits
        last_line = Signal(64 - line_bits)
        m.d.comb += [
            last_line.eq((request.address + request.length - 1) >> line_bits),
            bus.araddr.eq(first_line << line_bits),
            bus.arlen.eq(last_line - first_line),
            bus.arsize.eq(line_bits),
            bus.arburst.eq(INCR),
            bus.aruser.eq(Cat(reads.o.p.user, request.context)),
            bus.arvalid.eq(reads.o.valid),
            reads.o.ready.eq(bus.arready),
            beat.p.data.eq(bus.rdata),
            beat.p.last.eq(bus.rlast),
            beat.p.error.eq(bus.rresp != OKAY),
            beat.valid.eq(bus.rvalid),
            bus.rready.eq(beat.ready),
        ]

    def _elaborate_writes(self, m):
        bus, beat = self.bus, self.writes
        m.submodules.write_addresses = addresses = self._write_addresses
        m.submodules.write_beats = beats = self._write_beats
        # A burst's address waits for no ready of its own data, nor its first beat for that of the address, which the
        # AXI specification forbids (A3.3.1).
        m.d.comb += [
            beat.ready.eq(addresses.i.ready & beats.i.ready),
            addresses.i.valid.eq(beat.valid & beat.p.first & beats.i.ready),
            addresses.i.p.address.eq(beat.p.address),
            addresses.i.p.length.eq(beat.p.beats - 1),
            addresses.i.p.user.eq(Cat(self.write_user, beat.p.context)),
            beats.i.valid.eq(beat.valid & addresses.i.ready),
            beats.i.p.data.eq(beat.p.data),
            beats.i.p.strobe.eq(beat.p.strobe),
            beats.i.p.last.eq(beat.p.last),
            bus.awaddr.eq(addresses.o.p.address),
            bus.awlen.eq(addresses.o.p.length),
            bus.awsize.eq((self._width // 8).bit_length() - 1),
            bus.awburst.eq(INCR),
            bus.awuser.eq(addresses.o.p.user),
            bus.awvalid.eq(addresses.o.valid),
            addresses.o.ready.eq(bus.awready),
            bus.wdata.eq(beats.o.p.data),
            bus.wstrb.eq(beats.o.p.strobe),
            bus.wlast.eq(beats.o.p.last),
            bus.wvalid.eq(beats.o.valid),
            beats.o.ready.eq(bus.wready),
            bus.bready.eq(1),
            self.write_error.eq(bus.bvalid & (bus.bresp != OKAY)),
        ]
