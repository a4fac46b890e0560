"""Headers and payloads in, Ethernet frames out."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT, packet_beat

__all__ = ["FrameTransmitter"]


class FrameTransmitter(wiring.Component):
    """Builds a frame from every header, with the payload that belongs to it, and the CRC behind it."""

    def __init__(self, parameters):
        self._width = width = parameters.data_width
        super().__init__(
            {
                "mac": In(48),
                "ip": In(32),
                "requests": In(stream.Signature(FRAME_HEADER)),
                "request_payload": In(stream.Signature(packet_beat(width))),
                "responses": In(stream.Signature(FRAME_HEADER)),
                "response_payload": In(stream.Signature(packet_beat(width))),
                "frames": Out(stream.Signature(packet_beat(width))),
                "trace_request_sent": Out(TRACE_SLOT),
                "trace_response_sent": Out(TRACE_SLOT),
                "count_responses_sent": Out(1),
            }
        )

    def elaborate(self, platform):
        return Module()
