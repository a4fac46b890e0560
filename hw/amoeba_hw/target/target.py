"""The target: from received requests to answers."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import CONTEXT, FRAME_HEADER, KEY_ENTRY, MEMORY_REQUEST, TRACE_SLOT, packet_beat

__all__ = ["KEY_STORE", "Target"]

KEY_STORE = data.StructLayout({"slot": 16, "entry": KEY_ENTRY})
"""A key table entry, and the slot in which the driver wants it."""


class Target(wiring.Component):
    """Executes or refuses every request, in order, with the help of the memory engine."""

    def __init__(self, parameters):
        self._parameters = parameters
        beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "requests": In(stream.Signature(FRAME_HEADER)),
                "request_payload": In(stream.Signature(beat)),
                "contexts": In(CONTEXT).array(parameters.contexts),
                "key_stores": In(stream.Signature(KEY_STORE)),
                "memory_requests": Out(stream.Signature(MEMORY_REQUEST)),
                "operands": Out(stream.Signature(beat)),
                "compares": Out(stream.Signature(beat)),
                "results": In(stream.Signature(beat)),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(beat)),
                "trace_request_checked": Out(TRACE_SLOT),
                "count_requests_received": Out(1),
                "count_refused_requests": Out(1),
                "count_dropped_pdc": Out(1),
                "count_dropped_sequence": Out(1),
            }
        )

    def elaborate(self, platform):
        return Module()
