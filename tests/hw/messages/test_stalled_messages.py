# amaranth: UnusedElaboratable=no
"""Stalled messages: each is named when its time is over, and none before, or while anything changes.

Covers ``ages.py``.
"""

import random

from amaranth.sim import Simulator
from amoeba_hw.messages.stalled_messages import StalledMessages

PDCS, LIMIT = 4, 1
TIME = 256 * (LIMIT + 1)
"""Cycles without a timeout, where each turn is one cycle."""


def simulate(bench):
    dut = StalledMessages(PDCS)

    async def prepared(ctx):
        ctx.set(dut.retransmission.timeout, 0)
        ctx.set(dut.retransmission.limit, LIMIT)
        await bench(ctx, dut)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(prepared)
    simulator.run()


def test_a_message_has_stalled_after_its_time_and_at_most_twice_that():
    rng = random.Random(3)

    async def bench(ctx, dut):
        latest, is_open = [0] * PDCS, [False] * PDCS
        told = 0
        for cycle in range(8 * TIME):
            changes = rng.random() < 0.01
            pdc = rng.randrange(PDCS - 1) if rng.random() < 0.9 else PDCS - 1
            ctx.set(dut.changes, changes)
            ctx.set(dut.came, changes)
            ctx.set(dut.pdc, pdc)
            if changes:
                latest[pdc] = cycle
            await ctx.tick()
            if changes:
                is_open[pdc] = True
                ctx.set(dut.open, sum(each << number for number, each in enumerate(is_open)))
            ages = [cycle - begun if each else 0 for begun, each in zip(latest, is_open, strict=True)]
            if ctx.get(dut.has_stalled):
                first = ctx.get(dut.first)
                assert ages[first] >= TIME
                told += 1
                is_open[first] = False
                ctx.set(dut.open, sum(each << number for number, each in enumerate(is_open)))
                ctx.set(dut.changes, 1)
                ctx.set(dut.came, 0)
                await ctx.tick()
                assert not ctx.get(dut.has_stalled)
            elif not changes:
                assert max(ages) <= 2 * TIME + 2 * PDCS
        assert told > 2

    simulate(bench)


def test_the_first_of_several_is_named():
    async def bench(ctx, dut):
        ctx.set(dut.open, 0b1010)
        for _ in range(2 * TIME + 2):
            await ctx.tick()
        assert (ctx.get(dut.has_stalled), ctx.get(dut.first)) == (1, 1)
        ctx.set(dut.open, 0b1000)
        await ctx.tick()
        assert (ctx.get(dut.has_stalled), ctx.get(dut.first)) == (1, 3)

    simulate(bench)
