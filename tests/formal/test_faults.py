# amaranth: UnusedElaboratable=no
"""The proofs of the hazards of memory engine, initiator, target, messages, event counters and the host's requests
notice what they are there to notice: each fault makes one fail."""

import inspect
from types import ModuleType

import pytest
from amoeba_hw.host import counter_writer, hubs, line_order
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
from amoeba_hw.memory import admission, entry_records, executor, line_store, line_table, line_use
from amoeba_hw.messages import buffer_use, kept_receives, ordered_lists, slot_credits
from amoeba_hw.pcie import (
    completer,
    completion_buffer,
    function_reset,
    msix_table,
    read_tags,
    request_merger,
    write_requester,
)
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
from amoeba_sim.formal import ProofFailed, prove

from tests.formal import admission as admission_proof
from tests.formal import (
    answers,
    counters,
    gaps,
    host_requests,
    initiator,
    lines,
    lists,
    memory,
    messages,
    pcie,
    recovery,
    requests,
    target,
    write_order,
)

FAULTS = {
    "a beat has the number of the client behind it": (
        hubs,
        "WriteHub",
        "with m.If(output.i.ready):",
        "with m.If(1):",
    ),
    "a read of a line passes the write on offer": (
        line_order,
        "LineOrder",
        "pending.waits | (self.write_valid & (pending.line == pending.asked))",
        "pending.waits",
    ),
    "a read of an answer passes the write that was on offer": (
        line_order,
        "LineOrder",
        "Mux(writes_now, pending.number, last_written)",
        "last_written",
    ),
    "no bypass from the operation before": (
        executor,
        "Executor",
        "self._forwarded.eq(asked_of(ends, ends.touches))",
        "self._forwarded.eq(0)",
    ),
    "no bypass from the one before that": (
        executor,
        "Executor",
        "self._newer.eq(asked_of(self._ends, self._ends.touches))",
        "self._newer.eq(0)",
    ),
    "no bypass from the pipeline's end": (
        executor,
        "Executor",
        "self._forwarded_late.eq(asked_of(later, later.valid))",
        "self._forwarded_late.eq(0)",
    ),
    "what has been calculated is not passed on": (
        executor,
        "Executor",
        "merge(forwards_calculated, arithmetic.calculated, if_raised)",
        "if_raised",
    ),
    "what has been calculated takes the place of what leaves the pipeline": (
        executor,
        "Executor",
        "arithmetic.calculates & ~ends_late.valid",
        "arithmetic.calculates",
    ),
    "bytes in the pipeline are not waited for": (
        executor,
        "Executor",
        "operation.touches & self._will_be_late(operation)",
        "operation.touches & 0",
    ),
    "an operation does not wait for its line": (executor, "Executor", "operation.fetches & ~present[index],", ""),
    "the line of another entry is taken for its own": (
        executor,
        "Executor",
        "self.filled & (self.filled_entry == operation.entry)",
        "self.filled",
    ),
    "an operation is issued without room for its result": (executor, "Executor", "~self.space,", ""),
    "what has just entered the pipeline is not waited for": (
        executor,
        "Executor",
        "(overlaps & (decoded.latency != 0))",
        "(overlaps & 0)",
    ),
    "an operation that would commit with another is issued": (
        admission,
        "Admission",
        "self._any(index, cycles, {cycle}) & taken[cycle + 1]",
        "self._any(index, cycles, {cycle}) & taken[cycle]",
    ),
    "what is issued in this cycle is in nobody's way": (
        admission,
        "Admission",
        "self.hinders.eq(Cat(hinders).any())",
        "self.hinders.eq(0)",
    ),
    "an operation leaves without room": (line_table, "LineTable", "self._present & self.space &", "self._present &"),
    "an entry in use takes another line": (line_table, "LineTable", "free & -free", "-1"),
    "a line twice in a row is taken for two": (
        line_table,
        "LineTable",
        "Mux(self._taken_tag_is_same, overtaken, 0)",
        "Mux(self._taken_tag_is_same, 0, 0)",
    ),
    "a line is found in the entry that another takes": (
        line_table,
        "LineTable",
        "(self._same_tag & ~overtaken)",
        "self._same_tag",
    ),
    "a line of another context is joined": (
        line_table,
        "LineTable",
        "& ~(others & self._use.in_use).any()",
        "",
    ),
    "an entry out of use is joined": (line_table, "LineTable", "self._matches & self._use.in_use", "self._matches"),
    "an entry is out of use before it is written": (
        line_use,
        "LineUse",
        "(joins[way] != retirements[way]) | (queued[way] != writes[way])",
        "joins[way] != retirements[way]",
    ),
    "who joins is overlooked by who comes next": (line_use, "LineUse", "came | Mux(same_set, joined, 0)", "came"),
    "a record that is written while it is forgotten is lost": (
        entry_records,
        "EntryRecords",
        "Mux(renewed, begin.data, current.data)",
        "current.data",
    ),
    "a read misses which bytes the commit of its cycle wrote": (
        line_store,
        "LineStore",
        "found.eq(writes.records[2] | self.commit.strobe)",
        "found.eq(writes.records[2])",
    ),
    "a read misses the commit of its cycle": (line_store, "LineStore", "transparent_for=(commit,)", ""),
    "a change while its line is taken is not queued": (
        line_store,
        "LineStore",
        "with m.If(self.copy & (self.copy_entry == self.commit.entry)):",
        "with m.If(0):",
    ),
    "what the host has got stays dirty": (
        line_store,
        "LineStore",
        "changes.forget.eq(self.copy)",
        "changes.forget.eq(0)",
    ),
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
    "a CLOSE of a former opening is a duplicate": (sequence, "SequenceRules", " & (ahead >= self._window)", " & 0"),
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
    "a message of a former opening goes on": (
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
    "answers of an earlier opening count": (
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
        "question.valid & (on_the_way == 0)",
        "question.valid",
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
    "orders in consecutive cycles start from the same count": (
        counter_writer,
        "CounterWriter",
        "transparent_for=(sum_port,)",
        "",
    ),
    "whoever names a counter advances it": (
        counter_writer,
        "CounterWriter",
        "~self._restricted.bit_select(number, 1)",
        "1",
    ),
    "a cleared counter goes on": (
        counter_writer,
        "CounterWriter",
        "Mux(self._advanced.bit_select(number, 1), read.data, 0)",
        "read.data",
    ),
    "a counter is written once and never again": (
        counter_writer,
        "CounterWriter",
        "self._queued.bit_select(numbers.payload, 1).eq(0)",
        "self._queued.bit_select(numbers.payload, 1).eq(1)",
    ),
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
        "with m.If(credits.opened):",
        "with m.If(0):",
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
    "a write waits for the answers before it": (
        completer,
        "Completer",
        "m.If(self.requests.valid & ~self.hold)",
        "m.If(self.requests.valid & ~self.hold & (waiting.level == 0))",
    ),
    "a reset does not wait for reads": (
        function_reset,
        "FunctionReset",
        "m.If(self.merger_idle & self.reads_idle)",
        "m.If(self.merger_idle)",
    ),
    "a vector is masked after it was chosen": (
        msix_table,
        "MsixTable",
        "with m.If(sendable.bit_select(vector, 1)):",
        "with m.If(1):",
    ),
    "a tag of a read that was given up is used again": (
        read_tags,
        "ReadTags",
        "self._active | self._lost",
        "self._active",
    ),
    "a read is started that there is no room for": (
        completion_buffer,
        "CompletionBuffer",
        "used + needed <= self._lines",
        "used < self._lines",
    ),
    "a read passes the write on offer": (
        request_merger,
        "RequestMerger",
        "self.accepted + self.waiting",
        "self.accepted",
    ),
    "a write has settled before it has left": (
        write_requester,
        "WriteRequester",
        "self.settled.eq(runs.o.p.number)",
        "self.settled.eq(runs.o.p.number + 1)",
    ),
    "one that is kept for others is given away": (closing_order, "ClosingOrder", " & ~refused)", ")"),
    "the list does not close the gap": (closing_order, "ClosingOrder", "moves.eq(gone | ", "moves.eq("),
}
SPECIFICATIONS = {
    "WriteHub": (write_order, "WriteHubSpec", "bmc", 5),
    "LineOrder": (write_order, "LineOrderSpec", "bmc", 7),
    "Admission": (admission_proof, "AdmissionSpec", "bmc", 10),
    "Executor": (memory, "ForwardingSpec", "bmc", 10),
    "LineTable": (lines, "LineTableSpec", "bmc", 8),
    "LineUse": (lines, "LineUseSpec", "bmc", 9),
    "EntryRecords": (lines, "EntryRecordsSpec", "bmc", 8),
    "LineStore": (memory, "LineStoreSpec", "bmc", 7),
    "SequenceRules": (target, "SequenceSpec", "combinational", 1),
    "AnswerHistory": (target, "KeptAnswerSpec", "bmc", 9),
    "AnswerStore": (target, "KeptAnswerSpec", "bmc", 9),
    "EventCredits": (target, "EventCreditsSpec", "bmc", 12),
    "Receivers": (target, "ReceiversSpec", "combinational", 1),
    "CountOrders": (target, "CountOrdersSpec", "prove", 3),
    "SlotCredits": (messages, "SlotCreditsSpec", "bmc", 12),
    "KeptReceives": (messages, "KeptReceivesSpec", "bmc", 10),
    "BufferUse": (messages, "BufferUseSpec", "combinational", 1),
    "CounterWriter": (counters, "CounterWriterSpec", "bmc", 11),
    "OrderedLists": (lists, "OrderedListsSpec", "bmc", 12),
    "Packetizer": (requests, "FenceSpec", "bmc", 12),
    "TransmitRing": (requests, "QueuePlacesSpec", "bmc", 10),
    "ClosingOrder": (target, "ClosingOrderSpec", "bmc", 8),
    "PacketNumberer": (host_requests, "PeerStoreSpec", "bmc", 10),
    "ResponseHandler": (host_requests, "PeerStoreSpec", "bmc", 10),
    "Completer": (host_requests, "CompleterSpec", "bmc", 14),
    "FunctionReset": (host_requests, "FunctionResetSpec", "bmc", 20),
    "MsixTable": (host_requests, "MsixSpec", "bmc", 12),
    "ReadTags": (pcie, "ReadTagsSpec", "bmc", 8),
    "CompletionBuffer": (pcie, "CompletionCreditsSpec", "bmc", 7),
    "RequestMerger": (pcie, "RequestOrderSpec", "bmc", 7),
    "WriteRequester": (pcie, "WrittenBytesSpec", "bmc", 6),
    "OpenMessages": (target, "OpenMessagesSpec", "bmc", 6),
    "GapStore": (gaps, "GapStoreSpec", "bmc", 9),
    "WindowCredits": (initiator, "WindowCreditsSpec", "bmc", 8),
    "AnswerOrder": (answers, "AnswersSinkSpec", "bmc", 19),
    "ResultOrder": (initiator, "FenceOrderSpec", "bmc", 10),
    "RetransmissionTimers": (initiator, "FailingSpec", "bmc", 16),
    "Retransmitter": (initiator, "RetransmitterSpec", "bmc", 14),
}
"""By component: the specification that notices, how it is proven, and for how many cycles."""
_RESENT, _ASKED = (recovery, "OldestResentSpec", "bmc", 12), (recovery, "OldestAskedSpec", "bmc", 20)
OTHER_SPECIFICATIONS = {
    "a hold-off ends with another packet than the oldest": _RESENT,
    "a hold-off begins before the oldest packet has left": _RESENT,
    "further NACKs prolong a hold-off": _ASKED,
}
"""By fault, where it is another one."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_hardware_has_what_the_fault_replaces(fault):
    module, name, right, wrong = FAULTS[fault]
    assert hasattr(broken(module, name, right, wrong), "elaborate")


def broken(module, name, right, wrong):
    """The class ``name`` of ``module`` with one expression replaced."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{module.__name__} has changed: {right!r} is not in it exactly once"
    changed = ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), module.__file__, "exec"), changed.__dict__)
    return getattr(changed, name)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_noticed(fault, monkeypatch, tmp_path):
    module, name, right, wrong = FAULTS[fault]
    faulty = broken(module, name, right, wrong)
    if name == "Executor":
        # The specification replaces the arithmetic by patching the module; do the same to this copy.
        faulty.__init__.__globals__["Arithmetic"] = memory._NaiveArithmetic
    specifications, specification, mode, depth = OTHER_SPECIFICATIONS.get(fault, SPECIFICATIONS[name])
    monkeypatch.setattr(specifications, name, faulty)
    with pytest.raises(ProofFailed) as caught:
        prove(getattr(specifications, specification)(), "fault", mode=mode, depth=depth, timeout=300, build=tmp_path)
    where = specifications.__name__.replace(".", "/")
    assert all(f"{where}.py" in place for place in caught.value.places)
