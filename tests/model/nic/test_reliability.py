"""The initiator when frames are lost: it goes back, holds back, gives up, and completes every request once.

Covers ``nic/initiator.py``, ``nic/packets.py``, ``nic/retransmitter.py``, ``nic/request_queues.py``,
``nic/answers.py`` and ``nic/responses.py``.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.nic import ModelDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import NO_PDC
from amoeba_model.wire.uet import NackCode, RequestOpcode, ResponseOpcode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, SIZE, TIMEOUT, Bench, answer, request
from tests.support.raw_driver import Pair, RawNic
from tests.support.saboteur import arrives, losing

MakePair = Callable[..., Pair]
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED


@pytest.fixture
def bench(make_model_pair: MakePair) -> Bench:
    return Bench(make_model_pair())


# Loss


@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_request_is_reported_by_the_target_and_sent_again_at_once(bench: Bench, number: int) -> None:
    bench.requests.fate = losing(request(number))
    assert bench.add_three() == [OK] * 3
    nacks = 1 if number else 2  # before its PDC is open the target remembers no NACK
    assert bench.there(Counter.NACKS_SENT) == bench.here(Counter.NACKS_RECEIVED) == nacks
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.RETRANSMISSIONS)) == (0, 1 if number else 3)
    # What was sent behind it was kept, if there was a PDC, and came once.
    assert (bench.there(Counter.DROPPED_PDC) > 0) is (number == 0)
    assert bench.there(Counter.DROPPED_SEQUENCE) == bench.there(Counter.DUPLICATES) == 0


def test_the_loss_of_the_last_request_is_found_by_the_timeout(bench: Bench) -> None:
    bench.requests.fate = losing(request(2))
    assert bench.add_three() == [OK] * 3
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.RETRANSMISSIONS)) == (1, 1)
    again = [header for header in bench.frames() if header.is_request and header.retx]
    assert [header.psn for header in again] == [FIRST_PSN + 2]


@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_answer_with_data_is_noticed_by_the_next_one(bench: Bench, number: int) -> None:
    bench.answers.fate = losing(answer(number))
    assert bench.add_three() == [OK] * 3
    assert bench.here(Counter.TIMEOUTS) == 0
    assert (bench.here(Counter.RESPONSES_RECEIVED), bench.here(Counter.DROPPED_RESPONSE)) == (3, 0)
    assert bench.here(Counter.RETRANSMISSIONS) == bench.there(Counter.DUPLICATES) == 1


def test_the_loss_of_the_last_answer_is_found_by_the_timeout(bench: Bench) -> None:
    bench.answers.fate = losing(answer(2))
    assert bench.add_three() == [OK] * 3
    assert (bench.here(Counter.TIMEOUTS), bench.there(Counter.DUPLICATES)) == (1, 1)


def test_answers_without_data_may_be_lost_as_long_as_one_arrives(bench: Bench) -> None:
    bench.answers.fate = losing(lambda header: not header.is_request, count=7)
    bench.post(*(bench.write(number) for number in range(8)))
    assert bench.statuses(8) == [OK] * 8
    assert (bench.here(Counter.RESPONSES_RECEIVED), bench.here(Counter.RETRANSMISSIONS)) == (1, 0)
    assert bench.region.integer(8) == 7


def test_an_error_is_not_covered_by_the_answers_after_it(bench: Bench) -> None:
    bench.answers.fate = losing(lambda header: not header.is_request, count=2)
    bench.post(bench.write(1), bench.write(2, remote_key=1), bench.write(3))
    assert bench.statuses(3) == [OK, ReturnCode.BAD_MKEY, OK]
    assert bench.there(Counter.DUPLICATES) >= 1


def test_a_lost_nack_is_repeated_when_the_packets_come_again(bench: Bench) -> None:
    bench.requests.fate = losing(request(0))
    bench.answers.fate = losing(lambda header: header.is_control, count=2)
    assert bench.add_three() == [OK] * 3
    assert bench.here(Counter.TIMEOUTS) >= 1


def test_a_nack_that_comes_twice_makes_the_pdc_go_back_once(bench: Bench) -> None:
    bench.requests.fate = losing(request(0))
    bench.answers.fate = lambda frame: arrives(frame) * 3
    bench.post(*(bench.write(number) for number in range(3)))
    assert bench.statuses(3) == [OK] * 3
    assert bench.here(Counter.RETRANSMISSIONS) == 3


def test_operands_are_read_again(bench: Bench) -> None:
    source = bench.pair.initiator.buffer(SIZE, fill=0x55)
    bench.requests.fate = losing(request(0))
    fields = bench.write(source.address, flags=DescriptorFlags.COMPLETION, length=512)
    assert bench.pair.local.execute(**fields)["status"] == OK
    assert bench.region[8:520] == b"\x55" * 512


def test_operands_that_are_gone_make_a_repetition_a_no_op_and_concern_nobody_else(bench: Bench) -> None:
    source = bench.pair.initiator.buffer(2 * SIZE, fill=0x55)
    target = bench.pair.target.buffer(2 * SIZE)
    bench.pair.target.key(5, target.address, 2 * SIZE)
    bench.requests.fate = losing(lambda header: header.is_request, count=2)
    bench.post(
        bench.write(source.address, flags=DescriptorFlags.COMPLETION, length=8, remote_address=target.address,
                    remote_key=5),
        bench.write(7),
    )  # fmt: skip
    bench.sent(2)
    bench.pair.initiator.device.revoke(source.address, 2 * SIZE)
    assert bench.statuses(2) == [ReturnCode.LOCAL_DMA_FAULT, OK]
    assert (target.integer(0), bench.region.integer(8)) == (0, 7)
    again = [header for header in bench.frames() if header.is_request]
    assert [header.opcode for header in again] == [RequestOpcode.NO_OP, RequestOpcode.WRITE]


def test_a_long_request_survives_the_loss_of_any_of_its_packets(bench: Bench) -> None:
    length = 5 * SIZE
    source, target = bench.pair.initiator.buffer(length), bench.pair.target.buffer(length)
    bench.pair.target.key(5, target.address, length)
    pattern = bytes(number * 7 & 0xFF for number in range(length))
    for number in range(5):
        bench.requests.fate = losing(request(5 * number + number))
        source[0] = pattern[number:] + pattern[:number]
        entry = bench.pair.local.execute(
            opcode=DescriptorOpcode.WRITE, length=length, local=source.address, remote_address=target.address,
            remote_key=5,
        )  # fmt: skip
        assert entry["status"] == OK
        assert target[:] == source[:]


def test_a_long_read_is_repeated_from_the_answer_memory(bench: Bench) -> None:
    bench.pair.target.answer_memory()
    bench.region[0] = bytes(range(256)) * 16
    bench.answers.fate = losing(answer(0))
    read = {
        "opcode": DescriptorOpcode.READ, "length": SIZE, "result": bench.result.address,
        "remote_address": bench.region.address, "remote_key": Pair.KEY,
    }  # fmt: skip
    assert bench.pair.local.execute(**read)["status"] == OK
    assert bench.result[:] == bench.region[:]
    assert bench.there(Counter.DUPLICATES) == 1


def test_a_read_that_cannot_be_repeated_fails_its_pdc(bench: Bench) -> None:
    bench.answers.fate = losing(answer(0))
    read = {
        "opcode": DescriptorOpcode.READ, "length": SIZE, "result": bench.result.address,
        "remote_address": bench.region.address, "remote_key": Pair.KEY,
    }  # fmt: skip
    assert bench.pair.local.execute(**read)["status"] == FAILED
    assert bench.here(Counter.FAILED_PDCS) == 1
    assert bench.result[:] == b"\xee" * SIZE


def test_packets_are_numbered_and_repeated_across_the_end_of_the_sequence_numbers(bench: Bench) -> None:
    bench.pair.initiator.peer(0, bench.pair.remote, initial_psn=0xFFFF_FFFE)
    bench.requests.fate = losing(lambda header: header.psn == 0xFFFF_FFFF)
    bench.answers.fate = losing(lambda header: not header.is_request and header.psn == 1)
    for start in (0, 4):
        bench.post(*(bench.add(result=bench.result.address + 8 * (start + number)) for number in range(4)))
        assert bench.statuses(4) == [OK] * 4
    assert [bench.result.integer(8 * number) for number in range(8)] == list(range(8))
    assert bench.here(Counter.RETRANSMISSIONS) >= 2


def test_a_window_full_of_packets_goes_back_as_a_whole(make_model_pair: MakePair) -> None:
    bench = Bench(make_model_pair(NicParameters(window=4)))
    bench.requests.fate = losing(request(0))
    bench.post(*(bench.add() for _ in range(12)))
    assert bench.statuses(12) == [OK] * 12
    assert bench.region.integer(0) == 12
    assert bench.here(Counter.RETRANSMISSIONS) == 4


def test_a_target_with_a_smaller_window_slows_its_initiator_down(make_model_pair: MakePair) -> None:
    """Its answers would not be kept long enough, so it takes no packet too far ahead of them."""
    bench = Bench(make_model_pair(NicParameters(window=16)))
    small = ModelDevice(NicParameters(window=4))
    network, old = bench.pair.network, bench.pair.target
    old.device.close()
    network.attach(small, old.mac.to_bytes(6, "big"))
    target = RawNic(small, old.mac, old.ip, small.parameters)
    target.context()
    region = target.buffer(SIZE)
    target.key(Pair.KEY, region.address, SIZE)
    bench.post(*(bench.add(remote_address=region.address) for _ in range(12)))
    assert bench.statuses(12) == [OK] * 12
    assert region.integer(0) == 12
    assert bench.here(Counter.NACKS_RECEIVED) >= 1
    small.close()


# Answers that do not fit


def test_answers_and_nacks_that_nothing_waits_for_are_dropped(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.add(), bench.add())
    bench.sent(2)
    lies: list[dict[str, Any]] = [
        {"psn": FIRST_PSN - 1, "cack_psn": FIRST_PSN - 1},
        {"psn": FIRST_PSN + 2, "cack_psn": FIRST_PSN + 2},
        {"dpdcid": 1},
        {"dpdcid": 0xFFFF},
    ]
    for number, lie in enumerate(lies):
        bench.say(**lie)
        assert bench.here(Counter.DROPPED_RESPONSE) == 2 * number + 1
        bench.say(is_control=True, nack_code=NackCode.INV_DPDCID, **lie)
        assert bench.here(Counter.DROPPED_RESPONSE) == 2 * number + 2
    assert bench.here(Counter.NACKS_RECEIVED) == bench.here(Counter.RESPONSES_RECEIVED) == 0
    assert bench.here(Counter.FAILED_PDCS) == 0


def test_an_answer_has_message_and_job_of_the_packet_that_it_names(bench: Bench) -> None:
    """An attacker with psn and PDC, but without the request, completes nothing: not by a cumulative answer either."""
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2), bench.write(3))
    bench.sent(3)
    job = bench.pair.remote.job_id
    lies = [{"job_id": job ^ 1}, {"job_id": 0}, {"message_id": 1}, {"message_id": 3}, {"message_id": 0, "job_id": 0}]
    for number, lie in enumerate(lies):
        bench.say(psn=FIRST_PSN + 2, cack_psn=FIRST_PSN + 1, **lie)
        assert bench.here(Counter.DROPPED_RESPONSE) == number + 1
    assert bench.pair.local.poll() is None
    assert bench.here(Counter.RESPONSES_RECEIVED) == bench.here(Counter.RETRANSMISSIONS) == 0
    bench.say(psn=FIRST_PSN + 2, cack_psn=FIRST_PSN + 1)
    assert bench.statuses(3) == [OK] * 3


def test_a_close_is_answered_without_a_response(bench: Bench) -> None:
    assert bench.pair.local.execute(**bench.write(1))["status"] == OK
    bench.cut_off()
    bench.post({"opcode": DescriptorOpcode.CLOSE, "peer": 0, "flags": 1})
    bench.sent(2)
    for number, lie in enumerate(({}, {"message_id": 0, "job_id": 0}, {"opcode": ResponseOpcode.DEFAULT})):
        bench.say(psn=FIRST_PSN + 1, **lie)
        assert bench.here(Counter.DROPPED_RESPONSE) == number + 1
    # The reference provider's cack_psn does not count the CLOSE.
    bench.say(psn=FIRST_PSN + 1, cack_psn=FIRST_PSN, opcode=ResponseOpcode.NONE)
    assert bench.statuses(1) == [OK]


def test_nothing_but_a_close_is_answered_without_a_response(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2))
    bench.sent(2)
    for number in range(2):
        bench.say(psn=FIRST_PSN + number, cack_psn=FIRST_PSN + number, opcode=ResponseOpcode.NONE)
        assert bench.here(Counter.DROPPED_RESPONSE) == number + 1
    assert bench.pair.local.poll() is None


def test_a_default_response_is_ok_and_has_no_data(bench: Bench) -> None:
    """As of a target that keeps the answer no longer, since it was OK: it has the message, but no job."""
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2), bench.add())
    bench.sent(3)
    default = {"opcode": ResponseOpcode.DEFAULT, "return_code": ReturnCode.NULL, "job_id": 0}
    bench.say(psn=FIRST_PSN + 1, cack_psn=FIRST_PSN + 1, message_id=0, **default)
    assert bench.here(Counter.DROPPED_RESPONSE) == 1
    bench.say(psn=FIRST_PSN + 1, cack_psn=FIRST_PSN + 1, **default)
    bench.say(psn=FIRST_PSN + 2, cack_psn=FIRST_PSN + 2, **default)
    assert bench.statuses(3) == [OK, OK, ReturnCode.UNCOR]


@pytest.mark.parametrize("code", [NackCode.INV_DPDCID, NackCode.CLOSING])
def test_a_close_of_a_pdc_that_is_closed_has_been_executed(bench: Bench, code: NackCode) -> None:
    assert bench.pair.local.execute(**bench.write(1))["status"] == OK
    bench.cut_off()
    bench.post({"opcode": DescriptorOpcode.CLOSE, "peer": 0, "flags": 1})
    bench.sent(2)
    bench.say(is_control=True, nack_code=code, psn=FIRST_PSN + 1)
    assert bench.statuses(1) == [OK]


def test_a_packet_that_is_being_processed_is_not_refused(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.write(1))
    bench.sent(1)
    bench.say(is_control=True, nack_code=NackCode.RCVD_SES_PROCG, psn=FIRST_PSN)
    assert bench.here(Counter.DROPPED_RESPONSE) == 1
    assert bench.here(Counter.RETRANSMISSIONS) == bench.here(Counter.FAILED_PDCS) == 0
    bench.say(psn=FIRST_PSN)
    assert bench.statuses(1) == [OK]


def test_a_cumulative_answer_stops_at_a_packet_that_expects_data(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2), bench.add(), bench.write(3))
    bench.sent(4)
    bench.say(psn=FIRST_PSN + 3, cack_psn=FIRST_PSN + 3)
    assert [bench.pair.local.completion()["status"] for _ in range(2)] == [OK, OK]
    assert bench.pair.local.poll() is None
    assert (bench.here(Counter.RESPONSES_RECEIVED), bench.here(Counter.RETRANSMISSIONS)) == (1, 1)


# Holding back


@pytest.mark.parametrize(
    "code",
    [NackCode.NO_RESOURCE, NackCode.NO_PKT_BUFFER, NackCode.NO_SES_MSG_AVAIL, NackCode.NO_GTD_DEL_AVAIL,
     NackCode.PSN_OOR_WINDOW],
)  # fmt: skip
def test_a_target_that_cannot_take_a_packet_now_gets_it_later(make_model_pair: MakePair, code: NackCode) -> None:
    """For as long as it takes: 13 hold-offs are longer than the timeout, after which the PDC would fail."""
    bench = Bench(make_model_pair(), timeout=8000, limit=0)
    hold_offs = 13
    lost = 3 + 4 * (hold_offs - 1)  # the fourth packet leaves when the first hold-off is over
    bench.requests.fate = losing(lambda header: header.is_request, count=lost)
    bench.post(bench.add(), bench.add(), bench.add())
    bench.sent(3)
    bench.pair.local.put(**bench.write(0, context=3))
    for number in range(hold_offs):
        # The PDC waits for a quarter of the timeout from the first NACK on, and cuts no new packet meanwhile.
        for _ in range(2):
            bench.say(is_control=True, nack_code=code)
            bench.pair.local.ring()
            bench.pair.run(5)
            assert bench.here(Counter.REQUESTS_SENT) == 3 + 4 * number
        bench.pair.run(10)
    assert bench.statuses(4) == [OK] * 4
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.NACKS_RECEIVED)) == (0, 2 * hold_offs)
    assert bench.here(Counter.RETRANSMISSIONS) == lost


def test_a_hold_off_ends_with_all_unanswered_packets_sent_again(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.add(), bench.add(), bench.add())
    bench.sent(3)
    bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE, psn=FIRST_PSN + 2)
    bench.say(is_control=True, nack_code=NackCode.ROD_OOO, psn=FIRST_PSN + 1)
    assert bench.here(Counter.RETRANSMISSIONS) == 0
    bench.pair.run(TIMEOUT // 400 + 2)
    assert bench.here(Counter.RETRANSMISSIONS) == 3


def test_times_that_end_while_a_packet_is_held_back_begin_anew(bench: Bench) -> None:
    """Of timeouts that were made shorter meanwhile each doubles; they do not all end at once."""
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2))
    bench.sent(2)
    bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE, psn=FIRST_PSN + 1)
    bench.pair.initiator.set("device", retransmit_timeout=150)
    bench.say(cack_psn=FIRST_PSN)
    assert bench.statuses(1) == [OK]
    bench.pair.run(3)  # 300 cycles of the 500 that it is held back
    assert bench.here(Counter.TIMEOUTS) <= 2
    assert bench.here(Counter.FAILED_PDCS) == 0


def test_an_answer_to_a_packet_that_is_held_back_ends_that(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2))
    bench.sent(2)
    bench.say(is_control=True, nack_code=NackCode.NO_RESOURCE)
    bench.say(psn=FIRST_PSN, cack_psn=FIRST_PSN)
    bench.post(bench.write(3))
    bench.pair.run(4)
    assert (bench.here(Counter.REQUESTS_SENT), bench.here(Counter.RETRANSMISSIONS)) == (3, 0)


def test_without_a_free_pdc_it_is_tried_again_until_there_is_one(make_model_pair: MakePair) -> None:
    bench = Bench(make_model_pair(NicParameters(target_pdcs=1)), limit=6)
    pair = bench.pair
    pair.initiator.peer(1, pair.remote)
    assert pair.local.execute(**bench.add())["status"] == OK
    bench.post(bench.add(peer=1))
    pair.run(60)
    assert pair.local.poll() is None
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.FAILED_PDCS)) == (0, 0)
    assert bench.here(Counter.NACKS_RECEIVED) > 5
    assert pair.local.execute(opcode=DescriptorOpcode.CLOSE, peer=0)["status"] == OK
    assert pair.local.completion(5000)["status"] == OK
    assert bench.region.integer(0) == 2


# Failure


def test_a_peer_that_went_away_costs_a_bounded_time_and_every_request_completes(bench: Bench) -> None:
    assert bench.pair.local.execute(**bench.write(1))["status"] == OK
    bench.cut_off()
    start = bench.pair.initiator.device.cycles
    bench.post(*(bench.add() for _ in range(5)))
    assert bench.statuses(5) == [FAILED] * 5
    bound = (2**4 - 1) * TIMEOUT
    assert bound <= bench.pair.initiator.device.cycles - start <= bound + 1000
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.FAILED_PDCS)) == (4, 1)
    assert bench.here(Counter.RETRANSMISSIONS) == 3 * 5


def test_timeouts_double_until_a_packet_is_answered(bench: Bench) -> None:
    departures: list[int] = []

    def count(frame: bytes) -> list[tuple[int, bytes]]:
        departures.append(bench.pair.initiator.device.cycles)
        return [] if len(departures) % 3 else arrives(frame)

    bench.requests.fate = count
    for _ in range(2):
        assert bench.pair.local.execute(**bench.add())["status"] == OK
    waits = [departures[1] - departures[0], departures[2] - departures[1]]
    assert waits == [TIMEOUT, 2 * TIMEOUT]
    # What was lost before makes the first one early.
    waits = [departures[4] - departures[3], departures[5] - departures[4]]
    assert waits == [TIMEOUT // 4, TIMEOUT]


def test_no_timeout_is_longer_than_32_times_the_first(bench: Bench) -> None:
    departures: list[int] = []

    def count(frame: bytes) -> list[tuple[int, bytes]]:
        departures.append(bench.pair.initiator.device.cycles)
        return []

    bench.requests.fate = count
    bench.pair.initiator.set("device", retransmit_limit=8)
    bench.post(bench.add())
    step = bench.pair.initiator.device.network.latency
    for _ in range(200 * TIMEOUT // step):
        bench.pair.initiator.device.network.step()
    assert bench.statuses(1) == [FAILED]
    waits = [later - earlier for earlier, later in itertools.pairwise(departures)]
    # The clock is read in whole steps; a time begins when a frame has left, some twenty cycles after the one before.
    late = [wait - TIMEOUT * factor for wait, factor in zip(waits, (1, 2, 4, 8, 16, 32, 32, 32), strict=True)]
    assert set(late) <= {0, step}
    assert sum(late) <= 2 * step


def test_no_time_ends_while_packets_are_sent_again(bench: Bench) -> None:
    """A time that went on would end twice meanwhile, and everything would be sent again and again."""
    packets = 4 * TIMEOUT // 130
    length = packets * bench.pair.initiator.parameters.payload
    source, target = bench.pair.initiator.buffer(length, fill=1), bench.pair.memory(length)
    gone = 0

    def lose_the_first(frame: bytes) -> list[tuple[int, bytes]]:
        nonlocal gone
        gone += 1
        return [] if gone == 1 else arrives(frame)

    bench.requests.fate = lose_the_first
    bench.post({
        "opcode": DescriptorOpcode.WRITE, "flags": DescriptorFlags.COMPLETION, "length": length,
        "local": source.address, "remote_address": target.address, "remote_key": Pair.KEY,
    })  # fmt: skip
    assert bench.statuses(1) == [OK]
    assert target[:] == source[:]
    assert bench.here(Counter.TIMEOUTS) == 0
    assert bench.here(Counter.RETRANSMISSIONS) == packets


def test_a_failed_pdc_answers_later_requests_itself_until_the_entry_is_stored_anew(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.add())
    assert bench.statuses(1) == [FAILED]
    sent = bench.here(Counter.REQUESTS_SENT)
    long = bench.write(bench.result.address, length=SIZE * 3, flags=DescriptorFlags.COMPLETION)
    close = {"opcode": DescriptorOpcode.CLOSE, "flags": DescriptorFlags.COMPLETION}
    bench.post(long, bench.add(), close, bench.write(1, flags=INLINE | DescriptorFlags.FENCE))
    assert bench.statuses(4) == [FAILED] * 4
    assert bench.here(Counter.REQUESTS_SENT) == sent
    assert bench.here(Counter.FAILED_PDCS) == 1
    bench.requests.fate = arrives
    bench.pair.initiator.peer(0, bench.pair.remote, initial_psn=0x9000)
    assert bench.pair.local.execute(**bench.add())["status"] == OK
    assert bench.region.integer(0) == 1


def test_an_error_before_the_failure_stays_the_status_of_its_request(bench: Bench) -> None:
    bench.requests.fate = losing(lambda header: header.psn != FIRST_PSN, count=1 << 30)
    source = bench.pair.initiator.buffer(3 * SIZE)
    entry = bench.pair.local.execute(
        opcode=DescriptorOpcode.WRITE, length=3 * SIZE, local=source.address, remote_address=bench.region.address,
        remote_key=1,
    )  # fmt: skip
    assert entry["status"] == ReturnCode.BAD_MKEY
    assert bench.here(Counter.FAILED_PDCS) == 1


@pytest.mark.parametrize("code", [NackCode.GTD_RESP_UNAVAIL, NackCode.PDC_HDR_MISMATCH, NackCode.CLOSING_IN_ERR])
def test_a_nack_that_guarantees_nothing_fails_the_pdc(bench: Bench, code: int) -> None:
    bench.cut_off()
    bench.post(bench.add(), bench.add())
    bench.sent(2)
    bench.say(is_control=True, nack_code=code, psn=FIRST_PSN + 1)
    assert bench.statuses(2) == [FAILED] * 2
    assert (bench.here(Counter.TIMEOUTS), bench.here(Counter.FAILED_PDCS)) == (0, 1)


def test_a_target_disowns_only_a_pdc_that_it_has_answered(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.add())
    bench.sent(1)
    bench.say(is_control=True, nack_code=NackCode.INV_DPDCID)
    assert (bench.here(Counter.DROPPED_RESPONSE), bench.here(Counter.FAILED_PDCS)) == (1, 0)
    bench.say(return_code=ReturnCode.NO_MATCH)
    assert bench.statuses(1) == [ReturnCode.NO_MATCH]
    bench.post(bench.add(context=0))
    bench.sent(2)
    bench.say(is_control=True, nack_code=NackCode.INV_DPDCID, psn=FIRST_PSN + 1, spdcid=5)
    assert (bench.here(Counter.DROPPED_RESPONSE), bench.here(Counter.FAILED_PDCS)) == (2, 0)
    bench.say(is_control=True, nack_code=NackCode.INV_DPDCID, psn=FIRST_PSN + 1, spdcid=NO_PDC)
    assert bench.statuses(1) == [FAILED]
    assert (bench.here(Counter.NACKS_RECEIVED), bench.here(Counter.FAILED_PDCS)) == (1, 1)


@pytest.mark.parametrize("code", [0x77, 0, NackCode.NEW_START_PSN, NackCode.TRIMMED_ACK])
def test_a_nack_with_a_code_that_says_nothing_here_is_dropped(bench: Bench, code: int) -> None:
    bench.cut_off()
    bench.post(bench.write(1))
    bench.sent(1)
    bench.say(is_control=True, nack_code=code)
    assert (bench.here(Counter.DROPPED_RESPONSE), bench.here(Counter.NACKS_RECEIVED)) == (1, 0)
    bench.say()
    assert bench.statuses(1) == [OK]


def test_other_peers_and_contexts_proceed_while_a_peer_is_silent(bench: Bench) -> None:
    pair = bench.pair
    other = pair.initiator.context(1)
    pair.initiator.peer(1, pair.remote, context=1)
    pair.initiator.peer(2, pair.remote)
    bench.requests.fate = losing(lambda header: header.spdcid == 0, count=1 << 30)
    bench.post(bench.add(), bench.add(), bench.write(5, peer=2, context=7))
    entry = pair.local.completion()
    assert (entry["context"], entry["status"]) == (7, OK)
    for _ in range(50):
        assert other.execute(**bench.add(peer=1))["status"] == OK
    assert bench.statuses(2) == [FAILED] * 2


def test_a_peer_that_restarted_does_not_know_the_pdc_and_a_new_one_works(bench: Bench) -> None:
    pair = bench.pair
    assert pair.local.execute(**bench.add())["status"] == OK
    old = pair.target
    old.device.close()
    device = ModelDevice()
    pair.network.attach(device, old.mac.to_bytes(6, "big"))
    target = RawNic(device, old.mac, old.ip, device.parameters)
    target.context()
    region = target.buffer(SIZE)
    target.key(Pair.KEY, region.address, SIZE)
    fields = bench.add(remote_address=region.address)
    assert pair.local.execute(**fields)["status"] == FAILED
    assert bench.here(Counter.TIMEOUTS) == 0
    pair.initiator.peer(0, pair.remote, initial_psn=0x7777)
    assert pair.local.execute(**fields)["status"] == OK
    assert (bench.region.integer(0), region.integer(0)) == (1, 1)
    device.close()


def test_storing_an_entry_stops_its_timers(bench: Bench) -> None:
    bench.cut_off()
    bench.post(bench.add())
    bench.sent(1)
    bench.pair.initiator.peer(0, bench.pair.remote, initial_psn=0x7777)
    bench.pair.run(2000)
    assert bench.here(Counter.TIMEOUTS) == 0
    assert bench.pair.local.poll() is None


def test_a_timer_is_due_in_its_cycle_without_any_frame() -> None:
    device = ModelDevice()
    nic = RawNic(device, 1, 0x0A00_0001, device.parameters)
    context = nic.context()
    nic.peer(0, context)
    nic.set("device", retransmit_timeout=5000, retransmit_limit=0)
    context.post(opcode=DescriptorOpcode.WRITE, length=0)
    device.run_until(1000)
    (frame,) = device.take_frames()
    device.run_until(frame.cycle + 4999)
    assert context.poll() is None
    device.run_until(frame.cycle + 5000)
    entry = context.poll()
    assert entry is not None
    assert entry["status"] == FAILED
    device.close()
