"""The initiator of the NIC, put together."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.first_psns import KEY_WORDS

from amoeba_hw.initiator.answer_order import AnswerOrder
from amoeba_hw.initiator.completion_writer import CompletionWriter
from amoeba_hw.initiator.descriptor_dispatch import DescriptorDispatch
from amoeba_hw.initiator.descriptor_fetch import DescriptorFetch
from amoeba_hw.initiator.operand_requester import OperandRequester
from amoeba_hw.initiator.operand_stage import OperandStage
from amoeba_hw.initiator.packet_log import PacketLog
from amoeba_hw.initiator.packet_numberer import PacketNumberer
from amoeba_hw.initiator.packetizer import Packetizer
from amoeba_hw.initiator.payload_gate import PayloadGate
from amoeba_hw.initiator.peer_table import PeerTable
from amoeba_hw.initiator.records import COMPLETION_ORDER, RecoveryKind
from amoeba_hw.initiator.request_queues import RequestQueues
from amoeba_hw.initiator.response_handler import ResponseHandler
from amoeba_hw.initiator.retransmission_timers import RetransmissionTimers
from amoeba_hw.initiator.retransmitter import Retransmitter
from amoeba_hw.initiator.transmit_scheduler import TransmitScheduler
from amoeba_hw.initiator.window_credits import WindowCredits
from amoeba_hw.interfaces import (
    CONTEXT,
    COUNT_ORDER,
    DMA_COMMAND,
    FRAME_HEADER,
    PEER_STORE,
    READ_REQUEST,
    RETRANSMISSION,
    RING_INDEX,
    TRACE_SLOT,
    packet_beat,
    read_beat,
    write_beat,
)
from amoeba_hw.stream import HalfRateSlice, RoundRobinArbiter, SkidBuffer, connect_streams

__all__ = ["Initiator", "initiator_members"]

PACKETS = 128
"""Packets whose operands may be on their way: at one every two cycles, enough for 250 cycles of host latency."""


def initiator_members(parameters):
    """Members of an Initiator."""
    width = parameters.data_width
    return {
        "contexts": In(CONTEXT).array(parameters.contexts),
        "doorbells": In(stream.Signature(RING_INDEX)),
        "completion_heads": In(stream.Signature(RING_INDEX)),
        "arms": In(stream.Signature(RING_INDEX)),
        "peer_stores": In(stream.Signature(PEER_STORE)),
        "retransmission": In(RETRANSMISSION),
        "psn_key": In(32 * KEY_WORDS),
        "descriptor_reads": Out(stream.Signature(READ_REQUEST)),
        "descriptor_data": In(stream.Signature(read_beat(width))),
        "operand_commands": Out(stream.Signature(DMA_COMMAND)),
        "operands": In(stream.Signature(packet_beat(width))),
        "compare_commands": Out(stream.Signature(DMA_COMMAND)),
        "compares": In(stream.Signature(packet_beat(width))),
        "requests": Out(stream.Signature(FRAME_HEADER)),
        "request_payload": Out(stream.Signature(packet_beat(width))),
        "responses": In(stream.Signature(FRAME_HEADER)),
        "response_payload": In(stream.Signature(packet_beat(width))),
        "acknowledgements": Out(stream.Signature(FRAME_HEADER)),
        "result_commands": Out(stream.Signature(DMA_COMMAND)),
        "results": Out(stream.Signature(packet_beat(width))),
        "result_done": In(1),
        "completion_writes": Out(stream.Signature(write_beat(width))),
        "completion_writes_ordered": In(1),
        "counts": Out(stream.Signature(COUNT_ORDER)),
        "interrupts": Out(parameters.contexts),
        "close_requests": Out(max(parameters.peers, 1)),
        "trace_doorbell": Out(TRACE_SLOT),
        "trace_descriptor": Out(TRACE_SLOT),
        "trace_operand": Out(TRACE_SLOT),
        "trace_result_written": Out(TRACE_SLOT),
        "trace_completion_written": Out(TRACE_SLOT),
        "count_descriptors": Out(1),
        "count_completions": Out(1),
        "count_error_completions": Out(1),
        "count_requests_sent": Out(1),
        "count_retransmissions": Out(1),
        "count_responses_received": Out(1),
        "count_dropped_response": Out(1),
        "count_nacks_received": Out(1),
        "count_timeouts": Out(1),
        "count_failed_pdcs": Out(1),
    }


class Initiator(wiring.Component):
    """Turns descriptors into request frames, and their answers into results, completions and interrupts.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT
        Registers of the contexts. Clearing ``enable`` resets the context's indices.
    doorbells, completion_heads, arms : RING_INDEX streams
        Never refused. Writes to a context that is not enabled are ignored.
    peer_stores : PEER_STORE stream
        With ``fail``, the PDC is given up within two rounds of the timers.
    retransmission : RETRANSMISSION
    psn_key : In(96)
        The register of this name, its first word on top.
    descriptor_reads, descriptor_data : read client's streams
        Data is always taken at once.
    operand_commands, operands; compare_commands, compares : streams to and from a PackedReader each
        Data is always taken at once: its space is reserved before a command is given.
    requests, request_payload : streams to the FrameTransmitter
        One payload packet for each header with ``payload_length`` above 0, in order. It is complete when its
        header is offered, so it never pauses; it may be offered before its header.
    responses, response_payload : streams from the FrameReceiver
        Likewise, a header in two cycles at most. Taken whenever the host takes writes, whatever the requests do.
    acknowledgements : FRAME_HEADER stream to the FrameTransmitter
        Answers to data and CLOSE_REQUESTs in the return direction, and CLEAR_COMMANDs.
    result_commands, results : streams to a PackedWriter
    result_done : in
        The PackedWriter's pulse: one per command, when its last beat is on the ordered way to the host.
    completion_writes, completion_writes_ordered : write stream; pulse, In: as of RingWriter
    counts : COUNT_ORDER stream
        For each request that completes and has an event counter, when its data and its completion were accepted on
        the ordered way to the host.
    interrupts : out, a bit per context
        One-cycle pulses, after the completion was accepted on ``completion_writes``.
    close_requests : out, a bit per peer
        The target asks for a CLOSE of the PDC, which has not failed.
    trace_doorbell, trace_descriptor, trace_operand, trace_result_written, trace_completion_written : TRACE_SLOT
    count_descriptors, count_completions, count_error_completions, count_requests_sent, count_retransmissions, \
