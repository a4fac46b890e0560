"""Good frames from a gigabit PHY to the NIC."""

from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.cmac_receive import CmacReceive
from amoeba_hw.boards.crossing import cross_stream
from amoeba_hw.boards.frame_deserializer import FrameDeserializer
from amoeba_hw.boards.gmii import GmiiSignature
from amoeba_hw.host.axi import AxiStreamSignature

__all__ = ["MacReceive"]


class MacReceive(wiring.Component):
    """Takes frames from the PHY's clock ``receive`` of 125 MHz, and drops damaged ones and those without space whole.

    Parameters
    ----------
    width : int
        Bits per beat.
    depth : int
        Beats that are held: a power of two.

    Members
    -------
    i : GMII in ``receive``
        Waits for nobody.
    o : AXI4-Stream in ``sync``
        Frames without preamble and FCS, of at least 60 bytes.
    dropped : Out(1) in ``receive``
        Pulse: a frame is dropped.
    """

    def __init__(self, width, depth=256):
        self._width, self._depth = width, depth
        super().__init__({"i": In(GmiiSignature()), "o": Out(AxiStreamSignature(width)), "dropped": Out(1)})

    def elaborate(self, platform):
        m = Module()
        renamed = DomainRenamer("receive")
        deserializer, good = FrameDeserializer(self._width), CmacReceive(self._width, self._depth)
        m.submodules.deserializer, m.submodules.good = renamed(deserializer), renamed(good)
        wiring.connect(m, wiring.flipped(self.i), deserializer.i)
        wiring.connect(m, deserializer.o, good.i)
        m.d.comb += [good.error.eq(deserializer.error), self.dropped.eq(good.dropped)]
        cross_stream(m, "crossing", good.o, "receive", self.o, "sync")
        return m
