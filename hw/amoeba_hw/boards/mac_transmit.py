"""Frames of the NIC to a gigabit PHY."""

from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.cmac_transmit import CmacTransmit
from amoeba_hw.boards.crossing import cross_stream
from amoeba_hw.boards.frame_serializer import FrameSerializer
from amoeba_hw.boards.gmii import GmiiSignature
from amoeba_hw.host.axi import AxiStreamSignature

__all__ = ["MacTransmit"]


class MacTransmit(wiring.Component):
    """Carries frames to the clock ``transmit`` of 125 MHz, holds each until it is whole, and sends its bytes.

    Ethernet knows no pause within a frame, and the NIC may run slower than its link.

    Parameters
    ----------
    width : int
        Bits per beat.
    depth : int
        Beats that are held: a power of two. A frame must fit.

    Members
    -------
    i : AXI4-Stream in ``sync``
        With gaps anywhere.
    o : GMII in ``transmit``
    """

    def __init__(self, width, depth=256):
        self._width, self._depth = width, depth
        super().__init__({"i": In(AxiStreamSignature(width)), "o": Out(GmiiSignature())})

    def elaborate(self, platform):
        m = Module()
        renamed = DomainRenamer("transmit")
        whole, serializer = CmacTransmit(self._width, self._depth), FrameSerializer(self._width)
        m.submodules.whole, m.submodules.serializer = renamed(whole), renamed(serializer)
        cross_stream(m, "crossing", self.i, "sync", whole.i, "transmit")
        wiring.connect(m, whole.o, serializer.i)
        wiring.connect(m, serializer.o, wiring.flipped(self.o))
        return m
