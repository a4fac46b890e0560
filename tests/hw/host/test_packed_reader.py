"""The pace of the packed reader and writer; what they read and write is test_host_ports.py's.

Covers ``host/packed_writer.py``.
"""

from collections import deque

import pytest
from amaranth.sim import Simulator
from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter

from tests.hw.host.ordered_writes import WithOrderedWrites


def test_aligned_write_takes_one_line_per_cycle():
    width = 256
    dut, cycles = WithOrderedWrites(PackedWriter, width), []

    async def feed(ctx):
        ctx.set(dut.commands.p, {"address": 0x1000, "length": 1024})
        ctx.set(dut.commands.valid, 1)
        ctx.set(dut.packets.valid, 1)
        ctx.set(dut.packets.p, {"data": 1, "count": 32, "last": 0, "error": 0})
        ctx.set(dut.writes.ready, 1)
        for cycle in range(40):
            _, _, valid, last = await ctx.tick().sample(dut.writes.valid, dut.writes.p.last)
            cycles.append((cycle, valid))
            if valid and last:
                break
        *_, done = await ctx.tick().sample(dut.done)
        assert done

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(feed)
    sim.run()
    assert [cycle for cycle, valid in cycles if valid] == list(range(32))


def packets_read(start, length, count, latency=250):
    """Cycles in which packets of ``length`` bytes end, read 8 KiB apart from a host that gives a line per cycle.

    The second value is the most lines that were asked for and had not come.
    """
    dut, lines, ends, waiting = PackedReader(256), deque(), [], []

    async def ask(ctx):
        ctx.set(dut.commands.valid, 1)
        for index in range(count):
            ctx.set(dut.commands.p, {"address": start + 8192 * index, "length": length})
            await ctx.tick().until(dut.commands.ready)
        ctx.set(dut.commands.valid, 0)

    async def answer(ctx):
        ctx.set(dut.requests.ready, 1)
        ctx.set(dut.packets.ready, 1)
        for cycle in range(latency + 2 * count * (length // 32 + 2)):
            ctx.set(dut.answers.valid, bool(lines) and lines[0] <= cycle)
            _, _, asks, first, size, offered, taken, valid, last = await ctx.tick().sample(
                dut.requests.valid, dut.requests.p.address, dut.requests.p.length,
                dut.answers.valid, dut.answers.ready, dut.packets.valid, dut.packets.p.last,
            )  # fmt: skip
            if asks:
                lines.extend([cycle + latency] * ((first + size - 1) // 32 - first // 32 + 1))
            if offered and taken:
                lines.popleft()
            waiting.append(len(lines))
            if valid and last:
                ends.append(cycle)

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(ask)
    sim.add_testbench(answer)
    sim.run()
    assert len(ends) == count
    return ends, max(waiting)


@pytest.mark.parametrize(
    ("start", "length", "cycles"),
    [
        (0x1000, 4096, 128),
        (0x1FE0, 4096, 128),
        (0x1001, 4096, 129),
        (0x1FFF, 4096, 129),
        (0x1000, 64, 2),
        (0x1000, 8, 1),
        (0x1018, 8, 1),
        (0x1010, 64, 3),
    ],
)
def test_packets_are_read_at_a_line_per_cycle_across_pages_too(start, length, cycles):
    ends, most = packets_read(start, length, 6)
    assert [end - ends[0] for end in ends] == [index * cycles for index in range(6)]
    assert most * 32 >= 6 * length
