"""Holds completions back until all of them is known to be good."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.pcie.interfaces import COMPLETION_HEADER, completion_beat
from amoeba_hw.pcie.ultrascale.streams import check_width
from amoeba_hw.stream import Queue

__all__ = ["MAX_PAYLOAD", "CompletionStore"]

MAX_PAYLOAD = 1024
"""Bytes that the integrated block carries in a packet at most."""
_HEADERS = 16


class CompletionStore(wiring.Component):
    """Passes a completion on when its last beat has come, as poisoned if the integrated block could not read it well.

    The block says so in the last beat only, and of any of them, when the first ones would have reached their readers.

    Parameters
    ----------
    width : int
        256 or 512.

    Members
    -------
    i, discontinued : :func:`completion_beat` stream, In; and with its last beat, whether the payload is wrong
        One beat per cycle. Two completions of MAX_PAYLOAD bytes fit.
    o : :func:`completion_beat` stream, Out
        One beat per cycle, from three cycles after the last one of a completion on.
    """

    def __init__(self, width):
        check_width(width)
        self._width = width
        super().__init__(
            {
                "i": In(stream.Signature(completion_beat(width))),
                "discontinued": In(1),
                "o": Out(stream.Signature(completion_beat(width))),
            }
        )
        self._header = Signal(COMPLETION_HEADER)
        """Of the completion that comes in."""
        self._begun = Signal()
        """The first beat of the completion on offer has left."""

    def elaborate(self, platform):
        m = Module()
        shape = data.StructLayout({"data": self._width, "last": 1})
        m.submodules.beats = beats = Queue(shape, 2 * MAX_PAYLOAD // (self._width // 8))
        m.submodules.headers = headers = Queue(COMPLETION_HEADER, _HEADERS)
        arriving, leaving = self.i, self.o
        header = Signal(COMPLETION_HEADER)
        m.d.comb += [
            header.eq(Mux(arriving.p.first, arriving.p.header, self._header)),
            arriving.ready.eq(beats.i.ready & headers.i.ready),
            beats.i.valid.eq(arriving.valid & headers.i.ready),
            beats.i.p.data.eq(arriving.p.data),
            beats.i.p.last.eq(arriving.p.last),
            headers.i.valid.eq(arriving.valid & beats.i.ready & arriving.p.last),
            headers.i.p.eq(header),
            headers.i.p.poisoned.eq(header.poisoned | self.discontinued),
            leaving.valid.eq(beats.o.valid & headers.o.valid),
            leaving.p.header.eq(headers.o.p),
            leaving.p.data.eq(beats.o.p.data),
            leaving.p.first.eq(~self._begun),
            leaving.p.last.eq(beats.o.p.last),
            beats.o.ready.eq(leaving.ready & headers.o.valid),
            headers.o.ready.eq(leaving.ready & beats.o.valid & beats.o.p.last),
        ]
        with m.If(arriving.valid):
            m.d.sync += self._header.eq(header)
        with m.If(leaving.valid & leaving.ready):
            m.d.sync += self._begun.eq(~leaving.p.last)
        return m
