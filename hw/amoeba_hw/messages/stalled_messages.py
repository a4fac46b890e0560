"""Messages of several packets of which nothing has come for long."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from amoeba_model.nic.core import IDLE_TIMEOUTS
from amoeba_model.nic.match_unit import STALLED_TURNS

from amoeba_hw.interfaces import RETRANSMISSION
from amoeba_hw.packed import first_of

__all__ = ["StalledMessages"]

_IDLE_BITS, _TURN_BITS = exact_log2(IDLE_TIMEOUTS), exact_log2(STALLED_TURNS)
_STALLED = 2
"""Ticks between which there is at least the whole time of one."""


class StalledMessages(wiring.Component):
    """Measures for how long no part has come of each message that has a receive.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    retransmission : RETRANSMISSION, In
        A message has stalled after STALLED_TURNS times IDLE_TIMEOUTS timeouts times limit + 1, or after up to twice
        that.
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
        self._ages = [Signal(range(_STALLED + 1), name=f"age_{number}") for number in range(pdcs)]
        """Ticks since the latest part."""
        self._cycles = Signal(32 + _IDLE_BITS)
        self._turns = Signal(8 + _TURN_BITS)
        """Until the next tick: each is IDLE_TIMEOUTS timeouts, and limit + 1 times STALLED_TURNS of them a tick."""

    def elaborate(self, platform):
        m = Module()
        turn, tick, stalled = Signal(), Signal(), Signal(self._pdcs)
        last_turn = Cat(Const(STALLED_TURNS - 1, _TURN_BITS), self.retransmission.limit)
        m.d.comb += [
            turn.eq(self._cycles >= self.retransmission.timeout << _IDLE_BITS),
            tick.eq(turn & (self._turns >= last_turn)),
            stalled.eq(Cat(age == _STALLED for age in self._ages) & self.open),
        ]
        m.d.sync += [
            self._cycles.eq(Mux(turn, 0, self._cycles + 1)),
            self.has_stalled.eq(stalled.any() & ~self.changes),
            self.first.eq(first_of(m, stalled)[1]),
        ]
        with m.If(turn):
            m.d.sync += self._turns.eq(Mux(tick, 0, self._turns + 1))
        for number, age in enumerate(self._ages):
            with m.If(self.changes & self.came & (self.pdc == number)):
                m.d.sync += age.eq(0)
            with m.Elif(tick & (age != _STALLED)):
                m.d.sync += age.eq(age + 1)
        return m
