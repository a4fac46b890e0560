"""Testbench of RingWriter: entries of several rings, laps, interrupts, and rings that are disabled in between.

Parameters: ``width``, ``contexts``, ``entry_size``.
"""

import random
from collections import Counter

import cocotb
from amoeba_hw.host.ring_writer import RING, ring_entry
from amoeba_hw.interfaces import RING_INDEX, write_beat
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, start
from amoeba_sim.payload import pack
from cocotb.triggers import ClockCycles, RisingEdge

PARAMETERS = bench_parameters()
WIDTH, CONTEXTS, SIZE = PARAMETERS["width"], PARAMETERS["contexts"], PARAMETERS["entry_size"]
LINE = WIDTH // 8
BEATS = max(1, SIZE // LINE)
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(9)}
PHASE = 1 << (8 * SIZE - 1)


class Bench:
    """The writer, its rings and the bytes that it wrote."""

    def __init__(self, dut, pace=always, sink_pace=always):
        self.dut = dut
        self.entries = StreamSource(dut, "entries", ring_entry(SIZE), pace=pace())
        self.arms = StreamSource(dut, "arms", RING_INDEX)
        self.writes = StreamSink(dut, "writes", write_beat(WIDTH), pace=sink_pace())
        self.rings = [(0x1_0000_0000 * (number + 1) - SIZE * number, number) for number in range(CONTEXTS)]
        self.interrupts = Counter()
        self.enable(range(CONTEXTS))
        cocotb.start_soon(self._watch())

    def enable(self, numbers):
        for number, (base, size) in enumerate(self.rings):
            ring = {"enable": int(number in numbers), "base": base, "size": size}
            getattr(self.dut, f"rings__{number}").value = pack(RING, ring)

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            pulses = int(self.dut.interrupts.value)
            assert pulses & (pulses - 1) == 0
            for number in range(CONTEXTS):
                self.interrupts[number] += pulses >> number & 1

    async def burst(self):
        """Context, address and content of the next burst; every byte of the entry is written, and no other."""
        beats = await self.writes.receive(BEATS)
        assert [(beat["first"], beat["last"], beat["beats"]) for beat in beats] == [
            (int(number == 0), int(number == BEATS - 1), BEATS) for number in range(BEATS)
        ]
        line = b"".join(beat["data"].to_bytes(LINE, "little") for beat in beats)
        strobe = sum(beat["strobe"] << number * LINE for number, beat in enumerate(beats))
        skip = (strobe & -strobe).bit_length() - 1
        assert strobe == (1 << SIZE) - 1 << skip
        content = int.from_bytes(line[skip : skip + SIZE], "little")
        return beats[0]["context"], beats[0]["address"] + skip, content


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), sink_pace=list(PACES))
async def entries_go_round_their_ring_and_change_phase_each_lap(dut, pace, sink_pace):
    bench = Bench(dut, PACES[pace], PACES[sink_pace])
    await start(dut)
    sent = []
    for _ in range(80):
        context, content = random.randrange(CONTEXTS), random.getrandbits(8 * SIZE)
        bench.entries.send({"context": context, "data": content})
        sent.append((context, content))
    indices = Counter()
    for context, content in sent:
        base, size = bench.rings[context]
        index = indices[context]
        indices[context] += 1
        phase = 0 if index >> size & 1 else PHASE
        assert await bench.burst() == (context, base + index % (1 << size) * SIZE, content & ~PHASE | phase)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def an_entry_takes_its_beats_and_one_cycle(dut):
    bench = Bench(dut)
    await start(dut)
    bench.entries.send(*({"context": 0, "data": number} for number in range(20)))
    cycles = 0
    while len(bench.writes.received) < 20 * BEATS:
        await RisingEdge(dut.clk)
        cycles += 1
    assert 20 * (BEATS + 1) <= cycles <= 20 * (BEATS + 1) + 3


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def rings_interrupt_once_where_they_are_armed(dut):
    bench = Bench(dut)
    await start(dut)
    # Several at once, for what was not written yet, and for what was.
    bench.arms.send(*({"context": number, "index": number % 2} for number in range(CONTEXTS)))
    for turn in range(4):
        bench.entries.send(*({"context": number, "data": 0} for number in range(CONTEXTS)))
        await ClockCycles(dut.clk, CONTEXTS * (BEATS + 2) + 10)
        assert +bench.interrupts == {n: 1 for n in range(CONTEXTS) if turn >= n % 2}
    bench.arms.send(*({"context": number, "index": 3} for number in range(CONTEXTS)))
    await ClockCycles(dut.clk, 10)
    assert bench.interrupts == dict.fromkeys(range(CONTEXTS), 2)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_ring_disabled_in_mid_burst_begins_anew(dut):
    bench = Bench(dut, sink_pace=lambda: iter(lambda: False, None))
    await start(dut)
    bench.arms.send({"context": 1, "index": 0})
    bench.entries.send({"context": 1, "data": 5})
    await ClockCycles(dut.clk, 10)
    bench.enable([])
    await ClockCycles(dut.clk, 2)
    bench.enable(range(CONTEXTS))
    bench.writes._pace = always()
    base, _ = bench.rings[1]
    assert await bench.burst() == (1, base, 5 | PHASE)
    await ClockCycles(dut.clk, 5)
    assert +bench.interrupts == {}
    bench.entries.send({"context": 1, "data": 6})
    assert await bench.burst() == (1, base, 6 | PHASE)
