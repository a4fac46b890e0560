"""The request half of the initiator, from the doorbell to the packet, put together for its testbench."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.initiator.descriptor_dispatch import DescriptorDispatch
from amoeba_hw.initiator.descriptor_fetch import DescriptorFetch
from amoeba_hw.initiator.operand_requester import OperandRequester, operand_spaces
from amoeba_hw.initiator.operand_stage import OperandStage
from amoeba_hw.initiator.packetizer import Packetizer
from amoeba_hw.initiator.records import COMPLETION_ORDER, PACKET
from amoeba_hw.initiator.request_queues import RequestQueues
from amoeba_hw.initiator.transmit_scheduler import TransmitScheduler
from amoeba_hw.interfaces import CONTEXT, DMA_COMMAND, READ_REQUEST, RING_INDEX, packet_beat, read_beat
from amoeba_hw.stream import connect_streams

__all__ = ["RequestHalf"]

PACKETS = 128


class RequestHalf(wiring.Component):
    """Every peer is allowed, to the context with its number modulo ``contexts``.

    Parameters
    ----------
    parameters : NicParameters
        ``contexts`` is a power of two.
    places : int
        Requests that a context's queue holds.

    Members are those of the parts.
    """

    def __init__(self, parameters, places):
        self._parameters = parameters
        self._places = places
        contexts, peers, width = parameters.contexts, parameters.peers, parameters.data_width
        beat = packet_beat(width)
        super().__init__(
            {
                "registers": In(CONTEXT).array(contexts),
                "doorbells": In(stream.Signature(RING_INDEX)),
                "completion_heads": In(stream.Signature(RING_INDEX)),
                "skipped": In(contexts),
                "descriptor_reads": Out(stream.Signature(READ_REQUEST)),
                "descriptor_data": In(stream.Signature(read_beat(width))),
                "completions": Out(stream.Signature(COMPLETION_ORDER)),
                "ended": Out(stream.Signature(COMPLETION_ORDER)),
                "may_send": In(peers),
                "all_answered": In(peers),
                "context_answered": In(contexts),
                "failed": In(peers),
                "cut": Out(1),
                "cut_peer": Out(range(peers)),
                "cut_close": Out(1),
                "dropped": Out(1),
                "dropped_peer": Out(range(peers)),
                "resends": In(stream.Signature(PACKET)),
                "operand_commands": Out(stream.Signature(DMA_COMMAND)),
                "operands": In(stream.Signature(beat)),
                "compare_commands": Out(stream.Signature(DMA_COMMAND)),
                "compares": In(stream.Signature(beat)),
                "packets": Out(stream.Signature(PACKET)),
                "payload": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        parameters = self._parameters
        credits = operand_spaces(parameters, PACKETS)
        m.submodules.scheduler = scheduler = TransmitScheduler(parameters.contexts, self._places)
        m.submodules.fetch = fetch = DescriptorFetch(parameters.data_width)
        m.submodules.dispatch = dispatch = DescriptorDispatch(parameters)
        m.submodules.queues = queues = RequestQueues(parameters.contexts, parameters.peers, self._places)
        m.submodules.packetizer = packetizer = Packetizer(parameters)
        m.submodules.requester = requester = OperandRequester(parameters, *credits)
        m.submodules.stage = stage = OperandStage(parameters, PACKETS, *credits)
        for producer, consumer in (
            (packetizer.ended, wiring.flipped(self.ended)),
            (wiring.flipped(self.doorbells), scheduler.doorbells),
            (wiring.flipped(self.completion_heads), scheduler.completion_heads),
            (scheduler.commands, fetch.commands),
            (fetch.reads, wiring.flipped(self.descriptor_reads)),
            (wiring.flipped(self.descriptor_data), fetch.answers),
            (fetch.descriptors, dispatch.descriptors),
            (dispatch.completions, wiring.flipped(self.completions)),
            (dispatch.requests, queues.i),
            (packetizer.packets, requester.new),
            (wiring.flipped(self.resends), requester.resends),
            (requester.operand_commands, wiring.flipped(self.operand_commands)),
            (requester.compare_commands, wiring.flipped(self.compare_commands)),
            (requester.packets, stage.i),
            (wiring.flipped(self.operands), stage.operands),
            (wiring.flipped(self.compares), stage.compares),
            (stage.o, wiring.flipped(self.packets)),
            (stage.payload, wiring.flipped(self.payload)),
        ):
            connect_streams(m, producer, consumer)
        m.d.sync += dispatch.peer_context.eq(dispatch.peer_index & (parameters.contexts - 1))
        m.d.comb += [
            scheduler.skipped.eq(self.skipped),
            scheduler.ended.eq(dispatch.ended),
            scheduler.left.eq(queues.left),
            dispatch.peer_allowed.eq(1),
            *queues.connect_packetizer(packetizer),
            queues.may_send.eq(self.may_send),
            queues.all_answered.eq(self.all_answered),
            queues.context_answered.eq(self.context_answered),
            packetizer.failed.eq(self.failed),
            self.cut.eq(packetizer.cut),
            self.cut_peer.eq(packetizer.cut_peer),
            self.cut_close.eq(packetizer.cut_close),
            stage.abort_peer.eq(packetizer.abort_peer),
            packetizer.abort.eq(stage.abort),
            requester.operand_freed.eq(stage.operand_freed),
            requester.compare_freed.eq(stage.compare_freed),
            self.dropped.eq(stage.dropped),
            self.dropped_peer.eq(stage.dropped_peer),
        ]
        for index, registers in enumerate(self.registers):
            m.d.comb += [
                scheduler.registers[index].eq(registers),
                dispatch.generations[index].eq(scheduler.generations[index]),
                packetizer.generations[index].eq(scheduler.generations[index]),
                queues.generations[index].eq(scheduler.generations[index][0]),
            ]
        return m
