"""Signatures of the standard buses around the core: AXI4, AXI4-Lite (ARM IHI 0022) and AXI4-Stream (IHI 0051)."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.trace import AXI_USER

__all__ = ["OKAY", "SLVERR", "Axi4LiteSignature", "Axi4Signature", "AxiStreamSignature", "beat_layout"]

OKAY = 0
SLVERR = 2

ID_WIDTH = 1
USER_WIDTH = AXI_USER.field_named("requester").width
"""Bits that say which component asks, the lower ones of AxUSER."""


class Axi4Signature(wiring.Signature):
    """AXI4 as its manager drives it: 64-bit addresses, ``data_width`` bits of data.

    One transaction ID only, so reads and writes are each answered in order. AxUSER is
    :data:`amoeba_model.trace.AXI_USER`.
    """

    def __init__(self, data_width):
        def address_channel(prefix):
            return {
                f"{prefix}id": Out(ID_WIDTH),
                f"{prefix}addr": Out(64),
                f"{prefix}len": Out(8),
                f"{prefix}size": Out(3),
                f"{prefix}burst": Out(2),
                f"{prefix}user": Out(8 * AXI_USER.size),
                f"{prefix}valid": Out(1),
                f"{prefix}ready": In(1),
            }

        super().__init__(
            {
                **address_channel("aw"),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(ID_WIDTH),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                **address_channel("ar"),
                "rid": In(ID_WIDTH),
                "rdata": In(data_width),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class Axi4LiteSignature(wiring.Signature):
    """AXI4-Lite as its manager drives it, with 32 bits of data."""

    def __init__(self, address_width):
        super().__init__(
            {
                "awaddr": Out(address_width),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_width),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiStreamSignature(wiring.Signature):
    """AXI4-Stream as its transmitter drives it; one packet is one Ethernet frame without preamble and FCS."""

    def __init__(self, data_width):
        super().__init__(
            {
                "tdata": Out(data_width),
                "tkeep": Out(data_width // 8),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )


def beat_layout(data_width):
    """Return the layout of a beat of AXI4-Stream, as queues hold them."""
    return data.StructLayout({"data": data_width, "keep": data_width // 8, "last": 1})
