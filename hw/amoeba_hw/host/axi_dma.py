"""Carries the core's DMA streams over AXI4."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import OKAY, USER_WIDTH, Axi4Signature
from amoeba_hw.interfaces import READ_REQUEST, read_beat, write_beat
from amoeba_hw.stream import SkidBuffer

__all__ = ["AxiDma"]

INCR = 1


class AxiDma(wiring.Component):
    """Turns read requests and write bursts into AXI4 transactions.

    Parameters
    ----------
    width : int
        Bits per beat of the streams and of the bus.

    Members
    -------
    reads, read_data : streams
        READ_REQUEST and :func:`read_beat`. Latency zero to the bus and back, one beat per cycle. ``reads.ready``
        comes from a register.
    writes : stream
        :func:`write_beat`. A burst's address and first beat are offered together; each beat is taken when the
        bus has taken both. One beat per cycle, also with single-beat bursts.
    read_user, write_user : 8 bits
        Requester and context: sampled with the request and the first beat.
    write_error : out
        One pulse per write burst that the host refused. Writes are posted: nobody waits for their answer.
    bus : AXI4
    """

    def __init__(self, width):
        self._width = width
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
        address_sent = Signal()
        data_sent = Signal()
        address_done = Signal()
        data_done = Signal()
        # Neither channel waits for the other's ready, which the AXI specification forbids (A3.3.1).
        m.d.comb += [
            bus.awaddr.eq(beat.p.address),
            bus.awlen.eq(beat.p.beats - 1),
            bus.awsize.eq((self._width // 8).bit_length() - 1),
            bus.awburst.eq(INCR),
            bus.awuser.eq(Cat(self.write_user, beat.p.context)),
            bus.awvalid.eq(beat.valid & beat.p.first & ~address_sent),
            address_done.eq(~beat.p.first | address_sent | bus.awready),
            bus.wdata.eq(beat.p.data),
            bus.wstrb.eq(beat.p.strobe),
            bus.wlast.eq(beat.p.last),
            bus.wvalid.eq(beat.valid & ~data_sent),
            data_done.eq(data_sent | bus.wready),
            beat.ready.eq(address_done & data_done),
            bus.bready.eq(1),
            self.write_error.eq(bus.bvalid & (bus.bresp != OKAY)),
        ]
        with m.If(beat.valid):
            m.d.sync += [
                address_sent.eq(beat.p.first & address_done & ~data_done),
                data_sent.eq(data_done & ~address_done),
            ]
