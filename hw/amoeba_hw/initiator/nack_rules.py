"""Effects of a NACK."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.codec import NO_PDC
from amoeba_model.wire.nacks import FATAL_NACKS, LOSS_NACKS, NO_PDC_NACKS, PATIENT_NACKS
from amoeba_model.wire.uet import NackCode

from amoeba_hw.initiator.peer_table import ANSWERED
from amoeba_hw.initiator.records import RECOVERY, RecoveryKind
from amoeba_hw.interfaces import FRAME_HEADER

__all__ = ["NackRules"]


class NackRules(wiring.Component):
    """The rules of "Loss" in README.md for a NACK of an unanswered packet; combinational.

    Members
    -------
    header : FRAME_HEADER, In
        The NACK.
    psn, peer : In
        The packet that it names, and its PDC.
    is_close : In(1)
        The packet is a CLOSE, the only unanswered one.
    state : ANSWERED, In
        Of the PDC.
    doubtful, has_kept : In(1)
        An unanswered packet may have been executed; answers are kept.
    missing, fills, first_filled, filled_end : In
        Of AnswerGaps: how many packets are missing, and which of them are to be sent again.
    filled : Out(1)
        The missing packets from ``first_filled`` on are sent again.
    ignored : Out(1)
        The NACK changes nothing.
    answered : Out(1)
        The CLOSE was executed.
    renewed : Out(1)
        A new PDC begins at the oldest packet.
    clears : Out(1)
        The target may keep too many answers, and is to hear which it need not keep.
    recover, recovery : Out(1), RECOVERY
        How the PDC recovers.
    """

    def __init__(self):
        super().__init__(
            {
                "header": In(FRAME_HEADER),
                "psn": In(32),
                "peer": In(16),
                "is_close": In(1),
                "state": In(ANSWERED),
                "doubtful": In(1),
                "has_kept": In(1),
                "missing": In(8),
                "fills": In(1),
                "first_filled": In(32),
                "filled_end": In(32),
                "filled": Out(1),
                "ignored": Out(1),
                "answered": Out(1),
                "renewed": Out(1),
                "clears": Out(1),
                "recover": Out(1),
                "recovery": Out(RECOVERY),
            }
        )

    def elaborate(self, platform):
        m = Module()
        code, recovery = self.header.nack_code, self.recovery
        m.d.comb += [self.recover.eq(1), recovery.peer.eq(self.peer), recovery.psn.eq(self.psn)]
        with m.Switch(code):
            with m.Case(NackCode.ROD_OOO, *sorted(LOSS_NACKS)):
                m.d.comb += recovery.kind.eq(RecoveryKind.AT_ONCE)
                with m.If(self.missing != 0):
                    m.d.comb += [
                        self.filled.eq(1),
                        self.recover.eq(self.fills),
                        recovery.kind.eq(RecoveryKind.MISSING),
                        recovery.psn.eq(self.first_filled),
                        recovery.end.eq(self.filled_end),
                    ]
            with m.Case(*sorted(PATIENT_NACKS)):
                m.d.comb += [
                    recovery.kind.eq(RecoveryKind.LATER),
                    recovery.without_pdc.eq(code.matches(*sorted(NO_PDC_NACKS))),
                    self.clears.eq((code == NackCode.PSN_OOR_WINDOW) & self.state.established),
                ]
            with m.Case(NackCode.CLOSING):
                m.d.comb += [
                    recovery.kind.eq(RecoveryKind.FAIL),
                    self.recover.eq(~self.is_close),
                    self.answered.eq(self.is_close),
                ]
            with m.Case(NackCode.INV_DPDCID):
                self._elaborate_lost_pdc(m)
            with m.Case(*sorted(FATAL_NACKS - {NackCode.CLOSING})):
                m.d.comb += recovery.kind.eq(RecoveryKind.FAIL)
            with m.Default():
                m.d.comb += [self.recover.eq(0), self.ignored.eq(1)]
        return m

    def _elaborate_lost_pdc(self, m):
        """Judge a NACK that says that the target does not have the PDC."""
        about_ours, is_lost, sure = Signal(), Signal(), Signal()
        m.d.comb += [
            about_ours.eq(self.header.spdcid == self.state.dpdcid),
            is_lost.eq(self.state.established & (about_ours | (self.header.spdcid == NO_PDC))),
            # Where answers were kept, something that is unanswered may have been executed.
            sure.eq(~self.doubtful & ~self.has_kept),
            # A CLOSE of a PDC that the target does not know any more has been executed.
            self.recovery.kind.eq(RecoveryKind.FAIL),
            self.recover.eq(is_lost & ~self.is_close),
            self.answered.eq(self.is_close),
            self.ignored.eq(~is_lost & ~self.is_close),
        ]
        with m.If(self.state.established & about_ours & ~self.is_close & sure):
            m.d.comb += [
                self.renewed.eq(1),
                self.recovery.kind.eq(RecoveryKind.AT_ONCE),
                self.recovery.psn.eq(self.state.oldest_psn),
            ]
