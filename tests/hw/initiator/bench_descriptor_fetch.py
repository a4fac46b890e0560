"""Testbench of DescriptorFetch against the bytes of a ring in memory. Parameters: ``data_width``, ``depth``."""

import random

import cocotb
from amoeba_hw.initiator.records import DESCRIPTOR, FETCH_COMMAND
from amoeba_hw.interfaces import READ_REQUEST, read_beat
from amoeba_model.descriptors import TX_DESCRIPTOR
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly, reset, start
from amoeba_sim.payload import unpack
from cocotb.triggers import ClockCycles

WIDTH = bench_parameters()["data_width"]
DEPTH = bench_parameters()["depth"]
PACES = {"always": always, "randomly": lambda: randomly(0.5), "in bursts": lambda: in_bursts(12)}


class Bench:
    """Commands in, reads answered from ``ring``: a dictionary from address to descriptor; absent ones are refused."""

    def __init__(self, dut, pace, descriptor_pace=None):
        self.dut = dut
        self.ring = {}
        self.contexts = {}
        """The context of each command, by the address of its first descriptor."""
        self.outstanding = 0
        self.commands = StreamSource(dut, "commands", FETCH_COMMAND, pace=pace())
        self.reads = StreamSink(dut, "reads", READ_REQUEST, pace=pace())
        self.answers = StreamSource(dut, "answers", read_beat(WIDTH), pace=pace())
        self.descriptors = StreamSink(dut, "descriptors", DESCRIPTOR, pace=descriptor_pace or pace())
        cocotb.start_soon(self._serve())

    async def _serve(self):
        while True:
            (request,) = await self.reads.receive(1)
            assert request["context"] == self.contexts[request["address"]]
            parts = [self.ring.get(request["address"] + i) for i in range(0, request["length"], 64)]
            refused = None in parts
            content = b"".join(part or random.randbytes(64) for part in parts)
            size = WIDTH // 8
            beats = [
                {
                    "data": int.from_bytes(content[i : i + size], "little"),
                    "last": i + size == len(content),
                    "error": 0,
                }
                for i in range(0, len(content), size)
            ]
            if refused:
                random.choice(beats)["error"] = 1
            await ClockCycles(self.dut.clk, random.randint(1, 20))
            self.answers.send(*beats)

    def command(self):
        """Queue one command; returns the descriptors that must come of it."""
        count = random.randint(1, 4)
        command = {
            "context": random.randint(0, 255),
            "generation": random.randint(0, 15),
            "index": random.getrandbits(16),
            "count": count,
            "address": random.getrandbits(52) << 12,
        }
        self.contexts[command["address"]] = command["context"]
        refused = random.random() < 0.15
        contents = [random.randbytes(64) for _ in range(count)]
        if not refused:
            self.ring.update((command["address"] + 64 * i, content) for i, content in enumerate(contents))
        self.commands.send(command)
        return [
            {
                "context": command["context"],
                "generation": command["generation"],
                "index": command["index"] + i & 0xFFFF,
                "error": refused,
                "fields": None if refused else TX_DESCRIPTOR.unpack(content),
            }
            for i, content in enumerate(contents)
        ]

    async def check(self, expected):
        for wanted in expected:
            (descriptor,) = await self.descriptors.receive(1)
            if wanted["error"]:
                descriptor["fields"] = None
            assert descriptor == wanted


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def descriptors_come_in_order_and_refused_ones_say_so(dut, pace):
    bench = Bench(dut, PACES[pace])
    await start(dut)
    expected = [descriptor for _ in range(80) for descriptor in bench.command()]
    await bench.check(expected)
    await ClockCycles(dut.clk, 30)
    assert bench.descriptors.received == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def no_more_is_asked_for_than_there_is_space_for(dut):
    accepting = []
    bench = Bench(dut, always, descriptor_pace=iter(lambda: bool(accepting), None))
    await start(dut)
    expected = [descriptor for _ in range(DEPTH) for descriptor in bench.command()]
    asked = 0
    for _ in range(30 * DEPTH):
        await ClockCycles(dut.clk, 1)
        if dut.reads__valid.value and dut.reads__ready.value:
            asked += unpack(READ_REQUEST, int(dut.reads__payload.value))["length"] >> 6
        assert dut.answers__ready.value
    assert DEPTH - 4 < asked <= DEPTH
    accepting.append(True)
    await bench.check(expected)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_in_mid_traffic_forgets_everything(dut):
    bench = Bench(dut, PACES["randomly"])
    await start(dut)
    for _ in range(10):
        for _ in range(8):
            bench.command()
        await ClockCycles(dut.clk, random.randint(1, 80))
        # Long enough for answers to what was asked before: none may come after the reset.
        await reset(dut, cycles=200)
        bench.reads.received.clear()
        bench.descriptors.received.clear()
        await bench.check([descriptor for _ in range(3) for descriptor in bench.command()])
