# amaranth: UnusedElaboratable=no
"""A NIC without messages lets requests pass where others match messages."""

from amaranth.hdl import Value
from amaranth.lib.wiring import Flow
from amoeba_hw.messages.absent import AbsentMatcher
from amoeba_hw.messages.matcher import Matcher
from amoeba_model.parameters import BUILDS

from tests.support.simulation import simulate

STREAMS = ("receive_tails", "slot_releases", "receive_data")
"""Taken in every cycle, without effect."""


def test_requests_pass_in_order_one_per_cycle_and_wait_for_their_consumer():
    dut = AbsentMatcher(BUILDS["node"])
    count, seen = 40, []

    async def producer(ctx):
        ctx.set(dut.checked.valid, 1)
        for number in range(count):
            ctx.set(dut.checked.p.memory.psn, number)
            ctx.set(dut.checked.p.answer.message_id, number ^ 0xFF)
            await ctx.tick().until(dut.checked.ready)
        ctx.set(dut.checked.valid, 0)

    async def consumer(ctx):
        for cycle in range(3 * count):
            ctx.set(dut.matched.ready, cycle < 10 or cycle % 3 != 0)
            _, _, valid, ready, psn, message = await ctx.tick().sample(
                dut.matched.valid, dut.matched.ready, dut.matched.p.memory.psn, dut.matched.p.answer.message_id
            )
            if valid and ready:
                assert message == psn ^ 0xFF
                seen.append(psn)
                assert cycle >= 10 or psn == cycle - 1  # one per cycle, a cycle late

    simulate(dut, producer, consumer)
    assert seen == list(range(count))


def test_nothing_comes_of_doorbells_and_events():
    dut = AbsentMatcher(BUILDS["node"])
    passing = ("matched",)
    outputs = [name for name, member in dut.signature.members.items() if member.flow is Flow.Out]

    async def testbench(ctx):
        for name in STREAMS:
            ctx.set(getattr(dut, name).valid, 1)
        for name in ("slot_reserve", "receive_question"):
            ctx.set(getattr(dut, name).valid, 1)
        ctx.set(dut.event_credit, 0b11)
        for _ in range(5):
            assert all(ctx.get(getattr(dut, name).ready) for name in STREAMS)
            await ctx.tick()
            for name in outputs:
                port = getattr(dut, name)
                if name not in passing:
                    assert not ctx.get(port.valid if hasattr(port, "ready") else Value.cast(port)), name

    simulate(dut, testbench)


def test_its_ports_are_those_of_a_matcher():
    assert AbsentMatcher(BUILDS["tiny"]).signature.members == Matcher(BUILDS["tiny"]).signature.members
