"""Random programs of honest work, hostile peers and contexts, bad links and resets, all at once.

The rules (:mod:`tests.support.hostile_programs`): honest requests end within their bound, in order, with the
data that they had to find; honest memory is what was asked for; beside every region nothing has changed, and no
access of an honest context was refused; each frame that came to a NIC is counted by what became of it, once. A
program that fails prints the command that repeats it; with ``--shrink`` that looks for the
shortest part of it that fails.
"""

import re
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import replace

import pytest
from amoeba_model.grants import MemoryGrants
from amoeba_model.nic import checker, responses
from amoeba_model.nic.completion import ResultOrder
from amoeba_model.nic.frames import FrameReceiver
from amoeba_model.nic.memory import MemoryEngine
from amoeba_model.nic.pdc import Duplicate, PdcTable
from amoeba_model.registers import Counter
from amoeba_model.switch import Switch
from amoeba_model.trace import NO_CONTEXT

from tests.support.hostile_programs import ACTIONS, Report, make_program, parse, run, shrink
from tests.support.push_back import LOSSLESS, TAIL_DROP

LENGTH = 200
SWITCHES: dict[str, Switch | None] = {"wires": None, "pause": LOSSLESS, "drop": TAIL_DROP}
RTL = ("rtl,model", "model,rtl", "rtl,rtl")


def run_all(kinds: str, seeds: range, switch: Switch | None = None, *, small: bool = False) -> list[Report]:
    names = kinds.split(",")
    return [run(names, seed, make_program(seed, LENGTH), switch=switch, small=small) for seed in seeds]


def assert_was_hostile(reports: list[Report]) -> None:
    """Together, the programs met what they are about."""
    counters: Tally[Counter] = sum((report.counters for report in reports), Tally())
    for counter in (
        Counter.RETRANSMISSIONS, Counter.DUPLICATES, Counter.DROPPED_CHECK, Counter.DROPPED_MALFORMED,
        Counter.DROPPED_PDC, Counter.DROPPED_SEQUENCE, Counter.DROPPED_RESPONSE, Counter.REFUSED_REQUESTS,
        Counter.ERROR_COMPLETIONS, Counter.FAILED_PDCS, Counter.NACKS_RECEIVED,
    ):  # fmt: skip
        assert counters[counter] > 0, counter.name
    assert sum(report.refused for report in reports) > 0
    assert sum(report.cut_short for report in reports) > 0


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize(("nics", "small", "count"), [(2, False, 6), (2, True, 10), (3, True, 6)])
def test_honest_work_is_done_whatever_others_do(nics: int, small: bool, count: int, switch: str) -> None:
    start = 1000 * (list(SWITCHES).index(switch) + 1)
    kinds = ",".join(["model"] * nics)
    assert_was_hostile(run_all(kinds, range(start, start + count), SWITCHES[switch], small=small))


@pytest.mark.long
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize(("nics", "small", "count"), [(2, False, 60), (2, True, 80), (3, True, 40)])
def test_honest_work_is_done_in_many_programs(nics: int, small: bool, count: int, switch: str) -> None:
    start = 10_000 * (list(SWITCHES).index(switch) + 1)
    kinds = ",".join(["model"] * nics)
    assert_was_hostile(run_all(kinds, range(start, start + count), SWITCHES[switch], small=small))


@pytest.mark.parametrize("kinds", RTL)
def test_rtl_does_honest_work_and_leaves_the_same_memory_as_models(kinds: str) -> None:
    seeds = range(50, 54)
    reports = run_all(kinds, seeds, small=True)
    assert_was_hostile(reports)
    models = run_all("model,model", seeds, small=True)
    for seed, report, model in zip(seeds, reports, models, strict=True):
        assert report.memory == model.memory, f"{kinds}, seed {seed}: other memory than models leave"


