"""History of the answers of each PDC."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.request_records import EPOCH_BITS

__all__ = ["ANSWER_VIEW", "DUPLICATE_VIEW", "AnswerHistory"]

ANSWER_VIEW = data.StructLayout(
    {"valid": 1, "pdc": 16, "psn": 32, "clear_psn_offset": 16, "epoch": EPOCH_BITS}
)
DUPLICATE_VIEW = data.StructLayout({"valid": 1, "pdc": 16, "psn": 32, "epoch": EPOCH_BITS})


class AnswerHistory(wiring.Component):
    """Remembers up to where each PDC's answers have been given, and how many of the last were plain.

    Plain is an answer that is OK and without data. A PDC's answers are given in order, without a gap; the first of
    another connection epoch starts anew.

    Parameters
    ----------
    pdcs, window : int
        Target PDCs, and how many of their answers count: powers of two.

    Members
    -------
    turn : ANSWER_VIEW, In
        Pulse: this answer is the next one to be given. Not in two cycles in a row.
    all_plain : Out(1)
        From the cycle after ``turn`` on until ``given``: all answers after its clear_psn and before it were plain.
    given, plain : In(1)
        Pulse, after ``turn``: the answer has been given, and was itself plain.
    ask : DUPLICATE_VIEW, In
        Pulse: look up a packet that has been received before.
    answered : Out(1)
        From the cycle after ``ask`` on until the next: its answer had been given before, and is among the last
        ``window`` of its PDC. To be valid the other members of ``ask`` have to stay.
    """

    def __init__(self, pdcs, window):
        self._pdcs = pdcs
        self._window = window
        self._state = data.StructLayout(
            {
                "epoch": EPOCH_BITS,
                "next": 32,  # psn behind the last answer given
                "kept": range(window + 1),  # answers given, at most window
                "plain": range(window + 1),  # the last ones that were plain, at most window
            }
        )
        super().__init__(
            {
                "turn": In(ANSWER_VIEW),
                "all_plain": Out(1),
                "given": In(1),
                "plain": In(1),
                "ask": In(DUPLICATE_VIEW),
                "answered": Out(1),
            }
        )
        self._known = Signal(pdcs)
        """PDCs that have been given an answer since reset, which the memory itself does not obey."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.states = states = memory.Memory(shape=self._state, depth=self._pdcs, init=[])
        # An answer's turn comes after the one before has been given; a duplicate may see the state before.
        write, before, asked = states.write_port(), states.read_port(), states.read_port()
        self._elaborate_turn(m, write, before)
        ask = self.ask
        known = Signal()
        back = Signal(32)
        """How far the packet is behind the next one to be answered: 1 for the last one answered."""
        m.d.comb += [
            asked.addr.eq(ask.pdc),
            asked.en.eq(ask.valid),
            back.eq(asked.data.next - ask.psn),
            self.answered.eq(
                known & (asked.data.epoch == ask.epoch) & (back != 0) & (back <= asked.data.kept)
            ),
        ]
        with m.If(ask.valid):
            m.d.sync += known.eq(self._known.bit_select(asked.addr, 1))
        return m

    def _elaborate_turn(self, m, write, before):
        turn, window = self.turn, self._window
        answer = Signal(ANSWER_VIEW)
        was_known = Signal()
        continues = Signal()
        kept, plain = Signal(range(window + 1)), Signal(range(window + 1))
        between = Signal(17)
        """Packets after the clear_psn and before this one; signed."""
        m.d.comb += [
            before.addr.eq(turn.pdc),
            before.en.eq(turn.valid),
            continues.eq(was_known & (before.data.epoch == answer.epoch)),
            kept.eq(Mux(continues, before.data.kept, 0)),
            # Nothing before the first packet of a PDC counts against it.
            plain.eq(Mux(continues, before.data.plain, window)),
            between.eq(-answer.clear_psn_offset.as_signed() - 1),
            self.all_plain.eq(between.as_signed() <= plain),
            write.addr.eq(answer.pdc),
            write.en.eq(self.given),
            write.data.epoch.eq(answer.epoch),
            write.data.next.eq(answer.psn + 1),
            write.data.kept.eq(_increased(kept, window)),
            write.data.plain.eq(Mux(self.plain, _increased(plain, window), 0)),
        ]
        with m.If(turn.valid):
            m.d.sync += [answer.eq(turn), was_known.eq(self._known.bit_select(before.addr, 1))]
        with m.If(self.given):
            m.d.sync += self._known.bit_select(write.addr, 1).eq(1)


def _increased(value, most):
    return Mux(value == most, most, value + 1)
