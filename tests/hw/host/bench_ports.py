"""Testbench of the DMA side, from packed packets to AXI4, against cocotbext-axi and plain bytes.

The design has two readers and two writers of packets (``read_commands``, ``read_packets``, ``write_commands``,
``write_packets``: arrays of streams) and one client that reads and writes single lines (``line_reads``,
``line_data``, ``line_writes``), all behind the hubs on one port ``host``. The second reader is kept in order
behind the second writer.
Parameters: ``width``; ``users``, the AxUSER numbers of the packet clients, then of the line client.

Covers ``host/axi.py``, ``host/axi_dma.py``, ``host/hubs.py``, ``host/line_order.py`` and ``host/pending_lines.py``.
"""

import random
from collections import Counter

import cocotb
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import reset, start
from cocotb.triggers import ClockCycles, RisingEdge

from tests.hw.bus_models import HostMemory, host_port
from tests.hw.host.dma_clients import PACES, DmaClients

PARAMETERS = bench_parameters()
WIDTH, USERS = PARAMETERS["width"], PARAMETERS["users"]
LINE = WIDTH // 8
BASE, SIZE = 0x7FFF_FFFE_8000, 0x3_0000
"""The range lies across 2**47: no address bit is always zero or always one."""
CLOSED = range(BASE + 0x6000, BASE + 0x7000)
"""A page that the host refuses."""


class Bench(DmaClients):
    """All streams, and the host memory."""

    def __init__(self, dut, pace):
        super().__init__(dut, WIDTH, pace)
        self.memory = HostMemory(SIZE, BASE)
        self.memory[BASE] = random.randbytes(SIZE)
        self.memory.granted = [range(BASE, CLOSED.start), range(CLOSED.stop, BASE + SIZE)]
        self.port, self.rules = host_port(dut, "host_", self.memory, pace)
        self.errors = 0

    def look(self):
        super().look()
        self.errors += int(self.dut.write_error.value)

    def forget(self):
        """After a reset."""
        for sink in (*self.read_packets, self.line_data):
            sink.received.clear()
        self.done, self.errors = [0, 0], 0

    async def written(self, counts):
        """Wait until the writers have done that many commands and the host has answered all their bursts."""
        while self.done != counts:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 200)


def random_range(limit=CLOSED.start):
    length = random.choice([1, 2, 7, 8, 16, 31, 33, 64, 100, random.randint(1, 1500), random.randint(4000, 8192)])
    start = random.choice([random.randrange(BASE, limit), BASE + 0x2000 - random.randint(1, 70), BASE + 0x1000])
    return min(start, limit - length), length


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def any_range_is_read_packed_and_in_order(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    ranges = [[random_range() for _ in range(12)] for _ in range(2)]
    for index, parts in enumerate(ranges):
        bench.read_commands[index].send(*({"address": a, "length": n, "context": 5 * index} for a, n in parts))
    for index, parts in enumerate(ranges):
        for address, length in parts:
            assert await bench.packet(index) == (bench.memory[address : address + length], 0)
    asked = {(transfer["user"] & 0xFF, transfer["user"] >> 8) for transfer in bench.rules.transfers["ar"]}
    assert asked == {(USERS[0], 0), (USERS[1], 5)}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def any_range_is_written_and_nothing_else(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    # Each writer has its own half, so that the expected memory does not depend on who comes first.
    middle = BASE + 0x3000
    expected = bytearray(bench.memory[BASE : BASE + SIZE])
    for number in range(20):
        index = number % 2
        address, length = random_range(middle)
        address += 0x3000 * index
        content = random.randbytes(length)
        expected[address - BASE : address - BASE + length] = content
        bench.write(index, address, content)
    await bench.written([10, 10])
    assert bench.memory[BASE : BASE + SIZE] == expected
    assert bench.errors == 0
    for transfer in bench.rules.transfers["aw"]:
        index = transfer["addr"] >= middle
        assert (transfer["user"] & 0xFF, transfer["user"] >> 8) == (USERS[index], 3 + index)


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
        assert len(content) == length
        assert error or content == bench.memory[address : address + length]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_refused_write_burst_is_reported_once(dut):
    bench = Bench(dut, PACES["randomly"])
    await start(dut)
    expected = bytearray(bench.memory[BASE : BASE + SIZE])
    jobs = [(CLOSED.start + 8, 8), (BASE + 8, 300), (CLOSED.start, 4096), (CLOSED.stop, 100)]
    for address, length in jobs:
        content = random.randbytes(length)
        bench.write(0, address, content)
        if address not in CLOSED:
            expected[address - BASE : address - BASE + length] = content
    await bench.written([4, 0])
    refused = [transfer for transfer in bench.rules.transfers["aw"] if transfer["addr"] in CLOSED]
    assert bench.errors == len(refused) >= 2
    assert bench.memory[BASE : BASE + SIZE] == expected


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(answers=["at once", "late"])
async def a_line_read_after_it_was_written_is_new(dut, answers):
    """AXI orders no read after a write that was not answered yet; the NIC's lines have to be."""
    bench = Bench(dut, PACES["always"])
    if answers == "late":
        # The subordinate performs two more writes at most while its answers are not taken.
        bench.port.write_if.b_channel.set_pause_generator(iter(lambda: random.random() < 0.97, None))
    await start(dut)
    # Some share their low address bits.
    lines = [BASE + LINE * (1024 * far + near) for far in range(3) for near in range(3)]
    newest = {address: bench.memory[address : address + LINE] for address in lines}
    for _ in range(150):
        for address in random.sample(lines, random.randint(1, 5)):
            newest[address] = random.randbytes(LINE)
            bench.line_write(address, newest[address])
        # Some packets in between: their bursts are answered in the same order.
        if random.random() < 0.3:
            bench.write(0, BASE + 0x1000, random.randbytes(random.randint(1, 100)))
        await bench.line_writes.sent()
        asked = random.sample(lines, random.randint(1, 5))
        bench.line_reads.send(*({"address": address, "length": LINE} for address in asked))
        for address in asked:
            (beat,) = await bench.line_data.receive(1)
            assert beat["data"].to_bytes(LINE, "little") == newest[address], f"line {address:#x} is old"


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(answers=["at once", "late"])
async def a_packet_read_after_its_writer_was_done_is_new(dut, answers):
    bench = Bench(dut, PACES["always"])
    if answers == "late":
        bench.port.write_if.b_channel.set_pause_generator(iter(lambda: random.random() < 0.97, None))
    await start(dut)
    for number in range(1, 61):
        # Other bursts before and behind: the reader waits for its writer's only, and for them by their number.
        if random.random() < 0.5:
            bench.write(0, BASE + 0x1000, random.randbytes(random.randint(1, 100)))
        address = BASE + 0x3000 + random.choice([0, LINE, random.randrange(0x400)])
        content = random.randbytes(random.choice([1, 8, LINE, 3 * LINE, random.randint(17, 1200)]))
        bench.write(1, address, content)
        while bench.done[1] < number:
            await RisingEdge(dut.clk)
        if random.random() < 0.5:
            bench.line_write(BASE + 0x2000, random.randbytes(LINE))
        bench.read_commands[1].send({"address": address, "length": len(content)})
        assert await bench.packet(1) == (content, 0), f"packet {number} at {address:#x} is old"


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def lines_and_packets_share_the_port(dut):
    bench = Bench(dut, PACES["in bursts"])
    await start(dut)
    expected = bytearray(bench.memory[BASE : BASE + SIZE])
    wanted = [[], []]
    for _ in range(60):
        address, content = BASE + LINE * random.randrange(0x1000 // LINE), random.randbytes(LINE)
        strobe = random.getrandbits(LINE)
        bench.line_write(address, content, strobe)
        for i in range(LINE):
            if strobe >> i & 1:
                expected[address - BASE + i] = content[i]
    for index in range(2):
        for _ in range(5):
            address, length = random_range(BASE + 0x2000)
            # Read what nobody writes; write what nobody reads.
            wanted[index].append((address + 0x4000, length))
            bench.read_commands[index].send({"address": address + 0x4000, "length": length})
            content = random.randbytes(min(length, 0x1000))
            bench.write(index, BASE + 0x1000 + 0x1000 * index, content)
            expected[0x1000 + 0x1000 * index : 0x1000 + 0x1000 * index + len(content)] = content
    for index, parts in enumerate(wanted):
        for address, length in parts:
            assert await bench.packet(index) == (bytes(expected[address - BASE : address - BASE + length]), 0)
    await bench.line_writes.sent()
    await bench.written([5, 5])
    assert bench.memory[BASE : BASE + SIZE] == expected
    assert set(Counter(transfer["user"] & 0xFF for transfer in bench.rules.transfers["aw"])) == set(USERS)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def reset_in_mid_traffic_leaves_nothing_behind(dut):
    bench = Bench(dut, PACES["randomly"])
    await start(dut)
    for _ in range(12):
        for index in range(2):
            address, length = random_range()
            bench.read_commands[index].send({"address": address, "length": length})
            bench.write(index, *random_write())
        for number in range(20):
            bench.line_write(BASE + LINE * number, random.randbytes(LINE))
            bench.line_reads.send({"address": BASE + LINE * number, "length": LINE})
        await ClockCycles(dut.clk, random.randint(1, 300))
        await reset(dut)
        bench.forget()
        address, content = random_write()
        bench.write(1, address, content)
        await bench.written([0, 1])
        bench.read_commands[0].send({"address": address, "length": len(content)})
        assert await bench.packet(0) == (content, 0)
        bench.line_reads.send({"address": BASE, "length": LINE})
        (beat,) = await bench.line_data.receive(1)
        assert beat["data"].to_bytes(LINE, "little") == bench.memory[BASE : BASE + LINE]


def random_write():
    address, length = random_range()
    return address, random.randbytes(length)
