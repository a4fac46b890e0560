"""Ethernet frames in, checked headers and payloads out."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import FRAME_HEADER, TRACE_SLOT, packet_beat

__all__ = ["FrameReceiver"]


class FrameReceiver(wiring.Component):
    """Stores each frame until its last byte is there, and hands on what is right and meant for this NIC."""

    def __init__(self, parameters):
        self._width = width = parameters.data_width
        super().__init__(
            {
                "mac": In(48),
                "ip": In(32),
                "frames": In(stream.Signature(packet_beat(width))),
                "requests": Out(stream.Signature(FRAME_HEADER)),
                "request_payload": Out(stream.Signature(packet_beat(width))),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(packet_beat(width))),
                "trace_request_received": Out(TRACE_SLOT),
                "trace_response_received": Out(TRACE_SLOT),
                "count_frames_received": Out(1),
                "count_dropped_malformed": Out(1),
                "count_dropped_check": Out(1),
                "count_dropped_address": Out(1),
            }
        )

    def elaborate(self, platform):
        return Module()
