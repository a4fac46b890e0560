"""Testbench of anything with one stream in (``i``) and the same stream out (``o``), such as a queue.

Parameters: ``most``, the beats it can hold.

Covers ``amoeba_sim/cocotb_streams.py``.
"""

import random

import cocotb
from amaranth.lib import data
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles

SHAPE = data.StructLayout({"data": 128, "last": 1})
PACES = {"always": always, "randomly": lambda: randomly(0.4), "in bursts": lambda: in_bursts(9)}


def random_beats(count):
    return [{"data": random.getrandbits(128), "last": random.getrandbits(1)} for _ in range(count)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(source_pace=list(PACES), sink_pace=list(PACES))
async def everything_passes_in_order(dut, source_pace, sink_pace):
    source = StreamSource(dut, "i", SHAPE, pace=PACES[source_pace]())
    sink = StreamSink(dut, "o", SHAPE, pace=PACES[sink_pace]())
    await start(dut)
    beats = random_beats(100)
    source.send(*beats)
    assert await sink.receive(100) == beats
    await ClockCycles(dut.clk, 20)
    assert sink.received == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def it_holds_no_more_than_it_says(dut):
    source = StreamSource(dut, "i", SHAPE)
    StreamSink(dut, "o", SHAPE, pace=iter(lambda: False, True))
    await start(dut)
    source.send(*random_beats(100))
    await ClockCycles(dut.clk, 150)
    assert source.left == 100 - bench_parameters()["most"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_in_mid_traffic_empties_it(dut):
    source = StreamSource(dut, "i", SHAPE, pace=randomly(0.8))
    sink = StreamSink(dut, "o", SHAPE, pace=randomly(0.3))
    await start(dut)
    for _ in range(20):
        source.send(*random_beats(50))
        await ClockCycles(dut.clk, random.randint(1, 60))
        await reset(dut)
        sink.received.clear()
        beats = random_beats(10)
        source.send(*beats)
        assert await sink.receive(10) == beats
