"""The clock of every PDC: when it has heard nothing for too long."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from amoeba_model.nic.peers import DOUBTFUL_TIMEOUTS
from amoeba_model.registers import NACK_LIFE, PDC_REFUSALS, RETRANSMIT_DOUBLINGS

from amoeba_hw.initiator.records import FLUSH
from amoeba_hw.interfaces import RETRANSMISSION

__all__ = ["RetransmissionTimers"]

_CYCLES = 32 + RETRANSMIT_DOUBLINGS
"""Bits of a time: the longest timeout, doubled as often as it may be."""
_TIMER = data.StructLayout(
    {
        "left": _CYCLES,
        "interval": _CYCLES,
        "holds": 1,  # what is left is of a hold-off
        "early": 1,  # this timeout is; it is neither doubled nor counted
        "was_early": 1,  # one has been since the PDC was heard
        "doublings": range(RETRANSMIT_DOUBLINGS + 1),  # timeouts in a row, so far as they double the next one
        "timeouts": 8,  # since an answer; hold-offs make up for some
        "refusals": 8 + (PDC_REFUSALS - 1).bit_length() + 1,  # hold-offs in a row, since an answer, without a PDC
    }
)
_VISIT = 2
"""Cycles at each PDC."""


class RetransmissionTimers(wiring.Component):
    """Visits the PDCs in turn and says whose time is over.

    A round takes two cycles per PDC, so a time ends up to two rounds late, never early.

    Parameters
    ----------
    peers : int
    pdc_refusals : int
        A power of two.

    Members
    -------
    settings : RETRANSMISSION
    unanswered : in, a bit per peer
        The timeout runs for these.
    sending_again, held, failed : in, a bit per peer
        The timeout of these waits; or the hold-off runs instead; or no time runs.
    oldest_resent, oldest_peer : in
        Pulse: the oldest unanswered packet of the PDC leaves again, so that the timeout begins anew.
    alive, alive_peer : in
        Pulse: a packet was answered. The timeout begins anew, with no doubling.
    cautious : in, a bit per peer
        If nothing has come of these for a quarter of the timeout, that is ``expired``, once until it begins anew. The
        quarter begins when packets are sent again, too, unless the timeout is over earlier.
    noted, noted_peer : in
        Pulse: an answer came before its turn. That puts off what is early, and nothing else.
    hold, hold_peer, without_pdc : in
        Pulse: a NACK that asks for a hold-off makes up for NACK_LIFE timeouts. If the PDC was not held and is now, a
        hold-off of a quarter of the timeout begins, and the next timeout is not doubled. ``without_pdc``: more than
        ``pdc_refusals`` of these NACKs in a row, for each of ``settings.limit`` and one more, are too many.
    fail, fail_peer : in
        Pulse: this PDC is to be given up at its next visit, whatever it does, unless it has failed.
    opened, opened_peer : in
        Pulse: a new PDC, whose timers do not run.
    stall : in
        No ``expired``, ``given_up`` or ``released`` in this cycle.
    peer : out; expired, given_up, released : out
        Pulse: the PDC has timed out; it has timed out or been refused once too often, or is to fail; its hold-off is
        over.
    refused : out, a bit per peer
        From ``given_up`` on: because it was refused a PDC.
    doubtful : out, a bit per peer
        The PDC has timed out DOUBTFUL_TIMEOUTS times in a row, or more often.
    flushes : FLUSH stream
        Failed PDCs with unanswered packets.
    count_timeouts : out
    """

    def __init__(self, peers, pdc_refusals=PDC_REFUSALS):
        self._peers = peers
        self._refusal_bits = exact_log2(pdc_refusals)
        index = range(peers)
        super().__init__(
            {
                "settings": In(RETRANSMISSION),
                "unanswered": In(peers),
                "sending_again": In(peers),
                "held": In(peers),
                "failed": In(peers),
                "alive": In(1),
                "alive_peer": In(index),
                "cautious": In(peers),
                "noted": In(1),
                "noted_peer": In(index),
                "oldest_resent": In(1),
                "oldest_peer": In(index),
                "hold": In(1),
                "hold_peer": In(index),
                "without_pdc": In(1),
                "fail": In(1),
                "fail_peer": In(index),
                "opened": In(1),
                "opened_peer": In(index),
                "stall": In(1),
                "peer": Out(index),
                "expired": Out(1),
                "given_up": Out(1),
                "released": Out(1),
                "refused": Out(peers),
                "doubtful": Out(peers),
                "flushes": Out(stream.Signature(FLUSH)),
                "count_timeouts": Out(1),
            }
        )
        # Apart from the memory, since a reset clears them.
        self._running = Signal(peers)
        self._heard = Signal(peers, init=-1)
        """Answers since the last visit, or a new PDC: what was counted of it counts no more."""
        self._noted = Signal(peers)
        """Answers before their turn since the last visit."""
        self._resent = Signal(peers)
        """The oldest packet left again since the last visit."""
        self._hold_nacks = Signal(peers)
        """NACKs that ask for a hold-off since the last visit."""
        self._without_pdc = Signal(peers)
        """The last of them said that there is no PDC."""
        self._refuses = Signal()
        """The PDC is given up since the target has no PDC for it."""
        self._fails = Signal(peers)
        """To be given up at the next visit."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.timers = timers = memory.Memory(shape=_TIMER, depth=self._peers, init=[])
        # A timer is written in the cycle after its read, and read again a round later.
        read, write = timers.read_port(), timers.write_port()
        visited = Signal(self._peers)
        started = Signal()
        stopped = Signal()
        doubted = Signal()
        m.d.comb += [
            doubted.eq(self.expired & (read.data.doublings >= DOUBTFUL_TIMEOUTS - 1)),
            read.addr.eq(self.peer),
            write.addr.eq(self.peer),
            write.data.eq(read.data),
        ]
        with m.If(self._heard.bit_select(self.peer, 1)):
            m.d.comb += [write.data.timeouts.eq(0), write.data.refusals.eq(0)]
        with m.If(self.flushes.ready):
            m.d.sync += self.flushes.valid.eq(0)
        with m.FSM(name="visit"):
            with m.State("READ"):
                m.next = "ACT"
            with m.State("ACT"), m.If(~self.stall):
                m.d.comb += [visited.eq(1 << self.peer), write.en.eq(1)]
                m.d.sync += self.peer.eq(Mux(self.peer == self._peers - 1, 0, self.peer + 1))
                self._elaborate_visit(m, read.data, write.data, started, stopped)
                m.next = "READ"
        self._elaborate_bits(m, visited, started, stopped, doubted)
        return m

    def _elaborate_visit(self, m, timer, following, started, stopped):
        def mine(bits):
            return bits.bit_select(self.peer, 1)

        timeout = self.settings.timeout
        over, refused = Signal(), Signal()
        doubled, quarter = Signal(_CYCLES), timeout >> 2
        is_cautious = mine(self.cautious)
        doubles = timer.doublings < RETRANSMIT_DOUBLINGS
        heard, without_pdc = mine(self._heard), mine(self._without_pdc)
        round_cycles = Const(_VISIT * self._peers, _CYCLES)
        m.d.comb += [
            over.eq(timer.left <= round_cycles),
            doubled.eq(timer.interval << doubles),
            refused.eq(without_pdc & ~heard & (timer.refusals >= (self.settings.limit + 1) << self._refusal_bits)),
        ]
        first = Mux(is_cautious, quarter, timeout)
        begun = [
            started.eq(1),
            following.interval.eq(first),
            following.left.eq(first),
            following.holds.eq(0),
            following.early.eq(is_cautious),
            following.was_early.eq(is_cautious),
            following.doublings.eq(0),
        ]
        becomes_early = is_cautious & ~timer.was_early & (timer.doublings == 0)
        with m.If(mine(self._hold_nacks)):
            m.d.comb += [
                following.timeouts.eq(Mux(heard | (timer.timeouts < NACK_LIFE), 0, timer.timeouts - NACK_LIFE)),
                following.refusals.eq(Mux(without_pdc, Mux(heard, 0, timer.refusals) + 1, 0)),
            ]
        with m.If(mine(self.failed)):
            m.d.comb += stopped.eq(1)
            with m.If(mine(self.unanswered) & ~self.flushes.valid):
                m.d.sync += [self.flushes.valid.eq(1), self.flushes.p.peer.eq(self.peer)]
        with m.Elif(mine(self._fails)):
            m.d.comb += [self.given_up.eq(1), stopped.eq(1)]
        with m.Elif(mine(self._hold_nacks) & refused):
            m.d.comb += [self.given_up.eq(1), self._refuses.eq(1), stopped.eq(1)]
        with m.Elif(mine(self.held) & timer.holds & mine(self._running)):
            m.d.comb += [following.left.eq(timer.left - round_cycles), self.released.eq(over)]
        with m.Elif(mine(self.held)):
            m.d.comb += [*begun, following.left.eq(quarter), following.holds.eq(1)]
        with m.Elif(~mine(self.unanswered)):
            m.d.comb += stopped.eq(1)
        with m.Elif(heard | ~mine(self._running) | (mine(self._resent) & becomes_early)):
            m.d.comb += begun
        with m.Elif(mine(self._resent) | (mine(self._noted) & timer.early)):
            m.d.comb += following.left.eq(timer.interval)
        with m.Elif(mine(self.sending_again)), m.If(becomes_early & (timer.left > quarter)):
            m.d.comb += begun
        with m.Elif(~over):
            m.d.comb += following.left.eq(timer.left - round_cycles)
        with m.Elif(timer.early):
            m.d.comb += [
                self.expired.eq(1),
                self.count_timeouts.eq(1),
                following.interval.eq(timeout),
                following.left.eq(timeout),
                following.early.eq(0),
            ]
        with m.Elif(timer.timeouts >= self.settings.limit):
            m.d.comb += [self.given_up.eq(1), self.count_timeouts.eq(1), stopped.eq(1)]
        with m.Else():
            m.d.comb += [
                self.expired.eq(1),
                self.count_timeouts.eq(1),
                following.interval.eq(doubled),
                following.left.eq(doubled),
                following.doublings.eq(timer.doublings + doubles),
                following.timeouts.eq(timer.timeouts + 1),
            ]

    def _elaborate_bits(self, m, visited, started, stopped, doubted):
        def of(pulse, peer):
            return Mux(pulse, Const(1, self._peers) << peer, 0)

        opened = of(self.opened, self.opened_peer)
        # The hold-off ends in a timeout that begins anew, and so it does not run meanwhile.
        ended = Mux(stopped | self.released, visited, 0)
        hold_nacks = of(self.hold, self.hold_peer)
        begins_anew = Mux(started | stopped, visited, 0) | of(self.alive, self.alive_peer) | opened
        m.d.sync += [
            self.refused.eq((self.refused | Mux(self._refuses, visited, 0)) & ~opened),
            self.doubtful.eq((self.doubtful & ~begins_anew) | Mux(doubted, visited, 0)),
            self._running.eq(((self._running & ~ended) | Mux(started, visited, 0)) & ~opened),
            self._heard.eq((self._heard & ~visited) | of(self.alive, self.alive_peer) | opened),
            self._noted.eq((self._noted & ~visited) | of(self.noted, self.noted_peer)),
            self._resent.eq((self._resent & ~visited) | of(self.oldest_resent, self.oldest_peer)),
            self._hold_nacks.eq(((self._hold_nacks & ~visited) | hold_nacks) & ~opened),
            self._without_pdc.eq((self._without_pdc & ~hold_nacks) | Mux(self.without_pdc, hold_nacks, 0)),
            self._fails.eq(((self._fails & ~visited) | of(self.fail, self.fail_peer)) & ~opened),
        ]
