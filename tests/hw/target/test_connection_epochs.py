# amaranth: UnusedElaboratable=no
"""Former connections of target PDCs, as hardware and model remember them."""

import random

import pytest
from amoeba_hw.target.connection_epochs import ConnectionEpochs
from amoeba_model.nic import connection_epochs as model

from tests.support.simulation import simulate

PDCS = 4


@pytest.mark.parametrize("seed", range(4))
def test_what_was_proven_is_known_when_its_pdc_is_another_s_as_the_model_knows_it(seed):
    dut = ConnectionEpochs(PDCS)
    rng = random.Random(seed)
    reference = model.ConnectionEpochs(PDCS)
    # So few that they meet again, and in the same places.
    openings = [(rng.getrandbits(32), rng.getrandbits(16), rng.getrandbits(32)) for _ in range(24)]
    places, proven = openings[:PDCS], [False] * PDCS
    found = []

    async def testbench(ctx):
        for _ in range(600):
            number, (ip, spdcid, start) = rng.randrange(PDCS), rng.choice(openings)
            if rng.random() < 0.5:
                passed = rng.random() < 0.6
                proven[number] |= passed
                ctx.set(dut.checked, {"valid": 1, "pdc": number, "passed": passed})
                await ctx.tick()
                ctx.set(dut.checked.valid, 0)
                continue
            ctx.set(dut.epoch_id, {"ip": ip, "spdcid": spdcid, "start": start})
            ctx.set(dut.look, 1)
            await ctx.tick()
            ctx.set(dut.look, 0)
            for _ in range(rng.randrange(3)):
                await ctx.tick()
            found.append(bool(ctx.get(dut.known)))
            assert found[-1] == reference.knows(ip, spdcid, start), f"seed {seed}"
            if not found[-1]:
                ctx.set(dut.former, dict(zip(("ip", "spdcid", "start"), places[number], strict=True)))
                ctx.set(dut.pdc, number)
                ctx.set(dut.opens, 1)
                await ctx.tick()
                ctx.set(dut.opens, 0)
                await ctx.tick()
                if proven[number]:
                    reference.remember(*places[number])
                places[number], proven[number] = (ip, spdcid, start), False

    simulate(dut, testbench)
    assert 20 < sum(found) < len(found) - 20


def test_a_place_has_space_for_one_and_the_model_says_which():
    reference = model.ConnectionEpochs(64)
    names = [(0x0A00_0001 + n % 4, n // 4, 0x1234_0000 + n) for n in range(64)]
    for name in names:
        reference.remember(*name)
    kept = [name for name in names if reference.knows(*name)]
    assert len(kept) > 40
    assert kept[-1] == names[-1]
    assert not any(reference.knows(ip, spdcid, start ^ 1 << 20) for ip, spdcid, start in names)
