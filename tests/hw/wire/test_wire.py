# amaranth: UnusedElaboratable=no
"""Frames: transmitter and receiver, in Verilator."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import flipped
from amoeba_hw.stream import connect_streams
from amoeba_hw.wire.receiver import FrameReceiver
from amoeba_hw.wire.transmitter import FrameTransmitter
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

from tests.support.widths import WIDTHS


def parameters_of(width):
    return NicParameters(data_width=width, payload=512)


class Loop(wiring.Component):
    """A transmitter that sends to a receiver, both with the address ``mac`` and ``ip``."""

    def __init__(self, parameters):
        self.transmitter = FrameTransmitter(parameters)
        self.receiver = FrameReceiver(parameters)
        sent, received = self.transmitter.signature.members, self.receiver.signature.members
        kinds = ("requests", "request_payload", "responses", "response_payload")
        super().__init__(
            {
                **{name: sent[name] for name in ("mac", "ip", *kinds)},
                **{f"received_{name}": received[name] for name in kinds},
            }
        )
        self._kinds = kinds

    def elaborate(self, platform):
        m = Module()
        m.submodules.transmitter, m.submodules.receiver = self.transmitter, self.receiver
        connect_streams(m, self.transmitter.frames, self.receiver.frames)
        for name in self._kinds:
            connect_streams(m, flipped(getattr(self, name)), getattr(self.transmitter, name))
            connect_streams(m, getattr(self.receiver, name), flipped(getattr(self, f"received_{name}")))
        for block in (self.transmitter, self.receiver):
            m.d.comb += [block.mac.eq(self.mac), block.ip.eq(self.ip)]
        return m


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_sent_is_received(width):
    parameters = parameters_of(width)
    run_bench(
        Loop(parameters), "tests.hw.wire.bench_loop", parameters={"width": width, "payload": parameters.payload}
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_frames_sent_are_uet_frames(width):
    parameters = parameters_of(width)
    run_bench(
        FrameTransmitter(parameters),
        "tests.hw.wire.bench_transmitter",
        parameters={"width": width, "payload": parameters.payload},
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_frames_received_are_understood_or_dropped(width):
    parameters = parameters_of(width)
    run_bench(
        FrameReceiver(parameters),
        "tests.hw.wire.bench_receiver",
        parameters={"width": width, "payload": parameters.payload},
    )
