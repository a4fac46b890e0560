# amaranth: UnusedElaboratable=no
"""The components that notice loss and send again, each on its own.

Covers ``initiator/answer_order.py``, ``initiator/payload_gate.py``, ``initiator/records.py``,
``initiator/resend_barrier.py`` and ``initiator/window_credits.py``.
"""

import random

import pytest
from amoeba_hw.initiator.answer_order import AnswerOrder
from amoeba_hw.initiator.payload_gate import PayloadGate
from amoeba_hw.initiator.records import RecoveryKind
from amoeba_hw.initiator.resend_barrier import ResendBarrier
from amoeba_hw.initiator.retransmitter import Retransmitter
from amoeba_hw.initiator.window_credits import WindowCredits

from tests.support.simulation import simulate


@pytest.mark.parametrize("seed", range(4))
def test_a_payload_goes_with_its_frame_or_nowhere(seed):
    rng = random.Random(seed)
    dut = PayloadGate(8)
    packets = [[rng.getrandbits(8) for _ in range(rng.randint(1, 4))] for _ in range(100)]
    swallowed = [rng.random() < 0.4 for _ in packets]
    received = []

    async def routes(ctx):
        for swallow in swallowed:
            while rng.random() < 0.3 or not ctx.get(dut.space):
                await ctx.tick()
            ctx.set(dut.route, 1)
            ctx.set(dut.swallow, swallow)
            await ctx.tick()
            ctx.set(dut.route, 0)

    async def source(ctx):
        for packet in packets:
            for index, byte in enumerate(packet):
                ctx.set(dut.i.payload.data, byte)
                ctx.set(dut.i.payload.last, index + 1 == len(packet))
                ctx.set(dut.i.valid, 1)
                await ctx.tick().until(dut.i.ready)
                ctx.set(dut.i.valid, 0)
        for _ in range(5):
            await ctx.tick()

    async def sink(ctx):
        while True:
            ctx.set(dut.o.ready, rng.random() < 0.6)
            _, _, valid, ready, byte = await ctx.tick().sample(dut.o.valid, dut.o.ready, dut.o.payload.data)
            if valid and ready:
                received.append(byte)

    simulate(dut, routes, source, background=[sink])
    kept = [packet for packet, swallow in zip(packets, swallowed, strict=True) if not swallow]
    assert received == [byte for packet in kept for byte in packet]


class RetransmitterBench:
    """A Retransmitter with a peer table whose PDCs have 5 packets from 0xFFFFFFFE on, and a log that tells them."""

    OLDEST, COUNT = 0xFFFF_FFFE, 5

    def __init__(self, seed, pace=1.0):
        self.rng = random.Random(seed)
        self.pace = pace
        self.dut = Retransmitter(4)
        self.sent = []
        self.kept = set()
        """(peer, number) of packets whose answers were kept."""

    async def surroundings(self, ctx):
        dut = self.dut
        ctx.set(dut.settled, -1)
        ctx.set(dut.resend_oldest, self.OLDEST)
        ctx.set(dut.resend_end, (self.OLDEST + self.COUNT) & 0xFFFF_FFFF)
        while True:
            ctx.set(dut.resends.ready, self.rng.random() < self.pace)
            granted = self.rng.random() < self.pace
            ctx.set(dut.log_granted, granted)
            asked = ctx.get(dut.log_peer) << 32 | ctx.get(dut.log_psn)
            packet = dut.resends.payload
            _, _, valid, ready, psn, address = await ctx.tick().sample(
                dut.resends.valid, dut.resends.ready, packet.psn, packet.remote_address
            )
            number = (asked - self.OLDEST) & 0xFFFF_FFFF
            ctx.set(dut.log_noted, (asked >> 32, number) in self.kept if granted else self.rng.getrandbits(1))
            # The log's answer counts in the next cycle only.
            ctx.set(dut.log_entry.remote_address, asked if granted else self.rng.getrandbits(64))
            if valid and ready:
                assert address & 0xFFFF_FFFF == psn
                self.sent.append((address >> 32, (psn - self.OLDEST) & 0xFFFF_FFFF))

    async def ask(self, ctx, kind, peer, number, end=0):
        dut = self.dut
        psn, end = ((self.OLDEST + each) & 0xFFFF_FFFF for each in (number, end))
        ctx.set(dut.recovery, {"kind": kind, "peer": peer, "psn": psn, "end": end})
        ctx.set(dut.recover, 1)
        await ctx.tick()
        ctx.set(dut.recover, 0)

    async def pulse(self, ctx, name, **peer):
        for signal, value in peer.items():
            ctx.set(getattr(self.dut, signal), value)
        ctx.set(getattr(self.dut, name), 1)
        await ctx.tick()
        ctx.set(getattr(self.dut, name), 0)

    def run(self, testbench):
        simulate(self.dut, testbench, background=[self.surroundings])


