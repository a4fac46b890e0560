"""Peers of contexts, and the state of each PDC."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import GENERATION_BITS
from amoeba_hw.interfaces import PEER, PEER_STORE

__all__ = ["ANSWERED", "PeerTable"]

ANSWERED = data.StructLayout(
    {
        "oldest_psn": 32,  # the packet answered next
        "start_psn": 32,  # of the PDC: where it began, or began anew after a CLOSE
        "first_message": 16,  # message_ids count from here: where this connection epoch began
        "established": 1,  # there was an answer since
        "dpdcid": 16,  # the target's PDC, then
        "failed": 1,  # the request whose packets are being answered, with this status
        "status": 8,
        "chained": 1,  # the last packet answered ended a piece of a chain: this descriptor of this generation
        "chain_index": 16,
        "chain_generation": GENERATION_BITS,
        "receives": 8,  # ri_generation of untagged messages, as a refusal said last
        "tagged_receives": 8,  # likewise of tagged ones
    }
)
"""State of a PDC that its answers change."""


class PeerTable(wiring.Component):
    """The driver's peer entries, and how far the packets and answers of the PDC are that each of them is.

    Parameters
    ----------
    entries : int
        A power of two.

    Members
    -------
    stores : PEER_STORE stream
        Waits while ``occupied``, a few cycles whatever host and link do. Stores an entry and opens its PDC anew, or
        with ``fail`` has it given up as it is; an index outside is ignored.
    occupied : in
        Somebody is between reading and writing the state of a PDC.
    storing : out
        An entry waits to be stored: nobody begins anything, and who has to wait for somebody else forgets what he
        read.
    opened, opened_peer, opened_context, opened_whole : out
        Pulse: a PDC was opened, for which context, and whether its target takes the whole window.
    failing : out
        Pulse: the PDC ``opened_peer`` is to be given up.
    check_index : in; check_allowed, check_context : out
        Whether the entry is valid, and whose it is, one cycle after ``check_index``.
    send_index : in; send_peer, send_psn, send_answered : out
        Everything about a packet to send, one cycle after ``send_index``; as old as ``send_index``. ``send_psn`` is
        that of the next new packet.
    sent : in; sent_index, sent_psn : in
        Pulse: ``sent_psn`` is the next psn of that PDC.
    answer_index : in; answer_open, answer_psn, answer_ip, answer_job, answer_state : out
        For an answer, one cycle after ``answer_index``: whether the PDC was ever opened, the next psn to send, the
        peer's IP address and job, and ANSWERED.
    answered : in; answered_index, answered_state : in; restarted : in
        Pulse: the new ANSWERED of that PDC; ``restarted``, not with ``sent``: ``oldest_psn`` is the next psn, too.
    resend_index : in; resend_oldest, resend_end : out
        The unanswered packets, one cycle after ``resend_index``: the first one, and the one behind the last.
    """

    def __init__(self, entries):
        self._entries = entries
        index = range(entries)
        super().__init__(
            {
                "stores": In(stream.Signature(PEER_STORE)),
                "occupied": In(1),
                "storing": Out(1),
                "opened": Out(1),
                "opened_peer": Out(index),
                "opened_context": Out(8),
                "opened_whole": Out(1),
                "failing": Out(1),
                "check_index": In(index),
                "check_allowed": Out(1),
                "check_context": Out(8),
                "send_index": In(index),
                "send_peer": Out(PEER),
                "send_psn": Out(32),
                "send_answered": Out(ANSWERED),
                "sent": In(1),
                "sent_index": In(index),
                "sent_psn": In(32),
                "answer_index": In(index),
                "answer_open": Out(1),
                "answer_psn": Out(32),
                "answer_ip": Out(32),
                "answer_job": Out(24),
                "answer_state": Out(ANSWERED),
                "answered": In(1),
                "answered_index": In(index),
                "answered_state": In(ANSWERED),
                "restarted": In(1),
                "resend_index": In(index),
                "resend_oldest": Out(32),
                "resend_end": Out(32),
            }
        )
        self._valid = Signal(entries)
        """Validity apart from the memory: a reset clears it."""
        self._open = Signal(entries)

    def elaborate(self, platform):
        m = Module()
        m.submodules.peers = peers = memory.Memory(shape=PEER, depth=self._entries, init=[])
        m.submodules.sent_psns = sent_psns = memory.Memory(shape=32, depth=self._entries, init=[])
        m.submodules.answers = answers = memory.Memory(shape=ANSWERED, depth=self._entries, init=[])
        store, index = self.stores.payload, self.opened_peer
        inside = store.index < self._entries
        taken = Signal()
        m.d.comb += [
            self.storing.eq(self.stores.valid),
            self.stores.ready.eq(~self.occupied),
            taken.eq(self.stores.valid & self.stores.ready & inside),
            self.opened.eq(taken & ~store.fail),
            self.failing.eq(taken & store.fail),
            index.eq(store.index),
            self.opened_context.eq(store.peer.context),
            self.opened_whole.eq(store.peer.whole_window),
        ]

        peer_write, sent_write, answer_write = (table.write_port() for table in (peers, sent_psns, answers))
        m.d.comb += [
            peer_write.en.eq(self.opened),
            peer_write.addr.eq(index),
            peer_write.data.eq(store.peer),
            sent_write.en.eq(self.opened | self.sent | self.restarted),
            answer_write.en.eq(self.opened | self.answered),
        ]
        # A block that writes is between reading and writing: nothing is stored then.
        with m.If(self.sent):
            m.d.comb += [sent_write.addr.eq(self.sent_index), sent_write.data.eq(self.sent_psn)]
        with m.Elif(self.restarted):
            m.d.comb += [
                sent_write.addr.eq(self.answered_index),
                sent_write.data.eq(self.answered_state.oldest_psn),
            ]
        with m.Else():
            m.d.comb += [sent_write.addr.eq(index), sent_write.data.eq(store.peer.initial_psn)]
        with m.If(self.answered):
            m.d.comb += [answer_write.addr.eq(self.answered_index), answer_write.data.eq(self.answered_state)]
        with m.Else():
            m.d.comb += [
                answer_write.addr.eq(index),
                answer_write.data.oldest_psn.eq(store.peer.initial_psn),
                answer_write.data.start_psn.eq(store.peer.initial_psn),
                answer_write.data.first_message.eq(store.peer.initial_psn[:16]),
            ]
        with m.If(self.opened):
            m.d.sync += [
                self._valid.bit_select(index, 1).eq(store.peer.valid),
                self._open.bit_select(index, 1).eq(1),
            ]
        self._elaborate_reads(m, peers, sent_psns, answers)
        return m

    def _elaborate_reads(self, m, peers, sent_psns, answers):
        # Reads at the moment of a write give the old content: see the users of each port.
        check, send_peer, answer_peer = (peers.read_port() for _ in range(3))
        send_psn, answer_psn, resend_end = (sent_psns.read_port() for _ in range(3))
        send_answered, answer_state, resend_answered = (answers.read_port() for _ in range(3))
        m.d.comb += [
            check.addr.eq(self.check_index),
            self.check_context.eq(check.data.context),
            send_peer.addr.eq(self.send_index),
            send_psn.addr.eq(self.send_index),
            send_answered.addr.eq(self.send_index),
            self.send_peer.eq(send_peer.data),
            self.send_psn.eq(send_psn.data),
            self.send_answered.eq(send_answered.data),
            answer_peer.addr.eq(self.answer_index),
            answer_psn.addr.eq(self.answer_index),
            answer_state.addr.eq(self.answer_index),
            self.answer_ip.eq(answer_peer.data.ip),
            self.answer_job.eq(answer_peer.data.job_id),
            self.answer_psn.eq(answer_psn.data),
            self.answer_state.eq(answer_state.data),
            resend_end.addr.eq(self.resend_index),
            resend_answered.addr.eq(self.resend_index),
            self.resend_end.eq(resend_end.data),
            self.resend_oldest.eq(resend_answered.data.oldest_psn),
        ]
        m.d.sync += [
            self.check_allowed.eq(self._valid.bit_select(self.check_index, 1)),
            self.answer_open.eq(self._open.bit_select(self.answer_index, 1)),
        ]
