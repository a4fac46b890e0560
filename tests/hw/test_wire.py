# amaranth: UnusedElaboratable=no
"""Frames: transmitter and receiver, in Verilator."""

import pytest
from amoeba_hw.wire.receiver import FrameReceiver
from amoeba_hw.wire.transmitter import FrameTransmitter
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

WIDTHS = (128, 256, 512)


def parameters_of(width):
    return NicParameters(data_width=width, payload=512)


@pytest.mark.parametrize("width", WIDTHS)
def test_frames_sent_are_uet_frames(width):
    parameters = parameters_of(width)
    run_bench(
        FrameTransmitter(parameters),
        "frame_transmitter",
        parameters={"width": width, "payload": parameters.payload},
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_frames_received_are_understood_or_dropped(width):
    parameters = parameters_of(width)
    run_bench(
        FrameReceiver(parameters),
        "frame_receiver",
        parameters={"width": width, "payload": parameters.payload},
    )
