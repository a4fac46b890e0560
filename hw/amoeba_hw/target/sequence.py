"""Rules for one packet, by its sequence number."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.pdc import LATE_LIMIT, MAX_MISSING
from amoeba_model.wire.uet import NackCode, RequestOpcode, SesFlags

from amoeba_hw.request_records import EPOCH_BITS, message_extent

__all__ = ["PACKET_VIEW", "PDC_ENTRY", "PDC_STATE", "VERDICT", "SequenceRules", "packet_view"]

PDC_STATE = data.StructLayout(
    {
        "start": 32,  # start_psn
        "expected": 32,
        "asked": 32,  # psn behind the furthest packet that is kept or was asked for; the expected one if nothing is
        "closed": 1,
        "expelled": 1,  # with closed: not by its initiator
        "nacked": 1,  # a NACK of a packet that was not kept has been sent since the expected psn last advanced
        "data_pending": 1,  # the message that began last has immediate data, and more packets
    }
)
"""State of a PDC's packet sequence."""

PDC_ENTRY = data.StructLayout(
    {
        "ip": 32,
        "spdcid": 16,
        "state": PDC_STATE,
        "epoch": EPOCH_BITS,
        "fresh": 1,  # nothing was accepted in this connection epoch yet
        "job_id": 24,  # of the request that came last
        "context": 12,
        "came": 48,  # when something came last
    }
)
"""Entry of the PdcTable for one PDC."""

PACKET_VIEW = data.StructLayout(
    {
        "psn": 32,
        "syn": 1,
        "first": 32,  # start_psn, if the packet has SYN
        "may_open": 1,  # it is that of start_psn
        "fits": 1,  # its answer can be kept
        "retx": 1,
        "is_control": 1,
        "asks": 1,  # it is an ACK_REQUEST: the answer to packet psn is wanted again
        "reads": 1,  # it is a READ
        "starts": 1,  # a message
        "ends": 1,
        "has_data": 1,  # with starts: the message has immediate data
    }
)
"""Fields of a packet that decide about it."""

VERDICT = data.StructLayout(
    {
        "opens": 1,  # the PDC anew, whatever else becomes of the packet
        "accepted": 1,
        "duplicate": 1,
        "dropped_pdc": 1,
        "dropped_sequence": 1,
        "kept": 1,  # until its turn comes
        "nack": 1,
        "nack_code": 8,
        "missing": 8,
        "nack_psn": 32,
        "has_pdc": 1,  # a NACK names the PDC
    }
)


def packet_view(header, window):
    """Return the fields of PACKET_VIEW for a FRAME_HEADER, where a PDC keeps ``window`` answers."""
    # psn - clear_psn: what the initiator may still have no answer to, this packet included.
    unanswered = -header.clear_psn_offset.as_signed()
    starts, ends = message_extent(header)
    return {
        "psn": header.psn,
        "syn": header.syn,
        "first": header.psn - header.dpdcid,
        "may_open": header.syn & (header.dpdcid == 0),
        "fits": unanswered <= window,
        "retx": header.retx,
        "is_control": header.is_control,
        "asks": header.asks,
        "reads": ~header.is_control & (header.opcode == RequestOpcode.READ.value),
        "starts": starts,
        "ends": ends,
        "has_data": (header.flags & SesFlags.HEADER_DATA.value) != 0,
    }


