# amaranth: UnusedElaboratable=no
"""Interrupts of several rings: each pulse is raised once, one context at a time."""

import random

import pytest
from amaranth.sim import Simulator
from amoeba_hw.host.interrupts import InterruptMerger

CONTEXTS, SOURCES = 3, 2


def run(asked):
    """Interrupts raised, traced and counted, cycle by cycle, if ``asked[cycle][source]`` is a mask of contexts."""
    dut = InterruptMerger(CONTEXTS, SOURCES)
    seen = []

    async def bench(ctx):
        for masks in [*asked, *[(0,) * SOURCES] * (CONTEXTS * SOURCES + 1)]:
            for source, mask in zip(dut.sources, masks, strict=True):
                ctx.set(source, mask)
            slot = ctx.get(dut.trace_interrupt)
            seen.append((ctx.get(dut.interrupts), slot.valid, slot.event.context, ctx.get(dut.count_interrupts)))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return seen


@pytest.mark.parametrize("context", range(CONTEXTS))
@pytest.mark.parametrize("source", range(SOURCES))
def test_a_pulse_becomes_an_interrupt_one_cycle_later(source, context):
    asked = [tuple((1 << context) * (source == other) for other in range(SOURCES))]
    assert run(asked)[:3] == [(0, 0, 0, 0), (1 << context, 1, context, 1), (0, 0, 0, 0)]


def test_pulses_of_the_same_cycle_are_raised_one_after_the_other():
    raised = [mask for mask, _, _, _ in run([(0b101, 0b111)])]
    assert raised == [0, 0b001, 0b100, 0b001, 0b010, 0b100, 0, 0]


def test_every_pulse_of_a_patient_source_is_raised_traced_and_counted_once():
    rng = random.Random(7)
    asked, free = [], [[0] * CONTEXTS for _ in range(SOURCES)]
    for cycle in range(400):
        masks = []
        for source in range(SOURCES):
            mask = 0
            for context in range(CONTEXTS):
                if free[source][context] <= cycle and rng.random() < 0.1:
                    mask |= 1 << context
                    free[source][context] = cycle + CONTEXTS * SOURCES + 20
            masks.append(mask)
        asked.append(tuple(masks))
    seen = run(asked)
    for context in range(CONTEXTS):
        pulses = sum(mask >> context & 1 for masks in asked for mask in masks)
        assert pulses > 20
        assert sum(mask >> context & 1 for mask, _, _, _ in seen) == pulses
    for mask, valid, context, counted in seen:
        assert (mask != 0) == valid == counted
        assert mask in (0, 1 << context)
