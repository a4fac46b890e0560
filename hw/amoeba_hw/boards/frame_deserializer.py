"""Bytes of a gigabit PHY to frames."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.gmii import FCS_BYTES, MIN_FRAME_BYTES, PREAMBLE, SFD, GmiiSignature
from amoeba_hw.host.axi import AxiStreamSignature

__all__ = ["FrameDeserializer"]

_MAX_FRAME_BYTES = 9018
"""Longer frames are damaged ones."""


class FrameDeserializer(wiring.Component):
    """Takes preamble, delimiter and FCS off, packs a frame's bytes to beats, and judges the frame with its last beat.

    Bytes before a delimiter other than those of the preamble hide the frame. The end of the frame tells the FCS: the
    last four bytes are held, so that the beats have none of them.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    i : GMII
        Waits for nobody.
    o : AXI4-Stream
        ``tready`` is not looked at. A last beat has at least one byte.
    error : Out(1)
        With the last beat: the FCS is wrong, the PHY has marked an error, or the frame has fewer than 60 bytes or
        more than 9,014 without the FCS.
    """

    def __init__(self, width):
        self._width = width
        super().__init__({"i": In(GmiiSignature()), "o": Out(AxiStreamSignature(width)), "error": Out(1)})
        self._bytes = Signal(range(_MAX_FRAME_BYTES + 2))
        """Bytes of the frame so far, FCS included, up to one more than the longest."""
        self._bad = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = self._crc = catalog.CRC32_ETHERNET(data_width=8).create()
        m.d.comb += self._crc.data.eq(self.i.data)
        with m.FSM():
            with m.State("idle"):
                m.d.comb += self._crc.start.eq(1)
                m.d.sync += [self._bytes.eq(0), self._bad.eq(0)]
                with m.If(self.i.enable):
                    m.next = "hidden"
                    with m.If(self.i.error):
                        m.next = "hidden"
                    with m.Elif(self.i.data == PREAMBLE):
                        m.next = "idle"
                    with m.Elif(self.i.data == SFD):
                        m.next = "frame"
            with m.State("hidden"), m.If(~self.i.enable):
                m.next = "idle"
            with m.State("frame"):
                self._elaborate_frame(m)
                with m.If(~self.i.enable):
                    m.next = "idle"
        return m

    def _elaborate_frame(self, m):
        count = self._width // 8
        held = Signal(8 * FCS_BYTES)
        """The last four bytes, the newest on top."""
        beat, place = Signal(self._width), Signal(range(count + 1))
        """Bytes that are known to be in front of the FCS, and their number."""
        fits = (self._bytes >= MIN_FRAME_BYTES + FCS_BYTES) & (self._bytes <= _MAX_FRAME_BYTES)
        m.d.comb += [self.o.tdata.eq(beat), self.o.tkeep.eq((1 << place) - 1)]
        with m.If(self.i.enable):
            m.d.comb += self._crc.valid.eq(1)
            m.d.sync += [
                held.eq(held[8:] | self.i.data << 8 * (FCS_BYTES - 1)),
                self._bytes.eq(Mux(self._bytes > _MAX_FRAME_BYTES, self._bytes, self._bytes + 1)),
                self._bad.eq(self._bad | self.i.error),
            ]
            with m.If(self._bytes >= FCS_BYTES):
                # A full beat leaves once another byte belongs to the frame: the last beat is never empty.
                m.d.comb += self.o.tvalid.eq(place == count)
                m.d.sync += place.eq(Mux(place == count, 1, place + 1))
                with m.If(place == count):
                    m.d.sync += beat.eq(held[:8])
                with m.Else():
                    m.d.sync += beat.word_select(place, 8).eq(held[:8])
        with m.Else():
            m.d.comb += [
                self.o.tvalid.eq(place != 0),
                self.o.tlast.eq(1),
                self.error.eq(~self._crc.match_detected | self._bad | ~fits),
            ]
            m.d.sync += place.eq(0)
