"""The pace of the packed writer; what it writes is test_host_ports.py's."""

from amaranth.sim import Simulator
from amoeba_hw.host.packed_writer import PackedWriter


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
