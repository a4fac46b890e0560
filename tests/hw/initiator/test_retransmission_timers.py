# amaranth: UnusedElaboratable=no
"""The clock of every PDC, on its own: when it is over, when it runs, and when it is early."""

import pytest
from amoeba_hw.initiator.retransmission_timers import _CYCLES, RetransmissionTimers

from tests.support.simulation import simulate

TIMEOUT = 200


class TimersBench:
    """RetransmissionTimers with settings, and what it says: (cycle, event, peer)."""

    EVENTS = ("expired", "given_up", "released")

    def __init__(self, peers, limit, **options):
        self.dut = RetransmissionTimers(peers, **options)
        self.limit = limit
        self.round = 2 * peers
        self.cycle = 0
        self.seen = []

    async def prepare(self, ctx, unanswered):
        ctx.set(self.dut.settings.timeout, TIMEOUT)
        ctx.set(self.dut.settings.limit, self.limit)
        ctx.set(self.dut.unanswered, unanswered)

    async def run(self, ctx, cycles):
        for _ in range(cycles):
            for event in self.EVENTS:
                if ctx.get(getattr(self.dut, event)):
                    self.seen.append((self.cycle, event, ctx.get(self.dut.peer)))
            await ctx.tick()
            self.cycle += 1


@pytest.mark.parametrize("limit", [3, 7])
@pytest.mark.parametrize("peers", [1, 2, 8])
def test_timeouts_double_five_times_at_most_until_one_too_many(peers, limit):
    bench = TimersBench(peers, limit=limit)
    waits = [TIMEOUT * factor for factor in (1, 2, 4, 8, 16, 32, 32, 32)[: limit + 1]]

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=1)
        await bench.run(ctx, sum(waits) + 20 * bench.round)

    simulate(bench.dut, testbench)
    events = [event for _, event, peer in bench.seen if peer == 0]
    assert events[: limit + 1] == ["expired"] * limit + ["given_up"]
    begun = 0
    for wait, (cycle, _, _) in zip(waits, bench.seen, strict=False):
        assert wait <= cycle - begun <= wait + 2 * bench.round
        begun = cycle


def test_the_longest_timeout_there_is_has_space():
    """Registers have 32 bits of it, and it is doubled five times."""
    assert len(RetransmissionTimers(2).settings.timeout) + 5 == _CYCLES


def test_an_answer_begins_the_timeout_anew_and_sending_again_holds_it():
    bench = TimersBench(4, limit=8)
    dut = bench.dut

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=0b0110)
        await bench.run(ctx, TIMEOUT + 2 * bench.round)
        assert sorted(peer for _, _, peer in bench.seen) == [1, 2]
        ctx.set(dut.alive, 1)
        ctx.set(dut.alive_peer, 2)
        await bench.run(ctx, 1)
        ctx.set(dut.alive, 0)
        ctx.set(dut.sending_again, 0b0010)
        heard = bench.cycle
        bench.seen.clear()
        await bench.run(ctx, TIMEOUT + 2 * bench.round)
        ((cycle, event, peer),) = bench.seen
        assert (event, peer) == ("expired", 2)
        assert cycle - heard >= TIMEOUT
        ctx.set(dut.unanswered, 0b0010)
        await bench.run(ctx, 5 * TIMEOUT)
        assert len(bench.seen) == 1
        ctx.set(dut.sending_again, 0)
        ended = bench.cycle
        await bench.run(ctx, 2 * TIMEOUT + 2 * bench.round)
        cycle, event, peer = bench.seen[1]
        # It has doubled once.
        assert (event, peer) == ("expired", 1)
        assert 2 * TIMEOUT - 2 * bench.round <= cycle - ended <= 2 * TIMEOUT + 2 * bench.round

    simulate(dut, testbench)


def waits_of(bench, begun, expected):
    """Checks that so many timeouts came that long after each other."""
    assert [event for _, event, _ in bench.seen] == ["expired"] * len(expected)
    for (cycle, _, _), wait in zip(bench.seen, expected, strict=True):
        assert wait - bench.round <= cycle - begun <= wait + 2 * bench.round
        begun = cycle


