"""Testbench of a link whose clock is not the NIC's: what comes out, when a write begins, credits, resets.

Parameters: ``width``, ``limit``: bytes that a write carries at most.

Covers ``pcie/interfaces.py``.
"""

import random

import cocotb
from amaranth.hdl import Shape
from amoeba_hw.pcie.interfaces import (
    CONFIGURATION,
    REGISTER_COMPLETION,
    REGISTER_REQUEST,
    completion_beat,
    request_beat,
)
from amoeba_hw.pcie.link_crossing import READS_LATE
from amoeba_model.tlp import RequestKind
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly
from amoeba_sim.payload import unpack
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

WIDTH, LIMIT = (bench_parameters()[name] for name in ("width", "limit"))
CLOCKS = {"alike": (4000, 4006), "link faster": (7310, 3000), "link slower": (3000, 10070), "twice": (4000, 2000)}
"""Picoseconds: the NIC's, the link's."""
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(20)}
READ, WRITE = RequestKind.MEMORY_READ, RequestKind.MEMORY_WRITE


class Side:
    """The design as seen from one clock."""

    def __init__(self, dut, clk, rst):
        self._dut, self.clk, self.rst = dut, clk, rst

    def __getattr__(self, name):
        return getattr(self._dut, name)


class Bench:
    """All streams. The NIC's requests leave as RequestMerger lets them."""

    def __init__(self, dut, pace=always):
        self.dut = dut
        nic, link = self.nic, self.link = Side(dut, dut.clk, dut.rst), Side(dut, dut.link_clk, dut.link_rst)
        beat, completion = request_beat(WIDTH), completion_beat(WIDTH)
        self.writes = StreamSource(nic, "nic__requests", beat, pace=pace())
        self.requests = StreamSink(link, "link__requests", beat, pace=pace())
        self.completions = StreamSource(link, "link__completions", completion, pace=pace())
        self.completed = StreamSink(nic, "nic__completions", completion, pace=pace())
        self.asked = StreamSource(link, "link__register_requests", REGISTER_REQUEST, pace=pace())
        self.asking = StreamSink(nic, "nic__register_requests", REGISTER_REQUEST, pace=pace())
        self.answers = StreamSource(nic, "nic__register_completions", REGISTER_COMPLETION, pace=pace())
        self.answered = StreamSink(link, "link__register_completions", REGISTER_COMPLETION, pace=pace())
        dut.link__read_credit.value = 1
        dut.link__configuration.value = 0
        dut.reset_request.value = dut.nic_reset_done.value = 0

    async def start(self, clocks):
        for side, period in zip((self.nic, self.link), CLOCKS[clocks], strict=True):
            Clock(side.clk, period, unit="ps", impl="gpi").start()
            side.rst.value = 1
        await ClockCycles(self.nic.clk, 8)
        await ClockCycles(self.link.clk, 8)
        self.nic.rst.value = 0
        await RisingEdge(self.link.clk)
        self.link.rst.value = 0
        await ClockCycles(self.link.clk, 8)

    def request(self, kind):
        """The beats of a random request, as they are to come out."""
        shape = request_beat(WIDTH)
        lanes = WIDTH // 32
        dwords = random.choice([1, lanes, lanes + 1, LIMIT // 4, random.randint(1, LIMIT // 4)])
        count = -(-dwords // lanes) if kind == WRITE else 1
        beats = [random_of(shape) for _ in range(count)]
        for index, beat in enumerate(beats):
            beat["first"], beat["last"] = int(index == 0), int(index == count - 1)
        beats[0]["header"] |= {"kind": int(kind), "dwords": dwords}
        return beats


def random_of(shape):
    return unpack(shape, random.getrandbits(Shape.cast(shape).width))


async def no_gaps(side):
    """Fails where a request once begun is not on offer."""
    inside = False
    while True:
        await RisingEdge(side.clk)
        if side.rst.value:
            continue
        valid = bool(side.link__requests__valid.value)
        assert valid or not inside, "a request waits within"
        if valid and side.link__requests__ready.value:
            inside = not unpack(request_beat(WIDTH), int(side.link__requests__payload.value))["last"]


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(clocks=list(CLOCKS), pace=list(PACES))
async def all_that_goes_in_comes_out_and_no_write_waits_within(dut, clocks, pace):
    bench = Bench(dut, PACES[pace])
    await bench.start(clocks)
    cocotb.start_soon(no_gaps(bench.link))
    requests = [beat for _ in range(60) for beat in bench.request(WRITE)]
    completions, asked, answers = (
        [random_of(shape) for _ in range(200)]
        for shape in (completion_beat(WIDTH), REGISTER_REQUEST, REGISTER_COMPLETION)
    )
    bench.writes.send(*requests)
    bench.completions.send(*completions)
    bench.asked.send(*asked)
    bench.answers.send(*answers)
    for sink, expected in (
        (bench.requests, requests), (bench.completed, completions), (bench.asking, asked), (bench.answered, answers)
    ):  # fmt: skip
        assert await with_timeout(sink.receive(len(expected)), 300, "us") == expected


async def offer_reads(bench, count):
    """As RequestMerger: a read that is on offer stays, so that two may come behind the credit."""
    left = count
    while left:
        await RisingEdge(bench.nic.clk)
        if bench.nic.nic__read_credit.value and bench.writes.left < 2:
            bench.writes.send(*bench.request(READ))
            left -= 1


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(clocks=list(CLOCKS))
async def few_reads_come_after_the_credit_fell(dut, clocks):
    bench = Bench(dut)
    dut.link__read_credit.value = 0
    await bench.start(clocks)
    task = cocotb.start_soon(offer_reads(bench, 200))
    await ClockCycles(bench.link.clk, 60)
    assert not bench.requests.received, "a read came before there was credit"
    most = 0
    while not task.done():
        dut.link__read_credit.value = 1
        await ClockCycles(bench.link.clk, random.randint(1, 60))
        dut.link__read_credit.value = 0
        await ClockCycles(bench.link.clk, 1)
        before = len(bench.requests.received)
        await ClockCycles(bench.link.clk, 60)
        most = max(most, len(bench.requests.received) - before)
        assert most <= READS_LATE, f"{most} reads came without credit"
    assert most, "the bench shows nothing"


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(clocks=["alike", "link slower"])
async def reads_pass_at_one_in_four_cycles(dut, clocks):
    """A fetching atomic in four cycles needs that, in the slower clock."""
    bench = Bench(dut)
    await bench.start(clocks)
    task = cocotb.start_soon(offer_reads(bench, 1000))
    await ClockCycles(bench.link.clk, 60)
    before = len(bench.requests.received)
    await ClockCycles(bench.link.clk, 200)
    passed = len(bench.requests.received) - before
    task.cancel()
    assert passed >= 50, f"{passed} reads in 200 cycles"


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(clocks=list(CLOCKS))
async def what_is_configured_comes_as_a_whole(dut, clocks):
    bench = Bench(dut)
    await bench.start(clocks)
    width = Shape.cast(CONFIGURATION).width
    value = 0
    for _ in range(40):
        before, value = value, random.getrandbits(width)
        dut.link__configuration.value = value
        for _ in range(40):
            await RisingEdge(bench.nic.clk)
            assert int(dut.nic__configuration.value) in (before, value)
            if int(dut.nic__configuration.value) == value:
                break
        else:
            raise AssertionError("the NIC never saw it")
        # The other clock has seen it for some cycles, too.
        await ClockCycles(bench.link.clk, 20)
        await ClockCycles(bench.nic.clk, 20)


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(clocks=list(CLOCKS))
async def a_reset_is_done_when_all_requests_have_left(dut, clocks):
    bench = Bench(dut, lambda: randomly(0.3))
    await bench.start(clocks)
    for _ in range(10):
        beats = [beat for _ in range(random.randint(0, 3)) for beat in bench.request(WRITE)]
        bench.writes.send(*beats)
        dut.reset_request.value = 1
        while not dut.nic_reset_request.value:
            await RisingEdge(bench.nic.clk)
        await bench.writes.sent()
        dut.nic_reset_done.value = 1
        await RisingEdge(bench.nic.clk)
        dut.nic_reset_done.value = 0
        for _ in range(2000):
            await RisingEdge(bench.link.clk)
            if dut.reset_done.value:
                break
        else:
            raise AssertionError("the link was never notified")
        assert bench.requests.received == beats
        bench.requests.received.clear()
        dut.reset_request.value = 0
        for _ in range(100):
            await RisingEdge(bench.link.clk)
            assert not dut.reset_done.value, "told twice"
        assert not dut.nic_reset_request.value
