"""Testbench of FunctionReset with WriteRequester and RequestMerger. Parameter: ``width``."""

import random

import cocotb
from amoeba_hw.interfaces import write_beat
from amoeba_hw.pcie.interfaces import request_beat
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from cocotb.triggers import ClockCycles, RisingEdge

WIDTH = bench_parameters()["width"]
LINE = WIDTH // 8
PACES = {"always": always, "randomly": lambda: randomly(0.3), "in bursts": lambda: in_bursts(40)}


def content(address):
    """The content of line ``address`` in this lap, so that a beat tells where it belongs."""
    return random.Random(address).getrandbits(WIDTH)


class Bench:
    """Writes line after line, and checks that whatever leaves is whole memory writes of them."""

    def __init__(self, dut, *, pace=always, link_pace=always):
        self.dut = dut
        self.next = 0x1000
        self.writes = StreamSource(dut, "writes", write_beat(WIDTH), pace=pace())
        self.requests = StreamSink(dut, "requests", request_beat(WIDTH), pace=link_pace())
        dut.bus_master.value = 1
        dut.reset_request.value = 0
        dut.reads_idle.value = 1
        dut.accesses_idle.value = 1
        self.resets = 0
        cocotb.start_soon(self._watch())

    def write(self, lines):
        for _ in range(lines):
            self.writes.send(
                {
                    "address": self.next,
                    "data": content(self.next),
                    "strobe": (1 << LINE) - 1,
                    "beats": 1,
                    "first": 1,
                    "last": 1,
                }
            )
            self.next += LINE

    async def _watch(self):
        inside = False
        while True:
            await RisingEdge(self.dut.clk)
            moves = self.dut.requests__valid.value and self.dut.requests__ready.value
            if self.dut.reset.value:
                self.resets += 1
                assert not inside, "a packet was cut"
                assert not self.dut.requests__valid.value
                assert self.dut.reads_idle.value
                assert self.dut.hold.value
                assert self.dut.accesses_idle.value
            if moves:
                inside = not int(self.dut.requests__payload.value) >> (len(self.dut.requests__payload) - 1) & 1

    async def reset(self):
        self.dut.reset_request.value = 1
        for signal in (self.dut.reads_idle, self.dut.accesses_idle):
            signal.value = random.getrandbits(1)
        late = [random.randrange(60), random.randrange(60)]
        before, cycle = self.resets, 0
        while not self.dut.reset_done.value:
            for signal, when in zip((self.dut.reads_idle, self.dut.accesses_idle), late, strict=True):
                if cycle == when:
                    signal.value = 1
            cycle += 1
            await RisingEdge(self.dut.clk)
        assert self.resets == before + 2
        await ClockCycles(self.dut.clk, random.randrange(1, 4))
        self.dut.reset_request.value = 0

    def packets(self):
        """Check the packets so far; the lines that they had."""
        lines, beats = [], self.requests.received
        while beats:
            header = beats[0]["header"]
            count = -(-header["dwords"] * 4 // LINE)
            if len(beats) < count:
                break
            for index, beat in enumerate(beats[:count]):
                assert (beat["first"], beat["last"]) == (index == 0, index == count - 1)
                assert beat["data"] == content(header["address"] + index * LINE)
                lines.append(header["address"] + index * LINE)
            assert header["dwords"] * 4 % LINE == 0
            assert (header["first_be"], header["last_be"]) == (15, 15)
            del beats[:count]
        assert lines == sorted(set(lines)), "lines in order, none twice"
        return lines


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=["always", "randomly"], link_pace=list(PACES))
async def a_reset_under_traffic_cuts_no_packet(dut, pace, link_pace):
    bench = Bench(dut, pace=PACES[pace], link_pace=PACES[link_pace])
    await start(dut)
    for _ in range(40):
        bench.write(random.randrange(200))
        await ClockCycles(dut.clk, random.randrange(1, 300))  # at least one without a request
        await bench.reset()
    await bench.writes.sent()
    after = bench.next
    bench.write(64)
    await bench.writes.sent()
    await ClockCycles(dut.clk, 2000)
    lines = bench.packets()
    assert bench.requests.received == [], "the rest of a packet"
    assert [line for line in lines if line >= after] == list(range(after, bench.next, LINE))
    assert bench.resets == 80


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_link_that_stalls_in_a_packet_gets_its_rest_before_the_reset(dut):
    taken = []

    def three_beats():
        while True:
            yield len(taken) < 3 or bench.go_on

    bench = Bench(dut, link_pace=three_beats)
    bench.go_on = False
    taken = bench.requests.received
    await start(dut)
    bench.write(64)
    while len(taken) < 3:
        await RisingEdge(dut.clk)
    dut.reset_request.value = 1
    await ClockCycles(dut.clk, 300)
    assert bench.resets == 0
    assert dut.requests__valid.value
    bench.go_on = True
    while not dut.reset_done.value:
        await RisingEdge(dut.clk)
    assert len(taken) == 8, "256 bytes"
    dut.reset_request.value = 0
    bench.packets()
    assert bench.requests.received == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def nothing_begins_without_bus_master_and_all_goes_on_with_it(dut):
    bench = Bench(dut, link_pace=lambda: in_bursts(20))
    await start(dut)
    begun = bench.next
    for _ in range(20):
        bench.write(random.randrange(100))
        dut.bus_master.value = 0
        await ClockCycles(dut.clk, 60)  # what had begun, or was on offer, is through
        before = len(bench.requests.received)
        assert not dut.requests__valid.value
        await ClockCycles(dut.clk, 100)
        assert len(bench.requests.received) == before
        dut.bus_master.value = 1
        await ClockCycles(dut.clk, random.randrange(100))
    await bench.writes.sent()
    await ClockCycles(dut.clk, 1000)
    assert bench.packets() == list(range(begun, bench.next, LINE))
