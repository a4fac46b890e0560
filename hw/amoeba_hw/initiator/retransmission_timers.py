"""The clock of every PDC: when it has heard nothing for too long."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.peers import DOUBTFUL_TIMEOUTS
from amoeba_model.registers import RETRANSMIT_DOUBLINGS

from amoeba_hw.initiator.records import FLUSH
from amoeba_hw.interfaces import RETRANSMISSION

__all__ = ["RetransmissionTimers"]

_CYCLES = 32 + RETRANSMIT_DOUBLINGS
"""Bits of a time: the longest timeout, doubled as often as it may be."""
_TIMER = data.StructLayout({"left": _CYCLES, "interval": _CYCLES, "timeouts": 8})
_VISIT = 2
"""Cycles at each PDC."""


class RetransmissionTimers(wiring.Component):
    """Visits the PDCs in turn and says whose time is over.

    A round takes two cycles per PDC, so a time ends up to two rounds late, never early.

    Parameters
    ----------
    peers : int

    Members
    -------
    settings : RETRANSMISSION
    unanswered : in, a bit per peer
        The timeout runs for these.
    sending_again, held, failed : in, a bit per peer
        The timeout of these waits, to begin anew; or the hold-off runs instead; or no time runs.
    alive, alive_peer : in
        Pulse: a packet was answered. The timeout begins anew, with no doubling.
    hold, hold_peer : in
        Pulse: a hold-off of a quarter of the timeout begins. It counts as life, too.
    fail, fail_peer : in
        Pulse: this PDC is to be given up at its next visit, whatever it does, unless it has failed.
    opened, opened_peer : in
        Pulse: a new PDC, whose timers do not run.
    stall : in
        No ``expired``, ``given_up`` or ``released`` in this cycle.
    peer : out; expired, given_up, released : out
        Pulse: the PDC has timed out; it has timed out once too often, or is to fail; its hold-off is over.
    doubtful : out, a bit per peer
        The PDC has timed out DOUBTFUL_TIMEOUTS times in a row, or more often.
    flushes : FLUSH stream
        Failed PDCs with unanswered packets.
    count_timeouts : out
    """

    def __init__(self, peers):
        self._peers = peers
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
                "hold": In(1),
                "hold_peer": In(index),
                "fail": In(1),
                "fail_peer": In(index),
                "opened": In(1),
                "opened_peer": In(index),
                "stall": In(1),
                "peer": Out(index),
                "expired": Out(1),
                "given_up": Out(1),
                "released": Out(1),
                "doubtful": Out(peers),
                "flushes": Out(stream.Signature(FLUSH)),
                "count_timeouts": Out(1),
            }
        )
        # Apart from the memory, since a reset clears them.
        self._running = Signal(peers)
        self._heard = Signal(peers)
        """Answers since the last visit."""
        self._holds = Signal(peers)
        """Hold-offs to begin at the next visit."""
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
            doubted.eq(self.expired & (read.data.timeouts >= DOUBTFUL_TIMEOUTS - 1)),
            read.addr.eq(self.peer),
            write.addr.eq(self.peer),
            write.data.eq(read.data),
        ]
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
        over = Signal()
        doubled = Signal(_CYCLES)
        round_cycles = Const(_VISIT * self._peers, _CYCLES)
        m.d.comb += [
            over.eq(timer.left <= round_cycles),
            doubled.eq(timer.interval << (timer.timeouts < RETRANSMIT_DOUBLINGS)),
        ]
        begun = [started.eq(1), following.interval.eq(timeout), following.left.eq(timeout), following.timeouts.eq(0)]
        with m.If(mine(self.failed)):
            m.d.comb += stopped.eq(1)
            with m.If(mine(self.unanswered) & ~self.flushes.valid):
                m.d.sync += [self.flushes.valid.eq(1), self.flushes.p.peer.eq(self.peer)]
        with m.Elif(mine(self._fails)):
            m.d.comb += [self.given_up.eq(1), stopped.eq(1)]
        with m.Elif(mine(self._holds)):
            m.d.comb += [*begun, following.left.eq(timeout >> 2)]
        with m.Elif(mine(self.held)):
            m.d.comb += [following.left.eq(timer.left - round_cycles), self.released.eq(over)]
        with m.Elif(~mine(self.unanswered)):
            m.d.comb += stopped.eq(1)
        with m.Elif(mine(self._heard) | ~mine(self._running)):
            m.d.comb += begun
        with m.Elif(mine(self.sending_again)):
            m.d.comb += following.left.eq(timer.interval)
        with m.Elif(~over):
            m.d.comb += following.left.eq(timer.left - round_cycles)
        with m.Elif(timer.timeouts >= self.settings.limit):
            m.d.comb += [self.given_up.eq(1), self.count_timeouts.eq(1), stopped.eq(1)]
        with m.Else():
            m.d.comb += [
                self.expired.eq(1),
                self.count_timeouts.eq(1),
                following.interval.eq(doubled),
                following.left.eq(doubled),
                following.timeouts.eq(timer.timeouts + 1),
            ]

    def _elaborate_bits(self, m, visited, started, stopped, doubted):
        def of(pulse, peer):
            return Mux(pulse, Const(1, self._peers) << peer, 0)

        opened = of(self.opened, self.opened_peer)
        # The hold-off ends in a timeout that begins anew, and so it does not run meanwhile.
        ended = Mux(stopped | self.released, visited, 0)
        begins_anew = Mux(started | stopped, visited, 0) | of(self.alive, self.alive_peer) | opened
        m.d.sync += [
            self.doubtful.eq((self.doubtful & ~begins_anew) | Mux(doubted, visited, 0)),
            self._running.eq(((self._running & ~ended) | Mux(started, visited, 0)) & ~opened),
            self._heard.eq((self._heard & ~visited) | of(self.alive, self.alive_peer)),
            self._holds.eq(((self._holds & ~visited) | of(self.hold, self.hold_peer)) & ~opened),
            self._fails.eq(((self._fails & ~visited) | of(self.fail, self.fail_peer)) & ~opened),
        ]
