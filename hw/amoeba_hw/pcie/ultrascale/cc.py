"""Completions of the NIC on the integrated block's CC stream."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.ultrascale import CC_DESCRIPTOR, CC_USER

from amoeba_hw.layout import struct_layout
from amoeba_hw.pcie.interfaces import REGISTER_COMPLETION
from amoeba_hw.pcie.ultrascale.streams import UltraScaleStream, check_width

__all__ = ["CcAdapter"]

_DESCRIPTOR_DWORDS = CC_DESCRIPTOR.size // 4
_MOST = _DESCRIPTOR_DWORDS + 2


class CcAdapter(wiring.Component):
    """Puts a descriptor in front of each completion: one beat in all.

    Parameters
    ----------
    width : int
        256 or 512.

    Members
    -------
    completions : REGISTER_COMPLETION stream, In
    cc : CC stream
        Latency zero.
    completed : Out(1)
        Pulse: a completion was sent.
    """

    def __init__(self, width):
        check_width(width)
        self._width = width
        super().__init__(
            {
                "completions": In(stream.Signature(REGISTER_COMPLETION)),
                "cc": Out(UltraScaleStream(width, CC_USER[width])),
                "completed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        completion, cc = self.completions, self.cc
        descriptor = Signal(struct_layout(CC_DESCRIPTOR))
        for name in ("lower_address", "byte_count", "dwords", "status", "requester_id", "tag"):
            m.d.comb += descriptor[name].eq(completion.p[name])
        for name in ("traffic_class", "attributes"):
            m.d.comb += descriptor[name].eq(completion.p[name])
        m.d.comb += [
            cc.tvalid.eq(completion.valid),
            completion.ready.eq(cc.tready),
            self.completed.eq(cc.tvalid & cc.tready),
            cc.tdata.eq(Cat(descriptor.as_value(), completion.p.data)),
            cc.tkeep.eq(Cat(completion.p.dwords + _DESCRIPTOR_DWORDS > lane for lane in range(_MOST))),
            cc.tlast.eq(1),
        ]
        if self._width == 512:
            m.d.comb += [
                cc.tuser.starts.eq(1),
                cc.tuser.ends.eq(1),
                cc.tuser.end_place.eq(completion.p.dwords + _DESCRIPTOR_DWORDS - 1),
            ]
        return m
