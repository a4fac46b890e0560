"""Carries register accesses from AXI4-Lite to the register bank."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.host.axi import OKAY, SLVERR, Axi4LiteSignature

__all__ = ["AxiLite", "register_access"]


def register_access(address_width):
    """One access: ``address`` in bytes, ``data`` if ``write``."""
    return data.StructLayout({"address": address_width, "write": 1, "data": 32})


class AxiLite(wiring.Component):
    """Performs AXI4-Lite transactions one at a time, in the order in which they arrive.

    A write that does not cover all four bytes is refused with SLVERR and not performed. When a write and a
    read arrive together, the write goes first.

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
        answer = Signal(32)
        response = Signal(2, init=OKAY)
        with m.FSM():
            with m.State("idle"):
                with m.If(bus.awvalid & bus.wvalid):
                    m.d.comb += [bus.awready.eq(1), bus.wready.eq(1)]
                    m.d.sync += [access.p.address.eq(bus.awaddr), access.p.data.eq(bus.wdata), access.p.write.eq(1)]
                    with m.If(bus.wstrb == 0b1111):
                        m.d.sync += response.eq(OKAY)
                        m.next = "access"
                    with m.Else():
                        m.d.sync += response.eq(SLVERR)
                        m.next = "write response"
                with m.Elif(bus.arvalid):
                    m.d.comb += bus.arready.eq(1)
                    m.d.sync += [access.p.address.eq(bus.araddr), access.p.write.eq(0)]
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
