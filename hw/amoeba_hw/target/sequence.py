"""What becomes of one packet, going by its sequence number."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.pdc import LATE_LIMIT
from amoeba_model.wire.uet import NackCode

__all__ = ["PACKET_VIEW", "PDC_STATE", "VERDICT", "SequenceRules", "packet_view"]

PDC_STATE = data.StructLayout(
    {
        "start": 32,  # start_psn
        "expected": 32,
        "closed": 1,
        "nacked": 1,  # a NACK has been sent since the expected psn last advanced
    }
)
"""What a PDC remembers of its packets."""

PACKET_VIEW = data.StructLayout(
    {
        "psn": 32,
        "syn": 1,
        "first": 32,  # start_psn, if the packet has SYN
        "may_open": 1,  # it is that of start_psn
        "fits": 1,  # its answer can be kept
        "retx": 1,
        "is_control": 1,
    }
)
"""What of a packet decides."""

VERDICT = data.StructLayout(
    {
        "opens": 1,  # the PDC anew, whatever else becomes of the packet
        "accepted": 1,
        "duplicate": 1,
        "dropped_pdc": 1,
        "dropped_sequence": 1,
        "nack": 1,
        "nack_code": 8,
        "nack_psn": 32,
        "has_pdc": 1,  # a NACK names the PDC
    }
)


def packet_view(header, window):
    """The fields of PACKET_VIEW for a FRAME_HEADER, where a PDC keeps ``window`` answers."""
    # psn - clear_psn: what the initiator may still have no answer to, this packet included.
    unanswered = -header.clear_psn_offset.as_signed()
    return {
        "psn": header.psn,
        "syn": header.syn,
        "first": header.psn - header.dpdcid,
        "may_open": header.syn & (header.dpdcid == 0),
        "fits": unanswered <= window,
        "retx": header.retx,
        "is_control": header.is_control,
    }


class SequenceRules(wiring.Component):
    """The six rules of section 4 of the architecture; combinational.

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
    blocked : In(1)
        Its context has no room for its event, or no slot for its message.
    known : Out(1)
        The packet belongs to the PDC that is ``found``, or to an earlier opening of it.
    verdict : VERDICT, Out
        Exactly one of ``accepted``, ``duplicate``, ``dropped_pdc`` and ``dropped_sequence``.
    after : PDC_STATE, Out
        The PDC as it is from now on, if it was found or opened.
    """

    def __init__(self):
        super().__init__(
            {
                "packet": In(PACKET_VIEW),
                "found": In(1),
                "before": In(PDC_STATE),
                "available": In(1),
                "blocked": In(1),
                "known": Out(1),
                "verdict": Out(VERDICT),
                "after": Out(PDC_STATE),
            }
        )

    def elaborate(self, platform):
        m = Module()
        packet, before, verdict = self.packet, self.before, self.verdict
        belongs = Signal()
        late = Signal()
        """It is from an earlier opening of the PDC."""
        ahead = Signal(32)
        """psn - expected psn: the upper half is negative."""
        expected = Signal()
        m.d.comb += [
            belongs.eq(self.found & (~packet.syn | (before.start == packet.first))),
            late.eq(self.found & ~belongs & packet.syn & ((before.expected - 1 - packet.first)[:32] < LATE_LIMIT)),
            self.known.eq(belongs | late),
            verdict.opens.eq(packet.may_open & ~self.known & self.available),
            ahead.eq(packet.psn - before.expected),
            expected.eq(verdict.opens | (belongs & ~before.closed & (ahead == 0))),
            verdict.has_pdc.eq(belongs | verdict.opens),
            verdict.nack_psn.eq(packet.psn),
        ]
        with m.If(expected):
            self._elaborate_acceptance(m)
        with m.Elif((belongs & ahead[-1]) | late):
            m.d.comb += verdict.duplicate.eq(1)
        with m.Elif(belongs & ~before.closed):
            m.d.comb += [
                verdict.dropped_sequence.eq(1),
                verdict.nack.eq(~before.nacked | packet.retx),
                verdict.nack_code.eq(NackCode.ROD_OOO.value),
                verdict.nack_psn.eq(before.expected),
            ]
        with m.Else():
            m.d.comb += [verdict.dropped_pdc.eq(1), verdict.nack.eq(1)]
            with m.If(belongs | ~packet.syn):
                m.d.comb += verdict.nack_code.eq(NackCode.INV_DPDCID.value)
            with m.Elif(packet.may_open):
                m.d.comb += verdict.nack_code.eq(NackCode.NO_PDC_AVAIL.value)
            with m.Else():
                m.d.comb += [verdict.nack_code.eq(NackCode.ROD_OOO.value), verdict.nack_psn.eq(packet.first)]
        self._elaborate_state(m)
        return m

    def _elaborate_acceptance(self, m):
        """The packet is the expected one: is there room to keep its answer, and for what it brings?"""
        verdict = self.verdict
        with m.If(~self.packet.fits):
            m.d.comb += [verdict.nack.eq(1), verdict.nack_code.eq(NackCode.PSN_OOR_WINDOW.value)]
        with m.Elif(self.blocked):
            m.d.comb += [verdict.nack.eq(1), verdict.nack_code.eq(NackCode.NO_RESOURCE.value)]
        with m.Else():
            m.d.comb += verdict.accepted.eq(1)
        m.d.comb += verdict.dropped_sequence.eq(verdict.nack)

    def _elaborate_state(self, m):
        packet, before, verdict, after = self.packet, self.before, self.verdict, self.after
        holds_back = (verdict.nack_code == NackCode.ROD_OOO.value) | (verdict.nack_code == NackCode.NO_RESOURCE.value)
        m.d.comb += [
            after.start.eq(Mux(verdict.opens, packet.psn, before.start)),
            after.expected.eq(Mux(verdict.accepted, packet.psn + 1, Mux(verdict.opens, packet.psn, before.expected))),
            after.closed.eq(Mux(verdict.accepted, packet.is_control, before.closed & ~verdict.opens)),
            after.nacked.eq(
                ~verdict.accepted
                & ((before.nacked & ~verdict.opens) | (verdict.dropped_sequence & verdict.nack & holds_back))
            ),
        ]
