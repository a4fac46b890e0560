"""The DMA side of the core: packed reader and writer, hubs and the AXI4 adapter, over a simulated host."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from amoeba_hw.host.axi_dma import AxiDma
from amoeba_hw.host.hubs import ReadHub, WriteHub
from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter

TIMEOUT = 20_000
USERS = (2, 5)
REFUSED = 0x8000
"""The host refuses reads from this address on."""


class Harness(wiring.Component):
    """Two readers and two writers behind hubs, on one AXI4 port."""

    def __init__(self, width):
        super().__init__({})
        self.readers = [PackedReader(width) for _ in USERS]
        self.writers = [PackedWriter(width) for _ in USERS]
        self.dma = AxiDma(width)
        self._width = width

    def elaborate(self, platform):
        m = Module()
        m.submodules.dma = self.dma
        m.submodules.read_hub = read_hub = ReadHub(self._width, USERS)
        m.submodules.write_hub = write_hub = WriteHub(self._width, USERS)
        for index in range(len(USERS)):
            m.submodules[f"reader{index}"] = reader = self.readers[index]
            m.submodules[f"writer{index}"] = writer = self.writers[index]
            wiring.connect(m, reader.requests, read_hub.requests[index])
            wiring.connect(m, read_hub.answers[index], reader.answers)
            wiring.connect(m, writer.writes, write_hub.writes[index])
        wiring.connect(m, read_hub.port, self.dma.reads)
        wiring.connect(m, self.dma.read_data, read_hub.port_answers)
        wiring.connect(m, write_hub.port, self.dma.writes)
        m.d.comb += [self.dma.read_user.eq(read_hub.port_user), self.dma.write_user.eq(write_hub.port_user)]
        return m


def host(dut, width, memory, rng, log):
    """Background testbenches that answer the AXI4 port from ``memory``, with random delays."""
    bus, step = dut.dma.bus, width // 8
    queued = []

    async def addresses(ctx):
        while True:
            ready = rng.random() < 0.7
            ctx.set(bus.arready, ready)
            _, _, valid, address, length, user = await ctx.tick().sample(
                bus.arvalid, bus.araddr, bus.arlen, bus.aruser
            )
            if ready and valid:
                assert address // 4096 == (address + (length + 1) * step - 1) // 4096, "burst crosses 4 KiB"
                log.append(("read", user, address, length + 1))
                queued.extend((address + i * step, i == length) for i in range(length + 1))

    async def answers(ctx):
        while True:
            if queued and rng.random() < 0.7:
                address, last = queued.pop(0)
                ctx.set(bus.rdata, int.from_bytes(memory[address : address + step], "little"))
                ctx.set(bus.rresp, 2 if address >= REFUSED else 0)
                ctx.set(bus.rlast, last)
                ctx.set(bus.rvalid, 1)
                await ctx.tick().until(bus.rready)
                ctx.set(bus.rvalid, 0)
            else:
                await ctx.tick()

    async def writes(ctx):
        bursts, beats = [], []
        while True:
            aw, w = rng.random() < 0.7, rng.random() < 0.7
            ctx.set(bus.awready, aw)
            ctx.set(bus.wready, w)
            _, _, awvalid, address, length, wvalid, data, strobe, last = await ctx.tick().sample(
                bus.awvalid, bus.awaddr, bus.awlen, bus.wvalid, bus.wdata, bus.wstrb, bus.wlast
            )
            if aw and awvalid:
                assert address // 4096 == (address + (length + 1) * step - 1) // 4096, "burst crosses 4 KiB"
                bursts.append((address, length + 1))
            if w and wvalid:
                beats.append((data, strobe, last))
            while bursts and beats:
                (address, left), (data, strobe, last) = bursts.pop(0), beats.pop(0)
                assert last == (left == 1)
                for i in range(step):
                    if strobe >> i & 1:
                        memory[address + i] = data >> 8 * i & 0xFF
                if left > 1:
                    bursts.insert(0, (address + step, left - 1))

    return addresses, answers, writes


async def put(ctx, stream, rng, **fields):
    while rng.random() < 0.3:
        await ctx.tick()
    for name, value in fields.items():
        ctx.set(getattr(stream.p, name), value)
    ctx.set(stream.valid, 1)
    await ctx.tick().until(stream.ready)
    ctx.set(stream.valid, 0)


def run(dut, processes, background):
    sim = Simulator(dut)
    sim.add_clock(1e-8)
    for process in background:
        sim.add_testbench(process, background=True)
    for process in processes:
        sim.add_testbench(process)

    async def timeout(ctx):
        for _ in range(TIMEOUT):
            await ctx.tick()
        raise TimeoutError(f"no end after {TIMEOUT} cycles")

    sim.add_testbench(timeout, background=True)
    sim.run()


def random_range(rng):
    length = rng.choice([1, 2, 7, 8, 16, 31, 32, 33, 64, 100, rng.randint(1, 1500)])
    start = rng.choice([rng.randrange(0, 0x6000), 0x1000 - rng.randint(1, 70), 0x2000])
    return start, length


@pytest.mark.parametrize("width", [128, 256, 512])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_range_is_read_packed_and_in_order(width, seed):
    rng = random.Random(seed)
    memory = bytearray(rng.randbytes(0x9000))
    dut, log, step = Harness(width), [], width // 8
    ranges = [[random_range(rng) for _ in range(12)] for _ in USERS]
    got = [[] for _ in USERS]

    def process(index):
        async def commands(ctx):
            for address, length in ranges[index]:
                await put(ctx, dut.readers[index].commands, rng, address=address, length=length)

        async def packets(ctx):
            stream, packet = dut.readers[index].packets, b""
            while len(got[index]) < len(ranges[index]):
                ready = rng.random() < 0.7
                ctx.set(stream.ready, ready)
                _, _, valid, beat = await ctx.tick().sample(stream.valid, stream.payload)
                if valid and ready:
                    assert beat.last or beat.count == step
                    packet += int(beat.data).to_bytes(step, "little")[: beat.count]
                    if beat.last:
                        assert not beat.error
                        got[index].append(packet)
                        packet = b""
            ctx.set(stream.ready, 0)

        return commands, packets

    run(dut, [p for i in range(len(USERS)) for p in process(i)], host(dut, width, memory, rng, log))
    for index in range(len(USERS)):
        expected = [bytes(memory[a : a + n]) for a, n in ranges[index]]
        assert got[index] == expected, f"reader {index}, width {width}, seed {seed}"
    assert {user for _, user, _, _ in log} == set(USERS)


@pytest.mark.parametrize("width", [128, 256, 512])
@pytest.mark.parametrize("seed", [3, 4])
def test_any_range_is_written_and_nothing_else(width, seed):
    rng = random.Random(seed)
    memory = bytearray(rng.randbytes(0x9000))
    expected = bytearray(memory)
    dut, step = Harness(width), width // 8
    done = [0, 0]
    jobs = []
    for index in range(len(USERS)):
        # Each writer has its own half, so that the expected memory does not depend on who comes first.
        for _ in range(12):
            address, length = random_range(rng)
            address = address % 0x2000 + 0x4000 * index
            data = rng.randbytes(length)
            expected[address : address + length] = data
            jobs.append((index, address, data))

    def process(index):
        writer = dut.writers[index]
        mine = [(address, data) for owner, address, data in jobs if owner == index]

        async def commands(ctx):
            for address, data in mine:
                await put(ctx, writer.commands, rng, address=address, length=len(data))

        async def packets(ctx):
            for _, data in mine:
                for start in range(0, len(data), step):
                    part = data[start : start + step]
                    value = int.from_bytes(part + rng.randbytes(step - len(part)), "little")
                    last = start + step >= len(data)
                    await put(ctx, writer.packets, rng, data=value, count=len(part), last=last)

        async def count(ctx):
            while True:
                _, _, pulse = await ctx.tick().sample(writer.done)
                done[index] += pulse

        async def finish(ctx):
            while done[index] < len(mine):
                await ctx.tick()
            await ctx.tick().repeat(50)  # the writes behind the hub

        return [commands, packets, finish], count

    made = [process(i) for i in range(len(USERS))]
    background = [*host(dut, width, memory, rng, []), *(count for _, count in made)]
    run(dut, [p for processes, _ in made for p in processes], background)
    assert memory == expected, f"width {width}, seed {seed}"
    assert done == [12, 12]


def test_refused_read_marks_its_packet_and_the_next_one_is_whole():
    width, rng = 256, random.Random(5)
    memory = bytearray(rng.randbytes(0x9000))
    dut, got = Harness(width), []
    ranges = [(REFUSED - 40, 80), (0x100, 40), (REFUSED + 8, 8), (0x200, 8)]

    async def commands(ctx):
        for address, length in ranges:
            await put(ctx, dut.readers[0].commands, rng, address=address, length=length)

    async def packets(ctx):
        stream = dut.readers[0].packets
        ctx.set(stream.ready, 1)
        while len(got) < len(ranges):
            _, _, valid, beat = await ctx.tick().sample(stream.valid, stream.payload)
            if valid and beat.last:
                got.append(beat.error)

    run(dut, [commands, packets], host(dut, width, memory, rng, []))
    assert got == [1, 0, 1, 0]


def test_aligned_write_takes_one_line_per_cycle():
    width = 256
    dut, cycles = PackedWriter(width), []

    async def feed(ctx):
        ctx.set(dut.commands.p, {"address": 0x1000, "length": 1024})
        ctx.set(dut.commands.valid, 1)
        ctx.set(dut.packets.valid, 1)
        ctx.set(dut.packets.p, {"data": 1, "count": 32, "last": 0, "error": 0})
        ctx.set(dut.writes.ready, 1)
        for cycle in range(40):
            _, _, valid, done = await ctx.tick().sample(dut.writes.valid, dut.done)
            cycles.append((cycle, valid))
            if done:
                break

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(feed)
    sim.run()
    assert [cycle for cycle, valid in cycles if valid] == list(range(32))
