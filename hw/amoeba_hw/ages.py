"""For how long nothing has come of each of several PDCs."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from amoeba_model.nic.core import IDLE_TIMEOUTS

from amoeba_hw.interfaces import RETRANSMISSION

__all__ = ["Ages"]

_IDLE_BITS = exact_log2(IDLE_TIMEOUTS)
_OLD = 2
"""Ticks between which there is at least the whole time of one."""


class Ages(wiring.Component):
    """Tells which PDCs have been silent for long: one time base, two bits for each.

    Parameters
    ----------
    pdcs : int
    turns : int
        How many idle times are long; a power of two.

    Members
    -------
    retransmission : RETRANSMISSION, In
        A PDC is old after ``turns`` times IDLE_TIMEOUTS timeouts times limit + 1, or after up to twice that.
    came, pdc : In
        Pulse: something of this PDC.
    old : Out, a bit per PDC
    """

    def __init__(self, pdcs, turns=1):
        self._turn_bits = exact_log2(turns)
        super().__init__(
            {
                "retransmission": In(RETRANSMISSION),
                "came": In(1),
                "pdc": In(range(pdcs)),
                "old": Out(pdcs),
            }
        )
        self._ages = [Signal(range(_OLD + 1), name=f"age_{number}") for number in range(pdcs)]
        """Ticks since the PDC's last sign of life."""
        self._cycles = Signal(32 + _IDLE_BITS)
        self._turns = Signal(8 + self._turn_bits)
        """Until the next tick: each is IDLE_TIMEOUTS timeouts, and limit + 1 times ``turns`` of them a tick."""

    def elaborate(self, platform):
        m = Module()
        turn, tick = Signal(), Signal()
        last_turn = Cat(Const((1 << self._turn_bits) - 1, self._turn_bits), self.retransmission.limit)
        m.d.comb += [
            turn.eq(self._cycles >= self.retransmission.timeout << _IDLE_BITS),
            tick.eq(turn & (self._turns >= last_turn)),
            self.old.eq(Cat(age == _OLD for age in self._ages)),
        ]
        m.d.sync += self._cycles.eq(Mux(turn, 0, self._cycles + 1))
        with m.If(turn):
            m.d.sync += self._turns.eq(Mux(tick, 0, self._turns + 1))
        for number, age in enumerate(self._ages):
            with m.If(self.came & (self.pdc == number)):
                m.d.sync += age.eq(0)
            with m.Elif(tick & (age != _OLD)):
                m.d.sync += age.eq(age + 1)
        return m
