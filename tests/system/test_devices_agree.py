"""One driver program, every pair of devices: the same memory, results, completions and frames."""

import contextlib
from functools import cache

import pytest
from support.pairs import PAIRS

from .programs import Outcome, Session, random_program


def run(kinds: str, program_seed: int, operations: int, **rtl: float) -> Outcome:
    with contextlib.ExitStack() as exits:
        session = Session(kinds, exits, **rtl)
        random_program(session, program_seed, operations)
        return session.finish()


@cache
def expected(seed: int, operations: int) -> Outcome:
    return run("model,model", seed, operations)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kinds", PAIRS[1:])
def test_a_random_program_does_the_same_on_rtl_and_model(kinds, seed):
    reference = expected(seed, 150)
    outcome = run(kinds, seed, 150)
    assert outcome.faults == []
    assert outcome.completions == reference.completions
    assert outcome.results == reference.results
    assert outcome.memory == reference.memory
    assert outcome.counters == reference.counters
    assert len(outcome.frames) == len(reference.frames)
    for ours, theirs in zip(outcome.frames, reference.frames, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("seed", [4, 5])
def test_stalls_on_every_bus_change_nothing(seed):
    reference = expected(seed, 100)
    outcome = run("rtl,rtl", seed, 100, stall=0.3, seed=seed, host_latency=40)
    assert outcome == reference
