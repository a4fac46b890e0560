# amaranth: UnusedElaboratable=no
"""Records of packets and of gaps between their answers, each component on its own.

Covers ``initiator/packet_log.py``.
"""

import random

import pytest
from amoeba_hw.initiator.answer_gaps import AnswerGaps
from amoeba_hw.initiator.packet_log import PacketLog

from tests.support.simulation import simulate


def test_the_log_answers_answers_first_and_keeps_pdcs_and_psns_apart():
    dut = PacketLog(4, 8, shape=64)
    rng = random.Random(7)
    psns = [(peer, (0xFFFF_FFFC + number) & 0xFFFF_FFFF) for peer in range(4) for number in range(8)]
    rng.shuffle(psns)
    content = {place: rng.getrandbits(64) for place in psns}

    async def testbench(ctx):
        for (peer, psn), entry in content.items():
            for name, value in (("write_peer", peer), ("write_psn", psn), ("write_entry", entry), ("write", 1)):
                ctx.set(getattr(dut, name), value)
            await ctx.tick()
        ctx.set(dut.write, 0)
        for _ in range(200):
            answer, resend, answers = rng.choice(psns), rng.choice(psns), rng.getrandbits(1)
            ctx.set(dut.answer_read, answers)
            for name, place in (("answer", answer), ("resend", resend)):
                ctx.set(getattr(dut, f"{name}_peer"), place[0])
                ctx.set(getattr(dut, f"{name}_psn"), place[1])
            assert ctx.get(dut.resend_granted) == 1 - answers
            await ctx.tick()
            assert ctx.get(dut.entry) == content[answer if answers else resend]

    simulate(dut, testbench)


def test_the_log_notes_an_answer_until_another_packet_has_the_place():
    dut = PacketLog(4, 8, shape=64)
    rng = random.Random(11)
    noted = {}

    async def testbench(ctx):
        for number in range(600):
            place, asked = ((rng.randrange(4), rng.randrange(8)) for _ in range(2))
            is_new, notes = rng.random() < 0.3, rng.random() < 0.3
            again = rng.random() < 0.3
            for name, value in (("write_peer", place[0]), ("write_psn", 800 + 8 * number + place[1])):
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.write, is_new or again)
            ctx.set(dut.write_new, is_new)
            target, status = (rng.randrange(4), rng.randrange(8)), rng.getrandbits(8)
            for name, value in (("peer", target[0]), ("psn", target[1]), ("status", status)):
                ctx.set(getattr(dut, f"note_{name}"), value)
            assert ctx.get(dut.note_granted) == (not is_new)
            notes &= not is_new
            ctx.set(dut.note, notes)
            ctx.set(dut.answer_read, 1)
            ctx.set(dut.answer_peer, asked[0])
            ctx.set(dut.answer_psn, asked[1])
            expected = noted.get(asked, (0, 0))
            await ctx.tick()
            changed = (is_new and asked == place) or (notes and asked == target)
            if number > 100 and not changed and asked in noted:
                assert (ctx.get(dut.noted.noted), ctx.get(dut.noted.status)) == expected, number
            if is_new:
                noted[place] = 0, 0
            if notes:
                noted[target] = 1, status

    simulate(dut, testbench)


# AnswerGaps


@pytest.mark.parametrize("seed", range(2))
def test_gaps_are_asked_about_and_filled_once_as_the_model_has_it(seed):
    """One PDC that is always in hand, and another that must not be touched by it."""
    rng = random.Random(seed)
    dut = AnswerGaps(2)
    mask, half = 0xFFFF_FFFF, 1 << 31
    seen = {"asks": 0, "fills": 0}

    def later(psn, other):
        return psn if other is None or (other - psn) & mask >= half else other

    async def load(ctx, peer):
        ctx.set(dut.look_up, peer)
        await ctx.tick()
        ctx.set(dut.peer, peer)
        ctx.set(dut.load, 1)
        await ctx.tick()
        ctx.set(dut.load, 0)

    async def testbench(ctx):
        oldest = {peer: rng.choice([mask - 20, 5, half - 9]) for peer in range(2)}
        asked, filled, kept = ({0: None, 1: None} for _ in range(3))
        for _ in range(800):
            peer, event = rng.randrange(2), rng.choice("aaaakkkkkkkfffetor")
            await load(ctx, peer)
            psn = (oldest[peer] + rng.randrange(12)) & mask
            missing = rng.randrange(1, 7)
            ctx.set(dut.oldest, oldest[peer])
            ctx.set(dut.psn, psn)
            ctx.set(dut.missing, missing)
            assert ctx.get(dut.has_kept) == (kept[peer] is not None), f"seed {seed}"
            follows = kept[peer] is not None and kept[peer] != (oldest[peer] + 1) & mask
            assert ctx.get(dut.continues) == follows, f"seed {seed}"
            first = later(oldest[peer], asked[peer])
            asks = 0 < (psn - first) & mask < half
            if asks:
                assert ctx.get(dut.first_asked) == first, f"seed {seed}"
            assert ctx.get(dut.asks) == asks, f"seed {seed}"
            begin, end = later(psn, filled[peer]), (psn + missing) & mask
            fills = 0 < (end - begin) & mask < half
            assert ctx.get(dut.fills) == fills, f"seed {seed}"
            if fills:
                assert (ctx.get(dut.first_filled), ctx.get(dut.filled_end)) == (begin, end), f"seed {seed}"
            pulse = {"a": "answered", "k": "kept", "f": "filled", "e": "expired", "t": "expired", "o": "opened",
                     "r": "forget"}[event]  # fmt: skip
            for name in ("expired_peer", "opened_peer"):
                ctx.set(getattr(dut, name), peer)
            ctx.set(getattr(dut, pulse), 1)
            await ctx.tick()
            ctx.set(getattr(dut, pulse), 0)
            if event == "a":
                oldest[peer] = (oldest[peer] + 1) & mask
                for ends in (asked, filled, kept):
                    ends[peer] = None if ends[peer] == oldest[peer] else ends[peer]
            elif event == "k":
                behind = (psn + 1) & mask
                seen["asks"] += asks
                asked[peer] = behind if (psn - first) & mask < half else asked[peer]
                kept[peer] = later(behind, kept[peer])
            elif event == "f" and fills:
                seen["fills"] += 1
                filled[peer] = end
            elif event in "etor":
                asked[peer] = filled[peer] = None
                if event in "or":
                    kept[peer] = None

    simulate(dut, testbench)
    assert min(seen.values()) > 20
