"""Target PDCs that are idle, and those of them that are in the middle of a message."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.ages import Ages
from amoeba_hw.interfaces import RETRANSMISSION
from amoeba_hw.packed import first_of

__all__ = ["IdlePdcs"]


class IdlePdcs(wiring.Component):
    """Measures for how long nothing has come of each PDC.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    retransmission : RETRANSMISSION, In
        A PDC is idle when it is old (:class:`Ages`), for one turn.
    counts : In, a bit per PDC
        PDCs that may be idle: used, and not evictable for another reason.
    came, pdc : In
        Pulse: a packet of this PDC.
    resets : In(1)
        With ``came``, or alone: the PDC is in the middle of no message, unless ``begins``.
    begins : In(1)
        With ``resets``: the packet was accepted, and others of its message follow.
    refused : In, a bit per PDC
        PDCs that are no ``second`` choice.
    idle, first : Out
        There is an idle PDC in the middle of no message, and the first, in order of number.
    second, has_second : Out
        As ``idle`` and ``first``, of PDCs in the middle of a message that are not ``refused``; a cycle later.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "retransmission": In(RETRANSMISSION),
                "counts": In(pdcs),
                "came": In(1),
                "pdc": In(range(pdcs)),
                "resets": In(1),
                "begins": In(1),
                "refused": In(pdcs),
                "idle": Out(1),
                "first": Out(range(pdcs)),
                "has_second": Out(1),
                "second": Out(range(pdcs)),
            }
        )
        self._unfinished = Signal(pdcs)
        """PDCs whose last request has no END."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.ages = ages = Ages(self._pdcs)
        idle, first, second = Signal(self._pdcs), Signal(self._pdcs), Signal(self._pdcs)
        m.d.comb += [
            ages.retransmission.eq(self.retransmission),
            ages.came.eq(self.came),
            ages.pdc.eq(self.pdc),
            idle.eq(ages.old & self.counts),
            first.eq(idle & ~self._unfinished),
            second.eq(idle & self._unfinished & ~self.refused),
            self.idle.eq(first.any()),
            self.first.eq(first_of(m, first)[1]),
        ]
        m.d.sync += [
            self.has_second.eq(second.any()),
            self.second.eq(first_of(m, second)[1]),
        ]
        for number in range(self._pdcs):
            with m.If(self.resets & (self.pdc == number)):
                m.d.sync += self._unfinished[number].eq(self.begins)
        return m
