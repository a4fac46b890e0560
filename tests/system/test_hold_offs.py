"""NACKs that ask for a hold-off, for packets other than the oldest: packets are sent again, and every request ends.

Found as A1: an initiator that was told to wait for a later packet never sent the oldest one again.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.nic import ModelDevice
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.nacks import FATAL_NACKS, LOSS_NACKS, PATIENT_NACKS
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.devices import DEVICES
from tests.support.lossy_bench import FIRST_PSN, TIMEOUT, Bench, answer, request
from tests.support.raw_driver import Pair, connect
from tests.support.saboteur import Saboteur, arrives, losing

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
IMMEDIATE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE | DescriptorFlags.IMMEDIATE
MEDDLING = 300
"""Steps of the network for which frames are lost and refused after the last request was posted."""
LIMIT = 20_000
"""Steps of the network within which everything ends once nobody interferes any more."""


@pytest.fixture(params=DEVICES)
def narrow(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """An initiator of each kind, and a model as the target that keeps answers of two packets of a PDC."""
    pair = connect(DEVICES[request.param], lambda parameters: ModelDevice(replace(parameters, window=2)))
    yield Bench(pair)
    pair.initiator.device.close()
    pair.target.device.close()


@pytest.mark.parametrize("answers_lost", [0, 2])
def test_a1_a_lost_packet_is_sent_again_though_those_behind_it_exceed_the_window(
    narrow: Bench, answers_lost: int
) -> None:
    assert narrow.pair.local.execute(**narrow.write(9))["status"] == OK
    narrow.requests.fate = losing(request(1))
    narrow.answers.fate = losing(lambda header: not header.is_control, count=answers_lost)
    narrow.post(*(narrow.write(number, place=8 * number) for number in range(1, 4)))
    entries = [narrow.pair.local.completion() for _ in range(3)]
    assert [entry["status"] for entry in entries] == [OK] * 3
    assert [narrow.region.integer(8 * number) for number in range(1, 4)] == [1, 2, 3]


@pytest.fixture
def full(make_pair: MakePair) -> Bench:
    """The target's event ring has 8 entries, of which it gives four away."""
    pair = make_pair()
    pair.remote = pair.target.context(event_size=3)
    pair.target.settle()
    return Bench(pair)