count_responses_received, count_dropped_response, count_nacks_received, count_timeouts, count_failed_pdcs : out
        Pulses for the counters.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        super().__init__(initiator_members(parameters))

    def elaborate(self, platform):
        m = Module()
        parameters = self._parameters
        width = parameters.data_width
        packet_beats = parameters.payload // parameters.beat_bytes
        # Four packets of the largest size, or one beat for each in flight; of compare values half a packet each.
        operand_space = max(4 * packet_beats, PACKETS)
        compare_space = max(2 * packet_beats, PACKETS)
        m.submodules.peers = PeerTable(parameters.peers)
        m.submodules.credits = WindowCredits(
            parameters.peers, parameters.window, parameters.contexts, parameters.window_after_loss
        )
        m.submodules.packet_log = PacketLog(parameters.peers, parameters.window)
        m.submodules.scheduler = TransmitScheduler(parameters.contexts)
        m.submodules.fetch = DescriptorFetch(width)
        m.submodules.dispatch = DescriptorDispatch(parameters)
        m.submodules.queues = RequestQueues(parameters.contexts, parameters.peers)
        m.submodules.packetizer = Packetizer(parameters)
        m.submodules.requester = OperandRequester(parameters, operand_space, compare_space)
        m.submodules.operands = OperandStage(parameters, PACKETS, operand_space, compare_space)
        m.submodules.numberer = PacketNumberer(parameters)
        m.submodules.gate = PayloadGate(width)
        m.submodules.retransmitter = Retransmitter(parameters.peers)
        m.submodules.timers = RetransmissionTimers(parameters.peers)
        # A header is wide, and the handler takes no more than one in three cycles.
        m.submodules.received_responses = HalfRateSlice(FRAME_HEADER)
        m.submodules.received_payload = SkidBuffer(packet_beat(width))
        m.submodules.responses = ResponseHandler(parameters)
        m.submodules.order = AnswerOrder()
        m.submodules.completions = CompletionWriter(parameters)
        # Whether a completion passes says a long path, which does not reach the descriptors' side.
        m.submodules.ended_at_once = SkidBuffer(COMPLETION_ORDER)
        m.submodules.finished = RoundRobinArbiter(COMPLETION_ORDER, 2)
        self._elaborate_descriptors(m)
        self._elaborate_packets(m)
        self._elaborate_tables(m)
        self._elaborate_window(m)
        self._elaborate_recovery(m)
        self._elaborate_completions(m)
        return m

    def _elaborate_descriptors(self, m):
        """From the doorbell to the queue of checked requests."""
        scheduler, fetch, dispatch = m.submodules.scheduler, m.submodules.fetch, m.submodules.dispatch
        queues, packetizer, peers = m.submodules.queues, m.submodules.packetizer, m.submodules.peers
        for producer, consumer in (
            (wiring.flipped(self.doorbells), scheduler.doorbells),
            (wiring.flipped(self.completion_heads), scheduler.completion_heads),
            (scheduler.commands, fetch.commands),
            (fetch.reads, wiring.flipped(self.descriptor_reads)),
            (wiring.flipped(self.descriptor_data), fetch.answers),
            (fetch.descriptors, dispatch.descriptors),
            (dispatch.requests, queues.i),
        ):
            connect_streams(m, producer, consumer)
        m.d.comb += [
            scheduler.ended.eq(dispatch.ended),
            scheduler.left.eq(queues.left),
            *queues.connect_packetizer(packetizer),
            peers.check_index.eq(dispatch.peer_index),
            dispatch.peer_allowed.eq(peers.check_allowed),
            dispatch.peer_context.eq(peers.check_context),
            self.trace_doorbell.eq(scheduler.trace_doorbell),
            self.trace_descriptor.eq(dispatch.trace_descriptor),
            self.count_descriptors.eq(dispatch.count_descriptors),
        ]
        for index, context in enumerate(self.contexts):
            m.d.comb += [
                scheduler.registers[index].eq(context),
                dispatch.generations[index].eq(scheduler.generations[index]),
                packetizer.generations[index].eq(scheduler.generations[index]),
                queues.generations[index].eq(scheduler.generations[index][0]),
            ]

    def _elaborate_packets(self, m):
        """From the packet to its frame."""
        packetizer, requester = m.submodules.packetizer, m.submodules.requester
        operands, numberer, gate = m.submodules.operands, m.submodules.numberer, m.submodules.gate
        for producer, consumer in (
            (packetizer.packets, requester.new),
            (m.submodules.retransmitter.resends, requester.resends),
            (requester.packets, operands.i),
            (requester.operand_commands, wiring.flipped(self.operand_commands)),
            (requester.compare_commands, wiring.flipped(self.compare_commands)),
            (wiring.flipped(self.operands), operands.operands),
            (wiring.flipped(self.compares), operands.compares),
            (operands.o, numberer.i),
            (operands.payload, gate.i),
            (gate.o, wiring.flipped(self.request_payload)),
            (numberer.headers, wiring.flipped(self.requests)),
        ):
            connect_streams(m, producer, consumer)
        leaves = self.requests.valid & self.requests.ready
        m.d.comb += [
            requester.operand_freed.eq(operands.operand_freed),
            requester.compare_freed.eq(operands.compare_freed),
            gate.route.eq(numberer.route),
            gate.swallow.eq(numberer.swallow),
            numberer.space.eq(gate.space),
            operands.abort_peer.eq(packetizer.abort_peer),
            packetizer.abort.eq(operands.abort),
            self.trace_operand.eq(numberer.trace_operand),
            self.count_requests_sent.eq(leaves),
            self.count_retransmissions.eq(leaves & self.requests.p.retx),
        ]
        for index, context in enumerate(self.contexts):
            m.d.comb += numberer.contexts[index].eq(context)

    def _elaborate_tables(self, m):
        """Connect the tables of PDCs and packets with their readers and writers."""
        peers, log = m.submodules.peers, m.submodules.packet_log
        numberer, responses, retransmitter = m.submodules.numberer, m.submodules.responses, m.submodules.retransmitter
        connect_streams(m, wiring.flipped(self.peer_stores), peers.stores)
        m.d.comb += [
            peers.occupied.eq(numberer.occupied | responses.occupied),
            numberer.storing.eq(peers.storing),
            responses.storing.eq(peers.storing),
            peers.send_index.eq(numberer.send_index),
            numberer.send_peer.eq(peers.send_peer),
            numberer.send_psn.eq(peers.send_psn),
            numberer.send_answered.eq(peers.send_answered),
            peers.sent.eq(numberer.sent),
            peers.sent_index.eq(numberer.sent_index),
            peers.sent_psn.eq(numberer.sent_psn),
            peers.answer_index.eq(responses.answer_index),
            responses.answer_open.eq(peers.answer_open),
            responses.answer_psn.eq(peers.answer_psn),
            responses.answer_ip.eq(peers.answer_ip),
            responses.answer_job.eq(peers.answer_job),
            responses.answer_state.eq(peers.answer_state),
            peers.answered.eq(responses.answered | responses.renewed),
            peers.answered_index.eq(responses.answered_index),
            peers.answered_state.eq(responses.answered_state),
            peers.restarted.eq(responses.restarted),
            responses.numbering.eq(numberer.sent),
            responses.psn_key.eq(self.psn_key),
            peers.resend_index.eq(retransmitter.resend_index),
            retransmitter.resend_oldest.eq(peers.resend_oldest),
            retransmitter.resend_end.eq(peers.resend_end),
            log.write.eq(numberer.log),
            log.write_peer.eq(numberer.log_peer),
            log.write_psn.eq(numberer.log_psn),
            log.write_entry.eq(numberer.log_entry),
            log.write_new.eq(numberer.sent),
            log.write_message_id.eq(numberer.log_entry.message_id),
            log.note.eq(responses.note),
            log.note_peer.eq(responses.note_peer),
            log.note_psn.eq(responses.note_psn),
            log.note_status.eq(responses.note_status),
            responses.note_granted.eq(log.note_granted),
            log.answer_read.eq(responses.log_read),
            log.answer_peer.eq(responses.log_peer),
            log.answer_psn.eq(responses.log_psn),
            responses.log_entry.eq(log.entry),
            log.named_peer.eq(responses.named_peer),
            log.named_psn.eq(responses.named_psn),
            responses.named_message_id.eq(log.named_message_id),
            responses.log_noted.eq(log.noted),
            log.resend_peer.eq(retransmitter.log_peer),
            log.resend_psn.eq(retransmitter.log_psn),
            retransmitter.log_granted.eq(log.resend_granted),
            retransmitter.log_entry.eq(log.entry),
            retransmitter.log_noted.eq(log.noted.noted),
        ]

    def _elaborate_window(self, m):
        """When the next packet of a PDC may be cut."""
        credits, retransmitter, packetizer = m.submodules.credits, m.submodules.retransmitter, m.submodules.packetizer
        operands, numberer = m.submodules.operands, m.submodules.numberer
        peers, responses, queues = m.submodules.peers, m.submodules.responses, m.submodules.queues
        m.d.comb += [
            credits.cut.eq(packetizer.cut),
            credits.cut_peer.eq(packetizer.cut_peer),
            credits.cut_close.eq(packetizer.cut_close),
            credits.dropped.eq(operands.dropped),
            credits.dropped_peer.eq(operands.dropped_peer),
            credits.numbered.eq(numberer.sent),
            credits.numbered_peer.eq(numberer.sent_index),
            credits.answered.eq(responses.answered),
            credits.answered_peer.eq(responses.answered_index),
            credits.closed.eq(responses.closed),
            credits.mpr.eq(responses.mpr),
            credits.lost.eq(retransmitter.lost),
            credits.opened.eq(peers.opened),
            credits.opened_peer.eq(peers.opened_peer),
            credits.opened_context.eq(peers.opened_context),
            credits.opened_whole.eq(peers.opened_whole),
            queues.may_send.eq(credits.space & ~retransmitter.sending_again & ~retransmitter.held),
            queues.all_answered.eq(credits.all_answered),
            queues.context_answered.eq(credits.context_answered),
            packetizer.failed.eq(retransmitter.failed),
        ]

    def _elaborate_recovery(self, m):
        """Connect the parts that make a PDC send again, or fail."""
        timers, retransmitter, responses = m.submodules.timers, m.submodules.retransmitter, m.submodules.responses
        credits, peers = m.submodules.credits, m.submodules.peers
        connect_streams(m, timers.flushes, responses.flushes)
        for consumer in (timers, retransmitter, responses):
            m.d.comb += [consumer.opened.eq(peers.opened), consumer.opened_peer.eq(peers.opened_peer)]
        m.d.comb += [
            timers.settings.eq(self.retransmission),
            timers.unanswered.eq(credits.unanswered),
            timers.cautious.eq(credits.cautious),
            timers.noted.eq(responses.note),
            timers.noted_peer.eq(responses.note_peer),
            timers.sending_again.eq(retransmitter.sending_again),
            timers.held.eq(retransmitter.held),
            timers.failed.eq(retransmitter.failed),
            timers.alive.eq(responses.answered),
            timers.alive_peer.eq(responses.answered_index),
            timers.oldest_resent.eq(retransmitter.oldest_resent),
            timers.oldest_peer.eq(retransmitter.log_peer),
            timers.hold.eq(responses.recover & (responses.recovery.kind == RecoveryKind.LATER)),
            timers.hold_peer.eq(responses.recovery.peer),
            timers.without_pdc.eq(responses.recovery.without_pdc),
            timers.stall.eq(responses.recover),
            timers.fail.eq(peers.failing),
            timers.fail_peer.eq(peers.opened_peer),
            retransmitter.recover.eq(responses.recover),
            retransmitter.recovery.eq(responses.recovery),
            retransmitter.timer_peer.eq(timers.peer),
            retransmitter.expired.eq(timers.expired),
            retransmitter.given_up.eq(timers.given_up),
            retransmitter.released.eq(timers.released),
            retransmitter.answered.eq(responses.answered),
            retransmitter.answered_peer.eq(responses.answered_index),
            retransmitter.settled.eq(credits.settled),
            m.submodules.numberer.failed.eq(retransmitter.failed),
            responses.failed.eq(retransmitter.failed),
            responses.refused.eq(timers.refused),
            responses.doubtful.eq(timers.doubtful),
            responses.expired.eq(timers.expired),
            responses.expired_peer.eq(timers.peer),
            self.count_nacks_received.eq(responses.count_nacks_received),
            self.close_requests.eq(responses.close_requests),
            self.count_timeouts.eq(timers.count_timeouts),
            self.count_failed_pdcs.eq(retransmitter.count_failed_pdcs),
        ]

    def _elaborate_completions(self, m):
        """From the answer to the interrupt."""
        scheduler, dispatch = m.submodules.scheduler, m.submodules.dispatch
        responses, order = m.submodules.responses, m.submodules.order
        completions, finished = m.submodules.completions, m.submodules.finished
        resent = m.submodules.operands.o
        for producer, consumer in (
            (wiring.flipped(self.responses), m.submodules.received_responses.i),
            (m.submodules.received_responses.o, responses.responses),
            (wiring.flipped(self.response_payload), m.submodules.received_payload.i),
            (m.submodules.received_payload.o, responses.response_payload),
            (responses.acknowledgements, wiring.flipped(self.acknowledgements)),
            (responses.result_commands, wiring.flipped(self.result_commands)),
            (responses.results, wiring.flipped(self.results)),
            (responses.answers, order.answers),
            (m.submodules.packetizer.ended, order.nops),
            (order.o, finished.i[0]),
            (dispatch.completions, m.submodules.ended_at_once.i),
            (m.submodules.ended_at_once.o, finished.i[1]),
            (finished.o, completions.orders),
            (wiring.flipped(self.arms), completions.arms),
            (completions.writes, wiring.flipped(self.completion_writes)),
            (completions.counts, wiring.flipped(self.counts)),
        ):
            connect_streams(m, producer, consumer)
        m.d.comb += [
            responses.crowd.eq(order.crowd),
            responses.held.eq(order.held),
            order.result_done.eq(self.result_done),
            completions.writes_ordered.eq(self.completion_writes_ordered),
            order.resending.eq(m.submodules.retransmitter.resending),
            order.loaded.eq(resent.valid & resent.ready & resent.p.resend),
            scheduler.skipped.eq(completions.skipped),
            self.interrupts.eq(completions.interrupts),
            self.trace_result_written.eq(order.trace_result_written),
            self.trace_completion_written.eq(completions.trace_completion_written),
            self.count_completions.eq(completions.count_completions),
            self.count_error_completions.eq(completions.count_error_completions),
            self.count_responses_received.eq(responses.count_responses_received),
            self.count_dropped_response.eq(responses.count_dropped_response),
        ]
        for index, context in enumerate(self.contexts):
            m.d.comb += [
                completions.contexts[index].eq(context),
                completions.generations[index].eq(scheduler.generations[index]),
                responses.generations[index].eq(scheduler.generations[index]),
            ]
