"""Faults of the target."""

from amoeba_hw.target import (
    answer_history,
    answer_store,
    closing_order,
    count_orders,
    event_credits,
    gap_store,
    open_messages,
    receivers,
    sequence,
)

from tests.formal import gaps, target

__all__ = ["FAULTS", "SPECIFICATIONS"]

FAULTS = {
    "psns are compared without a sign": (
        sequence,
        "SequenceRules",
        "with m.Elif((belongs & ahead[-1] & ~former) | late):",
        "with m.Elif((belongs & (packet.psn < before.expected) & ~former) | late):",
    ),
    "a closed PDC goes on": (
        sequence,
        "SequenceRules",
        "belongs & ~before.closed & (ahead == 0)",
        "belongs & (ahead == 0)",
    ),
    "who was expelled is told what who has closed is": (
        sequence,
        "SequenceRules",
        "with m.If(belongs & before.expelled):",
        "with m.If(0):",
    ),
    "what was opened before is opened again": (
        sequence,
        "SequenceRules",
        "~self.known & ~self.remembered & self.available",
        "~self.known & self.available",
    ),
    "a sender that begins anew has a second PDC": (
        sequence,
        "SequenceRules",
        "(before.start == packet.first) | continues",
        "(before.start == packet.first)",
    ),
    "what was opened before goes on": (
        sequence,
        "SequenceRules",
        "packet.is_control | self.remembered",
        "packet.is_control",
    ),
    "an answer that cannot be kept does not matter": (
        sequence,
        "SequenceRules",
        "with m.If(~self.packet.fits):",
        "with m.If(0):",
    ),
    "what is kept is kept once more": (sequence, "SequenceRules", "                & ~self.held\n", ""),
    "what is missing is asked for with what was asked for before": (
        sequence,
        "SequenceRules",
        "verdict.nack_psn.eq(Mux(verdict.kept, before.asked, again))",
        "verdict.nack_psn.eq(again)",
    ),
    "what is kept of READs is asked for again": (
        sequence,
        "SequenceRules",
        "again.eq(Mux(self.packet.reads, ",
        "again.eq(Mux(0, ",
    ),
    "of READs what was asked for is asked for once more": (
        sequence,
        "SequenceRules",
        "Mux(is_beyond, before.asked, self.packet.psn)",
        "self.packet.psn",
    ),
    "a CLOSE of a former epoch is a duplicate": (sequence, "SequenceRules", " & (ahead >= self._window)", " & 0"),
    "a message without a first packet has its immediate data": (
        sequence,
        "SequenceRules",
        "Mux(packet.starts, packet.has_data, before.data_pending & ~verdict.opens) & ~packet.ends",
        "packet.has_data & ~packet.ends",
    ),
    "a message goes on after its end": (open_messages, "OpenMessages", "self.passed & ~packet.ends", "self.passed"),
    "a message goes on though a packet of it was refused": (
        open_messages,
        "OpenMessages",
        "self.passed & ~packet.ends",
        "~packet.ends",
    ),
    "a message goes on with any key": (open_messages, "OpenMessages", "(row.key != packet.key)", "0"),
    "a message goes on anywhere": (
        open_messages,
        "OpenMessages",
        "            & (row.received == packet.offset)\n",
        "",
    ),
    "a message of a former epoch goes on": (
        open_messages,
        "OpenMessages",
        "            & (row.epoch == packet.epoch)\n",
        "",
    ),
    "two packets one after the other do not see each other": (
        open_messages,
        "OpenMessages",
        "transparent_for=(write,)",
        "",
    ),
    "what is kept gives way at once": (
        gap_store,
        "GapStore",
        "late.eq(Cat(age == _LATE for age in self._ages))",
        "late.eq(~0)",
    ),
    "what is kept never gives way": (gap_store, "GapStore", "with m.If(tick & (age != _LATE)):", "with m.If(0):"),
    "a PDC that is closed throws away what is another's": (
        gap_store,
        "GapStore",
        "(self.forget & own[slot])",
        "self.forget",
    ),
    "what was taken is still there": (gap_store, "GapStore", " | (self.take & follows[slot])", ""),
    "what gives way is not counted": (gap_store, "GapStore", "thrown.eq(self._valid.all())", "thrown.eq(0)"),
    "an answer is given again before it was given": (answer_history, "AnswerHistory", "& (back != 0)", ""),
    "answers of an earlier epoch count": (
        answer_history,
        "AnswerHistory",
        "& (asked.data.epoch == ask.epoch)",
        "",
    ),
    "a newer answer is taken for the older one": (
        answer_store,
        "AnswerStore",
        "(read.data.psn == self.ask.psn)",
        "1",
    ),
    "one entry of the margin is promised": (event_credits, "EventCredits", "_MARGIN = 4", "_MARGIN = 3"),
    "what was promised in the last cycle is not counted": (
        event_credits,
        "EventCredits",
        "taken.eq(reserved - self._consumed)",
        "taken.eq(self._reserved - self._consumed)",
    ),
    "an earlier generation gives back": (
        event_credits,
        "EventCredits",
        "& (claim.generation == self.generations[index])",
        "",
    ),
    "a context that is not enabled has a receiver": (
        receivers,
        "Receivers",
        "context.enable & (receiver",
        "(receiver",
    ),
    "a receiver that does not exist is one": (receivers, "Receivers", "(receiver.context < self._contexts)", "1"),
    "a receiver needs no slots": (receivers, "Receivers", " & (context.unexpected_base != 0)", ""),
    "an answer's second counter is left out": (count_orders, "CountOrders", "(is_first & is_second) | ", ""),
    "an answer's third counter is left out": (count_orders, "CountOrders", " | (is_second & is_third)", ""),
    "receive descriptors take the room that a request has seen": (
        event_credits,
        "EventCredits",
        "taken + _MARGIN + 1 <",
        "taken + _MARGIN <",
    ),
    "one that is kept for others is given away": (closing_order, "ClosingOrder", " & ~refused)", ")"),
    "the list does not close the gap": (closing_order, "ClosingOrder", "moves.eq(gone | ", "moves.eq("),
}
SPECIFICATIONS = {
    "SequenceRules": (target, "SequenceSpec", "combinational", 1),
    "AnswerHistory": (target, "KeptAnswerSpec", "bmc", 9),
    "AnswerStore": (target, "KeptAnswerSpec", "bmc", 9),
    "EventCredits": (target, "EventCreditsSpec", "bmc", 12),
    "Receivers": (target, "ReceiversSpec", "combinational", 1),
    "CountOrders": (target, "CountOrdersSpec", "prove", 3),
    "ClosingOrder": (target, "ClosingOrderSpec", "bmc", 8),
    "OpenMessages": (target, "OpenMessagesSpec", "bmc", 6),
    "GapStore": (gaps, "GapStoreSpec", "bmc", 9),
}
