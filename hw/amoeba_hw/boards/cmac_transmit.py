"""Whole frames, without gaps, for the integrated block for 100G Ethernet."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.host.axi import AxiStreamSignature, beat_layout

__all__ = ["CmacTransmit"]


class CmacTransmit(wiring.Component):
    """Holds each frame until its last beat is there: once it has begun, the block may not be kept waiting (PG203,
    "AXI4-Stream Interface": ``tx_unfout``).

    Parameters
    ----------
    width : int
        Bits per beat.
    depth : int
        Beats that it holds: a power of two. A frame must fit.

    Members
    -------
    i : AXI4-Stream
        With gaps anywhere.
    o : AXI4-Stream
        ``tvalid`` stays from a frame's first beat to its last.
    """

    def __init__(self, width, depth=256):
        self._beat = beat_layout(width)
        self._depth = depth
        super().__init__({"i": In(AxiStreamSignature(width)), "o": Out(AxiStreamSignature(width))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = CommitQueue(self._beat, self._depth)
        m.d.comb += [
            queue.i.valid.eq(self.i.tvalid),
            queue.i.p.data.eq(self.i.tdata),
            queue.i.p.keep.eq(self.i.tkeep),
            queue.i.p.last.eq(self.i.tlast),
            self.i.tready.eq(queue.i.ready),
            queue.commit.eq(self.i.tvalid & self.i.tready & self.i.tlast),
            self.o.tvalid.eq(queue.o.valid),
            self.o.tdata.eq(queue.o.p.data),
            self.o.tkeep.eq(queue.o.p.keep),
            self.o.tlast.eq(queue.o.p.last),
            queue.o.ready.eq(self.o.tready),
        ]
        return m
