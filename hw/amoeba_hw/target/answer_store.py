"""The last answers of every PDC, for replay."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.request_records import KEPT_ANSWER
from amoeba_hw.target.answer_history import DUPLICATE_VIEW

__all__ = ["STORE_ANSWER", "AnswerStore"]

STORE_ANSWER = data.StructLayout({"valid": 1, "pdc": 16, "answer": KEPT_ANSWER})


class AnswerStore(wiring.Component):
    """Keeps an answer until the one ``window`` psns later is made.

    An answer is stored as soon as it is begun, which ends the earlier one in its place before anything of that
    changes in the answer memory. It may be replayed once it has been given: :class:`AnswerHistory` says when.
    The largest memory of the NIC: 261 bits per answer, 4.3 Mbit for 64 PDCs with a window of 256.

    Parameters
    ----------
    pdcs, window : int
        Powers of two.

    Members
    -------
    store : STORE_ANSWER, In
        When valid: the answer of psn ``answer.psn`` of a PDC, whole or the latest that is known of it.
    ask : DUPLICATE_VIEW, In
        When valid: look up the answer of a packet.
    answer : KEPT_ANSWER, Out
    intact : Out(1)
        From the cycle after ``ask`` on until the next: what was stored before for this psn and connection epoch. To
        be valid the other members of ``ask`` have to stay.
    """

    def __init__(self, pdcs, window):
        self._pdcs = pdcs
        self._window = window
        super().__init__(
            {
                "store": In(STORE_ANSWER),
                "ask": In(DUPLICATE_VIEW),
                "answer": Out(KEPT_ANSWER),
                "intact": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.answers = answers = memory.Memory(
            shape=KEPT_ANSWER, depth=self._pdcs * self._window, init=[], attrs={"ram_style": "block"}
        )
        # A read in the cycle of a write shows what was there before.
        write, read = answers.write_port(), answers.read_port()
        m.d.comb += [
            write.addr.eq(self._place(self.store.answer.psn, self.store.pdc)),
            write.data.eq(self.store.answer),
            write.en.eq(self.store.valid),
            read.addr.eq(self._place(self.ask.psn, self.ask.pdc)),
            read.en.eq(self.ask.valid),
            self.answer.eq(read.data),
            self.intact.eq((read.data.psn == self.ask.psn) & (read.data.epoch == self.ask.epoch)),
        ]
        return m

    def _place(self, psn, pdc):
        """Return the place of a psn: modulo window, within the PDC's part."""
        return Cat(psn[: (self._window - 1).bit_length()], pdc[: (self._pdcs - 1).bit_length()])
