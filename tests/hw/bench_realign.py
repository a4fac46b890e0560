"""Testbench of Realign: slices of packets, against Python's slices. Parameters: ``width``."""

import random

import cocotb
from amoeba_hw.interfaces import packet_beat
from amoeba_hw.packed import CUT
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles

from tests.hw.uet_frames import beats_of, packets_of

WIDTH = bench_parameters()["width"]
LINE = WIDTH // 8
BEAT = packet_beat(WIDTH)
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(5)}


async def slices(sink, count):
    """The next ``count`` packets."""
    beats = []
    while sum(beat["last"] for beat in beats) < count:
        beats += await sink.receive(1)
    return packets_of(beats, WIDTH)


def send(cuts, source, size, skip, length):
    packet = random.randbytes(size)
    cuts.send({"skip": skip, "length": length})
    source.send(*beats_of(packet, WIDTH))
    return packet[skip : skip + length]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_offset_and_length_is_cut_exactly(dut):
    cuts, source = StreamSource(dut, "cuts", CUT), StreamSource(dut, "i", BEAT)
    sink = StreamSink(dut, "o", BEAT)
    await start(dut)
    expected = [
        send(cuts, source, skip + length + random.choice([0, 1, LINE, 3 * LINE]), skip, length)
        for skip in range(LINE + 2)
        for length in (1, LINE - skip % LINE, LINE - skip % LINE + 1, LINE, LINE + 1, 2 * LINE, 2 * LINE + 1)
    ]
    assert await slices(sink, len(expected)) == expected


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(source_pace=list(PACES), sink_pace=list(PACES))
async def random_parts_are_cut_under_any_stalling(dut, source_pace, sink_pace):
    cuts = StreamSource(dut, "cuts", CUT, pace=PACES[source_pace]())
    source = StreamSource(dut, "i", BEAT, pace=PACES[source_pace]())
    sink = StreamSink(dut, "o", BEAT, pace=PACES[sink_pace]())
    await start(dut)
    expected = []
    for _ in range(100):
        size = random.choice([1, LINE, random.randint(1, 8 * LINE)])
        skip = random.randrange(size)
        expected.append(send(cuts, source, size, skip, random.randint(1, size - skip)))
    assert await slices(sink, 100) == expected
    await ClockCycles(dut.clk, 20)
    assert sink.received == []
    assert (cuts.left, source.left) == (0, 0)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_mid_packet_starts_afresh(dut):
    cuts, source = StreamSource(dut, "cuts", CUT), StreamSource(dut, "i", BEAT)
    sink = StreamSink(dut, "o", BEAT, pace=randomly(0.5))
    await start(dut)
    for _ in range(30):
        send(cuts, source, 8 * LINE, random.randrange(3 * LINE), 4 * LINE)
        await ClockCycles(dut.clk, random.randint(1, 15))
        await reset(dut)
        sink.received.clear()
        expected = send(cuts, source, 3 * LINE, 5, LINE)
        assert await slices(sink, 1) == [expected]