class SequenceRules(wiring.Component):
    """The six rules of "Sequence" in README.md; combinational.

    Parameters
    ----------
    window : int
        Of the NicParameters.

    Members
    -------
    packet : PACKET_VIEW, In
        Of :func:`packet_view`.
    found : In(1)
        With SYN: its sender has an open or closed PDC. Without: ``dpdcid`` is one of this sender.
    before : PDC_STATE, In
        That PDC, if ``found``.
    available : In(1)
        There is a PDC to open, if the packet is not ``known``.
    remembered : In(1)
        With SYN: it is of a former opening, that of its ``first``. Not of one that was kept.
    blocked : In(1)
        Its context has no entry for its event, or no slot for its message.
    has_slot : In(1)
        There is a slot for one more packet that comes before its turn.
    held : In(1)
        The packet is kept already.
    known : Out(1)
        The packet belongs to the PDC that is ``found``, or to an earlier epoch of it.
    verdict : VERDICT, Out
        Exactly one of ``accepted``, ``duplicate``, ``dropped_pdc``, ``dropped_sequence`` and ``kept``.
    after : PDC_STATE, Out
        The PDC as it is from now on, if it was found or opened.
    """

    def __init__(self, window):
        self._window = window
        super().__init__(
            {
                "packet": In(PACKET_VIEW),
                "found": In(1),
                "before": In(PDC_STATE),
                "available": In(1),
                "remembered": In(1),
                "blocked": In(1),
                "has_slot": In(1),
                "held": In(1),
                "known": Out(1),
                "verdict": Out(VERDICT),
                "after": Out(PDC_STATE),
            }
        )
        self._ahead = Signal(32)
        """psn - expected psn: the upper half is negative."""
        self._beyond = Signal(32)
        """Missing packets that were not asked for yet; negative if the packet comes before the last one asked for."""

    def elaborate(self, platform):
        m = Module()
        packet, before, verdict = self.packet, self.before, self.verdict
        ahead = self._ahead
        belongs = Signal()
        recent = Signal()
        """The packet may be from an earlier epoch of the PDC, or of a sender that has begun anew."""
        continues = Signal()
        """Its sender has begun anew, though the PDC is open: a second one would execute what this one still may."""
        late = Signal()
        """The packet is from an earlier epoch of the PDC."""
        former = Signal()
        """The packet is a CLOSE, the last packet of its epoch, and neither next nor last in this one."""
        expected = Signal()
        m.d.comb += [
            recent.eq((before.expected - 1 - packet.first)[:32] < LATE_LIMIT),
            continues.eq(
                (recent | (before.expected == packet.first))
                & ~(before.closed | ahead[-1] | packet.is_control | self.remembered)
            ),
            belongs.eq(self.found & (~packet.syn | (before.start == packet.first) | continues)),
            late.eq(self.found & ~belongs & packet.syn & recent),
            self.known.eq(belongs | late),
            verdict.opens.eq(packet.may_open & ~self.known & ~self.remembered & self.available),
            ahead.eq(packet.psn - before.expected),
            self._beyond.eq(packet.psn - before.asked),
            former.eq(belongs & packet.is_control & ~packet.asks & (ahead >= self._window) & ~ahead.all()),
            expected.eq(verdict.opens | (belongs & ~before.closed & (ahead == 0))),
            verdict.has_pdc.eq(belongs | verdict.opens),
            verdict.nack_psn.eq(packet.psn),
        ]
        with m.If(expected & ~packet.asks):
            self._elaborate_acceptance(m)
        with m.Elif((belongs & ahead[-1] & ~former) | late):
            m.d.comb += verdict.duplicate.eq(1)
        with m.Elif(belongs & ~before.closed & packet.asks):
            m.d.comb += [
                verdict.dropped_sequence.eq(1),
                verdict.nack.eq(1),
                verdict.nack_code.eq(NackCode.PKT_NOT_RCVD.value),
            ]
        with m.Elif(belongs & ~before.closed & ~former):
            self._elaborate_gap(m)
        with m.Else():
            m.d.comb += [verdict.dropped_pdc.eq(1), verdict.nack.eq(1)]
            with m.If(belongs & before.expelled):
                m.d.comb += verdict.nack_code.eq(NackCode.CLOSING.value)
            with m.Elif(belongs | ~packet.syn):
                m.d.comb += verdict.nack_code.eq(NackCode.INV_DPDCID.value)
            with m.Elif(packet.may_open):
                m.d.comb += verdict.nack_code.eq(
                    Mux(self.remembered, NackCode.INVALID_SYN.value, NackCode.NO_PDC_AVAIL.value)
                )
            with m.Else():
                m.d.comb += [verdict.nack_code.eq(NackCode.ROD_OOO.value), verdict.nack_psn.eq(packet.first)]
        self._elaborate_state(m)
        return m

    def _elaborate_acceptance(self, m):
        """Accept the expected packet, if its answer can be kept, and its event and message have their places."""
        verdict = self.verdict
        with m.If(~self.packet.fits):
            m.d.comb += [verdict.nack.eq(1), verdict.nack_code.eq(NackCode.PSN_OOR_WINDOW.value)]
        with m.Elif(self.blocked):
            m.d.comb += [verdict.nack.eq(1), verdict.nack_code.eq(NackCode.NO_RESOURCE.value)]
        with m.Else():
            m.d.comb += verdict.accepted.eq(1)
        m.d.comb += verdict.dropped_sequence.eq(verdict.nack)

    def _elaborate_gap(self, m):
        """Keep a packet that has come before its turn, if a slot is free, and ask for the packets before it."""
        before, verdict, beyond = self.before, self.verdict, self._beyond
        is_beyond = ~beyond[-1]
        again = Signal(32)
        """First psn to come again. Kept READs need not: each would be read and answered again."""
        m.d.comb += [
            again.eq(Mux(self.packet.reads, Mux(is_beyond, before.asked, self.packet.psn), before.expected)),
            verdict.kept.eq(
                self.has_slot
                & ~self.held
                & self.packet.fits
                & (self._ahead < self._window)
                & (beyond[-1] | (beyond <= MAX_MISSING))
            ),
            verdict.dropped_sequence.eq(~verdict.kept),
            verdict.nack_code.eq(NackCode.ROD_OOO.value),
            # A lost repetition shows, too: when all slots have filled up behind it.
            verdict.nack_psn.eq(Mux(verdict.kept, before.asked, again)),
        ]
        with m.If(verdict.kept):
            m.d.comb += [verdict.nack.eq(is_beyond & (beyond != 0)), verdict.missing.eq(Mux(is_beyond, beyond, 0))]
        with m.Else():
            m.d.comb += verdict.nack.eq((~before.nacked | self.packet.retx) & ~self.held)

    def _elaborate_state(self, m):
        packet, before, verdict, after = self.packet, self.before, self.verdict, self.after
        following, asks, moves = Signal(32), Signal(), Signal()
        m.d.comb += [
            following.eq(packet.psn + 1),
            # Nothing is kept, and nothing was asked for.
            moves.eq(verdict.opens | (before.asked == before.expected)),
            asks.eq(
                verdict.accepted | (verdict.dropped_sequence & (verdict.nack_code == NackCode.NO_RESOURCE.value))
            ),
            after.asked.eq(Mux(verdict.opens, packet.psn, before.asked)),
        ]
        with m.If((asks & moves) | (verdict.kept & ~self._beyond[-1])):
            m.d.comb += after.asked.eq(following)
        holds_back = (verdict.nack_code == NackCode.ROD_OOO.value) | (verdict.nack_code == NackCode.NO_RESOURCE.value)
        m.d.comb += [
            after.start.eq(Mux(verdict.opens, packet.psn, before.start)),
            after.expected.eq(Mux(verdict.accepted, following, Mux(verdict.opens, packet.psn, before.expected))),
            after.closed.eq(Mux(verdict.accepted, packet.is_control, before.closed & ~verdict.opens)),
            after.expelled.eq(before.expelled & ~verdict.opens),
            after.data_pending.eq(
                Mux(
                    verdict.accepted,
                    Mux(packet.starts, packet.has_data, before.data_pending & ~verdict.opens) & ~packet.ends,
                    before.data_pending & ~verdict.opens,
                )
            ),
            after.nacked.eq(
                ~verdict.accepted
                & ((before.nacked & ~verdict.opens) | (verdict.dropped_sequence & verdict.nack & holds_back))
            ),
        ]
