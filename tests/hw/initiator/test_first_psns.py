# amaranth: UnusedElaboratable=no
"""Where PDCs begin anew, as hardware and model say."""

import random

import pytest
from amoeba_hw.initiator.first_psns import FirstPsns
from amoeba_model.nic.first_psns import DISTANCE, first_psn

from tests.support.simulation import simulate

CYCLES = 28


@pytest.mark.parametrize("seed", range(3))
def test_a_pdc_begins_anew_where_the_model_says(seed):
    dut = FirstPsns(128)
    rng = random.Random(seed)

    async def testbench(ctx):
        for _ in range(20):
            key, pdc = tuple(rng.getrandbits(32) for _ in range(3)), rng.randrange(128)
            psn = rng.choice([rng.getrandbits(32), 0, 0xFFFF_FFFF])
            ctx.set(dut.key, key[0] << 64 | key[1] << 32 | key[2])
            ctx.set(dut.pdc, pdc)
            ctx.set(dut.psn, psn)
            if rng.random() < 0.3:
                # Somebody who gives up, at any moment, leaves nothing behind.
                ctx.set(dut.run, 1)
                await ctx.tick().repeat(rng.randint(1, CYCLES + 3))
                ctx.set(dut.run, 0)
                await ctx.tick()
            ctx.set(dut.run, 1)
            for _ in range(CYCLES):
                assert not ctx.get(dut.done)
                await ctx.tick()
            for _ in range(rng.randint(1, 5)):
                assert ctx.get(dut.done)
                assert ctx.get(dut.first) == first_psn(key, pdc, psn)
                await ctx.tick()
            ctx.set(dut.run, 0)
            await ctx.tick()

    simulate(dut, testbench)


@pytest.mark.parametrize("distance", [0, 1, DISTANCE - 1, DISTANCE, 1 << 31, -DISTANCE, -DISTANCE - 1, -1])
def test_a_hash_that_is_too_near_counts_from_the_opposite_side(monkeypatch, distance):
    dut = FirstPsns(2)
    distance %= 1 << 32

    async def testbench(ctx):
        ctx.set(dut.psn, 5)
        ctx.set(dut._high, distance)
        await ctx.tick()
        assert ctx.get(dut.first) == first_psn((0, 0, 0), 0, 5)

    monkeypatch.setattr("amoeba_model.nic.first_psns.encrypt", lambda key, high, low: (distance, 0))
    simulate(dut, testbench)
