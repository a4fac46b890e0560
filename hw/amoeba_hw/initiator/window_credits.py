"""How many packets of each PDC are on their way."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.peers import CAUTION
from amoeba_model.wire.congestion import MPR_UNIT

__all__ = ["WindowCredits"]


class _Credits(wiring.Component):
    """The packets of one PDC: ``places`` are cut and not answered, ``waiting`` of them not numbered yet.

    ``caution`` packets are to be answered until nothing is to be seen any more of the last that was lost.
    """

    def __init__(self, window, caution):
        self._window = window
        self._caution = caution
        super().__init__(
            {
                "cut": In(1),
                "cut_close": In(1),
                "dropped": In(1),
                "numbered": In(1),
                "answered": In(1),
                "closed": In(1),
                "opened": In(1),
                "lost": In(1),
                "places": Out(range(window + 1)),
                "waiting": Out(range(window + 1)),
                "closing": Out(1),
                "caution": Out(range(caution + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        waiting = Signal.like(self.waiting)
        m.d.comb += waiting.eq(self.waiting + self.cut - self.dropped - self.numbered)
        m.d.sync += [
            self.waiting.eq(waiting),
            self.places.eq(self.places + self.cut - self.dropped - self.answered),
            self.closing.eq((self.closing & ~self.closed) | (self.cut & self.cut_close)),
        ]
        with m.If(self.lost):
            m.d.sync += self.caution.eq(self._caution)
        with m.Elif(self.answered & (self.caution != 0)):
            m.d.sync += self.caution.eq(self.caution - 1)
        with m.If(self.opened):
            # Packets numbered before belong to a PDC that is no more.
            m.d.sync += [self.places.eq(waiting), self.closing.eq(0), self.caution.eq(0)]
        return m


class WindowCredits(wiring.Component):
    """Counts the places of every PDC's window: one is taken by each packet that is cut, until it is answered.

    Parameters
    ----------
    peers, window, contexts : int
    window_after_loss : int
        Places of a PDC that is ``cautious``; all of them, if not given.
    caution : int
        Packets that have to be answered since the last loss until it is not.

    Members
    -------
    cut, cut_peer, cut_close : in
        Pulse: a packet takes a place; ``cut_close``: it is a CLOSE. Only where there is ``space``.
    dropped, dropped_peer : in
        Pulse: a packet that was cut will never be numbered.
    numbered, numbered_peer : in
        Pulse: a packet that was cut got its psn.
    answered, answered_peer, closed, mpr : in
        Pulse: a packet that was numbered is answered; ``closed``: it was a CLOSE. ``mpr``: how many packets may be
        unanswered from now on, in units of MPR_UNIT; 0: as many as before.
    opened, opened_peer, opened_context, opened_whole : in
        Pulse: a new PDC, and whose it is. Packets numbered by then are forgotten. One unit of packets may be
        unanswered; with ``opened_whole`` the whole window.
    lost : in, a bit per peer
        Pulse: something of the PDC was lost.
    room, all_answered, settled, unanswered, cautious : out, a bit per peer
        Whether one more packet fits and no CLOSE is unanswered; no packet is on its way; every packet that was cut
        is numbered or dropped; packets that were numbered are unanswered; something was lost lately. From registers,
        two cycles behind.
    context_answered : out, a bit per context
        No packet of any PDC that is the context's is on its way. Likewise.

    All pulses may come in the same cycle, also for the same peer.
    """

    def __init__(self, peers, window, contexts, window_after_loss=None, caution=CAUTION):
        self._peers = peers
        self._window = window
        self._window_after_loss = window if window_after_loss is None else window_after_loss
        self._contexts = contexts
        index = range(peers)
        super().__init__(
            {
                "cut": In(1),
                "cut_peer": In(index),
                "cut_close": In(1),
                "dropped": In(1),
                "dropped_peer": In(index),
                "numbered": In(1),
                "numbered_peer": In(index),
                "answered": In(1),
                "answered_peer": In(index),
                "closed": In(1),
                "mpr": In(8),
                "opened": In(1),
                "opened_peer": In(index),
                "opened_context": In(range(contexts)),
                "opened_whole": In(1),
                "lost": In(peers),
                "space": Out(peers),
                "all_answered": Out(peers, init=-1),
                "settled": Out(peers, init=-1),
                "unanswered": Out(peers),
                "cautious": Out(peers),
                "context_answered": Out(contexts, init=-1),
            }
        )
        self._credits = [_Credits(window, caution) for _ in range(peers)]
        self._owners = [Signal(range(contexts), name=f"owner{peer}") for peer in range(peers)]

    def elaborate(self, platform):
        m = Module()
        for peer, credits in enumerate(self._credits):
            m.submodules[f"credits{peer}"] = credits
            for event in ("cut", "dropped", "numbered", "answered", "opened"):
                concerned = getattr(self, event) & (getattr(self, f"{event}_peer") == peer)
                m.d.comb += getattr(credits, event).eq(concerned)
            cautious = credits.caution != 0
            is_full = self._is_full(m, credits)
            m.d.comb += [
                credits.cut_close.eq(self.cut_close),
                credits.closed.eq(credits.answered & self.closed),
                credits.lost.eq(self.lost[peer]),
            ]
            m.d.sync += [
                self.space[peer].eq(
                    ~(is_full | (cautious & (credits.places >= self._window_after_loss)) | credits.closing)
                ),
                self.cautious[peer].eq(cautious),
                self.all_answered[peer].eq(credits.places == 0),
                self.settled[peer].eq(credits.waiting == 0),
                self.unanswered[peer].eq(credits.places != credits.waiting),
            ]
            with m.If(credits.opened):
                m.d.sync += self._owners[peer].eq(self.opened_context)
        for context in range(self._contexts):
            m.d.sync += self.context_answered[context].eq(
                Cat(
                    (credits.places == 0) | (owner != context)
                    for credits, owner in zip(self._credits, self._owners, strict=True)
                ).all()
            )
        return m

    def _is_full(self, m, credits):
        """Whether the target of a PDC allows no more unanswered packets, or the window has no place for one."""
        most = self._window // MPR_UNIT
        if most < 2:
            return credits.places == self._window
        units = Signal(range(most + 1), init=1)
        with m.If(credits.opened):
            m.d.sync += units.eq(Mux(self.opened_whole, most, 1))
        with m.Elif(credits.answered & (self.mpr != 0)):
            m.d.sync += units.eq(Mux(self.mpr < most, self.mpr, most))
        return credits.places >= Cat(Const(0, MPR_UNIT.bit_length() - 1), units)