def test_a1_a_lost_answer_is_asked_for_while_the_next_packet_finds_no_event_entry(full: Bench) -> None:
    full.post(*(full.write(number, flags=IMMEDIATE) for number in range(3)))
    assert full.statuses(3) == [OK] * 3
    full.answers.fate = losing(answer(3))
    full.post(full.write(3, flags=IMMEDIATE), full.write(4, flags=IMMEDIATE))
    # The ring stays full: only the first of the two completes.
    assert full.statuses(1) == [OK]
    full.pair.run(TIMEOUT // 20)
    assert full.pair.local.poll() is None
    assert full.here(Counter.FAILED_PDCS) == 0
    while full.pair.remote.poll_event() is not None:
        pass
    entry = full.pair.local.completion()
    assert (entry["status"], entry["context"], full.region.integer(8)) == (OK, 1, 4)


@pytest.mark.parametrize("code", sorted(PATIENT_NACKS))
def test_nacks_without_end_for_a_later_packet_keep_the_oldest_back_for_a_quarter_timeout(
    full: Bench, code: NackCode
) -> None:
    full.cut_off()
    full.post(*(full.write(number) for number in range(3)))
    full.sent(3)
    begun, sent = full.pair.initiator.device.cycles, full.here(Counter.REQUESTS_SENT)  # type: ignore[attr-defined]
    for _ in range(TIMEOUT // 20):  # a step of the network is 100 cycles
        full.say(is_control=True, nack_code=code, psn=FIRST_PSN + 2)
    again = full.here(Counter.RETRANSMISSIONS)
    elapsed = full.pair.initiator.device.cycles - begun  # type: ignore[attr-defined]
    # Three packets each time: at least once for each quarter and what hardware's timers are late.
    assert again >= 3 * (elapsed // (TIMEOUT // 4 + 800))
    assert full.here(Counter.REQUESTS_SENT) == sent + again
    assert full.here(Counter.TIMEOUTS) == 0


class Meddler:
    """Refuses packets in the target's name, loses frames either way, and leaves the event ring full for a while."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self._pair = pair
        self._random = random.Random(seed)
        self._seen: list[FrameHeader] = []
        self._requests = Saboteur(pair.initiator.device, self._lose)  # type: ignore[arg-type]
        self._answers = Saboteur(pair.target.device, self._lose)  # type: ignore[arg-type]

    def _lose(self, frame: bytes) -> list[tuple[int, bytes]]:
        decoded = decode(frame)
        assert isinstance(decoded, DecodedFrame)
        if decoded.header.is_request:
            self._seen.append(decoded.header)
        return [] if self._random.random() < 0.15 else arrives(frame)

    def refuse(self) -> None:
        """Send a NACK of any code that does not end a PDC, for one of the last packets."""
        if not self._seen or self._random.random() < 0.5:
            return
        about = self._random.choice(self._seen[-3:])
        passing = [*sorted(PATIENT_NACKS | LOSS_NACKS), NackCode.ROD_OOO, NackCode.RCVD_SES_PROCG, 0x77]
        code = self._random.choice(passing)
        assert code not in FATAL_NACKS
        missing = 0 if code in PATIENT_NACKS else self._random.randrange(4)
        header = FrameHeader(
            mac=self._pair.initiator.mac, ip=self._pair.initiator.ip, is_request=False, is_control=True,
            nack_code=code, psn=about.psn, missing=missing, spdcid=1, dpdcid=about.spdcid,
        )  # fmt: skip
        frame = encode(header, b"", self._pair.target.mac, self._pair.target.ip)
        self._pair.initiator.device.deliver(frame, 0)  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._requests.fate = self._answers.fate = arrives


def complete_all_under_refusals(bench: Bench, seed: int, count: int) -> None:
    """Post ``count`` additions, a third of them with immediate data; each ends with OK and happens once."""
    pair, generator = bench.pair, random.Random(seed)
    pair.initiator.set("device", retransmit_timeout=TIMEOUT, retransmit_limit=60)
    meddler = Meddler(pair, seed)
    posted = done = events = steps = immediates = 0
    while done < count:
        if posted < count and posted - done < 6 and generator.random() < 0.5:
            flags = IMMEDIATE if generator.random() < 0.3 else IMMEDIATE & ~DescriptorFlags.IMMEDIATE
            immediates += flags == IMMEDIATE
            pair.local.post(**bench.add(flags=flags, context=posted))
            posted += 1
        steps += posted == count
        if steps == MEDDLING:
            meddler.stop()
        elif steps < MEDDLING:
            meddler.refuse()
        pair.network.step()
        if generator.random() < 0.05 and pair.remote.poll_event() is not None:
            events += 1
        entry = pair.local.poll()
        if entry is not None:
            assert (entry["status"], entry["context"]) == (OK, done)
            done += 1
        assert steps < LIMIT, f"{done} of {count} requests ended"
    while pair.remote.poll_event() is not None:
        events += 1
    assert (bench.region.integer(0), events) == (count, immediates)
    assert bench.here(Counter.FAILED_PDCS) == 0
    assert bench.here(Counter.NACKS_RECEIVED) > count // 4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_programs_under_refusals_of_every_code_end_once_and_in_order(full: Bench, seed: int) -> None:
    complete_all_under_refusals(full, seed, 40)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_programs_under_refusals_end_with_a_window_of_two(narrow: Bench, seed: int) -> None:
    narrow.pair.remote = narrow.pair.target.context(event_size=3)
    narrow.pair.target.settle()
    complete_all_under_refusals(narrow, seed, 40)
