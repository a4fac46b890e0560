# amaranth: UnusedElaboratable=no
"""The memory of a node behind AXI4: against plain bytes, with random bursts, delays and accesses outside it."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator
from amoeba_hw.boards.block_memory import BlockMemory
from amoeba_hw.host.axi import OKAY, SLVERR

SIZE = 3 * 4096
INCR = 1


class Port:
    """Drives AXI4 at a random pace, and checks its rules for the memory's channels.

    AXI A3.2.1: members stay from valid to ready. A3.4.1: as many beats as the address says, the last one marked.
    """

    def __init__(self, width=128, pace=1.0, seed=1):
        self.dut = BlockMemory(width, SIZE)
        self.width, self.bytes = width, width // 8
        self.random = random.Random(seed)
        self.pace = pace
        self.sends = {"aw": deque(), "w": deque(), "ar": deque()}
        self.taken = {"b": [], "r": []}

    def _sender(self, name):
        async def send(ctx):
            await self._send(ctx, name)

        return send

    def _taker(self, name, members):
        async def take(ctx):
            await self._take(ctx, name, members)

        return take

    async def _send(self, ctx, name):
        bus = self.dut.bus
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        while True:
            if not self.sends[name] or self.random.random() >= self.pace:
                await ctx.tick()
                continue
            for member, value in self.sends[name].popleft().items():
                ctx.set(getattr(bus, f"{name}{member}"), value)
            ctx.set(valid, 1)
            await ctx.tick().until(ready)
            ctx.set(valid, 0)

    async def _take(self, ctx, name, members):
        bus = self.dut.bus
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        signals = [getattr(bus, f"{name}{member}") for member in members]
        offered = None
        while True:
            acts = self.random.random() < self.pace
            ctx.set(ready, acts)
            _, _, is_valid, *values = await ctx.tick().sample(valid, *signals)
            if is_valid:
                assert offered in (None, values), f"{name} changed before its transfer"
                offered = None if acts else values
                if acts:
                    self.taken[name].append(dict(zip(members, values, strict=True)))
            else:
                assert offered is None, f"{name}valid fell before its transfer"

    def read(self, address, beats, *, size=None, burst=INCR):
        size = (self.bytes - 1).bit_length() if size is None else size
        self.sends["ar"].append({"addr": address, "len": beats - 1, "size": size, "burst": burst})

    def write(self, address, lines, strobes=None, *, size=None, burst=INCR):
        size = (self.bytes - 1).bit_length() if size is None else size
        self.sends["aw"].append({"addr": address, "len": len(lines) - 1, "size": size, "burst": burst})
        for index, line in enumerate(lines):
            strobe = (1 << self.bytes) - 1 if strobes is None else strobes[index]
            self.sends["w"].append({"data": line, "strb": strobe, "last": index == len(lines) - 1})

    def run(self, scene):
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        for name in self.sends:
            simulator.add_testbench(self._sender(name), background=True)
        for name, members in (("b", ["resp"]), ("r", ["data", "resp", "last"])):
            simulator.add_testbench(self._taker(name, members), background=True)

        async def bench(ctx):
            await scene(ctx, self)

        simulator.add_testbench(bench)
        simulator.run()


async def until(ctx, condition):
    for _ in range(20_000):
        if condition():
            return
        await ctx.tick()
    raise AssertionError("no end after 20,000 cycles")


@pytest.mark.parametrize("width", [128, 512])
@pytest.mark.parametrize("pace", [1.0, 0.4])
def test_random_bursts_read_and_write_what_plain_bytes_would(width, pace):
    content = bytearray(SIZE)

    async def scene(ctx, port):
        for _ in range(60):
            page = port.random.randrange(SIZE // 4096 + 1)  # one page lies outside
            line = port.random.randrange(4096 // port.bytes)
            beats = port.random.randint(1, min(4096 // port.bytes - line, 12))
            address = 4096 * page + line * port.bytes
            inside = address < SIZE
            before = {name: len(taken) for name, taken in port.taken.items()}
            if port.random.random() < 0.5:
                lines = [port.random.getrandbits(width) for _ in range(beats)]
                strobes = [port.random.getrandbits(port.bytes) for _ in range(beats)]
                port.write(address, lines, strobes)
                await until(ctx, lambda before=before: len(port.taken["b"]) > before["b"])
                assert port.taken["b"][-1]["resp"] == (OKAY if inside else SLVERR)
                for index, (data, strobe) in enumerate(zip(lines, strobes, strict=True)):
                    for byte in range(port.bytes):
                        if inside and strobe >> byte & 1:
                            content[address + index * port.bytes + byte] = data >> 8 * byte & 0xFF
            else:
                port.read(address, beats)
                await until(ctx, lambda before=before, beats=beats: len(port.taken["r"]) == before["r"] + beats)
                for index, beat in enumerate(port.taken["r"][before["r"] :]):
                    start = address + index * port.bytes
                    right = int.from_bytes(content[start : start + port.bytes], "little") if inside else 0
                    expected = {"data": right, "resp": OKAY if inside else SLVERR, "last": index == beats - 1}
                    assert beat == expected

    Port(width, pace).run(scene)


def test_bursts_in_a_row_take_a_beat_a_cycle():
    async def scene(ctx, port):
        for index in range(20):
            port.write(64 * index, [index] * 4)
            port.read(64 * index, 4)
        cycles = 0
        while len(port.taken["r"]) < 80 or len(port.taken["b"]) < 20:
            await ctx.tick()
            cycles += 1
        assert cycles <= 80 + 8
        assert len(port.taken["r"]) == 80

    Port().run(scene)


OUTSIDE = {
    "behind the memory": {"address": SIZE},
    "far behind it, where the low bits lie inside": {"address": 1 << 40},
    "at the end of the address space": {"address": (1 << 64) - 16},
    "over the end of a page": {"address": 4096 - 16},
    "over the end of the memory": {"address": SIZE - 16},
    "between two lines": {"address": 24},
    "of narrow beats": {"address": 0, "size": 2},
    "at one address": {"address": 0, "burst": 0},
    "that wraps": {"address": 0, "burst": 2},
}


@pytest.mark.parametrize("access", OUTSIDE.values(), ids=OUTSIDE)
def test_an_access_that_the_memory_cannot_serve_is_an_error_and_changes_nothing(access):
    wrong = dict(access)
    address = wrong.pop("address")
    lines = [(1 << 128) - 1] * 2

    async def scene(ctx, port):
        port.write(address, lines, **wrong)
        await until(ctx, lambda: port.taken["b"])
        port.read(address, 2, **wrong)
        await until(ctx, lambda: len(port.taken["r"]) == 2)
        assert [beat["resp"] for beat in port.taken["b"]] == [SLVERR]
        assert port.taken["r"] == [{"data": 0, "resp": SLVERR, "last": last} for last in (0, 1)]
        for page in range(0, SIZE, 4096):
            port.read(page, 256)
        await until(ctx, lambda: len(port.taken["r"]) == 2 + SIZE // 16)
        assert {(beat["data"], beat["resp"]) for beat in port.taken["r"][2:]} == {(0, OKAY)}

    Port().run(scene)


@pytest.mark.parametrize("size", [0, -4096, 4097, 128])
def test_sizes_that_are_not_whole_pages_are_refused(size):
    with pytest.raises(ValueError, match=f"Expected a multiple of 4096 bytes as size, got {size}"):
        BlockMemory(128, size)
