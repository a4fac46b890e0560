"""The place of the matcher in a NIC without messages."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from amoeba_hw.messages.matcher import matcher_members

__all__ = ["AbsentMatcher"]


class AbsentMatcher(wiring.Component):
    """Has the ports of a Matcher; requests pass, and nothing comes of doorbells.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    As of :class:`amoeba_hw.messages.matcher.Matcher`.
    checked, matched : CHECKED_REQUEST streams
        No request is a message to be matched: the RequestChecker has refused these. Latency one cycle, one request
        per cycle.
    All other outputs stay zero, but for ``ready``.
    """

    def __init__(self, parameters):
        super().__init__(matcher_members(parameters))

    def elaborate(self, platform):
        m = Module()
        space = Signal()
        m.d.comb += [
            space.eq(~self.matched.valid | self.matched.ready),
            self.checked.ready.eq(space),
            *(taken.ready.eq(1) for taken in (self.receive_tails, self.slot_releases, self.receive_data)),
        ]
        with m.If(space):
            m.d.sync += [self.matched.valid.eq(self.checked.valid), self.matched.p.eq(self.checked.p)]
        return m
