"""Everything at once over links that lose, repeat, overtake and damage a percent of all frames each.

Requests meet a scoreboard (:mod:`tests.support.hostile_links`, :mod:`tests.support.scoreboard`): each is completed
once, in order, within bounded time; each packet is executed once; memory, results and events are those of the
requests one after the other in the order in which the target says it took them; no value of a counter is
fetched twice; every frame is counted once.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.nic.answers import AnswerStore
from amoeba_model.nic.checker import RequestChecker
from amoeba_model.nic.pdc import Duplicate, PdcTable
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.hostile_links import KINDS, ONE_PERCENT, World, run
from tests.support.lossy_bench import Bench
from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair
from tests.support.saboteur import arrives

pytestmark = [pytest.mark.long, pytest.mark.ci]

MakePair = Callable[..., Pair]
OK, BAD_MKEY = ReturnCode.OK, ReturnCode.BAD_MKEY
QUICK = replace(ONE_PERCENT, holdback=150)
"""Nothing is in flight for as long as it takes to close a PDC and open it anew."""


def assert_was_hostile(counters: dict[Counter, int]) -> None:
    """The program met what it is about."""
    for counter in (
        Counter.RETRANSMISSIONS, Counter.TIMEOUTS, Counter.DUPLICATES, Counter.DROPPED_CHECK,
        Counter.DROPPED_MALFORMED, Counter.DROPPED_SEQUENCE, Counter.NACKS_RECEIVED, Counter.DROPPED_RESPONSE,
        Counter.EVENTS,
    ):  # fmt: skip
        assert counters[counter] > 0, counter.name


@pytest.mark.parametrize(("nics", "seed"), [(2, 1), (3, 2), (4, 3)])
def test_a_long_program_happens_once_and_in_order(nics: int, seed: int) -> None:
    counters = run(("model",) * nics, seed, 7000, interference=0.01, closes=False)
    assert_was_hostile(counters)
    assert counters[Counter.FAILED_PDCS] == 0
    assert counters[Counter.REFUSED_REQUESTS] > 0


@pytest.mark.parametrize(("nics", "seed"), [(2, 11), (3, 12)])
def test_a_long_program_that_closes_and_opens_its_pdcs_happens_once_and_in_order(nics: int, seed: int) -> None:
    assert_was_hostile(run(("model",) * nics, seed, 2000, QUICK))


@pytest.mark.parametrize("seed", [21, 22])
def test_where_pdcs_fail_nothing_happens_twice_nor_out_of_order(seed: int) -> None:
    counters = run(("model", "model"), seed, 2000, limit=1, interference=0.02, closes=False)
    assert counters[Counter.FAILED_PDCS] > 5


@pytest.mark.parametrize(("window", "width"), [(1, 128), (4, 512), (32, 256)])
def test_the_size_of_the_window_and_of_the_bus_do_not_matter(window: int, width: int) -> None:
    parameters = NicParameters(window=window, data_width=width)
    counters = run(("model", "model"), window, 1000, closes=False, parameters=parameters)
    assert counters[Counter.RETRANSMISSIONS] > 0


@pytest.mark.parametrize("kinds", PAIRS[1:])
def test_rtl_and_model_bear_hostile_links_together(kinds: str) -> None:
    assert_was_hostile(run(tuple(kinds.split(",")), 34, 500, closes=False))


def test_three_nics_rtl_and_model_bear_hostile_links_together() -> None:
    assert_was_hostile(run(("model", "rtl", "model"), 32, 500, closes=False))


class HostileLinks(RuleBasedStateMachine):
    """Shrinks a program that fails to few requests and little that went wrong."""

    world: World | None = None

    @initialize(seed=st.integers(0, 1 << 16), nics=st.integers(2, 3), evil=st.sampled_from([0.01, 0.05, 0.2]))
    def open(self, seed: int, nics: int, evil: float) -> None:
        links = Impairments(seed, loss=evil, duplication=evil, reordering=evil, corruption=evil, holdback=150)
        self.world = World(("model",) * nics, links)

    @rule(place=st.integers(0, 11), kind=st.sampled_from(KINDS), seed=st.integers(0, 99), count=st.integers(1, 5))
    def post(self, place: int, kind: str, seed: int, count: int) -> None:
        assert self.world is not None
        flow = self.world.flows[place % len(self.world.flows)]
        for number in range(count):
            self.world.post(flow, kind, seed + number)

    @rule(steps=st.integers(1, 60), events=st.booleans())
    def run(self, steps: int, events: bool) -> None:
        assert self.world is not None
        for _ in range(steps):
            self.world.step(events=events)

    @rule(place=st.integers(0, 2), action=st.sampled_from(["cut", "restore", "pause", "resume"]))
    def meddle(self, place: int, action: str) -> None:
        assert self.world is not None
        getattr(self.world.network, action)(self.world.hosts[place % len(self.world.hosts)].device)

    @rule(place=st.integers(0, 2), valid=st.booleans())
    def give_or_take_the_region(self, place: int, valid: bool) -> None:
        assert self.world is not None
        self.world.set_arena_key(self.world.hosts[place % len(self.world.hosts)], valid=valid)

    @invariant()
    def nothing_strays(self) -> None:
        if self.world is not None:
            assert all(host.device.faults() == [] for host in self.world.hosts)

    def teardown(self) -> None:
        if self.world is not None:
            self.world.finish()
            self.world.close()


HostileLinks.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAnyProgram = HostileLinks.TestCase


# A request that outlives its PDC


def test_a_first_packet_that_comes_again_when_its_pdc_was_closed_and_opened_anew_is_not_executed_again(
    make_model_pair: MakePair,
) -> None:
    bench = Bench(make_model_pair())
    kept: list[bytes] = []

    def keep(frame: bytes) -> list[tuple[int, bytes]]:
        kept.append(frame)
        return arrives(frame)

    bench.requests.fate = keep
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    bench.post({"opcode": DescriptorOpcode.CLOSE, "flags": DescriptorFlags.COMPLETION})
    assert bench.statuses(1) == [OK]
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    bench.pair.target.device.deliver(kept[0], 0)  # type: ignore[attr-defined]
    bench.pair.run(20)
    assert bench.region.integer(0) == 2
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]


def test_a_packet_whose_source_address_was_damaged_past_ipv4s_checksum_is_nobodys(make_model_pair: MakePair) -> None:
    """Of short frames with damage, one in 55,000 is such a one: only the packet's CRC tells."""
    bench = Bench(make_model_pair())

    def damage(frame: bytes) -> list[tuple[int, bytes]]:
        bench.requests.fate = arrives
        broken = bytearray(frame)
        broken[29] ^= 1  # the source, from 10.0.0.1 to 10.0.0.0
        broken[19] ^= 1  # the identification, which means nothing here, from 0 to 1: the same checksum
        return [(0, bytes(broken))]

    bench.requests.fate = damage
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    assert bench.region.integer(0) == 1
    assert bench.there(Counter.DROPPED_CHECK) == 1


