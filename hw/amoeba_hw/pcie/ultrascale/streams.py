"""The AXI4-Streams of the integrated block."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.ultrascale import WIDTHS

__all__ = ["UltraScaleStream", "check_width"]


def check_width(width):
    """Raise ValueError unless the integrated block has streams of this many bits."""
    if width not in WIDTHS:
        raise ValueError(f"Expected {' or '.join(str(each) for each in WIDTHS)} bits, got {width}")


class UltraScaleStream(wiring.Signature):
    """A stream as its source drives it: ``tkeep`` has a bit per DW.

    Parameters
    ----------
    width : int
        Bits of data.
    user : sequence of (name, bits)
        ``tuser``, from bit 0 on.
    """

    def __init__(self, width, user):
        super().__init__(
            {
                "tdata": Out(width),
                "tkeep": Out(width // 32),
                "tuser": Out(data.StructLayout(dict(user))),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )
