"""Testbench of the core's DMA on PCI Express: packets, lines and interrupts against a root and plain bytes.

Ports as of tests/hw/host/bench_ports.py, with a link instead of AXI4. Parameters: ``width``.
"""

import random

import cocotb
from amoeba_hw.pcie.interfaces import CONFIGURATION, INTERRUPT_USER, MSIX_MESSAGE
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSource, always, start
from amoeba_sim.payload import pack
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.bus_models import HostMemory
from tests.hw.host.dma_clients import PACES, DmaClients
from tests.hw.pcie.root import PcieRoot

WIDTH = bench_parameters()["width"]
LINE = WIDTH // 8
BASE, SIZE = 0x7FFF_FFFE_8000, 0x2_0000
CLOSED = range(BASE + 0x6000, BASE + 0x7000)
"""A page that the host refuses."""


class Bench(DmaClients):
    """All streams, and the root with its memory."""

    def __init__(self, dut, pace=always):
        super().__init__(dut, WIDTH, pace)
        self.memory = HostMemory(SIZE, BASE)
        self.memory[BASE] = random.randbytes(SIZE)
        self.memory.granted = [range(BASE, CLOSED.start), range(CLOSED.stop, BASE + SIZE)]
        payload, read, boundary = random.choice([(128, 128, 64), (256, 512, 64), (128, 4096, 128), (1024, 256, 64)])
        dut.configuration.value = pack(
            CONFIGURATION,
            {"max_payload": (payload // 128).bit_length() - 1, "max_read_request": (read // 128).bit_length() - 1},
        )
        dut.read_credit.value = dut.run.value = 1
        dut.fence.value = 0
        self.root = PcieRoot(
            dut, "requests", "completions", WIDTH, self.memory, pace, max_payload=payload, max_read_request=read,
            boundary=boundary,
        )  # fmt: skip
        self.interrupts = StreamSource(dut, "interrupts", MSIX_MESSAGE, pace=pace())

    async def quiet(self):
        """Writers are done, and what they wrote has left."""
        while not self.dut.merger_idle.value or self.line_writes.left:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 300)


def random_range(limit):
    length = random.choice([1, 2, 8, 16, 31, 33, 64, 100, random.randint(1, 1500), random.randint(4000, 8192)])
    start_at = random.choice([random.randrange(BASE, limit), BASE + 0x2000 - random.randint(1, 70), BASE + 0x1000])
    return min(start_at, limit - length), length


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def any_range_is_read_and_written_and_nothing_else(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    expected = bytearray(bench.memory[BASE : BASE + SIZE])
    ranges = [[random_range(CLOSED.start) for _ in range(8)] for _ in range(2)]
    for index, parts in enumerate(ranges):
        bench.read_commands[index].send(*({"address": a, "length": n} for a, n in parts))
        for _ in range(8):
            # What is written is not what is read, and each writer has its own half.
            address, length = random_range(BASE + 0x3000)
            address += 0x8000 + 0x4000 * index
            content = random.randbytes(length)
            bench.write(index, address, content)
            expected[address - BASE : address - BASE + length] = content
    for index, parts in enumerate(ranges):
        for address, length in parts:
            assert await bench.packet(index) == (bytes(expected[address - BASE : address - BASE + length]), 0)
    while bench.done != [8, 8]:
        await RisingEdge(dut.clk)
    await bench.quiet()
    assert bench.memory[BASE : BASE + SIZE] == expected


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def behind_a_fence_is_every_write_that_was_ordered_before(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    for number in range(1, 21):
        address, content = BASE + 0x8000 + random.randrange(0x2000), random.randbytes(random.randint(1, 600))
        bench.write(0, address, content)
        bench.write(1, BASE + 0xC000 + random.randrange(0x2000), random.randbytes(random.randint(1, 600)))
        while bench.done[0] < number:
            await RisingEdge(dut.clk)
        dut.fence.value = 1
        while not dut.fenced.value:
            await RisingEdge(dut.clk)
        assert bench.memory[address : address + len(content)] == content
        dut.fence.value = 0
        await ClockCycles(dut.clk, 2)
        assert not dut.fenced.value


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def refused_reads_mark_their_packets_and_no_other(dut):
    bench = Bench(dut, PACES["randomly"])
    await start(dut)
    ranges = [
        (CLOSED.start - 40, 80),
        (BASE + 0x100, 40),
        (CLOSED.start + 8, 8),
        (CLOSED.start - LINE, LINE),
        (CLOSED.stop - 1, 300),
        (CLOSED.stop, 8),
    ]
    bench.read_commands[0].send(*({"address": a, "length": n} for a, n in ranges))
    packets = [await bench.packet(0) for _ in ranges]
    assert [error for _, error in packets] == [1, 0, 1, 0, 1, 0]
    for (address, length), (content, error) in zip(ranges, packets, strict=True):
        assert error or content == bench.memory[address : address + length]


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def a_line_read_after_its_write_is_new(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    lines = [BASE + LINE * (1024 * far + near) for far in range(2) for near in range(4)]
    newest = {address: bench.memory[address : address + LINE] for address in lines}
    for _ in range(100):
        for address in random.sample(lines, random.randint(1, 5)):
            newest[address] = random.randbytes(LINE)
            bench.line_write(address, newest[address])
        if random.random() < 0.3:
            bench.write(0, BASE + 0xC000, random.randbytes(random.randint(1, 100)))
        await bench.line_writes.sent()
        asked = random.sample(lines, random.randint(1, 5))
        bench.line_reads.send(*({"address": address, "length": LINE} for address in asked))
        for address in asked:
            (beat,) = await bench.line_data.receive(1)
            assert beat["data"].to_bytes(LINE, "little") == newest[address], f"line {address:#x} is old"


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def a_packet_read_after_its_writer_was_done_is_new(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    for number in range(1, 41):
        if random.random() < 0.5:
            bench.write(0, BASE + 0x1000, random.randbytes(random.randint(1, 100)))
        address = BASE + 0x3000 + random.choice([0, LINE, random.randrange(0x400)])
        content = random.randbytes(random.choice([1, 8, LINE, 3 * LINE, random.randint(17, 1200)]))
        bench.write(1, address, content)
        while bench.done[1] < number:
            await RisingEdge(dut.clk)
        bench.read_commands[1].send({"address": address, "length": len(content)})
        assert await bench.packet(1) == (content, 0), f"packet {number} at {address:#x} is old"


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def an_interrupt_comes_behind_what_it_announces(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    announced = {}
    for number in range(40):
        address = BASE + 0x8000 + 64 * number
        announced[number] = range(address, address + random.randint(1, 64))
        bench.write(0, address, bytes([number + 1]) * len(announced[number]))
        while bench.done[0] <= number:
            await RisingEdge(dut.clk)
        # A cycle later the last line is in the hub's register, at most.
        bench.interrupts.send({"address": 0xFEE0_0000, "data": number})
        if random.random() < 0.5:
            bench.line_write(BASE + LINE * number, random.randbytes(LINE))
    await bench.interrupts.sent()
    await bench.quiet()
    written = set()
    seen = []
    for request in bench.root.requests:
        if request.user == INTERRUPT_USER:
            number = int.from_bytes(request.payload, "little")
            seen.append(number)
            assert written >= set(announced[number]), f"interrupt {number} came before its write"
        elif request.is_write:
            enabled = (index for index, enable in enumerate(request.enables) if enable)
            written |= {request.address + index for index in enabled}
    assert seen == list(range(40))


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def a_stopped_host_comes_to_rest_and_goes_on(dut):
    bench = Bench(dut, PACES["randomly"])
    await start(dut)
    for _ in range(6):
        address, length = random_range(CLOSED.start)
        bench.read_commands[0].send({"address": address, "length": length})
        bench.write(1, BASE + 0x8000, random.randbytes(1000))
        await ClockCycles(dut.clk, random.randint(1, 100))
        dut.run.value = 0
        # Reads that have a tag and wait to be asked are not in flight.
        for _ in range(3000):
            await RisingEdge(dut.clk)
            if dut.merger_idle.value and dut.reads_idle.value:
                break
        else:
            raise AssertionError("reads or writes are still in flight")
        before = len(bench.root.requests)
        await ClockCycles(dut.clk, 50)
        assert len(bench.root.requests) == before
        dut.run.value = 1
        assert await bench.packet(0) == (bench.memory[address : address + length], 0)
