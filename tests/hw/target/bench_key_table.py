"""Testbench of KeyTable: lookups while the driver stores and invalidates, against the model's KeyTable.

Parameter: ``keys``.
"""

import random
from collections import deque
from itertools import pairwise
from types import SimpleNamespace

import cocotb
from amoeba_hw.interfaces import KEY_STORE
from amoeba_hw.request_records import LOCATED_REQUEST, SEQUENCED_REQUEST
from amoeba_model.nic.tables import KeyTable
from amoeba_model.registers import KEY_PROBES, key_slots
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from cocotb.triggers import ClockCycles, RisingEdge

KEYS = bench_parameters()["keys"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
VALID = 1


class Announcer(StreamSource):
    """Requests whose keys are said before they come, in each of the cycles before with probability ``rate``."""

    def __init__(self, dut, pace, rate):
        self._dut, self._rate = dut, rate
        self._keys = deque()
        super().__init__(dut, "requests", SEQUENCED_REQUEST, pace=pace)

    def send(self, *payloads):
        self._keys.extend(payload["header"].get("memory_key", 0) for payload in payloads)
        super().send(*payloads)

    async def _run(self):
        offering = False
        while True:
            await RisingEdge(self._clk)
            if self._rst.value:
                offering = False
                self._waiting.clear()
                self._keys.clear()
            elif offering and self._ready.value:
                offering = False
                self._waiting.popleft()
                self._keys.popleft()
            if not offering:
                offering = bool(self._waiting) and next(self._pace)
                self._payload.value = self._waiting[0] if offering else random.getrandbits(self._width)
                self._valid.value = offering
            says = len(self._keys) > offering and random.random() < self._rate
            self._dut.ahead.value = says
            self._dut.ahead_key.value = self._keys[offering] if says else random.getrandbits(64)
            if not self._waiting:
                self._idle.set()


class Bench:
    def __init__(self, dut, pace=always, sink_pace=always, ahead=0.5):
        self.dut = dut
        self.stores = StreamSource(dut, "stores", KEY_STORE, pace=pace())
        self.requests = Announcer(dut, pace(), ahead)
        self.located = StreamSink(dut, "located", LOCATED_REQUEST, pace=sink_pace())
        self.model = KeyTable(KEYS)

    def store(self, slot, key, flags=VALID):
        entry = {"key": key, "base": random.getrandbits(64), "length": key, "domain": key & 0xFF, "flags": flags}
        entry |= {"read_counter": random.getrandbits(8), "write_counter": random.getrandbits(8)}
        self.stores.send({"slot": slot, "entry": entry})
        self.model.store(slot, SimpleNamespace(**entry))

    def look_up(self, key, **fields):
        self.requests.send({"header": {"memory_key": key}} | fields)

    async def found(self, count):
        """The entries that the next lookups found; None for those that found none."""
        located = await self.located.receive(count)
        return [result["entry"] if result["found"] else None for result in located]


def fields(entry):
    return None if entry is None else vars(entry)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def a_key_is_found_in_the_first_of_its_slots_that_has_it(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    # Few places for many keys; some share their first slot, or its high bits are elsewhere in the key.
    keys = [random.getrandbits(64) for _ in range(12)] + [key << 16 for key in range(8)]
    for _ in range(12):
        for _ in range(10):
            key = random.choice(keys)
            slot = random.choice([*key_slots(key, KEYS), random.randrange(KEYS), KEYS, 0xFFFF])
            bench.store(slot, key, random.choice([0, VALID, VALID, 0xFF, 0xFE]))
        await bench.stores.sent()
        asked = [random.choice([*keys, random.getrandbits(64)]) for _ in range(20)]
        for key in asked:
            bench.look_up(key)
        assert await bench.found(20) == [fields(bench.model.find(key)) for key in asked]


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def an_entry_that_changes_under_a_lookup_is_seen_whole_old_or_new(dut):
    bench = Bench(dut)
    await start(dut)
    await ClockCycles(dut.clk, KEYS + 2)
    key = 0x1234_5678_9ABC
    slot = list(key_slots(key, KEYS))[-1]
    history = []
    for _ in range(200):
        number = len(history)
        history.append(
            dict.fromkeys(("read_counter", "write_counter"), number)
            | {"key": key, "base": number, "length": number, "domain": 7, "flags": VALID}
        )
        if random.random() < 0.3:
            history[-1]["flags"] = 0
        bench.look_up(key)
        bench.stores.send({"slot": slot, "entry": history[-1]})
        await ClockCycles(dut.clk, random.randint(1, 2 * KEY_PROBES))
    whole = [entry for entry in history if entry["flags"]] + [None]
    found = await bench.found(200)
    assert all(entry in whole for entry in found)
    order = [entry["base"] for entry in found if entry]
    assert order == sorted(order)
    assert None in found
    assert len(set(order)) > 50
    # After the last store has been taken nothing older is found.
    bench.look_up(key)
    assert await bench.found(1) == [history[-1] if history[-1]["flags"] else None]


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(ahead=[False, True])
async def a_lookup_takes_a_cycle_per_slot_and_one_more_unless_its_key_was_known_ahead(dut, ahead):
    bench = Bench(dut, ahead=int(ahead))
    await start(dut)
    await ClockCycles(dut.clk, KEYS + 2)
    key = 77
    probes = list(key_slots(key, KEYS))
    for place in (0, len(probes) // 2, len(probes) - 1):
        for slot in probes:
            bench.store(slot, key, VALID if slot == probes[place] else 0)
        await bench.stores.sent()
        for _ in range(10):
            bench.look_up(key)
        arrivals, cycle = [], 0
        while len(arrivals) < 10:
            await RisingEdge(dut.clk)
            cycle += 1
            if dut.located__valid.value and dut.located__ready.value:
                arrivals.append(cycle)
        assert [b - a for a, b in pairwise(arrivals)] == [place + (1 if ahead else 2)] * 9
        await bench.found(10)
    # What is not executed anyway does not wait for a key.
    bench.look_up(1, dropped=1)
    bench.look_up(1, header={"is_control": 1})
    messages = (5, 6, 9, 0xA, 0xD, 0xE)
    for opcode in messages:
        bench.look_up(key, header={"memory_key": key, "opcode": opcode})
    for _ in range(2 + len(messages)):
        while not (dut.located__valid.value and dut.located__ready.value):
            await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
    assert await bench.found(2 + len(messages)) == [None] * (2 + len(messages))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_empties_every_slot_also_before_it_is_cleared(dut):
    bench = Bench(dut)
    await start(dut)
    for wait in (0, 1, KEYS // 2, KEYS + 5):
        for slot in range(KEYS):
            bench.store(slot, slot)
        await bench.stores.sent()
        await reset(dut)
        bench.model = KeyTable(KEYS)
        await ClockCycles(dut.clk, wait)
        for key in range(KEYS - 1, KEYS - 4, -1):
            bench.look_up(key)
        assert await bench.found(3) == [None] * 3
        # Nothing stored meanwhile is lost.
        bench.store(KEYS - 1, KEYS - 1)
        await bench.stores.sent()
        bench.look_up(KEYS - 1)
        assert await bench.found(1) == [fields(bench.model.find(KEYS - 1))]
