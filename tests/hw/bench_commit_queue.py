"""Testbench of CommitQueue, against a list. Parameters: ``depth``; the payload is 16 bits."""

import random

import cocotb
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, always, randomly, reset, start
from cocotb.triggers import ClockCycles, RisingEdge

DEPTH = bench_parameters()["depth"]
PACES = {"always": always, "randomly": lambda: randomly(0.3)}


class Writer:
    """Writes at random, commits or takes back at random; ``kept`` is what has to come out."""

    def __init__(self, dut):
        self.dut = dut
        self.kept, self.open = [], []
        dut.i__valid.value = dut.commit.value = dut.rollback.value = 0

    async def run(self, cycles):
        dut = self.dut
        for _ in range(cycles):
            number = random.getrandbits(16)
            offered = random.random() < 0.7
            # What is neither committed nor taken back must fit.
            end = random.random() < 0.2 or len(self.open) == DEPTH
            commits = end and random.random() < 0.6
            dut.i__valid.value, dut.i__payload.value = offered, number
            dut.commit.value, dut.rollback.value = commits, end and not commits
            await RisingEdge(dut.clk)
            if offered and dut.i__ready.value:
                self.open.append(number)
            assert int(dut.space.value) <= DEPTH
            if end:
                self.kept += self.open if commits else []
                self.open = []
        dut.i__valid.value = dut.commit.value = dut.rollback.value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(sink_pace=list(PACES))
async def what_is_committed_comes_out_and_nothing_else(dut, sink_pace):
    writer, sink = Writer(dut), StreamSink(dut, "o", 16, pace=PACES[sink_pace]())
    await start(dut)
    await writer.run(3000)
    await ClockCycles(dut.clk, 20 * DEPTH)
    assert sink.received == writer.kept
    assert len(writer.kept) > 10 * DEPTH


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def it_takes_no_more_than_its_depth_and_space_says_how_much(dut):
    writer = Writer(dut)
    sink = StreamSink(dut, "o", 16, pace=iter(lambda: False, True))
    await start(dut)
    for taken in range(DEPTH):
        assert int(dut.space.value) == DEPTH - taken
        assert dut.i__ready.value
        dut.i__valid.value, dut.i__payload.value = 1, taken
        await RisingEdge(dut.clk)
        dut.i__valid.value = 0
        await RisingEdge(dut.clk)
    assert int(dut.space.value) == 0
    assert not dut.i__ready.value
    dut.rollback.value = 1
    await RisingEdge(dut.clk)
    dut.rollback.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert int(dut.space.value) == DEPTH
    assert sink.received == writer.kept == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_empties_it(dut):
    writer, sink = Writer(dut), StreamSink(dut, "o", 16, pace=PACES["randomly"]())
    await start(dut)
    for _ in range(10):
        await writer.run(random.randint(1, 40))
        await reset(dut)
        sink.received.clear()
        writer.kept, writer.open = [], []
        await ClockCycles(dut.clk, 30)
        assert sink.received == []
        assert int(dut.space.value) == DEPTH
