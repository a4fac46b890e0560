"""Carries register accesses from AXI4-Lite to the register bank."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import OKAY, SLVERR, Axi4LiteSignature
from amoeba_hw.stream import SkidBuffer

__all__ = ["AxiLite", "register_access"]


def register_access(address_width):
    """One access: ``address`` in bytes, ``data`` if ``write``."""
    return data.StructLayout({"address": address_width, "write": 1, "data": 32})


class AxiLite(wiring.Component):
    """Performs AXI4-Lite transactions one at a time, in the order in which they arrive.

    A write that does not cover all four bytes is refused with SLVERR and not performed. When a write and a
    read arrive together, the write goes first. The next transaction may be taken meanwhile, and waits: all ``ready``
    of the bus but those of answers come from registers.

    Parameters
    ----------
    address_width : int

    Members
    -------
    bus : AXI4-Lite
    accesses : stream of :func:`register_access`
    read_data : stream of 32 bits
        One per read access.
    """

    def __init__(self, address_width):
        super().__init__(
            {
                "bus": In(Axi4LiteSignature(address_width)),
                "accesses": Out(stream.Signature(register_access(address_width))),
                "read_data": In(stream.Signature(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus, access = self.bus, self.accesses
        writes, values, reads = self._elaborate_channels(m)
        answer = Signal(32)
        response = Signal(2, init=OKAY)
        with m.FSM():
            with m.State("idle"):
                with m.If(writes.valid & values.valid):
                    m.d.comb += [writes.ready.eq(1), values.ready.eq(1)]
                    m.d.sync += [access.p.address.eq(writes.p), access.p.data.eq(values.p.data), access.p.write.eq(1)]
                    with m.If(values.p.strobe == 0b1111):
                        m.d.sync += response.eq(OKAY)
                        m.next = "access"
                    with m.Else():
                        m.d.sync += response.eq(SLVERR)
                        m.next = "write response"
                with m.Elif(reads.valid):
                    m.d.comb += reads.ready.eq(1)
                    m.d.sync += [access.p.address.eq(reads.p), access.p.write.eq(0)]
                    m.next = "access"
            with m.State("access"):
                m.d.comb += access.valid.eq(1)
                with m.If(access.ready & access.p.write):
                    m.next = "write response"
                with m.Elif(access.ready):
                    m.next = "read"
            with m.State("read"):
                m.d.comb += self.read_data.ready.eq(1)
                with m.If(self.read_data.valid):
                    m.d.sync += answer.eq(self.read_data.payload)
                    m.next = "read response"
            with m.State("read response"):
                m.d.comb += [bus.rvalid.eq(1), bus.rdata.eq(answer), bus.rresp.eq(OKAY)]
                with m.If(bus.rready):
                    m.next = "idle"
            with m.State("write response"):
                m.d.comb += [bus.bvalid.eq(1), bus.bresp.eq(response)]
                with m.If(bus.bready):
                    m.next = "idle"
        return m

    def _elaborate_channels(self, m):
        """Return the addresses of writes, their data, and the addresses of reads as streams."""
        bus = self.bus
        address = bus.awaddr.shape()
        channels = {
            "aw": (address, bus.awaddr),
            "w": (data.StructLayout({"data": 32, "strobe": 4}), Cat(bus.wdata, bus.wstrb)),
            "ar": (address, bus.araddr),
        }
        for name, (shape, payload) in channels.items():
            m.submodules[name] = skid = SkidBuffer(shape)
            m.d.comb += [
                skid.i.valid.eq(getattr(bus, f"{name}valid")),
                Value.cast(skid.i.payload).eq(payload),
                getattr(bus, f"{name}ready").eq(skid.i.ready),
            ]
        return (m.submodules[name].o for name in channels)