@pytest.mark.parametrize("pace", [1.0, 0.4])
def test_pdcs_that_send_again_alternate_to_their_last_packet(pace):
    bench = RetransmitterBench(1, pace)

    async def testbench(ctx):
        await ctx.tick()
        await bench.ask(ctx, RecoveryKind.AT_ONCE, 1, 2)
        await bench.pulse(ctx, "expired", timer_peer=3)
        await ctx.tick().repeat(300)
        assert ctx.get(bench.dut.sending_again) == 0

    bench.run(testbench)
    assert [number for peer, number in bench.sent if peer == 1] == [2, 3, 4]
    assert [number for peer, number in bench.sent if peer == 3] == [0, 1, 2, 3, 4]
    assert [peer for peer, _ in bench.sent[:6]] == [1, 3] * 3


def test_a_gap_makes_a_pdc_go_back_once_until_a_packet_is_answered():
    bench = RetransmitterBench(2)

    async def testbench(ctx):
        await ctx.tick()
        for _ in range(3):
            await bench.ask(ctx, RecoveryKind.AT_ONCE, 0, 3)
            await ctx.tick().repeat(50)
        assert bench.sent == [(0, 3), (0, 4)]
        await bench.pulse(ctx, "answered", answered_peer=0)
        await bench.ask(ctx, RecoveryKind.AT_ONCE, 0, 4)
        await ctx.tick().repeat(50)

    bench.run(testbench)
    assert bench.sent == [(0, 3), (0, 4), (0, 4)]


def test_a_range_is_sent_without_what_was_answered():
    bench = RetransmitterBench(8)
    bench.kept = {(1, 2), (3, 0), (3, 4)}

    async def testbench(ctx):
        await ctx.tick()
        await bench.ask(ctx, RecoveryKind.MISSING, 1, 1, 4)
        await ctx.tick().repeat(60)
        assert bench.sent == [(1, 1), (1, 3)]
        await bench.ask(ctx, RecoveryKind.MISSING, 1, 4, 200)
        await ctx.tick().repeat(60)
        assert bench.sent[2:] == [(1, 4)]
        await bench.ask(ctx, RecoveryKind.MISSING, 1, -3, 0)
        await ctx.tick().repeat(60)
        assert len(bench.sent) == 3
        # The oldest is sent in any case.
        await bench.pulse(ctx, "expired", timer_peer=3)
        await ctx.tick().repeat(60)
        assert ctx.get(bench.dut.sending_again) == 0

    bench.run(testbench)
    assert bench.sent[3:] == [(3, 0), (3, 1), (3, 2), (3, 3)]


def test_ranges_that_are_asked_for_meanwhile_come_behind_as_one():
    bench = RetransmitterBench(9)

    async def testbench(ctx):
        await ctx.tick()
        await bench.ask(ctx, RecoveryKind.MISSING, 0, 1, 3)
        while not bench.sent:
            await ctx.tick()
        await bench.ask(ctx, RecoveryKind.MISSING, 0, 4, 5)
        await ctx.tick()
        await bench.ask(ctx, RecoveryKind.MISSING, 0, 0, 1)
        await ctx.tick().repeat(150)
        assert bench.sent == [(0, number) for number in (1, 2, 0, 1, 2, 3, 4)]
        bench.sent.clear()
        # What a timeout sends includes it.
        await bench.pulse(ctx, "expired", timer_peer=0)
        await bench.ask(ctx, RecoveryKind.MISSING, 0, 3, 4)
        await ctx.tick().repeat(150)
        assert ctx.get(bench.dut.sending_again) == 0

    bench.run(testbench)
    assert bench.sent == [(0, number) for number in range(5)]


