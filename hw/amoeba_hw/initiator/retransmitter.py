"""Sends packets again, and gives PDCs up."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import LOGGED_PACKET, PACKET, RECOVERY, RecoveryKind

__all__ = ["Retransmitter"]

_SETTLING = 4
_RANGE = data.StructLayout({"first": 32, "end": 32})
"""Packets of a PDC; the end is exclusive."""


class Retransmitter(wiring.Component):
    """Goes back to a packet of a PDC: the packets from there to the last one sent leave again, or those of a range.

    Sending begins when every packet that was cut has been numbered; PDCs that send again are served round robin, a
    packet each. Packets that are answered are left out, whether they were before or are meanwhile; but the oldest of
    a PDC is not, even if its answer was kept, so that another makes the PDC go on.

    Requests that come while a PDC sends a range again wait for its end, and then make one range, from the first
    packet to the last. A PDC that sends everything again does so from elsewhere if it is asked to.

    A timeout and the end of a hold-off make the PDC go back to its oldest packet. No hold-off begins before that
    packet has left, so that NACKs for other packets never keep it back.

    Parameters
    ----------
    peers : int

    Members
    -------
    recover, recovery : in
        Pulse: RECOVERY that an answer asked for. While a PDC is held, others wait for the hold-off's end. LATER means
        nothing while the PDC still has to send its oldest packet.
    timer_peer; expired, given_up, released : in
        Pulses of the timers, none together with ``recover``. A PDC that has ``expired``, or whose hold-off is
        ``released``, goes back to its oldest packet.
    answered, answered_peer : in
        Pulse: a packet was answered.
    opened, opened_peer : in
        Pulse: a new PDC, with no past.
    settled : in, a bit per peer
        No packet is cut and not numbered. None may be cut later than two cycles after ``sending_again`` or ``held``.
    resend_index : out; resend_oldest, resend_end : in
        To and from the peer table.
    log_peer, log_psn : out; log_granted, log_entry, log_noted : in
        To and from the packet log.
    resending : out
        Pulse: a packet will come on ``resends``. Not later than the cycle after it was answered.
    oldest_resent : out
        Pulse: the packet that will come is the oldest unanswered one of ``log_peer``.
    resends : PACKET stream
        One every five cycles.
    lost : out, a bit per peer
        Pulse: something of the PDC was, since it times out, or an answer asks for it.
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
                "log_noted": In(1),
                "resending": Out(1),
                "oldest_resent": Out(1),
                "resends": Out(stream.Signature(PACKET)),
                "lost": Out(peers),
                "sending_again": Out(peers),
                "held": Out(peers),
                "failed": Out(peers),
                "count_failed_pdcs": Out(1),
            }
        )
        self._tried = Signal(peers)
        """Went back AT_ONCE since a packet was answered last."""
        self._begins = Signal(peers)
        """A new attempt is to begin."""
        self._owes_oldest = Signal(peers)
        """The oldest packet is to leave before the PDC may be held."""
        self._from_oldest = Signal(peers)
        """Its first packet is the oldest unanswered one, not the one that was asked for."""
        self._in_part = Signal(peers)
        """The attempt of the PDC has an end."""
        self._active = Signal(peers)
        """An attempt has begun and goes on."""
        self._active_in_part = Signal(peers)
        """That has an end."""
        self._asked = Signal()
        """A cycle after an answer has asked for it: ``_recovery`` is to be sent again."""
        self._recovery = Signal(RECOVERY)

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
        asks, waits, begins_anew = (Signal(self._peers, name=name) for name in ("asks", "waits", "begins_anew"))
        in_part = self._recovery.kind == RecoveryKind.MISSING
        m.d.comb += [
            at_once.eq(asked(RecoveryKind.AT_ONCE) & ~self._tried),
            later.eq(asked(RecoveryKind.LATER) & ~self._owes_oldest),
            fails.eq((asked(RecoveryKind.FAIL) | of(self.given_up, self.timer_peer)) & ~self.failed),
            expired.eq(of(self.expired, self.timer_peer)),
            opened.eq(of(self.opened, self.opened_peer)),
            ends.eq(fails | self.failed | opened),
            self.count_failed_pdcs.eq(fails.any()),
            self.lost.eq(asks | expired),
            asks.eq(of(self._asked, self._recovery.peer[: len(self.timer_peer)])),
            waits.eq(asks & self.held),
            begins_anew.eq(asks & ~self.held & ~self._begins),
        ]
        released = of(self.released, self.timer_peer)
        answered = of(self.answered, self.answered_peer)
        oldest_resent = of(self.oldest_resent, self.log_peer)
        everything = waits | later | expired | Mux(in_part, 0, asks)
        m.d.sync += [
            self._recovery.eq(self.recovery),
            self._asked.eq((at_once | asked(RecoveryKind.MISSING)).any()),
            self.failed.eq((self.failed | fails) & ~opened),
            self._tried.eq((self._tried | at_once) & ~answered & ~opened),
            self.held.eq(((self.held & ~released) | later) & ~ends),
            self.sending_again.eq(
                ((self.sending_again & ~(done & ~self._begins)) | (asks & ~self.held) | expired | released)
                & ~later
                & ~ends
            ),
            self._active.eq(((self._active & ~done) | picked) & ~later & ~ends),
            # A request in the cycle in which the attempt before is begun counts.
            self._begins.eq(((self._begins & ~picked) | asks | later | expired) & ~ends),
            self._from_oldest.eq((self._from_oldest & ~picked & ~begins_anew) | expired | waits | later),
            self._owes_oldest.eq(((self._owes_oldest & ~answered & ~oldest_resent) | expired | released) & ~ends),
            self._in_part.eq((self._in_part | Mux(in_part, begins_anew, 0)) & ~everything),
            self._active_in_part.eq((self._active_in_part & ~picked) | (picked & self._in_part)),
        ]

    def _elaborate_origins(self, m, origins):
        """Write the range that an attempt is to send again."""
        write, asked = origins.write_port(), origins.read_port()
        recovery = self._recovery
        pending = self._begins.bit_select(recovery.peer[: len(self.timer_peer)], 1)
        m.d.comb += [
            asked.addr.eq(self.recovery.peer),
            write.addr.eq(recovery.peer),
            write.en.eq(self._asked),
            write.data.first.eq(recovery.psn),
            write.data.end.eq(recovery.end),
        ]
        # Differences of psns are signed.
        with m.If(pending & (asked.data.first - recovery.psn)[31]):
            m.d.comb += write.data.first.eq(asked.data.first)
        with m.If(pending & (recovery.end - asked.data.end)[31]):
            m.d.comb += write.data.end.eq(asked.data.end)

    def _elaborate_sending(self, m, picked, done):
        m.submodules.origins = origins = memory.Memory(shape=_RANGE, depth=self._peers, init=[])
        m.submodules.cursors = cursors = memory.Memory(shape=_RANGE, depth=self._peers, init=[])
        # An origin written as it is read belongs to an attempt of its own; a cursor is written before it is read.
        origin, cursor, cursor_write = origins.read_port(), cursors.read_port(), cursors.write_port()
        self._elaborate_origins(m, origins)
        peer = self.resend_index
        begins = Signal()
        from_oldest = Signal()
        in_part = Signal()
        wanted, end, behind = Signal(32), Signal(32), Signal()
        psn = self.log_psn
        # How far the packet is from the oldest one, modulo 2**32: one that is older is very far.
        distance = Signal(32)
        outstanding = Signal(32)
        # How far the end is from the packet, and from the oldest one.
        left, left_of_all = Signal(32), Signal(32)
        over = Signal()
        kept_end = Signal(32)
        unanswered, is_oldest = Signal(), Signal()
        m.d.comb += [
            origin.addr.eq(peer),
            cursor.addr.eq(peer),
            wanted.eq(Mux(begins, Mux(from_oldest, self.resend_oldest, origin.data.first), cursor.data.first)),
            end.eq(Mux(begins, origin.data.end, cursor.data.end)),
            outstanding.eq(self.resend_end - self.resend_oldest),
            distance.eq(wanted - self.resend_oldest),
            behind.eq(distance > outstanding),
            left.eq(end - wanted),
            left_of_all.eq(end - self.resend_oldest),
            over.eq(in_part & Mux(behind, left_of_all[31] | (left_of_all == 0), left[31] | (left == 0))),
            unanswered.eq((psn - self.resend_oldest)[:32] < outstanding),
            is_oldest.eq(psn == self.resend_oldest),
            self.log_peer.eq(peer),
            cursor_write.addr.eq(peer),
            cursor_write.data.first.eq(psn + 1),
            cursor_write.data.end.eq(kept_end),
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
                    # A range is sent to its end first.
                    takes = (self._begins & ~(self._active & (self._active_in_part | self._in_part))) & this
                    m.d.comb += picked.eq(takes)
                    m.d.sync += [
                        begins.eq(takes.any()),
                        from_oldest.eq(self._from_oldest.bit_select(peer, 1)),
                        in_part.eq((Mux(takes.any(), self._in_part, self._active_in_part) & this).any()),
                    ]
                    m.next = "CHECK"
            with m.State("CHECK"):
                # A packet that is neither between the two nor the end has been answered since it was asked for.
                m.d.sync += [psn.eq(Mux(behind, self.resend_oldest, wanted)), kept_end.eq(end)]
                m.next = "READ"
                with m.If((outstanding == 0) | (distance == outstanding) | over):
                    m.d.comb += done.eq(this)
                    m.next = "PICK"
            # The log's answer does not wait, so its place is made free first.
            with m.State("READ"), m.If(self.log_granted & (~self.resends.valid | self.resends.ready)):
                m.next = "OFFER"
            with m.State("OFFER"):
                packet, entry = self.resends.payload, self.log_entry
                m.d.comb += [
                    cursor_write.en.eq(1),
                    self.resending.eq(unanswered & (is_oldest | ~self.log_noted)),
                    self.oldest_resent.eq(unanswered & is_oldest),
                ]
                m.d.sync += [
                    self.resends.valid.eq(self.resending),
                    packet.psn.eq(psn),
                    packet.resend.eq(1),
                    *(getattr(packet, name).eq(getattr(entry, name)) for name, _ in LOGGED_PACKET),
                ]
                m.next = "PICK"

    def _elaborate_turns(self, m, peer):
        """Find the next PDC after ``peer`` that may send a packet again, and whether there is one."""
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
