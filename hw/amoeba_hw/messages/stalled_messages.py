"""Messages of several packets of which nothing has come for long."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.match_unit import STALLED_TURNS

from amoeba_hw.ages import Ages
from amoeba_hw.interfaces import RETRANSMISSION
from amoeba_hw.packed import first_of

__all__ = ["StalledMessages"]


class StalledMessages(wiring.Component):
    """Measures for how long no part has come of each message that has a receive.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    retransmission : RETRANSMISSION, In
        A message has stalled when it is old (:class:`Ages`), for STALLED_TURNS turns.
    open : In, a bit per PDC
        The messages.
    changes : In(1)
        A part comes, or ``open`` changes in the next cycle. No message has stalled in the next cycle.
    came, pdc : In
        With ``changes``: a part of this PDC's message, be it the first.
    has_stalled, first : Out
        A message has stalled, and the PDC of the first one, in order of number.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "retransmission": In(RETRANSMISSION),
                "open": In(pdcs),
                "changes": In(1),
                "came": In(1),
                "pdc": In(range(pdcs)),
                "has_stalled": Out(1),
                "first": Out(range(pdcs)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ages = ages = Ages(self._pdcs, STALLED_TURNS)
        stalled = Signal(self._pdcs)
        m.d.comb += [
            ages.retransmission.eq(self.retransmission),
            ages.came.eq(self.changes & self.came),
            ages.pdc.eq(self.pdc),
            stalled.eq(ages.old & self.open),
        ]
        m.d.sync += [
            self.has_stalled.eq(stalled.any() & ~self.changes),
            self.first.eq(first_of(m, stalled)[1]),
        ]
        return m
