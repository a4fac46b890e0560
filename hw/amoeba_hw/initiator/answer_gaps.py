"""Answers of each PDC that came before those of older packets, and the recovery of the gaps."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AnswerGaps"]

_ENDS = data.StructLayout({"kept": 32, "asked": 32, "filled": 32})


class AnswerGaps(wiring.Component):
    """Keeps three psns for each PDC: up to where answers were kept, up to where answers that are missing before these
    were asked for, and up to where packets that the target misses were sent again; each exclusive, and only while it
    lies behind the oldest unanswered packet. So each gap leads to one repetition, until it is forgotten.

    Parameters
    ----------
    peers : int

    Members
    -------
    look_up : in
        The PDC to be in hand from the next cycle on, in which there is ``load``.
    load, peer : in
        Pulse, and the PDC in hand from then on.
    oldest : in
        Its oldest unanswered packet.
    answered : in
        Pulse: the oldest packet is answered.
    kept, psn : in
        Pulse: the answer to packet ``psn`` is kept.
    filled, missing : in
        Pulse: the target misses ``missing`` packets from ``psn`` on.
    forget : in
        Pulse: the PDC in hand begins anew.
    expired, expired_peer; opened, opened_peer : in
        Pulses: a PDC has timed out, and may ask for everything and send everything again; it is a new one.
    has_kept, continues : out
        Whether answers are kept behind the oldest packet, and behind the one after it.
    first_asked, asks : out
        The first packet before ``psn`` whose answer was not asked for, and whether there is one.
    first_filled, filled_end, fills : out
        Of the packets that the target misses: the first one that was not sent again, the one behind the last, and
        whether there is one between.
    """

    def __init__(self, peers):
        self._peers = peers
        index = range(peers)
        super().__init__(
            {
                "look_up": In(index),
                "load": In(1),
                "peer": In(index),
                "oldest": In(32),
                "answered": In(1),
                "kept": In(1),
                "psn": In(32),
                "filled": In(1),
                "missing": In(8),
                "forget": In(1),
                "expired": In(1),
                "expired_peer": In(index),
                "opened": In(1),
                "opened_peer": In(index),
                "has_kept": Out(1),
                "continues": Out(1),
                "first_asked": Out(32),
                "asks": Out(1),
                "first_filled": Out(32),
                "filled_end": Out(32),
                "fills": Out(1),
            }
        )
        self._ends = Signal(_ENDS)
        """Of the PDC in hand; each valid with its bit."""
        self._valid = {name: Signal(peers, name=f"{name}_valid") for name, _ in _ENDS}

    def elaborate(self, platform):
        m = Module()
        m.submodules.ends = ends = memory.Memory(shape=_ENDS, depth=self._peers, init=[])
        # Written by the PDC in hand, which is looked up anew later than in the next cycle.
        read, write = ends.read_port(), ends.write_port()
        following = Signal(_ENDS)
        m.d.comb += [
            read.addr.eq(self.look_up),
            write.addr.eq(self.peer),
            write.data.eq(following),
            write.en.eq(self.kept | self.filled),
            following.eq(self._ends),
        ]
        m.d.sync += self._ends.eq(Mux(self.load, read.data, following))
        sets = self._elaborate_ends(m, following)
        self._elaborate_bits(m, sets)
        return m

    def _elaborate_ends(self, m, following):
        """Work out what follows from a kept answer and from missing packets; return the bits that are set."""
        kept, asked, filled = (self._valid[name].bit_select(self.peer, 1) for name in ("kept", "asked", "filled"))
        behind = (self.psn + 1)[:32]
        is_last, is_behind, was_filled = Signal(), Signal(), Signal()
        # Differences of psns are signed.
        ahead, left = Signal(32), Signal(32)
        m.d.comb += [
            self.has_kept.eq(kept),
            self.continues.eq(kept & (self._ends.kept != (self.oldest + 1)[:32])),
            is_last.eq(~kept | ~(self.psn - self._ends.kept)[31]),
            self.first_asked.eq(Mux(asked, self._ends.asked, self.oldest)),
            ahead.eq(self.psn - self.first_asked),
            is_behind.eq(~ahead[31]),
            self.asks.eq(is_behind & (ahead != 0)),
            self.filled_end.eq(self.psn + self.missing),
            was_filled.eq(filled & ~(self._ends.filled - self.psn)[31]),
            self.first_filled.eq(Mux(was_filled, self._ends.filled, self.psn)),
            left.eq(self.filled_end - self.first_filled),
            self.fills.eq(~left[31] & (left != 0)),
        ]
        with m.If(self.kept & is_last):
            m.d.comb += following.kept.eq(behind)
        with m.If(self.kept & is_behind):
            m.d.comb += following.asked.eq(behind)
        with m.If(self.filled & self.fills):
            m.d.comb += following.filled.eq(self.filled_end)
        return {"kept": self.kept, "asked": self.kept & is_behind, "filled": self.filled & self.fills}

    def _elaborate_bits(self, m, sets):
        def of(pulse, peer):
            return Mux(pulse, Const(1, self._peers) << peer, 0)[: self._peers]

        opened, expired = of(self.opened, self.opened_peer), of(self.expired, self.expired_peer)
        forgotten = of(self.forget, self.peer) | opened
        for name, valid in self._valid.items():
            # The oldest packet passes each number.
            passed = of(self.answered & (self._ends[name] == (self.oldest + 1)[:32]), self.peer)
            gone = passed | forgotten | (0 if name == "kept" else expired)
            m.d.sync += valid.eq((valid & ~gone) | of(sets[name], self.peer))
