"""Stores packets, and says when each is complete."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import packet_beat
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["OUTCOME", "PacketBuffer"]

OUTCOME = data.StructLayout({"error": 1})


class PacketBuffer(wiring.Component):
    """A queue of packets with a second output that tells of each packet when its last beat is stored.

    Parameters
    ----------
    width : int
        Bits per beat.
    depth : int
        Beats it holds. Its writer counts them: see ``freed``.

    Members
    -------
    i : packet stream
        Never refused within ``depth``.
    o : packet stream
        Latency one cycle, one beat per cycle.
    outcomes : OUTCOME stream
        One per packet: ``error`` of its last beat; the cycle after that was stored.
    freed : out
        Pulse: a beat left.
    """

    def __init__(self, width, depth):
        self._beat = packet_beat(width)
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(self._beat)),
                "o": Out(stream.Signature(self._beat)),
                "outcomes": Out(stream.Signature(OUTCOME)),
                "freed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.beats = beats = Queue(self._beat, self._depth)
        # Every packet has at least one beat, so this queue cannot be full when the other is not.
        m.submodules.ends = ends = Queue(OUTCOME, self._depth)
        connect_streams(m, wiring.flipped(self.i), beats.i)
        connect_streams(m, beats.o, wiring.flipped(self.o))
        connect_streams(m, ends.o, wiring.flipped(self.outcomes))
        m.d.comb += [
            ends.i.valid.eq(self.i.valid & self.i.ready & self.i.p.last),
            ends.i.p.error.eq(self.i.p.error),
            self.freed.eq(self.o.valid & self.o.ready),
        ]
        return m
