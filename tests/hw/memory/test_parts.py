"""Parts of the memory engine whose exact cycles the engine's own tests do not tell apart.

Covers ``memory/finish_line.py`` and ``memory/operations.py``.
"""

import random

from amaranth.sim import Simulator
from amoeba_hw.memory.finish_line import FinishLine

LEAST, MAX_EXTRA = 4, 16


def random_starts(r, cycles):
    """For each cycle, whether a request's last operation is issued, whether it writes, what it takes on top."""
    often = r.choice((0.1, 0.5, 0.9))
    return [
        (r.random() < often, r.getrandbits(1), r.choice((0, 0, 5, MAX_EXTRA, r.randrange(MAX_EXTRA + 1))))
        for _ in range(cycles)
    ]


def ends_in_order(starts):
    """By cycle in which a request ends: whether it writes. One after the other, each as early as it can."""
    ends = {}
    for cycle, (start, writes, extra) in enumerate(starts):
        if start:
            ends[max([cycle + LEAST + extra, *(end + 1 for end in list(ends)[-1:])])] = writes
    return ends


def test_requests_end_in_order_each_as_soon_as_its_operation_and_the_one_before_it_allow():
    for seed in range(5):
        starts = random_starts(random.Random(seed), 400)
        ends = ends_in_order(starts)
        dut = FinishLine(LEAST, MAX_EXTRA)

        async def testbench(ctx, dut=dut, starts=starts, ends=ends, seed=seed):
            for cycle, (start, writes, extra) in enumerate(starts + [(0, 0, 0)] * 2 * MAX_EXTRA):
                ctx.set(dut.start, int(start))
                ctx.set(dut.writes, writes)
                ctx.set(dut.extra, extra)
                told = f"seed {seed}, cycle {cycle}"
                assert ctx.get(dut.finished) == (cycle in ends), told
                assert ctx.get(dut.finished_writes) == ends.get(cycle, 0), told
                await ctx.tick()

        simulator = Simulator(dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        simulator.run()
