"""The initiator of the NIC, put together."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.records import DOORBELL, PEER_STORE
from amoeba_hw.interfaces import (
    CONTEXT,
    DMA_COMMAND,
    FRAME_HEADER,
    READ_REQUEST,
    TRACE_SLOT,
    packet_beat,
    read_beat,
    write_beat,
)

__all__ = ["Initiator"]


class Initiator(wiring.Component):
    """Turns descriptors into request frames, and their answers into results, completions and interrupts.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT
        Registers of the contexts. Clearing ``enable`` resets the context's indices.
    doorbells, completion_heads, arms : DOORBELL streams
        Never refused. Writes to a context that is not enabled are ignored.
    peer_stores : PEER_STORE stream
    descriptor_reads, descriptor_data : read client's streams
        Data is always taken at once.
    operand_commands, operands; compare_commands, compares : streams to and from a PackedReader each
        Data is always taken at once: there is room before a command is given.
    requests, request_payload : streams to the FrameTransmitter
        One payload packet for each header with ``payload_length`` above 0, in order. It is complete when its
        header is offered, so it never pauses; it may be offered before its header.
    responses, response_payload : streams from the FrameReceiver
        Likewise. Taken whenever the host takes writes, whatever the requests wait for.
    result_commands, results : streams to a PackedWriter
    result_done : in
        The PackedWriter's pulse: one per command, when its last beat is on the ordered way to the host.
    completion_writes : write stream
    interrupts : out, a bit per context
        One-cycle pulses, after the completion was accepted on ``completion_writes``.
    trace_doorbell, trace_descriptor, trace_operand, trace_result_written, trace_completion_written, \
trace_interrupt : TRACE_SLOT
    count_descriptors, count_completions, count_error_completions, count_requests_sent, \
count_responses_received, count_dropped_response, count_interrupts : out
        Pulses for the counters.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        width = parameters.data_width
        super().__init__(
            {
                "contexts": In(CONTEXT).array(parameters.contexts),
                "doorbells": In(stream.Signature(DOORBELL)),
                "completion_heads": In(stream.Signature(DOORBELL)),
                "arms": In(stream.Signature(DOORBELL)),
                "peer_stores": In(stream.Signature(PEER_STORE)),
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
                "result_commands": Out(stream.Signature(DMA_COMMAND)),
                "results": Out(stream.Signature(packet_beat(width))),
                "result_done": In(1),
                "completion_writes": Out(stream.Signature(write_beat(width))),
                "interrupts": Out(parameters.contexts),
                "trace_doorbell": Out(TRACE_SLOT),
                "trace_descriptor": Out(TRACE_SLOT),
                "trace_operand": Out(TRACE_SLOT),
                "trace_result_written": Out(TRACE_SLOT),
                "trace_completion_written": Out(TRACE_SLOT),
                "trace_interrupt": Out(TRACE_SLOT),
                "count_descriptors": Out(1),
                "count_completions": Out(1),
                "count_error_completions": Out(1),
                "count_requests_sent": Out(1),
                "count_responses_received": Out(1),
                "count_dropped_response": Out(1),
                "count_interrupts": Out(1),
            }
        )

    def elaborate(self, platform):
        return Module()
