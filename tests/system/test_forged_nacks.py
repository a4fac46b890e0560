"""Forged NACKs INV_DPDCID while the network holds the original packets back: nothing is executed twice.

The initiator believes the NACK, begins anew, and sends again what is unanswered. The target takes that for the next
packets of the PDC that it has open. So the originals are duplicates, and each packet is executed once.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, Bench
from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair
from tests.support.saboteur import arrives

MakePair = Callable[..., Pair]
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
KINDS = pytest.mark.parametrize("make_pair", PAIRS, indirect=True)
LATER = 100
"""Steps of the network: behind all that the tests wait for."""
PATIENT = 1_000_000
"""Cycles: no timeout ends before that, so that a forged NACK alone makes the initiator send again."""


class Held:
    """The network holds requests without SYN back, as long as ``holds`` says so, until they are released."""

    def __init__(self, bench: Bench, holds: Callable[[FrameHeader], bool]) -> None:
        self.frames: list[bytes] = []
        self._bench = bench
        self._holds = holds
        bench.requests.fate = self._fate

    def release(self) -> None:
        """Deliver what was held back, twice, and let all answers come."""
        self._bench.requests.fate = arrives
        for frame in 2 * self.frames:
            self._bench.pair.target.device.deliver(frame, 0)  # type: ignore[attr-defined]
            self._bench.pair.run(20)

    def _fate(self, frame: bytes) -> list[tuple[int, bytes]]:
        decoded = decode(frame)
        assert isinstance(decoded, DecodedFrame)
        if decoded.header.syn or not self._holds(decoded.header):
            return arrives(frame)
        self.frames.append(frame)
        return []


def opened(pair: Pair, timeout: int = PATIENT) -> Bench:
    """A bench whose PDC has executed one addition."""
    bench = Bench(pair, timeout=timeout)
    bench.post(bench.add())
    assert bench.statuses(1) == [OK]
    return bench


def forge(bench: Bench, psn: int) -> None:
    bench.say(is_control=True, nack_code=NackCode.INV_DPDCID, psn=psn)


def add(bench: Bench, count: int) -> None:
    """Post so many additions, with results of their own."""
    bench.post(*(bench.add(result=bench.result.address + 8 * number) for number in range(count)))


def results(bench: Bench, count: int) -> list[int]:
    return [bench.result.integer(8 * number) for number in range(count)]


@KINDS
@pytest.mark.parametrize("count", [1, 4])
def test_a9_what_was_held_back_is_not_executed_beside_what_was_sent_again(make_pair: MakePair, count: int) -> None:
    bench = opened(make_pair())
    held = Held(bench, lambda header: True)
    add(bench, count)
    bench.sent(1 + count)
    forge(bench, FIRST_PSN + 1)
    assert bench.statuses(count) == [OK] * count
    assert results(bench, count) == list(range(1, 1 + count))
    held.release()
    assert bench.region.integer(0) == 1 + count
    assert bench.there(Counter.DUPLICATES) == 2 * count
    # The PDC goes on as before.
    add(bench, 3)
    assert bench.statuses(3) == [OK] * 3
    assert bench.region.integer(0) == 4 + count


@KINDS
def test_a9_requests_that_the_target_kept_are_not_executed_again(make_pair: MakePair) -> None:
    """Only the first of four is held back. The answers of the others have another message, and nobody takes them."""
    bench = opened(make_pair(), timeout=2000)
    held = Held(bench, lambda header: header.psn == FIRST_PSN + 1)
    add(bench, 4)
    bench.sent(5)
    forge(bench, FIRST_PSN + 1)
    statuses = bench.statuses(4)
    assert statuses[0] == OK
    assert set(statuses) <= {OK, FAILED}
    held.release()
    assert bench.region.integer(0) == 5


@KINDS
def test_a9_a_request_whose_answer_is_held_back_is_not_executed_again(make_pair: MakePair) -> None:
    bench = opened(make_pair(), timeout=2000)
    bench.answers.fate = lambda frame: [(LATER, frame)]
    add(bench, 1)
    bench.sent(2)
    forge(bench, FIRST_PSN + 1)
    assert bench.statuses(1)[0] in (OK, FAILED)
    bench.answers.fate = arrives
    bench.pair.run(2 * LATER)
    assert bench.region.integer(0) == 2


@KINDS
def test_a9_a_connection_that_is_disowned_again_and_again_executes_everything_once(make_pair: MakePair) -> None:
    bench = opened(make_pair())
    held = Held(bench, lambda header: True)
    for turn in range(1, 6):
        add(bench, 1)
        bench.sent(2 * turn)
        forge(bench, FIRST_PSN + turn)
        assert bench.statuses(1) == [OK]
        assert bench.region.integer(0) == 1 + turn
    assert len(held.frames) == 5
    held.release()
    assert bench.region.integer(0) == 6


@KINDS
def test_a9_a_close_that_is_held_back_takes_nothing_from_what_comes_behind_it(make_pair: MakePair) -> None:
    bench = opened(make_pair())
    held = Held(bench, lambda header: header.is_control)
    bench.post({"opcode": DescriptorOpcode.CLOSE, "flags": DescriptorFlags.COMPLETION}, bench.add())
    bench.sent(2)
    forge(bench, FIRST_PSN + 1)
    assert bench.statuses(2) == [OK, OK]
    held.release()
    add(bench, 2)
    assert bench.statuses(2) == [OK, OK]
    assert bench.region.integer(0) == 4
