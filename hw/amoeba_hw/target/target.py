"""The target: from received requests to answers."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_model.descriptors import EVENT

from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter
from amoeba_hw.host.ring_writer import RingWriter
from amoeba_hw.interfaces import (
    CONTEXT,
    COUNT_ORDER,
    DMA_COMMAND,
    FRAME_HEADER,
    KEY_STORE,
    MEMORY_REQUEST,
    PDC_COMMAND,
    PDC_VIEW,
    READ_REQUEST,
    RETRANSMISSION,
    RING_INDEX,
    SLOT_RELEASE,
    TRACE_SLOT,
    packet_beat,
    read_beat,
    write_beat,
)
from amoeba_hw.messages.absent import AbsentMatcher
from amoeba_hw.messages.matcher import Matcher
from amoeba_hw.request_records import ADVANCES, CHECKED_REQUEST, DUPLICATE, NACK
from amoeba_hw.stream import HalfRateSlice, Queue, RegisterSlice, SkidBuffer, connect_streams
from amoeba_hw.target.answer_collector import AnswerCollector
from amoeba_hw.target.answer_history import AnswerHistory
from amoeba_hw.target.answer_sender import AnswerSender
from amoeba_hw.target.answer_store import AnswerStore
from amoeba_hw.target.checker import RequestChecker
from amoeba_hw.target.count_orders import CountOrders
from amoeba_hw.target.drain import Drain
from amoeba_hw.target.event_credits import EventCredits
from amoeba_hw.target.gap_payloads import GapPayloads
from amoeba_hw.target.key_table import KeyTable
from amoeba_hw.target.operand_splitter import OperandSplitter
from amoeba_hw.target.pdc_table import PdcTable
from amoeba_hw.target.receivers import Receivers
from amoeba_hw.target.replayer import Replayer
from amoeba_hw.target.response_merger import ResponseMerger

__all__ = ["Target"]

_MEMORY_REQUESTS = 4
_DUPLICATES = 64
"""Requests received again that wait for their answer; behind them, others get none, as if it had been lost."""
_NACKS = 32
"""That wait to leave; while so many do, others get lost, as on the link."""
_ADVANCES = 16


class Target(wiring.Component):
    """Executes or refuses every request once, in order, with the help of the memory engine, and answers it.

    ::

        requests -> PdcTable -> KeyTable -> RequestChecker -> Matcher -+-> memory_requests
                     |    |                            OperandSplitter +-> AnswerCollector <- results
                     |    |                                                   |      |
                     |  duplicates -> Replayer <------ AnswerStore <----------+  AnswerSender -+-> RingWriter
                     |                   |            AnswerHistory <----------------+         +-> CountOrders
                   NACKs ------> ResponseMerger <------------------------------------+

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    requests : FRAME_HEADER stream
    request_payload : :func:`packet_beat` stream
        One packet of ``payload_length`` bytes for each header that has any, in order. May wait for its header's
        checks, never for another request's.
    contexts : array of CONTEXT, In
    answer_base : In(64)
    retransmission : RETRANSMISSION, In
    pdc_command, pdc_view, cycles
        See :class:`~amoeba_hw.target.pdc_table.PdcTable`.
    key_stores : KEY_STORE stream
        See :class:`~amoeba_hw.target.key_table.KeyTable`.
    drain, draining, fence, fenced
        See :class:`~amoeba_hw.target.drain.Drain`; ``drain`` is its ``begin``.
    event_heads, event_arms, receive_tails : RING_INDEX streams
    slot_releases : SLOT_RELEASE stream
        Taken in every cycle. Without the part that they are for, nothing comes of doorbells.
    memory_requests : MEMORY_REQUEST stream
        Requests that passed all checks.
    operands, compares : :func:`packet_beat` streams
        One packet of ``length`` bytes for each of them with ``has_operand`` or ``has_compare``, in order.
    results : :func:`packet_beat` stream
        One packet for each of them, in order: see :class:`~amoeba_hw.target.answer_collector.AnswerCollector`.
    responses : FRAME_HEADER stream
    response_payload : :func:`packet_beat` stream
        Acknowledgements and NACKs: one packet of ``payload_length`` bytes for each header that has any.
    answer_writes_ordered, event_writes_ordered : In(1)
        As of PackedWriter and RingWriter.
    answer_writes, event_writes : :func:`write_beat` streams
        Data of answers to the answer memory, and entries to event rings. Everything that an answer needs there is
        has its place in the order of host writes before the answer is offered.
    answer_reads, answer_data : READ_REQUEST and :func:`read_beat` streams
        Data of replayed answers: one at a time, and never refused.
    receive_reads, receive_data : READ_REQUEST and :func:`read_beat` streams
        Receive descriptors: see :class:`~amoeba_hw.messages.matcher.Matcher`.
    counts : COUNT_ORDER stream
        For the event counters of contexts, keys and receives, each after everything that it counts was accepted on
        its way to the host.
    event_interrupts : Out, a bit per context
        Pulses.
    trace_request_checked : TRACE_SLOT
        For each request that a PDC accepted.
    trace_event_written : TRACE_SLOT
    count_requests_received, count_refused_requests, count_dropped_pdc, count_dropped_sequence, count_duplicates,
    count_events, count_messages_matched, count_messages_unexpected : Out(1)

    Nothing new waits for requests that were received again: of those, 64 wait for their answers; more have none. Nor
    for NACKs: 32 of them wait to leave; more get lost.
    A request in two cycles, and on ``memory_requests`` 7 cycles after its header was offered, if its key is in the
    first slot; an answer in two cycles. Messages take longer: see the Matcher.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        if parameters.return_data:
            raise ValueError(f"return_data must be False in hardware, got {parameters.return_data}")
        width = parameters.data_width
        beat = packet_beat(width)
        super().__init__(
            {
                "requests": In(stream.Signature(FRAME_HEADER)),
                "request_payload": In(stream.Signature(beat)),
                "contexts": In(CONTEXT).array(parameters.contexts),
                "answer_base": In(64),
                "retransmission": In(RETRANSMISSION),
                "pdc_command": In(PDC_COMMAND),
                "pdc_view": Out(PDC_VIEW),
                "cycles": In(48),
                "key_stores": In(stream.Signature(KEY_STORE)),
                "drain": In(1),
                "draining": Out(1),
                "fence": Out(1),
                "fenced": In(1),
                "event_heads": In(stream.Signature(RING_INDEX)),
                "event_arms": In(stream.Signature(RING_INDEX)),
                "receive_tails": In(stream.Signature(RING_INDEX)),
                "slot_releases": In(stream.Signature(SLOT_RELEASE)),
                "memory_requests": Out(stream.Signature(MEMORY_REQUEST)),
                "operands": Out(stream.Signature(beat)),
                "compares": Out(stream.Signature(beat)),
                "results": In(stream.Signature(beat)),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(beat)),
                "answer_writes": Out(stream.Signature(write_beat(width))),
                "event_writes": Out(stream.Signature(write_beat(width))),
                "answer_writes_ordered": In(1),
                "event_writes_ordered": In(1),
                "answer_reads": Out(stream.Signature(READ_REQUEST)),
                "answer_data": In(stream.Signature(read_beat(width))),
                "receive_reads": Out(stream.Signature(READ_REQUEST)),
                "receive_data": In(stream.Signature(read_beat(width))),
                "counts": Out(stream.Signature(COUNT_ORDER)),
                "event_interrupts": Out(parameters.contexts),
                "trace_request_checked": Out(TRACE_SLOT),
                "trace_event_written": Out(TRACE_SLOT),
                "count_requests_received": Out(1),
                "count_refused_requests": Out(1),
                "count_dropped_pdc": Out(1),
                "count_dropped_sequence": Out(1),
                "count_duplicates": Out(1),
                "count_events": Out(1),
                "count_messages_matched": Out(1),
                "count_messages_unexpected": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        parameters = self._parameters
        m.submodules.pdcs = pdcs = PdcTable(parameters)
        m.submodules.receivers = receivers = Receivers(parameters.contexts)
        m.submodules.matcher = matcher = (Matcher if parameters.has_messages else AbsentMatcher)(parameters)
        m.submodules.collector = collector = AnswerCollector(parameters)
        m.submodules.results_skid = results = SkidBuffer(packet_beat(parameters.data_width))
        m.submodules.sender = sender = AnswerSender(parameters)
        m.submodules.replayer = replayer = Replayer(parameters)
        m.submodules.merger = merger = ResponseMerger(parameters.data_width)
        m.submodules.answered = answered = SkidBuffer(FRAME_HEADER)
        # Replayed answers are rare, and may take longer.
        m.submodules.replayed = replayed = HalfRateSlice(FRAME_HEADER)
        m.submodules.merged_payload = merged_payload = RegisterSlice(packet_beat(parameters.data_width))
        m.submodules.nacks = nacks = Queue(NACK, _NACKS)
        m.submodules.duplicates = duplicates = Queue(DUPLICATE, _DUPLICATES)
        for producer, consumer in (
            (flipped(self.requests), pdcs.requests),
            (flipped(self.results), results.i),
            (results.o, collector.results),
            (collector.complete, sender.answers),
            (duplicates.o, replayer.duplicates),
            (sender.responses, answered.i),
            (answered.o, merger.answers),
            (collector.payload, merger.answer_payload),
            (replayer.responses, replayed.i),
            (replayed.o, merger.replays),
            (replayer.payload, merger.replay_payload),
            (nacks.o, merger.nacks),
            (merger.responses, flipped(self.responses)),
            (merger.response_payload, merged_payload.i),
            (merged_payload.o, flipped(self.response_payload)),
        ):
            connect_streams(m, producer, consumer)
        self._elaborate_checks(m, pdcs, receivers, matcher, collector)
        self._elaborate_matching(m, pdcs, receivers, matcher)
        if parameters.event_rings:
            self._elaborate_credits(m, pdcs, matcher, sender)
            self._elaborate_events(m, sender)
        else:
            m.d.comb += [self.event_heads.ready.eq(1), self.event_arms.ready.eq(1)]
        self._elaborate_counts(m, sender)
        self._elaborate_drain(m, pdcs.sequenced, matcher.fetches, sender)
        self._elaborate_answer_memory(m, collector, sender, replayer)
        for said, kept in ((pdcs.duplicates, duplicates.i), (pdcs.nacks, nacks.i)):
            # Nothing new waits for what was received again, or was refused.
            m.d.comb += said.ready.eq(1)
            m.d.sync += [kept.valid.eq(said.valid), kept.p.eq(said.p)]
        m.d.comb += [
            self.count_dropped_pdc.eq(pdcs.count_dropped_pdc),
            self.count_dropped_sequence.eq(pdcs.count_dropped_sequence),
            self.count_duplicates.eq(pdcs.count_duplicates),
            self.count_refused_requests.eq(collector.count_refused_requests),
            self.count_events.eq(sender.count_events),
            self.count_messages_matched.eq(matcher.count_messages_matched),
            self.count_messages_unexpected.eq(matcher.count_messages_unexpected),
            self.trace_event_written.eq(sender.trace_event_written),
        ]
        return m

    def _elaborate_checks(self, m, pdcs, receivers, matcher, collector):
        """From the packets that are accepted to what the memory engine does."""
        m.submodules.keys = keys = KeyTable(self._parameters.keys)
        m.submodules.checker = checker = RequestChecker(self._parameters)
        m.submodules.checked_skid = checked = SkidBuffer(CHECKED_REQUEST)
        m.submodules.matched_skid = matched = SkidBuffer(CHECKED_REQUEST)
        m.submodules.splitter = splitter = OperandSplitter(self._parameters)
        m.submodules.waiting = waiting = Queue(MEMORY_REQUEST, _MEMORY_REQUESTS)
        for producer, consumer in (
            (pdcs.sequenced, keys.requests),
            (flipped(self.key_stores), keys.stores),
            (keys.located, checker.located),
            (checker.checked, checked.i),
            (checked.o, matcher.checked),
            (matcher.matched, matched.i),
            (waiting.o, flipped(self.memory_requests)),
            (splitter.operands, flipped(self.operands)),
            (splitter.compares, flipped(self.compares)),
        ):
            connect_streams(m, producer, consumer)
        m.d.comb += [
            keys.ahead.eq(pdcs.ahead),
            keys.ahead_key.eq(pdcs.ahead_key),
            checker.keeps_data.eq(self.answer_base != 0),
            checker.takes_messages.eq(receivers.takes_messages),
            *(checker.contexts[index].eq(self.contexts[index]) for index in range(self._parameters.contexts)),
        ]
        self._elaborate_report(m, checker.checked, pdcs)
        passages = self._elaborate_payloads(m, splitter.payload)
        self._elaborate_dispatch(m, matched.o, splitter.jobs, passages, waiting.i, collector.answers)

    def _elaborate_payloads(self, m, ordered):
        """Brings payloads into the order of their jobs; returns where those are told that come, and those kept before
        that are needed; None: none is ever kept.
        """
        m.submodules.payload_skid = payload = SkidBuffer(packet_beat(self._parameters.data_width))
        connect_streams(m, flipped(self.request_payload), payload.i)
        if not self._parameters.out_of_order_entries:
            connect_streams(m, payload.o, ordered)
            return None
        m.submodules.gap_payloads = gap_payloads = GapPayloads(self._parameters)
        connect_streams(m, payload.o, gap_payloads.i)
        connect_streams(m, gap_payloads.o, ordered)
        return gap_payloads.passages

    def _elaborate_report(self, m, checked, pdcs):
        request, event = checked.p, self.trace_request_checked.event
        accepted = Signal()
        m.d.comb += [
            accepted.eq(checked.valid & checked.ready & ~request.dropped),
            self.count_requests_received.eq(accepted),
            pdcs.retransmission.eq(self.retransmission),
            pdcs.pdc_command.eq(self.pdc_command),
            self.pdc_view.eq(pdcs.pdc_view),
            pdcs.cycles.eq(self.cycles),
            pdcs.enabled.eq(Cat(context.enable for context in self.contexts)),
            pdcs.checked.valid.eq(accepted),
            pdcs.checked.pdc.eq(request.answer.spdcid),
            pdcs.checked.passed.eq(request.answer.executed),
            self.trace_request_checked.valid.eq(accepted),
            event.psn.eq(request.answer.psn),
            event.pdc.eq(request.answer.spdcid),
            event.context.eq(request.context),
            event.status.eq(request.answer.return_code),
        ]

    def _elaborate_dispatch(self, m, matched, jobs, passages, memory_requests, answers):
        """Hands a request to all that it concerns at once; their ``ready`` depends on nothing here."""
        request = matched.p
        leaves, comes, is_used = Signal(), Signal(), Signal()
        space = jobs.ready & memory_requests.ready & answers.ready
        if passages is not None:
            space &= passages.ready
            m.d.comb += [passages.valid.eq(leaves & comes), passages.p.eq(request.gap)]
        m.d.comb += [
            matched.ready.eq(space),
            leaves.eq(matched.valid & matched.ready),
            # The payload kept for a refused request stays in its slot, until another is kept there.
            is_used.eq(request.job.has_operand | request.job.has_compare),
            comes.eq(request.has_payload & (~request.gap.leaves | is_used)),
            jobs.valid.eq(leaves & comes & ~request.gap.enters),
            jobs.p.eq(request.job),
            memory_requests.valid.eq(leaves & request.answer.executed),
            memory_requests.p.eq(request.memory),
            answers.valid.eq(leaves & ~request.dropped),
            answers.p.eq(request.answer),
        ]

    def _elaborate_matching(self, m, pdcs, receivers, matcher):
        """Connect the Matcher's receive descriptors, and the users of slots."""
        for producer, consumer in (
            (flipped(self.receive_tails), matcher.receive_tails),
            (flipped(self.slot_releases), matcher.slot_releases),
            (matcher.receive_reads, flipped(self.receive_reads)),
            (flipped(self.receive_data), matcher.receive_data),
        ):
            connect_streams(m, producer, consumer)
        m.d.comb += [
            matcher.slot_reserve.eq(pdcs.message_reserve),
            matcher.receive_question.eq(pdcs.receive_question),
            pdcs.receive_reply.eq(matcher.receive_reply),
            matcher.message_accepted.eq(pdcs.message_accepted),
            matcher.retransmission.eq(self.retransmission),
        ]
        for index in range(self._parameters.contexts):
            context = self.contexts[index]
            takes_messages = context.enable & (context.event_base != 0) & (context.unexpected_base != 0)
            m.d.comb += [
                receivers.contexts[index].eq(context),
                pdcs.receivers[index].eq(receivers.receivers[index]),
                matcher.contexts[index].eq(context),
                pdcs.slot_open[index].eq(takes_messages & matcher.slot_open[index]),
                pdcs.slot_blocked[index].eq(takes_messages & ~matcher.slot_open[index]),
            ]

    def _elaborate_credits(self, m, pdcs, matcher, sender):
        """Count the free event entries for their users."""
        m.submodules.credits = credits = EventCredits(self._parameters.contexts)
        connect_streams(m, flipped(self.event_heads), credits.heads)
        m.d.comb += [
            credits.reserve.eq(pdcs.event_reserve),
            credits.release.eq(sender.event_release),
            credits.order_reserve.eq(matcher.event_reserve),
            credits.order_release.eq(matcher.event_release),
            matcher.event_credit.eq(credits.order_open),
            pdcs.event_open.eq(credits.open),
            pdcs.event_blocked.eq(credits.blocked),
        ]
        for index in range(self._parameters.contexts):
            generation = credits.generations[index]
            m.d.comb += [
                credits.contexts[index].eq(self.contexts[index]),
                pdcs.event_generations[index].eq(generation),
                matcher.generations[index].eq(generation),
                sender.event_generations[index].eq(generation),
            ]

    def _elaborate_events(self, m, sender):
        contexts = self._parameters.contexts
        m.submodules.ring_writer = writer = RingWriter(contexts, self._parameters.data_width, EVENT.size)
        connect_streams(m, flipped(self.event_arms), writer.arms)
        connect_streams(m, sender.events, writer.entries)
        connect_streams(m, writer.writes, flipped(self.event_writes))
        m.d.comb += [
            sender.event_index.eq(writer.index),
            self.event_interrupts.eq(writer.interrupts),
            writer.writes_ordered.eq(self.event_writes_ordered),
        ]
        for index in range(contexts):
            context = self.contexts[index]
            m.d.comb += [
                writer.rings[index].enable.eq(context.enable),
                writer.rings[index].base.eq(context.event_base),
                writer.rings[index].size.eq(context.event_size),
            ]

    def _elaborate_counts(self, m, sender):
        m.submodules.advances = advances = Queue(ADVANCES, _ADVANCES)
        m.submodules.count_orders = orders = CountOrders()
        connect_streams(m, sender.advances, advances.i)
        connect_streams(m, advances.o, orders.advances)
        connect_streams(m, orders.orders, flipped(self.counts))

    def _elaborate_drain(self, m, sequenced, fetches, sender):
        """Connect the wait for what is in flight, from the lookup of its key to its answer."""
        m.submodules.drain = drain = Drain()
        m.d.comb += [
            drain.begin.eq(self.drain),
            drain.held.eq(self.key_stores.valid),
            drain.requests.offered.eq(sequenced.valid & ~sequenced.p.dropped),
            drain.requests.entered.eq(drain.requests.offered & sequenced.ready),
            drain.requests.ended.eq(sender.given),
            drain.fetches.eq(fetches),
            drain.writes_event.eq(sender.events.valid),
            drain.fenced.eq(self.fenced),
            self.fence.eq(drain.fence),
            self.draining.eq(drain.draining),
        ]

    def _elaborate_answer_memory(self, m, collector, sender, replayer):
        """Make the stores of answers, on the chip and in the host's memory."""
        width, sizes = self._parameters.data_width, (self._parameters.target_pdcs, self._parameters.window)
        m.submodules.history = history = AnswerHistory(*sizes)
        m.submodules.answer_store = store = AnswerStore(*sizes)
        m.submodules.writer = writer = PackedWriter(width)
        m.submodules.reader = reader = PackedReader(width, depth=2)
        m.submodules.answer_commands = commands = HalfRateSlice(DMA_COMMAND)
        m.submodules.answer_requests = requests = SkidBuffer(READ_REQUEST)
        for producer, consumer in (
            (collector.copy_commands, writer.commands),
            (collector.copies, writer.packets),
            (writer.writes, flipped(self.answer_writes)),
            (replayer.commands, commands.i),
            (commands.o, reader.commands),
            (reader.requests, requests.i),
            (requests.o, flipped(self.answer_reads)),
            (flipped(self.answer_data), reader.answers),
            (reader.packets, replayer.packets),
        ):
            connect_streams(m, producer, consumer)
        m.d.comb += [
            collector.answer_base.eq(self.answer_base),
            replayer.answer_base.eq(self.answer_base),
            writer.writes_ordered.eq(self.answer_writes_ordered),
            sender.copy_done.eq(writer.done),
            store.store.eq(collector.store),
            store.ask.eq(replayer.ask),
            replayer.kept.eq(store.answer),
            replayer.intact.eq(store.intact),
            history.turn.eq(sender.turn),
            sender.all_plain.eq(history.all_plain),
            history.given.eq(sender.given),
            history.plain.eq(sender.plain),
            history.ask.eq(replayer.ask),
            replayer.answered.eq(history.answered),
        ]
