"""Testbench of MsixTable against an account of each interrupt. Parameter: ``vectors``."""

import random

import cocotb
from amoeba_hw.host.axi_lite import register_access
from amoeba_hw.pcie.completer import TABLE_ADDRESS_WIDTH
from amoeba_hw.pcie.interfaces import MSIX_MESSAGE
from amoeba_model.pci import MSIX_PBA_OFFSET
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles, RisingEdge

VECTORS = bench_parameters()["vectors"]
PACES = {"always": always, "randomly": lambda: randomly(0.3), "in bursts": lambda: in_bursts(30)}
MASK = 12
"""Offset in an entry."""


class Bench:
    """Raises interrupts at random, and keeps in which cycles each of them came."""

    def __init__(self, dut, *, rate=0.0, pace=always):
        self.dut = dut
        self.rate = rate
        self.accesses = StreamSource(dut, "accesses", register_access(TABLE_ADDRESS_WIDTH))
        self.answers = StreamSink(dut, "read_data", 32)
        self.messages = StreamSink(dut, "messages", MSIX_MESSAGE, pace=pace())
        self.targets = {}
        """Vector by (address, data), as the table has them now."""
        self.owed = {vector: [] for vector in range(VECTORS)}
        """Cycles in which interrupts came that no message has told of."""
        self.masked = set(range(VECTORS))
        """Since more than a few cycles, for certain."""
        self.sent = []
        self.function_mask = dut.function_mask
        dut.enable.value = 1
        dut.function_mask.value = 0
        dut.irq.value = 0
        self.cycle = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        offered = False
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            for vector in range(VECTORS):
                if int(self.dut.irq.value) >> vector & 1:
                    self.owed[vector].append(self.cycle)
            valid = bool(self.dut.messages__valid.value)
            if valid and not offered:
                payload = int(self.dut.messages__payload.value)
                self._tell(self.targets[payload & (1 << 64) - 1, payload >> 64])
            offered = valid and not self.dut.messages__ready.value
            self.dut.irq.value = sum((random.random() < self.rate) << vector for vector in range(VECTORS))

    def _tell(self, vector):
        """A message of this vector has come on offer: it is for interrupts of three cycles ago or earlier."""
        assert vector not in self.masked, f"a message of vector {vector}, which is masked"
        assert any(cycle <= self.cycle - 3 for cycle in self.owed[vector]), f"vector {vector} had no interrupt"
        self.owed[vector] = [cycle for cycle in self.owed[vector] if cycle >= self.cycle - 1]
        self.sent.append(vector)

    async def write(self, offset, value):
        self.accesses.send({"address": offset, "write": 1, "data": value})
        await self.accesses.sent()

    async def read(self, offset):
        self.accesses.send({"address": offset, "write": 0, "data": 0})
        return (await self.answers.receive(1))[0]

    async def aim(self, vector):
        """Give a masked vector another target."""
        address, data = random.getrandbits(64) & ~3 | vector << 2, random.getrandbits(32)
        self.targets = {to: other for to, other in self.targets.items() if other != vector}
        self.targets[address, data] = vector
        words = (address & 0xFFFF_FFFF | random.randrange(4), address >> 32, data)
        for word in random.sample(range(3), 3):
            await self.write(16 * vector + 4 * word, words[word])

    async def unmask(self, vector):
        self.masked.discard(vector)
        await self.write(16 * vector + MASK, random.getrandbits(31) << 1)

    async def mask(self, vector):
        await self.write(16 * vector + MASK, random.getrandbits(32) | 1)

    async def settle(self):
        """Until no message is on offer."""
        for _ in range(3):
            await ClockCycles(self.dut.clk, 4)
            while self.dut.messages__valid.value:
                await RisingEdge(self.dut.clk)

    async def quiet(self):
        self.rate = 0.0
        await ClockCycles(self.dut.clk, 4)
        before = -1
        while before != (before := len(self.messages.received)):
            await ClockCycles(self.dut.clk, 200)

    async def pending(self):
        low, high = await self.read(MSIX_PBA_OFFSET), await self.read(MSIX_PBA_OFFSET + 4)
        return {vector for vector in range(64) if (high << 32 | low) >> vector & 1}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def every_interrupt_has_a_message(dut, pace):
    bench = Bench(dut, pace=PACES[pace])
    await start(dut)
    for vector in range(VECTORS):
        await bench.aim(vector)
        await bench.unmask(vector)
    bench.rate = 0.2 / VECTORS
    await ClockCycles(dut.clk, 2000)
    await bench.quiet()
    assert not any(bench.owed.values()), bench.owed
    assert await bench.pending() == set()
    assert len(bench.sent) > 20


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def masked_vectors_stay_pending_and_may_be_aimed_anew(dut):
    bench = Bench(dut, pace=PACES["randomly"])
    await start(dut)
    for vector in range(VECTORS):
        await bench.aim(vector)
        await bench.unmask(vector)
    bench.rate = 0.1 / VECTORS
    for _ in range(60):
        vector = random.randrange(VECTORS)
        await bench.mask(vector)
        await bench.settle()
        bench.masked.add(vector)
        await ClockCycles(dut.clk, random.randrange(60))
        await bench.aim(vector)
        owed = bool([cycle for cycle in bench.owed[vector] if cycle < bench.cycle])
        if owed:
            assert vector in await bench.pending()
        await bench.unmask(vector)
    await bench.quiet()
    assert not any(bench.owed.values()), bench.owed


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_masked_function_sends_nothing_and_loses_nothing(dut):
    bench = Bench(dut)
    await start(dut)
    for vector in range(VECTORS):
        await bench.aim(vector)
        await bench.unmask(vector)
    dut.function_mask.value = 1
    await ClockCycles(dut.clk, 4)
    bench.rate = 0.3
    await ClockCycles(dut.clk, 100)
    bench.rate = 0.0
    await ClockCycles(dut.clk, 4)
    assert bench.sent == []
    assert await bench.pending() == set(range(VECTORS))
    dut.function_mask.value = 0
    await bench.quiet()
    assert sorted(bench.sent) == list(range(VECTORS))
    assert await bench.pending() == set()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def interrupts_without_msix_are_lost(dut):
    bench = Bench(dut)
    await start(dut)
    for vector in range(VECTORS):
        await bench.aim(vector)
        await bench.unmask(vector)
    dut.enable.value = 0
    bench.rate = 0.3
    await ClockCycles(dut.clk, 100)
    await bench.quiet()
    dut.enable.value = 1
    await bench.quiet()
    assert bench.sent == []
    assert await bench.pending() == set()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_table_reads_back_and_has_an_end(dut):
    bench = Bench(dut)
    await start(dut)
    assert [await bench.read(16 * vector + MASK) for vector in range(VECTORS)] == [1] * VECTORS
    for vector in range(VECTORS):
        await bench.aim(vector)
    await bench.unmask(0)
    for (address, data), vector in bench.targets.items():
        words = [await bench.read(16 * vector + 4 * word) for word in range(4)]
        assert words == [address & 0xFFFF_FFFF, address >> 32, data, int(vector != 0)]
    for offset in (16 * VECTORS, MSIX_PBA_OFFSET, MSIX_PBA_OFFSET + 8, 4092):
        await bench.write(offset, 0xFFFF_FFFF)
        assert await bench.read(offset) == 0, hex(offset)
    await reset(dut)
    assert [await bench.read(16 * vector + MASK) for vector in range(VECTORS)] == [1] * VECTORS