# The scoreboard itself


@pytest.fixture
def sabotage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type, str, Callable[..., object]], None]]:
    """A function that puts (class, method, what to do with its result) into every model."""

    def put(where: type, name: str, change: Callable[..., object]) -> None:
        original = getattr(where, name)
        monkeypatch.setattr(where, name, lambda self, *args: change(self, original(self, *args), *args))

    return put


@pytest.mark.parametrize(
    ("where", "name", "change", "message"),
    [
        (PdcTable, "accept", lambda _, result, *__: result.pdc if isinstance(result, Duplicate) else result, "twice"),
        (AnswerStore, "data", lambda _, result, *__: result and bytes(len(result)), "wrong data|same value"),
        (RequestChecker, "check", lambda _, result, *__: OK if result == BAD_MKEY else result, "in another"),
    ],
    ids=["duplicates executed", "answers forgotten", "refusals forgotten"],
)
def test_the_scoreboard_notices_a_nic_that_does_it_wrong(sabotage, where, name, change, message) -> None:
    sabotage(where, name, change)
    with pytest.raises(AssertionError, match=message) as raised:
        run(("model", "model"), 41, 1500, interference=0.02, closes=False)
    assert any("again: " in note and "--seed 41" in note for note in raised.value.__notes__)


def test_what_does_not_tell_is_waited_for_though_a_nop_behind_it_tells_first() -> None:
    world = World(("model", "model"), PERFECT)
    flow = world.flows[0]
    silent = next(seed for seed in range(99) if world.post(flow, "close", seed) and not flow.outstanding[-1].signals)
    assert world.post(flow, "nop", silent)
    world.finish()
    world.close()


def test_the_scoreboard_notices_memory_that_nobody_asked_to_change() -> None:
    world = World(("model", "model"), PERFECT)
    world.post(world.flows[0], "ticket", 1)
    world.hosts[0].memory[5000] = bytes([world.hosts[0].memory[5000:5001][0] ^ 1])
    with pytest.raises(AssertionError, match="memory is not what the requests make of it"):
        world.finish()
    world.close()
