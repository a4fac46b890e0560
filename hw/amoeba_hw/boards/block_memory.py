"""The memory of a node, in block RAM: AXI4 as the NIC speaks it."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In
from amoeba_model.node import MEMORY_PAGE

from amoeba_hw.host.axi import OKAY, SLVERR, Axi4Signature
from amoeba_hw.stream import SkidBuffer

__all__ = ["BlockMemory"]

_INCR = 1
_ADDRESS = data.StructLayout({"address": 64, "length": 8, "refused": 1})


class BlockMemory(wiring.Component):
    """Serves reads and writes of memory that begins at address 0.

    Bursts increment by whole beats and do not cross 4 KiB, as the NIC's do. A burst outside the memory, of another
    type or of narrow beats changes nothing and is answered with SLVERR, each beat of a read with data of zero. Reads
    and writes do not wait for each other; a write is visible to the reads that begin after its answer.

    A beat per cycle in each direction. A read's first beat follows three cycles after its address, a write's answer
    one cycle after its last beat.

    Parameters
    ----------
    width : int
        Bits of a beat.
    size : int
        Bytes, a multiple of 4,096.

    Members
    -------
    bus : AXI4
        All ``ready`` come from registers.
    """

    def __init__(self, width, size):
        if size <= 0 or size % MEMORY_PAGE:
            raise ValueError(f"Expected a multiple of {MEMORY_PAGE} bytes as size, got {size}")
        self._width, self._size = width, size
        self._line_bits = (width // 8 - 1).bit_length()
        super().__init__({"bus": In(Axi4Signature(width))})

    def elaborate(self, platform):
        m = Module()
        depth = self._size >> self._line_bits
        m.submodules.memory = lines = memory.Memory(shape=self._width, depth=depth, init=[])
        self._elaborate_reads(m, lines.read_port())
        self._elaborate_writes(m, lines.write_port(granularity=8))
        return m

    def _addresses(self, m, channel):
        """Return the bursts of an address channel as a stream, with whether they are refused."""
        bus = self.bus
        member = {
            name: getattr(bus, f"{channel}{name}") for name in ("addr", "len", "size", "burst", "valid", "ready")
        }
        m.submodules[channel] = skid = SkidBuffer(_ADDRESS)
        m.d.comb += [
            skid.i.valid.eq(member["valid"]),
            skid.i.p.address.eq(member["addr"]),
            skid.i.p.length.eq(member["len"]),
            skid.i.p.refused.eq(
                (member["addr"] >= self._size)
                | (member["size"] != self._line_bits)
                | (member["burst"] != _INCR)
                | ((member["addr"] & (self._width // 8 - 1)) != 0)
                # A burst that goes on behind its page may leave the memory.
                | ((member["addr"][self._line_bits : 12] + member["len"]) >> (12 - self._line_bits) != 0)
            ),
            member["ready"].eq(skid.i.ready),
        ]
        return skid.o

    def _elaborate_reads(self, m, port):
        bus = self.bus
        bursts = self._addresses(m, "ar")
        beat = Signal(8)
        """Beats of the burst that were asked for."""
        moves, last = Signal(), Signal()
        refused = Signal()
        m.d.comb += [
            moves.eq(~bus.rvalid | bus.rready),
            last.eq(beat == bursts.p.length),
            bursts.ready.eq(moves & last),
            port.addr.eq((bursts.p.address >> self._line_bits) + beat),
            port.en.eq(moves),
            bus.rdata.eq(Mux(refused, 0, port.data)),
            bus.rresp.eq(Mux(refused, SLVERR, OKAY)),
        ]
        with m.If(moves):
            m.d.sync += [bus.rvalid.eq(bursts.valid), bus.rlast.eq(last), refused.eq(bursts.p.refused)]
            with m.If(bursts.valid):
                m.d.sync += beat.eq(Mux(last, 0, beat + 1))

    def _elaborate_writes(self, m, port):
        bus = self.bus
        bursts = self._addresses(m, "aw")
        layout = data.StructLayout({"data": self._width, "strobe": self._width // 8, "last": 1})
        m.submodules.w = beats = SkidBuffer(layout)
        beat = Signal(8)
        taken = Signal()
        m.d.comb += [
            beats.i.valid.eq(bus.wvalid),
            Value.cast(beats.i.p).eq(Cat(bus.wdata, bus.wstrb, bus.wlast)),
            bus.wready.eq(beats.i.ready),
            # The last beat waits for a place for its answer.
            taken.eq(bursts.valid & beats.o.valid & (~beats.o.p.last | ~bus.bvalid | bus.bready)),
            beats.o.ready.eq(taken),
            bursts.ready.eq(taken & beats.o.p.last),
            port.addr.eq((bursts.p.address >> self._line_bits) + beat),
            port.data.eq(beats.o.p.data),
            port.en.eq(Mux(taken & ~bursts.p.refused, beats.o.p.strobe, 0)),
        ]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(taken):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beats.o.p.last):
                m.d.sync += [beat.eq(0), bus.bvalid.eq(1), bus.bresp.eq(Mux(bursts.p.refused, SLVERR, OKAY))]