@pytest.mark.parametrize("becomes", ["before it begins", "while it sends again"])
def test_after_a_loss_the_first_timeout_is_early_and_not_counted(becomes):
    bench = TimersBench(2, limit=2)
    dut = bench.dut

    async def testbench(ctx):
        ctx.set(dut.cautious, int(becomes == "before it begins"))
        await bench.prepare(ctx, unanswered=1)
        for _ in range(2):
            if becomes == "while it sends again":
                ctx.set(dut.cautious, 0)
                await answer(bench, ctx)
                await bench.run(ctx, TIMEOUT // 2)
                ctx.set(dut.cautious, 1)
                ctx.set(dut.sending_again, 1)
                await bench.run(ctx, 2 * bench.round)
                ctx.set(dut.sending_again, 0)
            begun = bench.cycle
            await bench.run(ctx, TIMEOUT // 4 + TIMEOUT + 2 * TIMEOUT + 5 * bench.round)
            waits_of(bench, begun, [TIMEOUT // 4, TIMEOUT, 2 * TIMEOUT])
            bench.seen.clear()
            await answer(bench, ctx)
        begun = bench.cycle
        await bench.run(ctx, 8 * TIMEOUT)

    simulate(dut, testbench)
    # Two that are counted, as without.
    assert [event for _, event, _ in bench.seen][:4] == ["expired"] * 3 + ["given_up"]


def test_an_answer_before_its_turn_puts_off_the_early_timeout_alone():
    bench = TimersBench(2, limit=8)
    dut = bench.dut

    async def notes(ctx, count):
        for _ in range(count):
            ctx.set(dut.noted, 1)
            await bench.run(ctx, 1)
            ctx.set(dut.noted, 0)
            await bench.run(ctx, TIMEOUT // 4 - 2 * bench.round)

    async def testbench(ctx):
        ctx.set(dut.cautious, 1)
        await bench.prepare(ctx, unanswered=1)
        ctx.set(dut.noted_peer, 1)
        await notes(ctx, 2)
        ((early, _, _),) = bench.seen
        assert early <= TIMEOUT // 4 + 2 * bench.round
        await answer(bench, ctx)
        bench.seen.clear()
        ctx.set(dut.noted_peer, 0)
        await notes(ctx, 9)
        assert not bench.seen
        begun = bench.cycle
        while not bench.seen:
            await bench.run(ctx, 1)
            assert bench.cycle - begun <= TIMEOUT // 4 + 2 * bench.round
        bench.seen.clear()
        begun = bench.cycle
        await notes(ctx, 9)
        ((cycle, event, _),) = bench.seen
        assert (event, TIMEOUT <= cycle - begun + bench.round <= TIMEOUT + 3 * bench.round) == ("expired", True)

    simulate(dut, testbench)


def test_a_hold_off_takes_a_quarter_of_the_timeout_and_is_no_timeout():
    bench = TimersBench(2, limit=0)
    dut = bench.dut

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=1)
        for _ in range(5):
            bench.seen.clear()
            ctx.set(dut.hold, 1)
            await bench.run(ctx, 1)
            ctx.set(dut.hold, 0)
            ctx.set(dut.held, 1)
            begun = bench.cycle
            while not bench.seen:
                assert bench.cycle - begun <= TIMEOUT // 4 + 2 * bench.round
                await bench.run(ctx, 1)
            ((cycle, event, peer),) = bench.seen
            assert (event, peer) == ("released", 0)
            assert cycle - begun >= TIMEOUT // 4 - 1
            ctx.set(dut.held, 0)
            await bench.run(ctx, TIMEOUT // 2)

    simulate(dut, testbench)


async def hold_off(bench, ctx, without_pdc=0):
    """A hold-off of peer 0, from its NACK to its end, or to where the PDC is given up instead."""
    dut, before = bench.dut, len(bench.seen)
    ctx.set(dut.hold, 1)
    ctx.set(dut.without_pdc, without_pdc)
    await bench.run(ctx, 1)
    ctx.set(dut.hold, 0)
    ctx.set(dut.held, 1)
    while len(bench.seen) == before:
        await bench.run(ctx, 1)
    ctx.set(dut.held, 0)
    (ended,) = bench.seen[before:]
    return ended[1]


async def answer(bench, ctx):
    ctx.set(bench.dut.alive, 1)
    await bench.run(ctx, 1)
    ctx.set(bench.dut.alive, 0)


@pytest.mark.parametrize("limit", [0, 2])
def test_a_pdc_fails_after_too_many_refusals_in_a_row(limit):
    bench = TimersBench(2, limit, pdc_refusals=4)
    dut, most = bench.dut, 4 * (limit + 1)

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=1)
        for ends in ("answer", "other", "opened", None):
            for _ in range(most):
                assert await hold_off(bench, ctx, without_pdc=1) == "released"
                await bench.run(ctx, TIMEOUT // 4)  # until it is refused again
            if ends == "answer":
                await answer(bench, ctx)
            elif ends == "other":
                assert await hold_off(bench, ctx) == "released"
            elif ends == "opened":
                ctx.set(dut.opened, 1)
                await bench.run(ctx, 1)
                ctx.set(dut.opened, 0)
        assert ctx.get(dut.refused) == 0
        assert await hold_off(bench, ctx, without_pdc=1) == "given_up"
        await bench.run(ctx, 1)
        assert ctx.get(dut.refused) == 1
        ctx.set(dut.failed, 1)
        await bench.run(ctx, 3 * bench.round)
        ctx.set(dut.failed, 0)
        ctx.set(dut.opened, 1)
        await bench.run(ctx, 1)
        ctx.set(dut.opened, 0)
        await bench.run(ctx, 1)
        assert ctx.get(dut.refused) == 0
        assert await hold_off(bench, ctx, without_pdc=1) == "released"

    simulate(dut, testbench)
    assert {peer for _, _, peer in bench.seen} == {0}


@pytest.mark.parametrize("answers", [False, True])
def test_a_hold_off_makes_up_for_four_timeouts_and_an_answer_for_all(answers):
    """A peer that is dead is not kept alive by a NACK now and then."""
    bench = TimersBench(2, limit=7)
    dut, events = bench.dut, []

    async def timeouts(ctx, count):
        """So many, the first of which is not doubled."""
        bench.seen.clear()
        begun = bench.cycle
        while len(bench.seen) < count and "given_up" not in [event for _, event, _ in bench.seen]:
            await bench.run(ctx, 1)
        for number, (cycle, event, _) in enumerate(bench.seen):
            begun, waited = cycle, cycle - begun
            wait = TIMEOUT << min(number, 5)
            assert wait - bench.round <= waited <= wait + 3 * bench.round
            events.append(event)
        bench.seen.clear()

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=1)
        await timeouts(ctx, 6)
        for _ in range(3 if answers else 2):
            if answers:
                await answer(bench, ctx)
            else:
                assert await hold_off(bench, ctx) == "released"
            await timeouts(ctx, 5)

    simulate(dut, testbench)
    # 6, then 6 - 4 + 5 = 7, and behind the next hold-off the fifth, the eighth, is one too many.
    assert events == ["expired"] * (21 if answers else 6 + 5 + 4) + ([] if answers else ["given_up"])


@pytest.mark.parametrize("state", ["idle", "waiting", "held", "sending_again"])
def test_who_is_told_to_fail_is_given_up_within_a_round_and_has_not_timed_out(state):
    bench = TimersBench(4, limit=8)
    dut = bench.dut

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=0 if state == "idle" else 0b0100)
        if state in ("held", "sending_again"):
            ctx.set(getattr(dut, state), 0b0100)
        for offset in range(2 * bench.round):
            await bench.run(ctx, 3 * bench.round + offset)
            bench.seen.clear()
            ctx.set(dut.fail, 1)
            ctx.set(dut.fail_peer, 2)
            await bench.run(ctx, 1)
            ctx.set(dut.fail, 0)
            begun = bench.cycle
            while not bench.seen:
                assert bench.cycle - begun <= bench.round
                assert not ctx.get(dut.count_timeouts)
                await bench.run(ctx, 1)
            assert [(event, peer) for _, event, peer in bench.seen] == [("given_up", 2)]
            # The Retransmitter remembers it, and forgets it when the entry is stored anew.
            ctx.set(dut.failed, 0b0100)
            await bench.run(ctx, 2 * bench.round)
            ctx.set(dut.failed, 0)
            ctx.set(dut.opened, 1)
            ctx.set(dut.opened_peer, 2)
            await bench.run(ctx, 1)
            ctx.set(dut.opened, 0)
            assert len(bench.seen) == 1

    simulate(dut, testbench)


def test_failed_pdcs_are_flushed_while_packets_are_unanswered():
    bench = TimersBench(4, limit=8)
    dut = bench.dut

    async def testbench(ctx):
        await bench.prepare(ctx, unanswered=0b1010)
        ctx.set(dut.failed, 0b1100)
        await bench.run(ctx, 3 * bench.round)
        assert ctx.get(dut.flushes.valid)
        assert ctx.get(dut.flushes.payload.peer) == 3
        ctx.set(dut.unanswered, 0)
        ctx.set(dut.flushes.ready, 1)
        await bench.run(ctx, 1)
        for _ in range(3 * bench.round):
            assert not ctx.get(dut.flushes.valid)
            await bench.run(ctx, 1)

    simulate(dut, testbench)
