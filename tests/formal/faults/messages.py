"""Faults of messages."""

from amoeba_hw.messages import buffer_use, kept_receives, open_receives, ordered_lists, slot_credits

from tests.formal import lists, messages

__all__ = ["FAULTS", "SPECIFICATIONS"]

FAULTS = {
    "a slot more than there are is promised": (
        slot_credits,
        "SlotCredits",
        "self.free[index] > reserved",
        "self.free[index] >= reserved",
    ),
    "slots are promised before the lists are emptied": (slot_credits, "SlotCredits", " & self.settled[index]", ""),
    "an earlier generation settles": (
        slot_credits,
        "SlotCredits",
        "& (claim.generation == self.generations[index])",
        "",
    ),
    "a receive is looked for before the messages in front have been matched": (
        kept_receives,
        "KeptReceives",
        "asks & (on_the_way == 0)",
        "asks",
    ),
    "receive descriptors are done while a receive is kept": (
        kept_receives,
        "KeptReceives",
        "self.keeps.eq(self.found)",
        "self.keeps.eq(0)",
    ),
    "a receive is kept only until its message is accepted": (
        kept_receives,
        "KeptReceives",
        "with m.Elif(self.settled):",
        "with m.Elif(self.settled | self.accepted):",
    ),
    "a message that has been matched is still on its way": (
        kept_receives,
        "KeptReceives",
        "on_the_way + self.accepted - self.settled",
        "on_the_way + self.accepted",
    ),
    "the next message begins where the one before ends": (
        buffer_use,
        "BufferUse",
        "self.length + (-end)[:_ALIGNMENT_BITS]",
        "self.length + 0",
    ),
    "places are multiples of 64 from the buffer's start": (
        buffer_use,
        "BufferUse",
        "self.address[:_ALIGNMENT_BITS] + self.length[:_ALIGNMENT_BITS]",
        "self.length[:_ALIGNMENT_BITS]",
    ),
    "a place behind the buffer's end is one": (buffer_use, "BufferUse", "left[-1] | (left == 0)", "(left == 0)"),
    "entries in front of the one taken out move, too": (
        ordered_lists,
        "OrderedLists",
        "self._stays.eq(self._way - 1)",
        "self._stays.eq(0)",
    ),
    "a row ends with its own first entry": (
        ordered_lists,
        "OrderedLists",
        "self._read_row(m, number, self._row, ahead=1)",
        "self._read_row(m, number, self._row)",
    ),
    "a place in the list is given back": (
        ordered_lists,
        "OrderedLists",
        " & ~linked.bit_select(index, 1)",
        "",
    ),
    "an open receive is never closed": (open_receives, "OpenReceives", "self.open & ~changes", "self.open"),
    "all open receives are closed at once": (open_receives, "OpenReceives", "self.open & ~changes", "0"),
    "a receive is put where the next read is": (
        open_receives,
        "OpenReceives",
        "write.addr.eq(number)",
        "write.addr.eq(self.pdc)",
    ),
    "another place is taken than the lowest one": (
        ordered_lists,
        "OrderedLists",
        "first.eq(~taken & (taken + 1))",
        "first.eq(~taken)",
    ),
    "the search ends one row early": (
        ordered_lists,
        "OrderedLists",
        "hits.any() | self._is_last(self._row, count)",
        "hits.any() | self._is_last(self._row + 1, count)",
    ),
}
SPECIFICATIONS = {
    "SlotCredits": (messages, "SlotCreditsSpec", "bmc", 12),
    "KeptReceives": (messages, "KeptReceivesSpec", "bmc", 10),
    "OpenReceives": (messages, "OpenReceivesSpec", "bmc", 8),
    "BufferUse": (messages, "BufferUseSpec", "combinational", 1),
    "OrderedLists": (lists, "OrderedListsSpec", "bmc", 12),
}
