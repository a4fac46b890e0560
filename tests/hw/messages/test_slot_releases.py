# amaranth: UnusedElaboratable=no
"""Released slots: each is handed on once, and no context waits for another that releases without end."""

import random

from amaranth.sim import Simulator
from amoeba_hw.messages.slot_releases import SlotReleases

CONTEXTS, SLOTS = 4, 8


def handed_on(releases, cycles):
    """(context, slot) as they come out, in order; ``releases[cycle]``: what the driver writes then."""
    dut = SlotReleases(CONTEXTS, SLOTS)
    seen = []

    async def bench(ctx):
        ctx.set(dut.enabled, (1 << CONTEXTS) - 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(cycles):
            release = releases.get(cycle)
            ctx.set(dut.i.valid, release is not None)
            if release is not None:
                ctx.set(dut.i.p.context, release[0])
                ctx.set(dut.i.p.slot, release[1])
            if ctx.get(dut.o.valid):
                seen.append((ctx.get(dut.o.p.context), ctx.get(dut.o.p.slot)))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return seen


def test_every_slot_that_is_released_is_handed_on_once():
    rng = random.Random(5)
    slots = [(context, slot) for context in range(CONTEXTS) for slot in range(SLOTS)]
    rng.shuffle(slots)
    seen = handed_on(dict(enumerate(slots)), 200)
    assert sorted(seen) == sorted(slots)


def test_contexts_alternate():
    slots = [(context, slot) for slot in range(3) for context in range(CONTEXTS)]
    seen = handed_on(dict(enumerate(slots)), 60)
    assert [context for context, _ in seen] == [0, 1, 2, 3] * 3
    assert sorted(seen) == sorted(slots)


def test_a_context_that_releases_without_end_holds_up_nobody():
    flood = {cycle: (0, cycle % SLOTS) for cycle in range(300)}
    flood[100] = (3, 7)
    seen = handed_on(flood, 300)
    asked = seen.index((3, 7))
    # One every three cycles: at most the one in hand is before it.
    assert asked <= 100 // 3 + 2
    assert len(seen) > 90


def test_what_does_not_exist_is_ignored():
    assert handed_on({0: (CONTEXTS, 0), 1: (0xFF, 3), 2: (0, SLOTS), 3: (1, 2)}, 30) == [(1, 2)]
