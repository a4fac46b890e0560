"""A clock of the NIC's own, made from that of PCI Express."""

from amaranth.hdl import Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["NicClock", "nic_frequencies"]

_USER_MHZ, _MULTIPLIER = 250, 4
"""The oscillator runs at 1 GHz, within what all speed grades allow (DS923: 800 to 1,600 MHz)."""
_STEPS = 8
"""The divider's steps to one."""


def nic_frequencies():
    """Whole MHz that there can be, from 50 to 400."""
    return [mhz for mhz in range(50, 401) if _STEPS * _MULTIPLIER * _USER_MHZ % mhz == 0]


class NicClock(wiring.Component):
    """An MMCM behind ``user_clk``, held in reset with it.

    Parameters
    ----------
    mhz : int
        One of :func:`nic_frequencies`. Raises ValueError for others.

    Members
    -------
    user_clk, user_reset : In
    clk : Out
    locked : Out
        ``clk`` is what it should be. In no clock domain.
    """

    def __init__(self, mhz):
        if mhz not in nic_frequencies():
            known = ", ".join(map(str, nic_frequencies()))
            raise ValueError(f"Expected one of {known} MHz for the NIC's clock, got {mhz}")
        self._divider = _MULTIPLIER * _USER_MHZ / mhz
        super().__init__({"user_clk": In(1), "user_reset": In(1), "clk": Out(1), "locked": Out(1)})

    def elaborate(self, platform):
        m = Module()
        feedback, divided = Signal(), Signal()
        m.submodules.mmcm = Instance(
            "MMCME4_BASE",
            p_CLKIN1_PERIOD=1000 / _USER_MHZ,
            p_CLKFBOUT_MULT_F=float(_MULTIPLIER),
            p_CLKOUT0_DIVIDE_F=self._divider,
            i_CLKIN1=self.user_clk,
            i_CLKFBIN=feedback,
            i_RST=self.user_reset,
            i_PWRDWN=Const(0, 1),
            o_CLKFBOUT=feedback,
            o_CLKOUT0=divided,
            o_LOCKED=self.locked,
        )
        m.submodules.buffer = Instance("BUFGCE", i_I=divided, i_CE=Const(1, 1), o_O=self.clk)
        return m