def test_a_held_pdc_waits_and_goes_back_to_its_oldest_packet_then():
    bench = RetransmitterBench(3)
    dut = bench.dut

    async def testbench(ctx):
        await ctx.tick()
        await bench.ask(ctx, RecoveryKind.LATER, 2, 3)
        await ctx.tick().repeat(50)
        assert bench.sent == []
        assert ctx.get(dut.held) == 0b0100
        await bench.pulse(ctx, "released", timer_peer=2)
        await ctx.tick().repeat(80)
        assert bench.sent == [(2, number) for number in range(5)]
        bench.sent.clear()
        await bench.ask(ctx, RecoveryKind.LATER, 2, 3)
        await bench.ask(ctx, RecoveryKind.AT_ONCE, 2, 1)
        await bench.pulse(ctx, "released", timer_peer=2)
        await ctx.tick().repeat(80)

    bench.run(testbench)
    assert bench.sent == [(2, number) for number in range(5)]


def test_no_hold_off_begins_before_the_oldest_packet_has_left():
    holds = []
    for waited in range(1, 14):
        bench = RetransmitterBench(3)

        async def testbench(ctx, bench=bench, waited=waited):
            await ctx.tick()
            await bench.ask(ctx, RecoveryKind.LATER, 2, 3)
            await ctx.tick().repeat(20)
            await bench.pulse(ctx, "released", timer_peer=2)
            await ctx.tick().repeat(waited)
            await bench.ask(ctx, RecoveryKind.LATER, 2, 3)
            await ctx.tick().repeat(80)
            holds.append(ctx.get(bench.dut.held) != 0)

        bench.run(testbench)
        assert bench.sent[0] == (2, 0)
        assert (len(bench.sent) < bench.COUNT) == holds[-1]
    # The packet leaves after some cycles, and from then on the PDC is held.
    assert holds == sorted(holds)
    assert not holds[0]
    assert holds[-1]


def test_a_failed_pdc_sends_nothing_until_it_is_opened_anew():
    bench = RetransmitterBench(4)
    dut = bench.dut

    async def testbench(ctx):
        await ctx.tick()
        await bench.ask(ctx, RecoveryKind.FAIL, 1, 0)
        await bench.ask(ctx, RecoveryKind.AT_ONCE, 1, 0)
        await bench.ask(ctx, RecoveryKind.LATER, 1, 0)
        await ctx.tick().repeat(50)
        assert ctx.get(dut.failed) == 0b0010
        assert ctx.get(dut.sending_again | dut.held) == 0
        assert bench.sent == []
        await bench.pulse(ctx, "opened", opened_peer=1)
        await bench.ask(ctx, RecoveryKind.AT_ONCE, 1, 4)
        await ctx.tick().repeat(50)
        assert ctx.get(dut.failed) == 0

    bench.run(testbench)
    assert bench.sent == [(1, 4)]


def test_nothing_is_sent_again_before_every_cut_packet_is_numbered():
    bench = RetransmitterBench(5)
    dut = bench.dut

    async def testbench(ctx):
        await ctx.tick()
        ctx.set(dut.settled, 0b1110)
        await bench.ask(ctx, RecoveryKind.AT_ONCE, 0, 4)
        await ctx.tick().repeat(50)
        assert bench.sent == []
        ctx.set(dut.settled, -1)
        await ctx.tick().repeat(50)

    bench.run(testbench)
    assert bench.sent == [(0, 4)]


