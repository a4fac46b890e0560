"""A small stand-in for the NIC, with the NIC's ports: copies memory, echoes frames, has one trap for each fault."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.stream import Queue, SkidBuffer
from amoeba_model.trace import Requester

SOURCE, SOURCE_HIGH, TARGET, TARGET_HIGH, LENGTH, CONTROL, SCRATCH = range(0, 28, 4)
HOLE = 0x40
"""The NIC refuses accesses here."""
SILENCE = 0x80
"""The NIC never answers a read here."""
BUSY, FAILED = 1, 2
"""Bits of CONTROL when read. Writing 1 starts a copy."""
DONE_VECTOR, FAILED_VECTOR = 1, 2
"""Interrupts, as bit masks."""
MAX_BEATS = 8
"""Per burst."""

AXI_LITE = wiring.Signature(
    {
        "awaddr": Out(12), "awvalid": Out(1), "awready": In(1),
        "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
        "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "araddr": Out(12), "arvalid": Out(1), "arready": In(1),
        "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
    }
)  # fmt: skip


def axi4(width):
    address = {"id": Out(4), "addr": Out(64), "len": Out(8), "size": Out(3), "burst": Out(2), "user": Out(16)}
    members = {}
    for channel in ("aw", "ar"):
        members |= {f"{channel}{name}": member for name, member in address.items()}
        members |= {f"{channel}valid": Out(1), f"{channel}ready": In(1)}
    members |= {
        "wdata": Out(width), "wstrb": Out(width // 8), "wlast": Out(1), "wvalid": Out(1), "wready": In(1),
        "bid": In(4), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "rid": In(4), "rdata": In(width), "rresp": In(2), "rlast": In(1), "rvalid": In(1), "rready": Out(1),
    }  # fmt: skip
    return wiring.Signature(members)


def axi_stream(width):
    return wiring.Signature(
        {"tdata": Out(width), "tkeep": Out(width // 8), "tlast": Out(1), "tvalid": Out(1), "tready": In(1)}
    )


TRACE_SLOT = wiring.Signature({"valid": Out(1), "data": Out(64)})


class CopyEngine(wiring.Component):
    """Copies LENGTH bytes from SOURCE to TARGET, which must agree modulo the beat; echoes every frame.

    Reads carry requester OPERAND_FETCH and id 3, writes RESULT_WRITER and id 5. A refused access ends the copy
    with FAILED. Trace stage DOORBELL is the start (psn = LENGTH), DESCRIPTOR the transfer of a read address,
    OPERAND each data beat read.

    Parameters
    ----------
    width : int
        Data width of bus and link, in bits.
    """

    def __init__(self, width):
        self._width = width
        super().__init__(
            {
                "bar": In(AXI_LITE),
                "host": Out(axi4(width)),
                "rx": In(axi_stream(width)),
                "tx": Out(axi_stream(width)),
                "irq": Out(2),
                "trace": Out(
                    wiring.Signature({name: Out(TRACE_SLOT) for name in ("doorbell", "descriptor", "operand")})
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        registers = [Signal(32, name=f"register{index}") for index in range(7)]
        start, busy, failed = Signal(), Signal(), Signal()
        self._elaborate_registers(m, registers, start, busy | failed << 1)
        self._elaborate_copy(m, registers, start, busy, failed)
        self._elaborate_echo(m)
        m.d.comb += [
            self.trace.doorbell.valid.eq(start),
            self.trace.doorbell.data.eq(registers[LENGTH // 4]),
            self.trace.descriptor.valid.eq(self.host.arvalid & self.host.arready),
            self.trace.operand.valid.eq(self.host.rvalid & self.host.rready),
        ]
        return m

    def _elaborate_registers(self, m, registers, start, status):
        bar = self.bar
        write = Signal()
        m.d.comb += [
            write.eq(bar.awvalid & bar.wvalid & ~bar.bvalid),
            bar.awready.eq(write),
            bar.wready.eq(write),
            bar.arready.eq(~bar.rvalid & (bar.araddr != SILENCE)),
        ]
        with m.If(bar.bready):
            m.d.sync += bar.bvalid.eq(0)
        with m.If(bar.rready):
            m.d.sync += bar.rvalid.eq(0)
        with m.If(write):
            m.d.sync += [bar.bvalid.eq(1), bar.bresp.eq(Mux(bar.awaddr == HOLE, 2, 0))]
        with m.If(bar.arvalid & bar.arready):
            m.d.sync += [bar.rvalid.eq(1), bar.rresp.eq(Mux(bar.araddr == HOLE, 2, 0)), bar.rdata.eq(0)]
        for index, register in enumerate(registers):
            with m.If(write & (bar.awaddr == 4 * index)):
                m.d.sync += register.eq(bar.wdata)
                if index == CONTROL // 4:
                    m.d.comb += start.eq(bar.wdata[0])
            with m.If(bar.arvalid & bar.arready & (bar.araddr == 4 * index)):
                m.d.sync += bar.rdata.eq(status if index == CONTROL // 4 else register)

    def _elaborate_copy(self, m, registers, start, busy, failed):
        host = self.host
        beat = self._width // 8
        source, target = Signal(64), Signal(64)
        left = Signal(32)
        skip = source[: beat.bit_length() - 1]
        page_beats = 4096 // beat
        source_space = page_beats - source[beat.bit_length() - 1 : 12]
        target_space = page_beats - target[beat.bit_length() - 1 : 12]
        needed = (skip + left + beat - 1) // beat
        beats = Signal(range(MAX_BEATS + 1))
        m.d.comb += beats.eq(MAX_BEATS)
        for limit in (needed, source_space, target_space):
            shorter = Signal.like(beats, name="shorter")
            m.d.comb += shorter.eq(Mux(limit < beats, limit, beats))
            beats = shorter
        refused = Signal()
        written = Signal(9)
        moved = Signal(32)

        m.submodules.buffer = buffer = Queue(self._width, MAX_BEATS)
        m.d.comb += [
            buffer.i.payload.eq(host.rdata),
            host.wdata.eq(buffer.o.payload),
            moved.eq(beats * beat - skip),
            host.araddr.eq(source), host.awaddr.eq(target),
            host.arlen.eq(beats - 1), host.awlen.eq(beats - 1),
            host.arid.eq(3), host.awid.eq(5),
            host.aruser.eq(Requester.OPERAND_FETCH), host.awuser.eq(Requester.RESULT_WRITER),
        ]  # fmt: skip
        for address in (host.arsize, host.awsize):
            m.d.comb += address.eq(beat.bit_length() - 1)
        for burst in (host.arburst, host.awburst):
            m.d.comb += burst.eq(1)
        with m.FSM():
            with m.State("IDLE"), m.If(start):
                m.d.sync += [
                    source.eq(Cat(registers[SOURCE // 4], registers[SOURCE_HIGH // 4])),
                    target.eq(Cat(registers[TARGET // 4], registers[TARGET_HIGH // 4])),
                    left.eq(registers[LENGTH // 4]),
                    busy.eq(1), failed.eq(0), refused.eq(0),
                ]  # fmt: skip
                m.next = "READ ADDRESS"
            with m.State("READ ADDRESS"):
                m.d.comb += host.arvalid.eq(1)
                with m.If(host.arready):
                    m.next = "READ DATA"
            with m.State("READ DATA"):
                m.d.comb += [host.rready.eq(buffer.i.ready), buffer.i.valid.eq(host.rvalid)]
                with m.If(host.rvalid & host.rready):
                    m.d.sync += refused.eq(refused | (host.rresp != 0))
                    with m.If(host.rlast):
                        m.next = "WRITE ADDRESS"
            with m.State("WRITE ADDRESS"):
                m.d.comb += host.awvalid.eq(~refused)
                m.d.sync += written.eq(0)
                with m.If(refused):
                    m.next = "FAIL"
                with m.Elif(host.awready):
                    m.next = "WRITE DATA"
            with m.State("WRITE DATA"):
                first = Mux(written == 0, skip, 0)
                end = skip + left - written * beat
                m.d.comb += [
                    host.wvalid.eq(buffer.o.valid),
                    buffer.o.ready.eq(host.wready),
                    host.wlast.eq(written == beats - 1),
                ]
                for lane in range(beat):
                    m.d.comb += host.wstrb[lane].eq((first <= lane) & (lane < end))
                with m.If(host.wvalid & host.wready):
                    m.d.sync += written.eq(written + 1)
                    with m.If(host.wlast):
                        m.next = "WRITE RESPONSE"
            with m.State("WRITE RESPONSE"):
                m.d.comb += host.bready.eq(1)
                with m.If(host.bvalid):
                    with m.If(host.bresp != 0):
                        m.next = "FAIL"
                    with m.Elif(left <= moved):
                        m.d.sync += busy.eq(0)
                        m.d.comb += self.irq.eq(DONE_VECTOR)
                        m.next = "IDLE"
                    with m.Else():
                        m.d.sync += [source.eq(source + moved), target.eq(target + moved), left.eq(left - moved)]
                        m.next = "READ ADDRESS"
            with m.State("FAIL"):
                # What was read of the refused burst must not lead the next one.
                m.d.comb += buffer.o.ready.eq(1)
                with m.If(buffer.level == 0):
                    m.d.sync += [busy.eq(0), failed.eq(1)]
                    m.d.comb += self.irq.eq(FAILED_VECTOR)
                    m.next = "IDLE"

    def _elaborate_echo(self, m):
        beat = data.StructLayout({"data": self._width, "keep": self._width // 8, "last": 1})
        m.submodules.echo = echo = SkidBuffer(beat)
        m.d.comb += [
            echo.i.p.data.eq(self.rx.tdata), echo.i.p.keep.eq(self.rx.tkeep), echo.i.p.last.eq(self.rx.tlast),
            echo.i.valid.eq(self.rx.tvalid), self.rx.tready.eq(echo.i.ready),
            self.tx.tdata.eq(echo.o.p.data), self.tx.tkeep.eq(echo.o.p.keep), self.tx.tlast.eq(echo.o.p.last),
            self.tx.tvalid.eq(echo.o.valid), echo.o.ready.eq(self.tx.tready),
        ]  # fmt: skip
