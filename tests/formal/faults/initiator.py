"""Faults of the initiator."""

from amoeba_hw.initiator import (
    answer_order,
    packet_numberer,
    packetizer,
    response_handler,
    result_order,
    retransmission_timers,
    retransmitter,
    transmit_scheduler,
    window_credits,
)

from tests.formal import answers, host_requests, initiator, requests

__all__ = ["FAULTS", "SPECIFICATIONS"]

FAULTS = {
    "what has just been taken may be taken again": (
        transmit_scheduler,
        "TransmitRing",
        " & (self.take == 0)",
        "",
    ),
    "a request begins in spite of FENCE_ALL": (
        packetizer,
        "Packetizer",
        "early.eq(begins & ~self.in_order)",
        "early.eq(0)",
    ),
    "a request begins in spite of FENCE": (
        packetizer,
        "Packetizer",
        "barred.eq(begins & (request.fence | request.is_close) & ~self.all_answered.bit_select(peer, 1))",
        "barred.eq(0)",
    ),
    "a NOP does not wait for its fences": (
        packetizer,
        "Packetizer",
        "goes.eq(vanishes | ~(barred | shut | early))",
        "goes.eq(vanishes | request.is_nop | ~(barred | shut | early))",
    ),
    "a NOP has a packet": (
        packetizer,
        "Packetizer",
        "m.Elif(self.request.is_nop)",
        "m.Elif(self.request.is_nop & 0)",
    ),
    "a context waits for the packets of others": (
        window_credits,
        "WindowCredits",
        "(credits.places == 0) | (owner != context)",
        "credits.places == 0",
    ),
    "a context does not wait for its own packets": (
        window_credits,
        "WindowCredits",
        "(credits.places == 0) | (owner != context)",
        "(credits.places == 0) | (owner == context)",
    ),
    "a PDC that has lost something has its whole window": (
        window_credits,
        "WindowCredits",
        "cautious = credits.caution != 0",
        "cautious = 0",
    ),
    "what was lost is forgotten when the next packet is answered": (
        window_credits,
        "WindowCredits",
        "self.caution.eq(self.caution - 1)",
        "self.caution.eq(0)",
    ),
    "a new PDC has lost what the one before it did": (
        window_credits,
        "WindowCredits",
        "self.closing.eq(0), self.caution.eq(0)]",
        "self.closing.eq(0)]",
    ),
    "a PDC stays whose it was first": (
        window_credits,
        "WindowCredits",
        "self._owners[peer].eq(self.opened_context)",
        "self._owners[peer].eq(self._owners[peer])",
    ),
    "a fence sees a packet a cycle late": (
        window_credits,
        "WindowCredits",
        "m.d.sync += self.context_answered[context].eq(",
        "late = Signal(name=f'late{context}')\n            m.d.sync += self.context_answered[context].eq(late)\n"
        "            m.d.sync += late.eq(",
    ),
    "a NOP takes the place of an answer": (
        result_order,
        "ResultOrder",
        "with m.If(self.answers.valid):",
        "with m.If(self.answers.valid & ~self.nops.valid):",
    ),
    "a NOP does not wait its turn": (
        result_order,
        "ResultOrder",
        "waiting.o.ready.eq(ready & (self.orders.ready | ~answer.completes)),",
        "waiting.o.ready.eq(waiting.o.valid & (self.orders.ready | ~answer.completes)),",
    ),
    "answers do not look whether there is a place": (
        answer_order,
        "AnswerOrder",
        "m.d.sync += self.crowd.eq(results.level + barrier.level > places - decided)",
        "m.d.sync += self.crowd.eq(barrier.level == places)",
    ),
    "who is told to fail at its visit is overlooked": (
        retransmission_timers,
        "RetransmissionTimers",
        "((self._fails & ~visited) | of(self.fail, self.fail_peer))",
        "((self._fails | of(self.fail, self.fail_peer)) & ~visited)",
    ),
    "a hold-off keeps a PDC alive that is to fail": (
        retransmission_timers,
        "RetransmissionTimers",
        "with m.Elif(mine(self._fails)):",
        "with m.Elif(mine(self._fails) & ~mine(self.held)):",
    ),
    "a PDC without packets does not fail": (
        retransmission_timers,
        "RetransmissionTimers",
        "with m.Elif(mine(self._fails)):",
        "with m.Elif(mine(self._fails) & mine(self.unanswered)):",
    ),
    "a PDC that is opened anew fails for the one before": (
        retransmission_timers,
        "RetransmissionTimers",
        "self._fails.eq(((self._fails & ~visited) | of(self.fail, self.fail_peer)) & ~opened),",
        "self._fails.eq((self._fails & ~visited) | of(self.fail, self.fail_peer)),",
    ),
    "a PDC that is told to fail has timed out": (
        retransmission_timers,
        "RetransmissionTimers",
        "[self.given_up.eq(1), stopped.eq(1)]",
        "[self.given_up.eq(1), self.count_timeouts.eq(1), stopped.eq(1)]",
    ),
    "a PDC that fails while it is held back goes on": (
        retransmitter,
        "Retransmitter",
        "self.held.eq(((self.held & ~released) | later) & ~ends),",
        "self.held.eq(((self.held & ~released) | later) & ~opened),",
    ),
    "a PDC that fails while it sends again goes on": (
        retransmitter,
        "Retransmitter",
        "                & ~later\n                & ~ends\n",
        "                & ~later\n                & ~opened\n",
    ),
    "a packet whose answer was kept is sent again": (
        retransmitter,
        "Retransmitter",
        "self.resending.eq(unanswered & (is_oldest | ~self.log_noted))",
        "self.resending.eq(unanswered)",
    ),
    "a hold-off ends with another packet than the oldest": (
        retransmitter,
        "Retransmitter",
        "| expired | waits | later)",
        "| expired | waits)",
    ),
    "a hold-off begins before the oldest packet has left": (
        retransmitter,
        "Retransmitter",
        "later.eq(asked(RecoveryKind.LATER) & ~self._owes_oldest)",
        "later.eq(asked(RecoveryKind.LATER))",
    ),
    "further NACKs prolong a hold-off": (
        retransmission_timers,
        "RetransmissionTimers",
        "m.Elif(mine(self.held) & timer.holds & mine(self._running)):",
        "m.Elif(mine(self.held) & timer.holds & mine(self._running) & ~mine(self._hold_nacks)):",
    ),
    "an answer goes on with an entry of before": (
        response_handler,
        "ResponseHandler",
        "yields.eq(parked & self.storing)",
        "yields.eq(0)",
    ),
    "a header is made of an entry of before": (
        packet_numberer,
        "PacketNumberer",
        "with m.If(waited & self.storing):",
        "with m.If(0):",
    ),
}
SPECIFICATIONS = {
    "Packetizer": (requests, "FenceSpec", "bmc", 12),
    "TransmitRing": (requests, "QueuePlacesSpec", "bmc", 10),
    "PacketNumberer": (host_requests, "PeerStoreSpec", "bmc", 10),
    "ResponseHandler": (host_requests, "PeerStoreSpec", "bmc", 10),
    "WindowCredits": (initiator, "WindowCreditsSpec", "bmc", 8),
    "AnswerOrder": (answers, "AnswersSinkSpec", "bmc", 19),
    "ResultOrder": (initiator, "FenceOrderSpec", "bmc", 10),
    "RetransmissionTimers": (initiator, "FailingSpec", "bmc", 16),
    "Retransmitter": (initiator, "RetransmitterSpec", "bmc", 14),
}
