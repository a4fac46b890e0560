"""Testbench of the write side on PCI Express and of the order of requests, against a root and plain bytes.

Parameters: ``width``, ``limit`` of the design.
"""

import random
from collections import defaultdict
from itertools import groupby

import cocotb
from amaranth.lib import data
from amoeba_hw.interfaces import write_beat
from amoeba_hw.pcie.interfaces import INTERRUPT_USER, MSIX_MESSAGE, REQUEST_HEADER, request_beat
from amoeba_model.tlp import RequestKind
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.pcie.root import Request

PARAMETERS = bench_parameters()
WIDTH, LIMIT = PARAMETERS["width"], PARAMETERS["limit"]
LINE = WIDTH // 8
FULL = (1 << LINE) - 1
WRITE = data.StructLayout({"beat": write_beat(WIDTH), "user": 8})
BASE, SIZE = 0x7FFF_FFFE_8000, 0x4000
PACES = {"always": always, "randomly": lambda: randomly(0.6), "in bursts": lambda: in_bursts(12)}


class Bench:
    """Takes requests and does them in their order; keeps what the memory must become, too."""

    def __init__(self, dut, pace=always, sink_pace=None, max_payload=128):
        self.dut = dut
        dut.max_payload.value = (max_payload // 128).bit_length() - 1
        self.limit = min(max_payload, LIMIT)
        dut.read_credit.value = dut.run.value = 1
        self.writes = StreamSource(dut, "writes", WRITE, pace=pace())
        self.reads = StreamSource(dut, "reads", REQUEST_HEADER, pace=pace())
        self.interrupts = StreamSource(dut, "interrupts", MSIX_MESSAGE, pace=pace())
        self.sink = StreamSink(dut, "requests", request_beat(WIDTH), pace=(sink_pace or pace)())
        self.memory = bytearray(SIZE)
        self.expected = bytearray(SIZE)
        self.written = defaultdict(lambda: [(0, 0)])
        """Per byte: which line wrote what into it."""
        self.requests = []
        self.beats = 0
        cocotb.start_soon(self._take())

    async def _take(self):
        while True:
            beats = await self.sink.receive(1)
            while not beats[-1]["last"]:
                beats += await self.sink.receive(1)
            request = Request(beats, WIDTH, self.limit, 4096)
            request.snapshot = bytes(self.memory)
            self.requests.append(request)
            if request.is_write and request.user != INTERRUPT_USER:
                for index, enable in enumerate(request.enables):
                    if enable:
                        self.memory[request.address - BASE + index] = request.payload[index]

    def burst(self, address, strobes, user=1):
        """Lines from ``address`` on; their strobes say which bytes. Their content is random."""
        for index, strobe in enumerate(strobes):
            self.beats += 1
            content = random.randbytes(LINE)
            at = address - BASE + LINE * index
            for byte in range(LINE):
                if strobe >> byte & 1:
                    self.expected[at + byte] = content[byte]
                    self.written[at + byte].append((self.beats, content[byte]))
            beat = {
                "address": address if index == 0 else random.getrandbits(64),
                "beats": len(strobes) if index == 0 else random.getrandbits(8),
                "data": int.from_bytes(content, "little"),
                "strobe": strobe,
                "first": int(index == 0),
                "last": int(index == len(strobes) - 1),
            }
            self.writes.send({"beat": beat, "user": user})

    async def settled(self):
        for _ in range(20_000):
            await RisingEdge(self.dut.clk)
            if int(self.dut.settled.value) == self.beats % 65536 and self.dut.idle.value:
                break
        else:
            raise AssertionError(f"{self.dut.settled.value} of {self.beats} lines have settled")
        await ClockCycles(self.dut.clk, 2)
        assert int(self.dut.accepted.value) == self.beats % 65536

    async def check(self):
        await self.settled()
        assert self.memory == self.expected

    @property
    def spans(self):
        return [(request.span.start - BASE, len(request.span)) for request in self.requests]


def random_strobe():
    kind = random.randrange(6)
    if kind == 0:
        return random.getrandbits(LINE)
    if kind == 1:
        return random.getrandbits(LINE) & random.getrandbits(LINE) & random.getrandbits(LINE)
    if kind == 2:
        start, stop = sorted(random.sample(range(LINE + 1), 2))
        return (1 << stop) - (1 << start)
    if kind == 3:
        return FULL & ~(1 << random.randrange(LINE))
    return FULL if kind == 4 else 0


def random_burst():
    lines = random.choice([1, 1, 1, 2, 3, 4, random.randint(1, 1024 // LINE)])
    page = 4096 * random.randrange(SIZE // 4096)
    address = BASE + page + LINE * random.randint(0, 4096 // LINE - lines)
    if random.random() < 0.5:
        # As PackedWriter writes: ends may be ragged.
        strobes = [FULL] * lines
        strobes[0] &= FULL << random.randrange(LINE)
        strobes[-1] &= (FULL >> random.randrange(LINE)) or 1
        return address, strobes
    return address, [random_strobe() for _ in range(lines)]


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), max_payload=[128, 256, 4096])
async def every_strobed_byte_is_written_and_no_other(dut, pace, max_payload):
    bench = Bench(dut, PACES[pace], max_payload=max_payload)
    await start(dut)
    for _ in range(120):
        bench.burst(*random_burst(), user=random.choice([1, 1, 1, 2]))
    await bench.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_byte_is_in_one_request(dut):
    bench = Bench(dut, PACES["randomly"], max_payload=256)
    await start(dut)
    lines = [random_strobe() for _ in range(SIZE // LINE)]
    for index, strobe in enumerate(lines):
        bench.burst(BASE + LINE * index, [strobe])
    await bench.check()
    count = [0] * SIZE
    for request in bench.requests:
        for index, enable in enumerate(request.enables):
            count[request.address - BASE + index] += enable
    assert count == [strobe >> byte & 1 for strobe in lines for byte in range(LINE)]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def neighbouring_lines_leave_together_up_to_the_largest_payload(dut):
    bench = Bench(dut, max_payload=256)
    await start(dut)
    for index in range(640 // LINE):
        bench.burst(BASE + 128 + LINE * index, [FULL])
    await bench.check()
    assert bench.spans == [(128, 128), (256, 256), (512, 256)]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def a_burst_at_any_offset_is_cut_where_payloads_end(dut):
    bench = Bench(dut, max_payload=256)
    await start(dut)
    lines = 512 // LINE
    bench.burst(BASE, [FULL << 5 & FULL] + [FULL] * (lines - 2) + [FULL >> 3])
    await bench.check()
    assert bench.spans == [(5, 251), (256, 253)]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def lines_that_are_no_neighbours_leave_apart(dut):
    bench = Bench(dut, max_payload=256)
    await start(dut)
    half = FULL >> LINE // 2
    for address, strobe, user in (
        (0, FULL, 1), (2 * LINE, FULL, 1), (LINE, FULL, 1), (LINE, FULL, 1), (2 * LINE, FULL, 2),
        (3 * LINE, half, 2), (4 * LINE, FULL, 2), (5 * LINE, FULL & ~half, 2),
    ):  # fmt: skip
        bench.burst(BASE + address, [strobe], user)
    await bench.check()
    assert bench.spans == [
        (0, LINE), (2 * LINE, LINE), (LINE, LINE), (LINE, LINE), (2 * LINE, 3 * LINE // 2),
        (4 * LINE, LINE), (5 * LINE + LINE // 2, LINE // 2),
    ]  # fmt: skip


@cocotb.test(timeout_time=200, timeout_unit="us")
async def a_word_with_holes_is_a_request_of_its_own(dut):
    bench = Bench(dut)
    await start(dut)
    bench.burst(BASE, [0b1111_1111_1001_1111])
    bench.burst(BASE + 2 * LINE, [0b0101_0010_1110_0110])
    await bench.check()
    assert [(r.address - BASE, r.dwords, r.first_be, r.last_be) for r in bench.requests] == [
        (0, 1, 0b1111, 0), (4, 1, 0b1001, 0), (8, 2, 0b1111, 0b1111),
        (2 * LINE, 1, 0b0110, 0), (2 * LINE + 4, 1, 0b1110, 0), (2 * LINE + 8, 1, 0b0010, 0),
        (2 * LINE + 12, 1, 0b0101, 0),
    ]  # fmt: skip


@cocotb.test(timeout_time=200, timeout_unit="us")
async def lines_without_a_strobe_settle_without_a_request(dut):
    bench = Bench(dut)
    await start(dut)
    bench.burst(BASE, [0, 0, 0])
    await bench.check()
    assert not bench.requests
    bench.burst(BASE, [0, FULL, 0])
    await bench.writes.sent()
    bench.reads.send({"kind": RequestKind.MEMORY_READ, "address": BASE, "dwords": 1, "first_be": 1})
    await bench.check()
    await bench.reads.sent()
    await ClockCycles(dut.clk, 10)
    assert [request.is_write for request in bench.requests] == [True, False]


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def nothing_passes_a_write_that_came_before(dut, pace):
    bench = Bench(dut, PACES[pace], max_payload=256)
    await start(dut)
    snapshots = []
    for number in range(60):
        for _ in range(random.randint(0, 4)):
            bench.burst(*random_burst())
        while bench.writes.left > random.choice([0, 1]):
            await RisingEdge(dut.clk)
        # What has not been taken, the last line at most, is on offer or is not: it may be missing.
        if random.random() < 0.5:
            header = {"kind": RequestKind.MEMORY_READ, "address": BASE, "dwords": 1, "first_be": 15, "tag": number}
            bench.reads.send(header)
        else:
            bench.interrupts.send({"address": 0xFEE0_0000, "data": number})
        snapshots.append((number, bench.beats - bench.writes.left))
    await bench.check()
    await bench.reads.sent()
    await bench.interrupts.sent()
    await ClockCycles(dut.clk, 200)
    seen = {}
    for request in bench.requests:
        if not request.is_write:
            seen[request.tag] = request.snapshot
        elif request.user == INTERRUPT_USER:
            assert (request.address, request.dwords, request.first_be) == (0xFEE0_0000, 1, 0b1111)
            seen[int.from_bytes(request.payload, "little")] = request.snapshot
    assert len(seen) == len(snapshots)
    for number, lines in snapshots:
        for byte, writes in bench.written.items():
            oldest = max(line for line, _ in writes if line <= lines)
            # It has the value of then, or one that was written later.
            allowed = {value for line, value in writes if line >= oldest}
            assert seen[number][byte] in allowed, f"{number} passed the write of line {oldest} to byte {byte:#x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def writes_pass_reads_that_have_no_credit(dut):
    bench = Bench(dut, PACES["randomly"])
    await start(dut)
    dut.read_credit.value = 0
    for tag in range(12):
        bench.reads.send({"kind": RequestKind.MEMORY_READ, "address": BASE, "dwords": 1, "first_be": 15, "tag": tag})
    for _ in range(30):
        bench.burst(*random_burst())
    await bench.check()
    assert all(request.is_write for request in bench.requests)
    dut.read_credit.value = 1
    await ClockCycles(dut.clk, 100)
    assert [request.tag for request in bench.requests if not request.is_write] == list(range(12))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def neither_reads_nor_writes_hold_the_others_up(dut):
    bench = Bench(dut)
    await start(dut)
    for index in range(400):
        bench.burst(BASE + 2 * LINE * (index % 50), [FULL])
        bench.reads.send({"kind": RequestKind.MEMORY_READ, "address": BASE, "dwords": 1, "first_be": 15})
    await bench.check()
    await bench.reads.sent()
    await ClockCycles(dut.clk, 50)
    writes = [request.is_write for request in bench.requests[100:500]]
    assert 160 <= sum(writes) <= 240
    # A read waits for the writes that were kept when it came.
    assert max(len(list(run)) for _, run in groupby(writes)) <= 24


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def nothing_begins_while_stopped_and_what_began_ends(dut):
    bench = Bench(dut, PACES["always"], sink_pace=PACES["randomly"], max_payload=256)
    await start(dut)
    for _ in range(60):
        bench.burst(*random_burst())
    for _ in range(20):
        await ClockCycles(dut.clk, random.randint(1, 60))
        dut.run.value = 0
        # The longest request, at the sink's pace.
        await ClockCycles(dut.clk, 200)
        assert dut.idle.value
        before = len(bench.requests)
        await ClockCycles(dut.clk, 20)
        assert len(bench.requests) == before
        assert not bench.sink.received
        dut.run.value = 1
    await bench.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(offset=[0, 4, 20])
async def bursts_leave_at_a_line_per_cycle(dut, offset):
    bench = Bench(dut, max_payload=256)
    await start(dut)
    lines = 256 // LINE
    for index in range(40):
        bench.burst(BASE + 256 * index, [FULL << offset & FULL] + [FULL] * (lines - 1))
    while not bench.sink.received and not bench.requests:
        await RisingEdge(dut.clk)
    cycles = 0
    while len(bench.requests) < 40:
        await RisingEdge(dut.clk)
        cycles += 1
    # One more where the first line only fills the second one's beat.
    assert cycles <= 40 * (lines + (offset != 0)) + 10


@cocotb.test(timeout_time=200, timeout_unit="us")
async def single_lines_anywhere_leave_at_one_per_cycle(dut):
    bench = Bench(dut)
    await start(dut)
    for index in range(100):
        bench.burst(BASE + 2 * LINE * (index * 7 % 100), [FULL << 8 & FULL])
    while not bench.requests:
        await RisingEdge(dut.clk)
    cycles = 0
    while len(bench.requests) < 100:
        await RisingEdge(dut.clk)
        cycles += 1
    assert cycles <= 105
