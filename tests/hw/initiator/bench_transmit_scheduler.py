"""Testbench of TransmitScheduler: what it may take, and that it takes all of it.

Parameters: ``contexts``, ``places`` of a context's queue.
"""

import collections
import random

import cocotb
from amoeba_hw.initiator.records import FETCH_COMMAND
from amoeba_hw.interfaces import CONTEXT, RING_INDEX
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from amoeba_sim.payload import pack
from cocotb.triggers import ClockCycles, RisingEdge

CONTEXTS = bench_parameters()["contexts"]
PLACES = bench_parameters()["places"]
PACES = {"always": always, "randomly": lambda: randomly(0.4), "in bursts": lambda: in_bursts(12)}
BASE = 0x1_0000_0FC0


class Bench:
    """A driver that posts and consumes, and a NIC that finishes what was taken."""

    def __init__(self, dut, pace):
        self.dut = dut
        self.doorbells = StreamSource(dut, "doorbells", RING_INDEX, pace=pace())
        self.heads = StreamSource(dut, "completion_heads", RING_INDEX, pace=pace())
        self.commands = StreamSink(dut, "commands", FETCH_COMMAND, pace=pace())
        self.sizes = [(random.randint(0, 6), random.randint(0, 6)) for _ in range(CONTEXTS)]
        self.taken = collections.Counter()
        self.free = {number: 1 << self.sizes[number][1] for number in range(CONTEXTS)}
        """Completion entries that the driver has released."""
        self.order = []
        for pulses in (dut.skipped, dut.ended, dut.left):
            pulses.value = 0
        for number in range(CONTEXTS):
            self.enable(number, 0)
        self.unfinished = [0] * CONTEXTS
        self.unread = [0] * CONTEXTS
        self.consumed = [0] * CONTEXTS

    def enable(self, number, enable=1):
        transmit, completion = self.sizes[number]
        getattr(self.dut, f"registers__{number}").value = pack(
            CONTEXT,
            {
                "enable": enable,
                "transmit_base": BASE + (number << 20),
                "transmit_size": transmit,
                "completion_size": completion,
            },
        )

    def check(self, command, tails):
        """The command continues its ring, within everything that bounds it."""
        number, count = command["context"], command["count"]
        entries = 1 << self.sizes[number][0]
        slot = self.taken[number] % entries
        assert 1 <= count <= 4
        assert command["index"] == self.taken[number] & 0xFFFF
        assert command["address"] == BASE + (number << 20) + 64 * slot
        assert slot + count <= entries
        assert command["address"] % 4096 + 64 * count <= 4096
        self.taken[number] += count
        assert self.taken[number] <= tails[number]
        self.free[number] -= count
        assert self.free[number] >= 0
        self.unfinished[number] += count
        assert self.unfinished[number] <= PLACES
        self.order.append(number)

    async def finish_some(self):
        """Finish descriptors at random: with a completion, which the driver consumes at once or later, or without."""
        while True:
            await RisingEdge(self.dut.clk)
            skipped = ended = left = 0
            for number in range(CONTEXTS):
                if self.unfinished[number] and random.random() < 0.2:
                    self.unfinished[number] -= 1
                    if random.random() < 0.3:
                        ended |= 1 << number
                    else:
                        left |= 1 << number
                    if random.random() < 0.4:
                        skipped |= 1 << number
                        self.free[number] += 1
                    else:
                        self.unread[number] += 1
                if self.unread[number] and random.random() < 0.1:
                    self.consumed[number] += self.unread[number]
                    self.free[number] += self.unread[number]
                    self.unread[number] = 0
                    self.heads.send({"context": number, "index": self.consumed[number] & 0xFFFF})
            self.dut.skipped.value = skipped
            self.dut.ended.value = ended
            self.dut.left.value = left


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def everything_posted_is_taken_within_its_bounds(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    for number in range(CONTEXTS):
        bench.enable(number)
    await ClockCycles(dut.clk, 2)
    finisher = cocotb.start_soon(bench.finish_some())
    tails = collections.Counter()
    for _ in range(3000):
        await RisingEdge(dut.clk)
        if random.random() < 0.05:
            number = random.randrange(CONTEXTS)
            tails[number] += random.randint(1, 9)
            bench.doorbells.send({"context": number, "index": tails[number] & 0xFFFF})
        for command in bench.commands.received:
            bench.check(command, tails)
        bench.commands.received.clear()
    for _ in range(20_000):
        await RisingEdge(dut.clk)
        for command in bench.commands.received:
            bench.check(command, tails)
        bench.commands.received.clear()
        if all(bench.taken[number] == tails[number] for number in range(CONTEXTS)):
            break
    assert bench.taken == tails
    finisher.cancel()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def contexts_with_work_alternate(dut):
    bench = Bench(dut, always)
    bench.sizes = [(8, 8)] * CONTEXTS
    await start(dut)
    for number in range(CONTEXTS):
        bench.enable(number)
    await ClockCycles(dut.clk, 2)
    bench.doorbells.send(*({"context": number, "index": 64} for number in range(CONTEXTS)))
    bench.free = dict.fromkeys(range(CONTEXTS), 256)
    await bench.doorbells.sent()
    await ClockCycles(dut.clk, 40)
    for command in bench.commands.received:
        bench.check(command, dict.fromkeys(range(CONTEXTS), 64))
    turns = bench.order[CONTEXTS:]
    assert len(turns) >= 6
    assert turns[CONTEXTS:] == turns[:-CONTEXTS]
    assert set(turns[:CONTEXTS]) == set(range(CONTEXTS))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def no_more_is_taken_than_the_queue_holds_and_places_come_back_by_fetches(dut):
    bench = Bench(dut, always)
    bench.sizes = [(8, 8)] * CONTEXTS
    await start(dut)
    bench.enable(0)
    await ClockCycles(dut.clk, 2)
    bench.doorbells.send({"context": 0, "index": 100})
    await ClockCycles(dut.clk, 200)
    taken = sum(command["count"] for command in bench.commands.received)
    assert PLACES - 4 < taken <= PLACES
    claimed = taken
    for pulses in [dut.left, dut.ended, dut.left] * 4:
        pulses.value = 1
        await ClockCycles(dut.clk, 1)
        pulses.value = 0
        await ClockCycles(dut.clk, 20)
        claimed -= 1
        if claimed <= PLACES - 4:
            claimed += 4
            taken += 4
        assert sum(command["count"] for command in bench.commands.received) == taken
    # A generation that ends leaves its descriptors in flight: their places are still theirs.
    bench.enable(0, 0)
    await ClockCycles(dut.clk, 2)
    bench.enable(0)
    await ClockCycles(dut.clk, 2)
    bench.doorbells.send({"context": 0, "index": 100})
    await ClockCycles(dut.clk, 20)
    assert sum(command["count"] for command in bench.commands.received) == taken
    before = len(bench.commands.received)
    dut.left.value = dut.ended.value = 1
    await ClockCycles(dut.clk, 2)
    dut.left.value = dut.ended.value = 0
    await ClockCycles(dut.clk, 20)
    # The ring's first entry is the last of its page.
    again = bench.commands.received[before]
    assert (again["index"], again["count"]) == (0, 1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def disabling_a_context_resets_its_indices_and_begins_a_generation(dut):
    bench = Bench(dut, always)
    bench.sizes = [(3, 3)] * CONTEXTS
    await start(dut)
    bench.doorbells.send({"context": 0, "index": 3})
    await ClockCycles(dut.clk, 20)
    assert bench.commands.received == []
    generations = []
    for _ in range(3):
        bench.enable(0)
        await ClockCycles(dut.clk, 2)
        bench.doorbells.send({"context": 0, "index": 1})
        (command,) = await bench.commands.receive(1)
        assert (command["index"], command["count"]) == (0, 1)
        generations.append(command["generation"])
        bench.enable(0, 0)
        await ClockCycles(dut.clk, 2)
    assert len(set(generations)) == 3
