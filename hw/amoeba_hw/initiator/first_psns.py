"""Works out where a PDC begins that is opened again."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.first_psns import DISTANCE, KEY_WORDS, ROUNDS

__all__ = ["FirstPsns"]

_HALF = 1 << 31


class FirstPsns(wiring.Component):
    """Encrypts PDC and psn with Speck64/96, a round per cycle: ``amoeba_model.nic.first_psns`` in hardware.

    Parameters
    ----------
    peers : int

    Members
    -------
    key : In(96)
        The register ``psn_key``, its first word on top.
    run : In(1)
        ``pdc`` and ``psn`` are there, and stay.
    pdc, psn : In
        A PDC, and the psn that it would use next.
    done, first : Out
        ``first`` is where the PDC begins anew: 28 cycles after ``run`` rose, until it falls.
    """

    def __init__(self, peers):
        super().__init__(
            {
                "key": In(32 * KEY_WORDS),
                "run": In(1),
                "pdc": In(range(peers)),
                "psn": In(32),
                "done": Out(1),
                "first": Out(32),
            }
        )
        self._high, self._low = Signal(32), Signal(32)
        self._round_key, self._earlier, self._later = Signal(32), Signal(32), Signal(32)
        """Words of the key schedule, the next one to use first."""
        self._round = Signal(range(ROUNDS + 1))
        self._begun = Signal()
        self._ended = Signal()

    def elaborate(self, platform):
        m = Module()
        edge = DISTANCE.bit_length() - 1
        top = self._high[edge:]
        m.d.comb += self._ended.eq(self._round == ROUNDS)
        m.d.sync += [
            self.done.eq(self.run & self._ended),
            self.first.eq(self.psn + (self._high ^ Mux(top.any() & ~top.all(), 0, _HALF))),
        ]
        with m.If(~self.run):
            m.d.sync += [self._begun.eq(0), self._round.eq(0)]
        with m.Elif(~self._begun):
            m.d.sync += [
                self._begun.eq(1),
                self._high.eq(self.psn),
                self._low.eq(self.pdc),
                Cat(self._round_key, self._earlier, self._later).eq(self.key),
            ]
        with m.Elif(~self._ended):
            self._elaborate_round(m)
        return m

    def _elaborate_round(self, m):
        high, low, following = Signal(32), Signal(32), Signal(32)
        m.d.comb += [
            high.eq((self._high.rotate_right(8) + self._low)[:32] ^ self._round_key),
            low.eq(self._low.rotate_left(3) ^ high),
            following.eq((self._earlier.rotate_right(8) + self._round_key)[:32] ^ self._round),
        ]
        m.d.sync += [
            self._high.eq(high),
            self._low.eq(low),
            self._round_key.eq(self._round_key.rotate_left(3) ^ following),
            self._earlier.eq(self._later),
            self._later.eq(following),
            self._round.eq(self._round + 1),
        ]