def test_what_is_asked_for_and_what_times_out_was_lost_and_what_must_wait_was_not():
    bench = RetransmitterBench(6)
    dut = bench.dut
    lost = []

    async def watch(ctx):
        while True:
            _, _, pulses = await ctx.tick().sample(dut.lost)
            lost.append(pulses)

    async def testbench(ctx):
        await ctx.tick()
        for kind, peer in ((RecoveryKind.AT_ONCE, 1), (RecoveryKind.AT_ONCE, 1), (RecoveryKind.MISSING, 0)):
            await bench.ask(ctx, kind, peer, 2, 3)
            await ctx.tick().repeat(60)
        await bench.pulse(ctx, "expired", timer_peer=3)
        await bench.ask(ctx, RecoveryKind.LATER, 2, 3)
        await ctx.tick().repeat(60)
        await bench.pulse(ctx, "released", timer_peer=2)
        await bench.ask(ctx, RecoveryKind.FAIL, 2, 3)
        await ctx.tick().repeat(60)

    simulate(dut, testbench, background=[bench.surroundings, watch])
    assert [pulses for pulses in lost if pulses] == [0b0010, 0b0001, 0b1000]


# WindowCredits


@pytest.mark.parametrize(("after_loss", "caution"), [(3, 5), (1, 1), (8, 5), (None, 5)])
def test_after_a_loss_there_is_space_for_fewer_packets_until_enough_are_answered(after_loss, caution):
    window, others = 8, 1
    dut = WindowCredits(2, window, 1, after_loss, caution)
    reduced = window if after_loss is None else after_loss
    places = 0

    async def pulse(ctx, *names, **values):
        for name in names:
            ctx.set(getattr(dut, name), 1)
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        await ctx.tick()
        for name in (*names, *values):
            ctx.set(getattr(dut, name), 0)

    async def fill(ctx):
        nonlocal places
        await ctx.tick().repeat(2)
        while ctx.get(dut.space) & 1:
            await pulse(ctx, "cut")
            await pulse(ctx, "numbered")
            await ctx.tick().repeat(2)
            places += 1

    async def testbench(ctx):
        nonlocal places
        await fill(ctx)
        assert places == window
        await pulse(ctx, lost=0b01)
        await ctx.tick()
        assert ctx.get(dut.cautious) == 0b01
        for left in reversed(range(caution)):
            await pulse(ctx, "answered")
            places -= 1
            await fill(ctx)
            assert ctx.get(dut.cautious) == int(left > 0)
            assert places == (max(window - caution + left, min(reduced, window)) if left else window)
            assert ctx.get(dut.space) >> others & 1
        # What is lost in the cycle of an answer counts from there on, and a new PDC has lost nothing.
        await pulse(ctx, "answered", lost=0b11)
        await ctx.tick()
        assert ctx.get(dut.cautious) == 0b11
        await pulse(ctx, "opened")
        await ctx.tick()
        assert ctx.get(dut.cautious) == 0b10

    simulate(dut, testbench)


@pytest.mark.parametrize(("window", "units"), [(256, 2), (1024, 8), (128, 1), (16, 1)])
def test_a_peer_says_how_many_packets_may_be_unanswered(window, units):
    dut = WindowCredits(2, window, 1)

    async def places(ctx):
        """Cut packets until there is no space."""
        count = 0
        ctx.set(dut.cut, 1)
        while count <= window:
            await ctx.tick()
            count += 1
            ctx.set(dut.cut, 0)
            await ctx.tick().repeat(2)
            if not ctx.get(dut.space) & 1:
                return count
            ctx.set(dut.cut, 1)
        return None

    async def pulse(ctx, **values):
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        await ctx.tick()
        for name in values:
            ctx.set(getattr(dut, name), 0)

    async def testbench(ctx):
        unit = min(window, 128)
        await pulse(ctx, opened=1)
        assert await places(ctx) == unit
        # More for one that says so, in an answer, and never more than the window.
        await pulse(ctx, mpr=255)
        await pulse(ctx, numbered=1)
        await pulse(ctx, answered=1, mpr=2, answered_peer=1)
        await pulse(ctx, answered=1)
        await ctx.tick().repeat(2)
        assert await places(ctx) == 1
        for mpr in (255, units, 0):
            await pulse(ctx, numbered=1)
            await pulse(ctx, answered=1, mpr=mpr)
            await ctx.tick().repeat(2)
            assert await places(ctx) == (window - unit + 1 if mpr == 255 else 1)
        await pulse(ctx, numbered=1)
        await pulse(ctx, answered=1, mpr=1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.space) & 1 == (window == unit)

    simulate(dut, testbench)


