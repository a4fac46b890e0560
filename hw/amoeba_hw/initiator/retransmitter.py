"""Sends packets again, and gives PDCs up."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import LOGGED_PACKET, PACKET, RECOVERY, RecoveryKind

__all__ = ["Retransmitter"]

_SETTLING = 4


class Retransmitter(wiring.Component):
    """Goes back to a packet of a PDC: the packets from there to the last one sent leave again.

    It begins when every packet that was cut has been numbered; PDCs that send again take turns, a packet each.
    Packets that are answered meanwhile are left out.

    Parameters
    ----------
    peers : int

    Members
    -------
    recover, recovery : in
        Pulse: RECOVERY that an answer asked for. While a PDC is held, others wait for the hold-off's end, and it then
        goes back to its oldest packet.
    timer_peer; expired, given_up, released : in
        Pulses of the timers, none together with ``recover``. A hold-off that is ``released`` makes the PDC go back;
        one that has ``expired`` goes back to the oldest packet.
    answered, answered_peer : in
        Pulse: a packet was answered.
    opened, opened_peer : in
        Pulse: a new PDC, with no past.
    settled : in, a bit per peer
        No packet is cut and not numbered. None may be cut later than two cycles after ``sending_again`` or ``held``.
    resend_index : out; resend_oldest, resend_end : in
        To and from the peer table.
    log_peer, log_psn : out; log_granted, log_entry : in
        To and from the packet log.
    resending : out
        Pulse: a packet will come on ``resends``. Not later than the cycle after it was answered.
    resends : PACKET stream
        One every five cycles.
    sending_again, held : out, a bit per peer
        The PDC goes back, or will after its hold-off.
    failed : out, a bit per peer
        The PDC was given up.
    count_failed_pdcs : out
    """

    def __init__(self, peers):
        self._peers = peers
        index = range(peers)
        super().__init__(
            {
                "recover": In(1),
                "recovery": In(RECOVERY),
                "timer_peer": In(index),
                "expired": In(1),
                "given_up": In(1),
                "released": In(1),
                "answered": In(1),
                "answered_peer": In(index),
                "opened": In(1),
                "opened_peer": In(index),
                "settled": In(peers),
                "resend_index": Out(index),
                "resend_oldest": In(32),
                "resend_end": In(32),
                "log_peer": Out(index),
                "log_psn": Out(32),
                "log_granted": In(1),
                "log_entry": In(LOGGED_PACKET),
                "resending": Out(1),
                "resends": Out(stream.Signature(PACKET)),
                "sending_again": Out(peers),
                "held": Out(peers),
                "failed": Out(peers),
                "count_failed_pdcs": Out(1),
            }
        )
        self._tried = Signal(peers)
        """Went back AT_ONCE since a packet was answered last."""
        self._begins = Signal(peers)
        """The next packet is the first one of a new attempt."""
        self._from_oldest = Signal(peers)
        """That first one is the oldest unanswered packet, not the one that was asked for."""

    def elaborate(self, platform):
        m = Module()
        picked = Signal(self._peers)
        done = Signal(self._peers)
        self._elaborate_state(m, picked, done)
        self._elaborate_sending(m, picked, done)
        return m

    def _elaborate_state(self, m, picked, done):
        def of(pulse, peer):
            return Mux(pulse, Const(1, self._peers) << peer, 0)[: self._peers]

        def asked(kind):
            return of(self.recover & (self.recovery.kind == kind), self.recovery.peer[: len(self.timer_peer)])

        at_once, later, fails = (Signal(self._peers, name=name) for name in ("at_once", "later", "fails"))
        expired, ends, opened = (Signal(self._peers, name=name) for name in ("expires", "ends", "opens"))
        m.d.comb += [
            at_once.eq(asked(RecoveryKind.AT_ONCE) & ~self._tried),
            later.eq(asked(RecoveryKind.LATER)),
            fails.eq((asked(RecoveryKind.FAIL) | of(self.given_up, self.timer_peer)) & ~self.failed),
            expired.eq(of(self.expired, self.timer_peer)),
            opened.eq(of(self.opened, self.opened_peer)),
            ends.eq(fails | self.failed | opened),
            self.count_failed_pdcs.eq(fails.any()),
        ]
        released = of(self.released, self.timer_peer)
        answered = of(self.answered, self.answered_peer)
        waits = at_once & self.held
        m.d.sync += [
            self.failed.eq((self.failed | fails) & ~opened),
            self._tried.eq((self._tried | at_once) & ~answered & ~opened),
            self.held.eq(((self.held & ~released) | later) & ~ends),
            self.sending_again.eq(
                ((self.sending_again & ~(done & ~self._begins)) | (at_once & ~self.held) | expired | released)
                & ~later
                & ~ends
            ),
            # What is asked for in the cycle in which the one before is begun counts.
            self._begins.eq((self._begins & ~picked) | at_once | later | expired),
            self._from_oldest.eq((self._from_oldest & ~picked & ~(at_once & ~self.held)) | expired | waits),
        ]

    def _elaborate_sending(self, m, picked, done):
        m.submodules.origins = origins = memory.Memory(shape=32, depth=self._peers, init=[])
        m.submodules.cursors = cursors = memory.Memory(shape=32, depth=self._peers, init=[])
        # An origin written as it is read belongs to an attempt of its own; a cursor is written before it is read.
        origin, cursor = origins.read_port(), cursors.read_port()
        origin_write, cursor_write = origins.write_port(), cursors.write_port()
        peer, begins, from_oldest = self.resend_index, Signal(), Signal()
        wanted = Signal(32)
        psn = self.log_psn
        # How far the packet is from the oldest one, modulo 2**32: one that is older is very far.
        distance = Signal(32)
        outstanding = Signal(32)
        m.d.comb += [
            origin_write.addr.eq(self.recovery.peer),
            origin_write.data.eq(self.recovery.psn),
            origin_write.en.eq(self.recover),
            origin.addr.eq(peer),
            cursor.addr.eq(peer),
            wanted.eq(Mux(begins, Mux(from_oldest, self.resend_oldest, origin.data), cursor.data)),
            outstanding.eq(self.resend_end - self.resend_oldest),
            distance.eq(wanted - self.resend_oldest),
            self.log_peer.eq(peer),
            cursor_write.addr.eq(peer),
            cursor_write.data.eq(psn + 1),
        ]
        following, any_ready = self._elaborate_turns(m, peer)
        this = Const(1, self._peers) << peer
        with m.If(self.resends.ready):
            m.d.sync += self.resends.valid.eq(0)
        with m.FSM(name="resend"):
            with m.State("PICK"), m.If(any_ready):
                m.d.sync += peer.eq(following)
                m.next = "LOOK_UP"
            with m.State("LOOK_UP"):
                m.next = "PICK"
                with m.If(self.sending_again.bit_select(peer, 1)):
                    m.d.comb += picked.eq(this)
                    m.d.sync += [
                        begins.eq(self._begins.bit_select(peer, 1)),
                        from_oldest.eq(self._from_oldest.bit_select(peer, 1)),
                    ]
                    m.next = "CHECK"
            with m.State("CHECK"):
                # What is neither between the two nor the end has been answered since it was asked for.
                m.d.sync += psn.eq(Mux(distance < outstanding, wanted, self.resend_oldest))
                m.next = "READ"
                with m.If((outstanding == 0) | (distance == outstanding)):
                    m.d.comb += done.eq(this)
                    m.next = "PICK"
                with m.Else():
                    m.d.comb += self.resending.eq(1)
            # The log's answer does not wait, so there is room for it first.
            with m.State("READ"), m.If(self.log_granted & (~self.resends.valid | self.resends.ready)):
                m.next = "OFFER"
            with m.State("OFFER"):
                packet, entry = self.resends.payload, self.log_entry
                m.d.comb += cursor_write.en.eq(1)
                m.d.sync += [
                    self.resends.valid.eq(1),
                    packet.psn.eq(psn),
                    packet.resend.eq(1),
                    *(getattr(packet, name).eq(getattr(entry, name)) for name, _ in LOGGED_PACKET),
                ]
                m.next = "PICK"

    def _elaborate_turns(self, m, peer):
        """The next PDC after ``peer`` that may send a packet again, and whether there is one."""
        # A cut seen two cycles after its PDC was stopped shows in ``settled`` two cycles later.
        ripe = self.sending_again
        for cycle in range(_SETTLING):
            earlier, ripe = ripe, Signal(self._peers, name=f"ripe{cycle}")
            m.d.sync += ripe.eq(earlier & self.sending_again)
        ready = Signal(self._peers)
        behind = Signal(self._peers)
        following = Signal.like(peer)
        m.d.sync += ready.eq(ripe & self.settled)
        m.d.comb += behind.eq(ready & (Const(-2, self._peers + 1) << peer)[: self._peers])
        for index in reversed(range(self._peers)):
            with m.If(ready[index] & (behind[index] | ~behind.any())):
                m.d.comb += following.eq(index)
        return following, ready.any()
