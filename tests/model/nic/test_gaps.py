"""The initiator keeps answers behind a gap, and sends again only what is missing."""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, SIZE, TIMEOUT, Bench, answer
from tests.support.raw_driver import Pair
from tests.support.saboteur import losing

MakePair = Callable[..., Pair]
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED


@pytest.fixture
def bench(make_model_pair: MakePair) -> Bench:
    return Bench(make_model_pair())


def repeated(bench: Bench) -> list[int]:
    """Numbers of the packets that were sent again, in order, whether they arrived or not."""
    return [header.psn - FIRST_PSN for header in bench.frames() if header.is_request and header.retx]


def counts(bench: Bench) -> tuple[int, int, int]:
    """Answers taken, answers dropped, packets sent again."""
    names = Counter.RESPONSES_RECEIVED, Counter.DROPPED_RESPONSE, Counter.RETRANSMISSIONS
    received, dropped, again = (bench.here(name) for name in names)
    return received, dropped, again


def unanswered(bench: Bench, count: int) -> None:
    """Additions whose requests nobody gets."""
    bench.cut_off()
    bench.post(*(bench.add() for _ in range(count)))
    bench.sent(count)


def say_missing(bench: Bench, number: int, missing: int) -> None:
    bench.say(is_control=True, nack_code=NackCode.ROD_OOO, psn=FIRST_PSN + number, missing=missing)


@pytest.mark.parametrize("lost", [[0], [3], [2, 3, 4], [0, 5], [1, 3, 5]])
def test_of_a_read_only_the_answers_that_were_lost_are_asked_for_again(bench: Bench, lost: list[int]) -> None:
    bench.pair.target.answer_memory()
    source = bench.pair.memory(8 * SIZE)
    source[0] = bytes(number * 7 & 0xFF for number in range(8 * SIZE))
    result = bench.pair.initiator.buffer(8 * SIZE)
    bench.answers.fate = losing(lambda header: any(answer(number)(header) for number in lost), count=len(lost))
    entry = bench.pair.local.execute(
        opcode=DescriptorOpcode.READ, length=8 * SIZE, result=result.address, remote_address=source.address,
        remote_key=Pair.KEY,
    )  # fmt: skip
    assert entry["status"] == OK
    assert result[:] == source[:]
    assert repeated(bench) == lost
    assert counts(bench) == (8, 0, len(lost))
    assert (bench.here(Counter.TIMEOUTS), bench.there(Counter.DUPLICATES)) == (0, len(lost))


def test_a_repeat_that_is_lost_is_found_by_the_timeout_and_nothing_else_is_sent_again(bench: Bench) -> None:
    bench.answers.fate = losing(answer(0), count=2)
    assert bench.add_three() == [OK] * 3
    assert repeated(bench) == [0, 0]
    assert counts(bench) == (3, 0, 2)
    assert bench.here(Counter.TIMEOUTS) == 1


def test_what_is_missing_before_an_answer_is_asked_for_once(bench: Bench) -> None:
    unanswered(bench, 6)
    for number, again in ((2, 2), (3, 2), (1, 2), (5, 3), (0, 3)):
        bench.say(psn=FIRST_PSN + number)
        assert bench.here(Counter.RETRANSMISSIONS) == again
    assert bench.statuses(4) == [ReturnCode.UNCOR] * 4
    assert bench.pair.local.poll() is None


def test_a_second_answer_to_a_packet_is_dropped(bench: Bench) -> None:
    unanswered(bench, 3)
    bench.say(psn=FIRST_PSN + 1)
    bench.say(psn=FIRST_PSN + 1, return_code=ReturnCode.BAD_ADDR)
    assert counts(bench) == (1, 1, 1)
    bench.say(return_code=ReturnCode.BAD_MKEY)
    bench.say(psn=FIRST_PSN + 1, return_code=ReturnCode.BAD_ADDR)
    assert counts(bench) == (2, 2, 1)
    assert bench.statuses(2) == [ReturnCode.BAD_MKEY, ReturnCode.UNCOR]


