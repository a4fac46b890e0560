"""Testbench of the read side on PCI Express against a root with its own mind and plain bytes.

Parameters: ``width``, ``limit``, ``lines``, ``tags``, ``timeout`` of the design.
"""

import random

import cocotb
from amaranth.lib import data
from amoeba_hw.interfaces import READ_REQUEST, read_beat
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.bus_models import HostMemory
from tests.hw.pcie.root import PcieRoot

PARAMETERS = bench_parameters()
WIDTH, LINES, TAGS, TIMEOUT, LIMIT = (PARAMETERS[name] for name in ("width", "lines", "tags", "timeout", "limit"))
LINE = WIDTH // 8
READ = data.StructLayout({"request": READ_REQUEST, "user": 8})
BASE, SIZE = 0x7FFF_FFFE_8000, 0x1_0000
PACES = {"always": always, "randomly": lambda: randomly(0.6), "in bursts": lambda: in_bursts(12)}
SIZES = [(128, 128, 64), (256, 512, 64), (128, 4096, 128), (1024, 256, 128)]
"""Max_Payload_Size, Max_Read_Request_Size, Read Completion Boundary."""


class Bench:
    def __init__(self, dut, pace=always, sizes=SIZES[0], **how):
        self.dut = dut
        self.memory = HostMemory(SIZE, BASE)
        self.memory[BASE] = random.randbytes(SIZE)
        payload, read, boundary = sizes
        extended = TAGS > 32
        dut.extended_tags.value = extended
        dut.function_reset.value = 0
        dut.max_read_request.value = (read // 128).bit_length() - 1
        self.root = PcieRoot(
            dut, "requests", "completions", WIDTH, self.memory, pace, max_payload=payload, max_read_request=read,
            boundary=boundary, tags=TAGS if extended else 32, **how,
        )  # fmt: skip
        self.reads = StreamSource(dut, "reads", READ, pace=pace())
        self.answers = StreamSink(dut, "answers", read_beat(WIDTH), pace=pace())
        self.failed = self.unexpected = 0
        cocotb.start_soon(self._count())

    async def _count(self):
        while True:
            await RisingEdge(self.dut.clk)
            if not self.dut.rst.value:
                self.failed += int(self.dut.failed.value)
                self.unexpected += int(self.dut.unexpected.value)

    def read(self, *ranges, user=3):
        self.reads.send(*({"request": {"address": a, "length": n}, "user": user} for a, n in ranges))

    async def answer(self, address, length):
        """Whether the next answer is marked as refused; otherwise it is checked."""
        lines = (address + length - 1) // LINE - address // LINE + 1
        beats = await self.answers.receive(lines)
        where = f"read of {length} bytes at {address:#x}"
        assert [beat["last"] for beat in beats] == [0] * (lines - 1) + [1], where
        if any(beat["error"] for beat in beats):
            return True
        content = b"".join(beat["data"].to_bytes(LINE, "little") for beat in beats)
        skip = address % LINE
        assert content[skip : skip + length] == self.memory[address : address + length], where
        return False

    async def settled(self, cycles):
        """Everything is over within so many cycles."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
            if self.dut.idle.value and not self.reads.left:
                return
        raise AssertionError(f"A read is still in flight after {cycles} cycles")


def random_range():
    length = random.choice([1, 2, 3, 4, 5, 8, LINE, LINE, 63, 64, 130, random.randint(1, 700), 4096])
    address = random.choice([random.randrange(BASE, BASE + SIZE - 4096), BASE + random.randrange(8) * 4096])
    if length == LINE:
        address -= address % LINE
    return address, min(length, 4096 - address % 4096)


def neighbours(count):
    first = BASE + random.randrange(200) * 64
    return [(first + LINE * index, LINE) for index in range(count)]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sizes=range(len(SIZES)))
async def any_reads_are_answered_in_order(dut, pace, sizes):
    bench = Bench(dut, PACES[pace], SIZES[sizes], latency=random.choice([1, 30]))
    await start(dut)
    ranges = []
    for _ in range(40):
        ranges += random.choice([[random_range()], [random_range()], neighbours(random.randint(2, 20))])
    bench.read(*ranges)
    for part in ranges:
        assert not await bench.answer(*part)
    await bench.settled(100)
    assert bench.failed == bench.unexpected == 0
    # The bytes asked for are those of the reads, each once, in their order.
    asked = [byte for request in bench.root.requests for byte in request.span]
    assert asked == [byte for address, length in ranges for byte in range(address, address + length)]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def neighbouring_lines_are_asked_for_together(dut):
    bench = Bench(dut, sizes=(256, 256, 64))
    await start(dut)
    first = BASE + 0x3000 - 2 * LINE
    ranges = [(first + LINE * index, LINE) for index in range(2 + 512 // LINE + 1)]
    bench.read(*ranges)
    for part in ranges:
        assert not await bench.answer(*part)
    spans = [(request.span.start - BASE, len(request.span)) for request in bench.root.requests]
    assert spans == [(0x3000 - 2 * LINE, 2 * LINE), (0x3000, 256), (0x3100, 256), (0x3200, LINE)]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def lines_of_different_components_are_not_joined(dut):
    bench = Bench(dut, sizes=(256, 256, 64))
    await start(dut)
    for index in range(4):
        bench.read((BASE + LINE * index, LINE), user=index // 2)
    for index in range(4):
        assert not await bench.answer(BASE + LINE * index, LINE)
    assert [(request.user, len(request.span)) for request in bench.root.requests] == [(0, 2 * LINE), (1, 2 * LINE)]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def a_line_waits_two_cycles_for_its_neighbour(dut):
    bench = Bench(dut)
    await start(dut)
    # After a reset, the buffer clears what it knows of its lines.
    await ClockCycles(dut.clk, LINES)
    bench.read((BASE, LINE))
    await bench.reads.sent()
    await ClockCycles(dut.clk, 6)
    assert len(bench.root.requests) == 1, "the request came late"
    assert not await bench.answer(BASE, LINE)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(fate=["UR", "CA", "UR behind data", "poison", "wrong count", "wrong address", "timed out"])
async def a_read_that_fails_is_an_error_and_no_other_is(dut, fate):
    bench = Bench(dut, PACES["randomly"], SIZES[1])
    await start(dut)
    ranges = [random_range() for _ in range(30)]
    chosen = set(random.sample(range(30), 5))
    pages = {index: BASE + SIZE - 4096 + 128 * number for number, index in enumerate(sorted(chosen))}
    for index, address in pages.items():
        ranges[index] = (address + random.randrange(60), random.choice([1, 40, 67]))
    bad = BASE + SIZE - 4096
    bench.root.fate = lambda request: fate if request.address >= bad else "answer"
    bench.read(*ranges)
    errors = {index for index, part in enumerate(ranges) if await bench.answer(*part)}
    assert errors == chosen
    await bench.settled(100)
    # Those that are cut fail piece by piece, not necessarily all of them.
    assert bench.failed >= len(chosen)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_poisoned_completion_spoils_the_rest_of_its_read_only(dut):
    bench = Bench(dut, sizes=(64, 512, 64))
    await start(dut)
    bench.root.fate = lambda request: "poison" if request.address < BASE + 512 else "answer"
    ranges = [(BASE + LINE * index, LINE) for index in range(1024 // LINE)]
    bench.read(*ranges)
    errors = [await bench.answer(*part) for part in ranges]
    spoiled = errors.index(True)
    assert spoiled % (64 // LINE) == 0
    assert errors == [False] * spoiled + [True] * (512 // LINE - spoiled) + [False] * (512 // LINE)
    assert bench.failed == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_read_without_an_answer_is_given_up_and_its_tag_kept(dut):
    bench = Bench(dut, sizes=(128, 128, 64), latency=1)
    await start(dut)
    bench.root.fate = lambda request: "late" if request.address % 4096 < 128 else "answer"
    lost = [(BASE + 4096 * index, 100) for index in range(8)]
    good = [(BASE + 2048 + 4096 * index, 80) for index in range(8)]
    bench.read(*(part for pair in zip(lost, good, strict=True) for part in pair))
    for part, other in zip(lost, good, strict=True):
        assert await bench.answer(*part)
        assert not await bench.answer(*other)
    assert bench.failed == 8
    # They are all given up together, not one after the other.
    await bench.settled(10)
    # The root checks that no tag of theirs is used while there are others.
    ranges = [(BASE + 2048 + 8 * (index % 200), 8) for index in range(3 * TAGS)]
    bench.read(*ranges)
    for part in ranges:
        assert not await bench.answer(*part)
    bench.root.release_late()
    bench.read(*ranges)
    for part in ranges:
        assert not await bench.answer(*part)
    assert bench.unexpected == 0


async def with_lost_reads(dut):
    """A bench whose reads, eight of them, have been given up; what the host would answer comes late."""
    bench = Bench(dut, sizes=(128, 128, 64), latency=1)
    await start(dut)
    bench.root.fate = lambda request: "late"
    lost = [(BASE + 4096 * index, 100) for index in range(8)]
    bench.read(*lost)
    for part in lost:
        assert await bench.answer(*part)
    return bench


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def the_tag_of_a_read_that_was_given_up_is_kept_over_a_function_level_reset(dut):
    """The host does not know that the function has forgotten the read: what comes late must meet no other one."""
    bench = await with_lost_reads(dut)
    await bench.settled(10)
    dut.function_reset.value = 1
    await ClockCycles(dut.clk, 2)
    dut.function_reset.value = 0
    bench.root.fate = lambda request: "answer"
    # The root checks that no tag of theirs is used while there are others.
    ranges = [(BASE + 8 * (index % 200), 8) for index in range(3 * TAGS)]
    for late in (False, True):
        if late:
            bench.root.release_late()
        bench.root.requests.clear()
        bench.read(*ranges)
        for part in ranges:
            assert not await bench.answer(*part)
    assert bench.unexpected == 0
    assert bench.failed == 8
    assert len({request.tag for request in bench.root.requests}) == bench.root.tags, "none is out of use for good"


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_reset_of_the_link_gives_all_tags_back(dut):
    bench = await with_lost_reads(dut)
    await reset(dut)
    # Behind it, nothing comes any more.
    bench.root.held.clear()
    bench.root.waiting.clear()
    bench.root.requests.clear()
    bench.root.fate = lambda request: "answer"
    ranges = [(BASE + 8 * (index % 200), 8) for index in range(3 * TAGS)]
    bench.read(*ranges)
    for part in ranges:
        assert not await bench.answer(*part)
    assert len({request.tag for request in bench.root.requests}) == bench.root.tags


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def given_up_tags_come_back_when_their_completions_do(dut):
    bench = Bench(dut, sizes=(128, 128, 64), latency=1)
    await start(dut)
    count = bench.root.tags
    bench.root.fate = lambda request: "late"
    ranges = [(BASE + 8 * index, 8) for index in range(count)]
    bench.read(*ranges)
    for part in ranges:
        assert await bench.answer(*part)
    bench.root.fate = lambda request: "answer"
    bench.read((BASE, 8))
    await ClockCycles(dut.clk, 1000)
    assert len(bench.root.requests) == count, "a tag was used that the host may still answer"
    bench.root.release_late()
    assert not await bench.answer(BASE, 8)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def completions_that_nobody_waits_for_are_dropped(dut):
    bench = Bench(dut, sizes=(128, 128, 64))
    await start(dut)
    for tag in random.sample(range(32), 10):
        size = random.choice([0, 4, 128])
        header = {
            "tag": tag, "status": 0 if size else 1, "poisoned": 0, "dwords": size // 4, "byte_count": size or 4,
            "lower_address": 0,
        }  # fmt: skip
        bench.root.send(header, random.randbytes(size))
    await bench.root.source.sent()
    bench.read((BASE + 5, 300))
    assert not await bench.answer(BASE + 5, 300)
    assert (bench.unexpected, bench.failed) == (10, 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def no_more_is_asked_than_there_is_space_for(dut):
    bench = Bench(dut, sizes=(256, 256, 64), latency=1)
    await start(dut)
    bench.answers._pace = iter(lambda: False, None)
    ranges = [(BASE + 256 * index, 256) for index in range(2 * LINES * LINE // 256)]
    bench.read(*ranges)
    await ClockCycles(dut.clk, 3000)
    # Two lines may wait behind the buffer.
    assert LINES * LINE <= sum(len(request.span) for request in bench.root.requests) <= (LINES + 2) * LINE + 256
    assert dut.idle.value
    bench.answers._pace = always()
    for part in ranges:
        assert not await bench.answer(*part)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def lines_anywhere_come_at_one_per_cycle(dut):
    bench = Bench(dut, sizes=(256, 512, 64), latency=1, seldom_split=True)
    await start(dut)
    ranges = [(BASE + (index * 5 % 200) * 256, LINE) for index in range(120)]
    bench.read(*ranges)
    while not bench.answers.received:
        await RisingEdge(dut.clk)
    cycles = 0
    while len(bench.answers.received) < len(ranges):
        await RisingEdge(dut.clk)
        cycles += 1
    # The root answers in any order, so the first may come late; and lines wait for it, not for the link.
    assert cycles <= len(ranges) + 40
    for part in ranges:
        assert not await bench.answer(*part)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pause=[1, LINES])
async def the_rest_of_a_completion_that_a_reset_cut_is_dropped(dut, pause):
    """Of a read that is over, as a reset waits for all others; wherever it cuts, and however late the rest comes."""
    bench = Bench(dut, sizes=SIZES[1])
    await start(dut)
    beats = 256 // LINE
    for cut in range(beats + 1):
        header = dict.fromkeys(("status", "poisoned", "lower_address"), 0)
        header |= {"tag": 5, "dwords": 64, "byte_count": 256}
        packet = [
            {"header": header, "data": random.getrandbits(WIDTH), "first": index == 0, "last": index == beats - 1}
            for index in range(beats)
        ]
        # Line states are known again, and the first beats are on their own.
        await ClockCycles(dut.clk, LINES)
        bench.root.source.send(*packet[:cut])
        await bench.root.source.sent()
        await reset(dut)
        await ClockCycles(dut.clk, pause)
        before = bench.unexpected
        bench.root.source.send(*packet[cut:])
        await bench.root.source.sent()
        await ClockCycles(dut.clk, 10)
        assert bench.unexpected - before == (cut == 0), "only a whole completion is one"
        assert not bench.answers.received
        ranges = [random_range() for _ in range(8)]
        bench.read(*ranges)
        for part in ranges:
            assert not await bench.answer(*part), f"cut after {cut} beats"
        await bench.settled(1000)
    assert not bench.failed