def test_a_peer_that_takes_the_whole_window_has_it_from_the_start():
    dut = WindowCredits(1, 256, 1)

    async def testbench(ctx):
        for whole in (1, 0):
            ctx.set(dut.opened, 1)
            ctx.set(dut.opened_whole, whole)
            await ctx.tick()
            ctx.set(dut.opened, 0)
            ctx.set(dut.cut, 1)
            await ctx.tick().repeat(128)
            ctx.set(dut.cut, 0)
            await ctx.tick()
            assert ctx.get(dut.space) == whole
            ctx.set(dut.numbered, 1)
            await ctx.tick().repeat(128)
            ctx.set(dut.numbered, 0)

    simulate(dut, testbench)


# ResendBarrier


@pytest.mark.parametrize("seed", range(6))
def test_a_completion_waits_for_what_is_on_its_way_again_and_for_nothing_else(seed):
    dut = ResendBarrier(depth=8)
    chance = random.Random(seed)
    outstanding = 0
    chosen = loaded = 0
    waiting = []
    passed = []

    async def testbench(ctx):
        nonlocal outstanding, chosen, loaded
        number, idle = 0, 0
        for cycle in range(600):
            resending = cycle < 500 and chance.random() < 0.2
            loads = outstanding > 0 and (cycle >= 500 or chance.random() < 0.15)
            ctx.set(dut.resending, resending)
            ctx.set(dut.loaded, loads)
            ctx.set(dut.i.valid, number < 60 and chance.random() < 0.5)
            ctx.set(dut.i.p.status, number)
            ready = chance.random() < 0.7
            ctx.set(dut.o.ready, ready)
            given = ctx.get(dut.o.valid)
            if given:
                assert ctx.get(dut.o.p.status) == waiting[0][0], f"seed {seed}"
                assert loaded >= waiting[0][1], f"seed {seed}: completion before operands were read"
                if ready:
                    passed.append(waiting.pop(0))
            # One that has nothing to wait for is on offer two cycles after it came.
            idle = idle + 1 if waiting and not given and loaded >= waiting[0][1] else 0
            assert idle < 3, f"seed {seed}: a completion is held back for nothing"
            if ctx.get(dut.i.valid) and ctx.get(dut.i.ready):
                waiting.append((number, chosen))
                number += 1
            await ctx.tick()
            chosen, loaded = chosen + resending, loaded + loads
            outstanding += resending - loads
        assert len(passed) == number == 60
        assert chosen > 50

    simulate(dut, testbench)


# AnswerOrder


@pytest.mark.parametrize("nops", [False, True], ids=["answers", "answers and NOPs"])
def test_answers_that_were_decided_have_places_whatever_packets_wait_for(nops):
    dut = AnswerOrder(results=4, completions=16, decided=8)
    taken, given = [], []

    async def testbench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.resending, 1)
        await ctx.tick()
        ctx.set(dut.resending, 0)
        ctx.set(dut.answers.p.completes, 1)
        number = waited = 0
        for _ in range(80):  # nothing leaves
            decides = not ctx.get(dut.crowd)
            ctx.set(dut.answers.p.order.status, number)
            ctx.set(dut.answers.valid, decides or waited > 0)
            ctx.set(dut.nops.valid, nops)
            if ctx.get(dut.answers.valid):
                waited = 0 if ctx.get(dut.answers.ready) else waited + 1
                if not waited:
                    taken.append(number)
                    number += 1
            assert waited < 3, "an answer that was decided waits for packets to leave"
            assert not ctx.get(dut.o.valid)
            await ctx.tick()
        assert ctx.get(dut.crowd)
        assert ctx.get(dut.held)
        assert not ctx.get(dut.nops.ready), "a NOP takes an answer's place"
        ctx.set(dut.answers.valid, 0)
        ctx.set(dut.nops.valid, 0)
        ctx.set(dut.loaded, 1)
        await ctx.tick()
        ctx.set(dut.loaded, 0)
        for _ in range(40):
            if ctx.get(dut.o.valid):
                given.append(ctx.get(dut.o.p.status))
            await ctx.tick()
        assert not ctx.get(dut.crowd)
        assert not ctx.get(dut.held)

    simulate(dut, testbench)
    assert [status for status in given if status] == taken[1:]
    assert len(taken) >= 8 or nops