def test_each_packet_keeps_its_own_status_whatever_covers_it_later(bench: Bench) -> None:
    bench.cut_off()
    bench.post(*(bench.write(number) for number in range(4)))
    bench.sent(4)
    bench.say(psn=FIRST_PSN + 1, return_code=ReturnCode.BAD_ADDR)
    bench.say(psn=FIRST_PSN + 3, cack_psn=FIRST_PSN + 2)
    assert bench.statuses(4) == [OK, ReturnCode.BAD_ADDR, OK, OK]


def test_a_packet_that_is_covered_up_to_its_second_answer_is_answered_once(bench: Bench) -> None:
    bench.cut_off()
    bench.post(*(bench.write(number) for number in range(3)))
    bench.sent(3)
    bench.say(psn=FIRST_PSN + 1)
    bench.say(psn=FIRST_PSN + 1, cack_psn=FIRST_PSN + 1)
    assert counts(bench)[:2] == (1, 1)
    assert bench.statuses(2) == [OK] * 2


def test_what_was_answered_keeps_its_status_when_the_pdc_fails(bench: Bench) -> None:
    unanswered(bench, 4)
    bench.say(psn=FIRST_PSN + 1, return_code=ReturnCode.NO_MATCH)
    bench.say(psn=FIRST_PSN + 2, return_code=ReturnCode.BAD_ADDR)
    bench.say(is_control=True, nack_code=NackCode.CLOSING_IN_ERR, psn=FIRST_PSN + 3)
    assert bench.statuses(4) == [FAILED, ReturnCode.NO_MATCH, ReturnCode.BAD_ADDR, FAILED]


def test_after_a_timeout_what_is_missing_may_be_asked_for_again(bench: Bench) -> None:
    unanswered(bench, 4)
    bench.say(psn=FIRST_PSN + 2)
    assert bench.here(Counter.RETRANSMISSIONS) == 2
    while not bench.here(Counter.TIMEOUTS):
        bench.pair.run(1)
    assert bench.here(Counter.RETRANSMISSIONS) == 2 + 3
    bench.say(psn=FIRST_PSN + 3)
    assert bench.here(Counter.RETRANSMISSIONS) == 5 + 2


def test_a_target_that_keeps_what_it_has_gets_what_it_misses(bench: Bench) -> None:
    # None of these NACKs puts off the timeout of the oldest packet.
    bench.pair.initiator.set("device", retransmit_timeout=10 * TIMEOUT)
    unanswered(bench, 8)
    for number, missing, again in ((1, 2, 2), (1, 2, 2), (2, 3, 4), (6, 1, 5), (7, 200, 6), (1, 1, 6)):
        say_missing(bench, number, missing)
        assert bench.here(Counter.RETRANSMISSIONS) == again
    assert bench.here(Counter.NACKS_RECEIVED) == 6


def test_what_is_answered_is_not_sent_to_a_target_that_misses_it(bench: Bench) -> None:
    unanswered(bench, 5)
    bench.say(psn=FIRST_PSN + 2)
    assert bench.here(Counter.RETRANSMISSIONS) == 2
    say_missing(bench, 1, 3)
    assert bench.here(Counter.RETRANSMISSIONS) == 2 + 2


def test_a_target_that_keeps_nothing_gets_everything_once_until_a_packet_is_answered(bench: Bench) -> None:
    unanswered(bench, 4)
    for _ in range(3):
        say_missing(bench, 1, 0)
    assert bench.here(Counter.RETRANSMISSIONS) == 3
    say_missing(bench, 1, 1)
    assert bench.here(Counter.RETRANSMISSIONS) == 4


def test_a_pdc_with_answers_behind_a_gap_does_not_begin_anew(bench: Bench) -> None:
    assert bench.pair.local.execute(**bench.write(1, flags=DescriptorFlags.INLINE | 1))["status"] == OK
    bench.cut_off()
    bench.post(bench.add(), bench.add())
    bench.sent(3)
    bench.say(psn=FIRST_PSN + 2, return_code=ReturnCode.NO_MATCH)
    bench.say(is_control=True, nack_code=NackCode.INV_DPDCID, psn=FIRST_PSN + 1)
    assert bench.statuses(2) == [FAILED, ReturnCode.NO_MATCH]
