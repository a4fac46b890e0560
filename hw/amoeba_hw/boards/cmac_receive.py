"""Good frames from the integrated block for 100G Ethernet, which waits for nobody."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.host.axi import AxiStreamSignature, beat_layout

__all__ = ["CmacReceive"]


class CmacReceive(wiring.Component):
    """Drops whole frames: those that end with an error (a wrong FCS, for one), and those that do not fit the queue.

    Parameters
    ----------
    width : int
        Bits per beat.
    depth : int
        Beats that it holds: a power of two.

    Members
    -------
    i : AXI4-Stream
        ``tready`` is always high: the block does not look at it.
    error : In(1)
        With the last beat of a frame: the frame is damaged (``rx_axis_tuser``).
    o : AXI4-Stream
    dropped : Out(1)
        Pulse, with the last beat of a frame that is dropped.
    """

    def __init__(self, width, depth=256):
        self._beat = beat_layout(width)
        self._depth = depth
        super().__init__(
            {
                "i": In(AxiStreamSignature(width)),
                "error": In(1),
                "o": Out(AxiStreamSignature(width)),
                "dropped": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = CommitQueue(self._beat, self._depth)
        lost, ends = Signal(), Signal()
        """A beat of this frame met a full queue."""
        m.d.comb += [
            self.i.tready.eq(1),
            ends.eq(self.i.tvalid & self.i.tlast),
            queue.i.valid.eq(self.i.tvalid & ~lost),
            queue.i.p.data.eq(self.i.tdata),
            queue.i.p.keep.eq(self.i.tkeep),
            queue.i.p.last.eq(self.i.tlast),
            self.dropped.eq(ends & (lost | ~queue.i.ready | self.error)),
            queue.commit.eq(ends & ~self.dropped),
            queue.rollback.eq(self.dropped),
            self.o.tvalid.eq(queue.o.valid),
            self.o.tdata.eq(queue.o.p.data),
            self.o.tkeep.eq(queue.o.p.keep),
            self.o.tlast.eq(queue.o.p.last),
            queue.o.ready.eq(self.o.tready),
        ]
        with m.If(ends):
            m.d.sync += lost.eq(0)
        with m.Elif(self.i.tvalid & ~queue.i.ready):
            m.d.sync += lost.eq(1)
        return m