@pytest.mark.long
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("kinds", [*RTL, "rtl,model,rtl"])
def test_rtl_leaves_the_same_memory_as_models_in_many_programs(kinds: str, switch: str) -> None:
    start = 20_000 * (list(SWITCHES).index(switch) + 1)
    assert_was_hostile(run_all(kinds, range(start, start + 12), SWITCHES[switch], small=True))


# The programs themselves


def test_a_program_depends_on_nothing_but_its_seed() -> None:
    program = make_program(7, LENGTH)
    assert program == make_program(7, LENGTH) != make_program(8, LENGTH)
    assert parse(" ".join(map(str, program))) == program
    assert {action.kind for seed in range(20) for action in make_program(seed, LENGTH)} == set(ACTIONS)
    first, again = (run(["model", "model"], 7, program, small=True) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("where", "name", "instead", "seeds", "message"),
    [
        (responses, "_is_meant", lambda _: lambda *_: True, 6,
         "found what is not there|ended with|memory"),
        (MemoryGrants, "locate", lambda original: lambda self, address, size, write, context: _anybody_s(
            original, self, address, size, write), 6, "memory|found|bytes beside|never posted"),
        (FrameReceiver, "receive", lambda original: lambda self, frame, cycle: _uncounted(
            original, self, frame, cycle), 3, "NIC"),
        (PdcTable, "accept", lambda original: lambda self, *packet: _done_again(original(self, *packet)), 3,
         "memory|found|ended with|NIC"),
        (checker, "_locate", lambda original: lambda key, offset, length: key.base + offset % (1 << 40), 20,
         "bytes beside|nobody hostile"),
        (ResultOrder, "conclude", lambda original: lambda self, peer, packet, cycle: (
            None if packet.psn % 16 == 9 else original(self, peer, packet, cycle)), 3, "in flight|was to end before"),
        (MemoryEngine, "execute", lambda original: lambda self, request, pdc, psn, cycle: original(
            self, request if psn % 32 != 5 else replace(request, address=request.address + 64), pdc, psn, cycle), 3,
         "memory|found|bytes beside"),
    ],
    ids=["an answer of any message and job", "a context that reaches others' memory", "a drop that is not counted",
         "a packet that is executed twice", "a region without an end", "a completion that is left out",
         "data in the wrong place"],
)  # fmt: skip
def test_a_program_notices(
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    instead: Callable[..., Callable[..., object]],
    seeds: int,
    message: str,
) -> None:
    """Each of these faults was put into the model; the first seeds find it, and say how to see it again."""
    monkeypatch.setattr(where, name, instead(getattr(where, name)))
    for seed in range(1, 1 + seeds):
        error = _run(seed)
        if error is not None:
            assert re.search(message, str(error)), error
            assert f"--seed {seed} --small" in error.__notes__[0]
            return
    pytest.fail(f"{seeds} programs noticed nothing")


def _run(seed: int) -> AssertionError | None:
    try:
        run(["model", "model"], seed, make_program(seed, LENGTH), small=True)
    except AssertionError as error:
        return error
    return None


def _anybody_s(original: Callable[..., object], grants: MemoryGrants, address: int, size: int, write: bool) -> object:
    """As if every grant let in every context."""
    for context in (0, 1, 2, 3, NO_CONTEXT):
        found = original(grants, address, size, write, context)
        if found is not None:
            return found
    return None


def _uncounted(original: Callable[..., object], receiver: FrameReceiver, frame: bytes, cycle: int) -> object:
    before = receiver._core.counters[Counter.DROPPED_CHECK]
    decoded = original(receiver, frame, cycle)
    receiver._core.counters[Counter.DROPPED_CHECK] = before
    return decoded


def _done_again(place: object) -> object:
    return place.pdc if isinstance(place, Duplicate) else place


def test_a_program_that_fails_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    instead = FrameReceiver.receive
    monkeypatch.setattr(FrameReceiver, "receive", lambda *arguments: _uncounted(instead, *arguments))
    program = shrink(["model", "model"], 1, make_program(1, 60), small=True)
    assert len(program) <= 4
    with pytest.raises(AssertionError):
        run(["model", "model"], 1, program, small=True)
