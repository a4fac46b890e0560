# amaranth: UnusedElaboratable=no
"""SequenceRules for an ACK_REQUEST, which asks for an answer again. The proof ``sequence`` has the other rules."""

import random

import pytest
from amaranth.sim import Simulator
from amoeba_hw.target.sequence import SequenceRules
from amoeba_model.wire.uet import NackCode

WINDOW, PSNS = 16, 1 << 32


@pytest.mark.parametrize("closed", [0, 1])
@pytest.mark.parametrize("found", [0, 1])
def test_an_ack_request_changes_nothing_and_hears_whether_its_packet_was_executed(found, closed):
    dut, rng = SequenceRules(WINDOW), random.Random(9)

    async def testbench(ctx):
        for _ in range(200):
            expected = rng.getrandbits(32)
            ahead = rng.choice((0, 1, WINDOW, -1, -2, -WINDOW, rng.randrange(-(1 << 31), 1 << 31)))
            psn = (expected + ahead) % PSNS
            before = {"start": rng.getrandbits(32), "expected": expected, "asked": expected, "closed": closed}
            ctx.set(dut.packet, {"psn": psn, "is_control": 1, "asks": 1, "fits": 1})
            ctx.set(dut.before, before)
            for name in ("available", "has_slot"):
                ctx.set(getattr(dut, name), 1)
            ctx.set(dut.found, found)
            await ctx.delay(1e-9)
            verdict, after = ctx.get(dut.verdict), ctx.get(dut.after)
            assert (verdict.accepted, verdict.opens, verdict.kept) == (0, 0, 0)
            assert {name: after[name] for name in before} == before
            if found and -(1 << 31) <= ahead < 0:
                assert verdict.duplicate
                assert not verdict.nack
                continue
            assert verdict.nack
            assert verdict.nack_psn == psn
            known = found and not closed
            assert verdict.dropped_sequence == known
            assert verdict.dropped_pdc == (not known)
            assert verdict.nack_code == (NackCode.PKT_NOT_RCVD if known else NackCode.INV_DPDCID)

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
