"""Target PDCs that are idle, and those of them that are in the middle of a message."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from amoeba_model.nic.core import IDLE_TIMEOUTS

from amoeba_hw.interfaces import RETRANSMISSION
from amoeba_hw.packed import first_of

__all__ = ["IdlePdcs"]

_TURN_BITS = exact_log2(IDLE_TIMEOUTS)
_IDLE = 2
"""Ticks between which there is at least the whole time of one."""


class IdlePdcs(wiring.Component):
    """Measures for how long nothing has come of each PDC.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    retransmission : RETRANSMISSION, In
        A PDC is idle after IDLE_TIMEOUTS timeouts times limit + 1, or after up to twice that.
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
        self._ages = [Signal(range(_IDLE + 1), name=f"age_{number}") for number in range(pdcs)]
        """Ticks since the PDC's last packet."""
        self._unfinished = Signal(pdcs)
        """PDCs whose last request has no END."""
        self._cycles = Signal(32 + _TURN_BITS)
        self._turns = Signal(8)
        """Until the next tick: each is IDLE_TIMEOUTS timeouts, and limit + 1 of them a tick."""

    def elaborate(self, platform):
        m = Module()
        turn, tick = Signal(), Signal()
        idle, first, second = Signal(self._pdcs), Signal(self._pdcs), Signal(self._pdcs)
        m.d.comb += [
            turn.eq(self._cycles >= self.retransmission.timeout << _TURN_BITS),
            tick.eq(turn & (self._turns >= self.retransmission.limit)),
            idle.eq(Cat(age == _IDLE for age in self._ages) & self.counts),
            first.eq(idle & ~self._unfinished),
            second.eq(idle & self._unfinished & ~self.refused),
            self.idle.eq(first.any()),
            self.first.eq(first_of(m, first)[1]),
        ]
        m.d.sync += [
            self._cycles.eq(Mux(turn, 0, self._cycles + 1)),
            self.has_second.eq(second.any()),
            self.second.eq(first_of(m, second)[1]),
        ]
        with m.If(turn):
            m.d.sync += self._turns.eq(Mux(tick, 0, self._turns + 1))
        for number, age in enumerate(self._ages):
            with m.If(self.came & (self.pdc == number)):
                m.d.sync += age.eq(0)
            with m.Elif(tick & (age != _IDLE)):
                m.d.sync += age.eq(age + 1)
            with m.If(self.resets & (self.pdc == number)):
                m.d.sync += self._unfinished[number].eq(self.begins)
        return m
