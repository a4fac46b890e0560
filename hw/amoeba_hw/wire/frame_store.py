"""Holds received frames of one kind until their consumer takes them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.interfaces import FRAME_HEADER, packet_beat
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["FrameStore"]

_IN_FLIGHT = 4
"""Beats, and so frames, that can still arrive after ``stall``."""


class FrameStore(wiring.Component):
    """A queue of headers and a queue of payloads; a frame is kept or forgotten at its end.

    Parameters
    ----------
    width : int
        Bits per beat.
    beats : int
        Payload beats to hold, at least.
    headers : int
        Frames to hold.

    Members
    -------
    stall : Out(1)
        Four more beats and headers fit, but no more: send nothing new, or frames overflow.
    beat_valid, beat : In, :func:`packet_beat`
        A beat of payload to store.
    header : In(FRAME_HEADER)
        With ``accept``.
    accept, reject : In(1)
        The frame ends, with the beat of this cycle if there is one.
    overflow : Out(1)
        With ``accept``: the frame did not fit, and is forgotten.
    headers : FRAME_HEADER stream
    payload : :func:`packet_beat` stream
        The accepted frames; a header in the cycle after ``accept`` at the earliest, its payload in the next.
    """

    def __init__(self, width, beats, headers=16):
        self._beat = packet_beat(width)
        self._headers = headers
        self._depth = 1 << (beats + _IN_FLIGHT - 1).bit_length()
        super().__init__(
            {
                "stall": Out(1),
                "beat_valid": In(1),
                "beat": In(self._beat),
                "header": In(FRAME_HEADER),
                "accept": In(1),
                "reject": In(1),
                "overflow": Out(1),
                "headers": Out(stream.Signature(FRAME_HEADER)),
                "payload": Out(stream.Signature(self._beat)),
            }
        )
        self._incomplete = Signal()
        """A beat of the frame met a full queue."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting_headers = headers = Queue(FRAME_HEADER, self._headers)
        m.submodules.waiting_payload = payload = CommitQueue(self._beat, self._depth)
        refused = self.beat_valid & ~payload.i.ready
        m.d.comb += [
            self.stall.eq((payload.space < _IN_FLIGHT) | (headers.level > self._headers - _IN_FLIGHT)),
            self.overflow.eq(self.accept & (self._incomplete | refused | ~headers.i.ready)),
            payload.i.valid.eq(self.beat_valid),
            payload.i.p.eq(self.beat),
            payload.commit.eq(self.accept & ~self.overflow),
            payload.rollback.eq(self.reject | self.overflow),
            headers.i.valid.eq(self.accept & ~self.overflow),
            headers.i.p.eq(self.header),
        ]
        with m.If(self.accept | self.reject):
            m.d.sync += self._incomplete.eq(0)
        with m.Elif(refused):
            m.d.sync += self._incomplete.eq(1)
        connect_streams(m, headers.o, flipped(self.headers))
        connect_streams(m, payload.o, flipped(self.payload))
        return m
