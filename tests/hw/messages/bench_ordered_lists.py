"""Testbench of OrderedLists against Python's lists. Parameters: ``lists``, ``places``, ``ways``."""

import random

import cocotb
from amaranth.lib import data
from amoeba_hw.messages.ordered_lists import ListAction, list_command, list_result
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, randomly, start
from cocotb.utils import get_sim_time

ENTRY = data.StructLayout({"tag": 2, "value": 16})
KEY = data.StructLayout({"tag": 2, "ignore": 2})


class Bench:
    """Sends commands one by one and compares each result with what plain lists say."""

    def __init__(self, dut, pace):
        self.dut = dut
        self.lists = bench_parameters()["lists"]
        self.places = bench_parameters()["places"]
        self.commands = StreamSource(dut, "commands", list_command(self.lists, self.places, ENTRY, KEY), pace=pace())
        self.results = StreamSink(dut, "results", list_result(self.places, ENTRY), pace=pace())
        self.entries = [[] for _ in range(self.lists)]
        """Per list, (place, entry), oldest first."""
        self.taken = [set() for _ in range(self.lists)]

    async def do(self, action, number, **fields):
        self.commands.send({"action": action, "list": number, **fields})
        (result,) = await self.results.receive(1)
        return result

    async def find(self, number, key):
        expected = next((found for found in self.entries[number] if self.matches(found[1], key)), None)
        result = await self.do(ListAction.FIND, number, key=key)
        assert bool(result["found"]) == (expected is not None), f"looked for {key}: expected {expected}, got {result}"
        if expected is not None:
            assert (result["index"], result["entry"]) == expected, f"expected {expected}, got {result}"
        return expected

    @staticmethod
    def matches(entry, key):
        return not (entry["tag"] ^ key["tag"]) & ~key["ignore"]

    async def add(self, number):
        """Take a place, and most times put an entry there."""
        action = random.choices([ListAction.APPEND, ListAction.ALLOCATE], [9, 1])[0]
        entry = {"tag": random.getrandbits(2), "value": random.getrandbits(16)}
        result = await self.do(action, number, entry=entry)
        free = sorted(set(range(self.places)) - self.taken[number])
        assert bool(result["found"]) == bool(free), f"expected a place among {free}, got {result}"
        if free:
            assert result["index"] == free[0], f"expected the lowest place of {free}, got {result}"
            self.taken[number].add(free[0])
            if action == ListAction.APPEND:
                self.entries[number].append((free[0], entry))

    async def change(self, number):
        found = await self.find(number, {"tag": random.getrandbits(2), "ignore": random.getrandbits(2)})
        if found is None:
            return
        if random.random() < 0.4:
            entry = {"tag": found[1]["tag"], "value": random.getrandbits(16)}
            await self.do(ListAction.REPLACE, number, entry=entry)
            self.entries[number][self.entries[number].index(found)] = found = (found[0], entry)
        if random.random() < 0.7:
            action = random.choice([ListAction.UNLINK, ListAction.REMOVE])
            await self.do(action, number)
            self.entries[number].remove(found)
            if action == ListAction.REMOVE:
                self.taken[number].remove(found[0])

    async def release(self, number):
        place = random.randrange(self.places)
        await self.do(ListAction.RELEASE, number, index=place)
        if place not in [linked for linked, _ in self.entries[number]]:
            self.taken[number].discard(place)

    async def clear(self, number):
        await self.do(ListAction.CLEAR, number)
        self.entries[number], self.taken[number] = [], set()

    def check_free(self):
        for number in range(self.lists):
            free = int(getattr(self.dut, f"free__{number}").value)
            assert free == self.places - len(self.taken[number]), f"list {number}: {free} places free"


async def random_commands(dut, pace, count):
    bench = Bench(dut, pace)
    await start(dut)
    for _ in range(count):
        step = random.choices([bench.add, bench.change, bench.release, bench.clear], [40, 30, 30, 1])[0]
        await step(random.randrange(bench.lists))
        bench.check_free()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def lists_are_what_plain_lists_are(dut):
    await random_commands(dut, always, 1000)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_slow_user_changes_nothing(dut):
    await random_commands(dut, lambda: randomly(0.5), 300)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_search_takes_a_cycle_for_each_row(dut):
    bench = Bench(dut, always)
    await start(dut)
    durations = []
    for _ in range(bench.places):
        await bench.do(ListAction.APPEND, 0, entry={"tag": 1})
        begin = get_sim_time("ns")
        await bench.do(ListAction.FIND, 0, key={"tag": 2})
        durations.append((get_sim_time("ns") - begin) // 4)
    ways = bench_parameters()["ways"]
    assert [later - durations[0] for later in durations] == [entry // ways for entry in range(bench.places)], (
        durations
    )
