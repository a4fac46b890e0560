"""Frames to the bytes of a gigabit PHY."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.gmii import FCS_BYTES, GAP_BYTES, MIN_FRAME_BYTES, PREAMBLE, SFD, GmiiSignature
from amoeba_hw.host.axi import AxiStreamSignature

__all__ = ["FrameSerializer"]

_PREAMBLE_BYTES = 7


class FrameSerializer(wiring.Component):
    """Sends a frame as preamble, delimiter, bytes, padding to 60 bytes, FCS, and a gap of at least 12 bytes.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    i : AXI4-Stream
        A frame that has begun must not have gaps: ``tvalid`` stays until its last beat. Bytes are packed, and only a
        last beat has fewer than all. A beat is taken with its last byte.
    o : GMII
        From registers.
    """

    def __init__(self, width):
        self._bytes = width // 8
        super().__init__({"i": In(AxiStreamSignature(width)), "o": Out(GmiiSignature())})
        self._place = Signal(range(self._bytes))
        """Byte of the beat."""
        self._sent = Signal(range(MIN_FRAME_BYTES + 1))
        """Bytes of the frame, up to the least number; in other states bytes of that part."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = self._crc = catalog.CRC32_ETHERNET(data_width=8).create()
        self._byte, self._enable = Signal(8), Signal()
        m.d.comb += self._crc.data.eq(self._byte)
        m.d.sync += [self.o.data.eq(self._byte), self.o.enable.eq(self._enable)]
        with m.FSM():
            self._elaborate_start(m)
            self._elaborate_content(m)
            self._elaborate_end(m)
        return m

    def _elaborate_start(self, m):
        with m.State("idle"), m.If(self.i.tvalid):
            m.d.comb += [self._byte.eq(PREAMBLE), self._enable.eq(1)]
            m.d.sync += self._sent.eq(1)
            m.next = "preamble"
        with m.State("preamble"):
            m.d.comb += [self._byte.eq(PREAMBLE), self._enable.eq(1), self._crc.start.eq(1)]
            m.d.sync += self._sent.eq(self._sent + 1)
            with m.If(self._sent == _PREAMBLE_BYTES):
                m.d.comb += self._byte.eq(SFD)
                m.d.sync += [self._sent.eq(0), self._place.eq(0)]
                m.next = "content"

    def _elaborate_content(self, m):
        stream = self.i
        ends = Signal()
        """This byte is the beat's last one."""
        enough = self._sent >= MIN_FRAME_BYTES - 1
        m.d.comb += ends.eq((self._place == self._bytes - 1) | ~(stream.tkeep >> 1).bit_select(self._place, 1))
        with m.State("content"):
            m.d.comb += [
                self._byte.eq(stream.tdata.word_select(self._place, 8)),
                self._enable.eq(1),
                self._crc.valid.eq(1),
                stream.tready.eq(ends),
            ]
            m.d.sync += [
                self._place.eq(Mux(ends, 0, self._place + 1)),
                self._sent.eq(Mux(enough, self._sent, self._sent + 1)),
            ]
            with m.If(ends & stream.tlast):
                m.next = "padding"
                with m.If(enough):
                    m.d.sync += self._sent.eq(0)
                    m.next = "fcs"
        with m.State("padding"):
            m.d.comb += [self._byte.eq(0), self._enable.eq(1), self._crc.valid.eq(1)]
            m.d.sync += self._sent.eq(self._sent + 1)
            with m.If(enough):
                m.d.sync += self._sent.eq(0)
                m.next = "fcs"

    def _elaborate_end(self, m):
        with m.State("fcs"):
            m.d.comb += [self._byte.eq(self._crc.crc.word_select(self._sent[:2], 8)), self._enable.eq(1)]
            m.d.sync += self._sent.eq(self._sent + 1)
            with m.If(self._sent == FCS_BYTES - 1):
                m.d.sync += self._sent.eq(0)
                m.next = "gap"
        with m.State("gap"):
            m.d.sync += self._sent.eq(self._sent + 1)
            with m.If(self._sent == GAP_BYTES - 1):
                m.next = "idle"
