"""Bytes of a gigabit PHY, a byte a cycle at 125 MHz (IEEE 802.3, clause 35)."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

__all__ = ["FCS_BYTES", "GAP_BYTES", "MIN_FRAME_BYTES", "PREAMBLE", "SFD", "GmiiSignature"]

PREAMBLE, SFD = 0x55, 0xD5
"""The byte before a frame, seven times, and the start of frame delimiter."""
MIN_FRAME_BYTES = 60
"""Without the FCS."""
FCS_BYTES = 4
GAP_BYTES = 12
"""Between two frames."""


class GmiiSignature(wiring.Signature):
    """One direction of GMII, as its transmitter drives it: a byte in each cycle with ``enable``.

    ``error`` with ``enable``: the frame is damaged.
    """

    def __init__(self):
        super().__init__({"data": Out(8), "enable": Out(1), "error": Out(1)})
