"""PING: an answer from a peer's NIC, which concerns nobody's memory and counts as no error."""

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags

from tests.support.lossy_bench import FIRST_PSN, Bench, answer, request
from tests.support.raw_driver import Pair
from tests.support.saboteur import losing

OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
COMPLETION = DescriptorFlags.COMPLETION
PING = {"opcode": DescriptorOpcode.PING, "flags": COMPLETION}


@pytest.fixture
def bench(device_pair: Pair) -> Bench:
    return Bench(device_pair)


def test_a_peer_that_is_there_answers_with_ok(bench: Bench) -> None:
    pair = bench.pair
    pair.target.counter_memory()
    pair.initiator.counter_memory()
    remote = pair.target.context(0, event_size=4, read_counter=1, write_counter=2)
    completion = pair.local.execute(**PING, context=9, counter=3, local=0xBAD000, result=0xBAD000, remote_key=77)
    assert (completion["status"], completion["context"], completion["length"]) == (OK, 9, 0)
    assert completion["opcode"] == DescriptorOpcode.PING
    assert pair.initiator.event_counter(3) == (1, 0)
    assert pair.target.event_counter(1) == pair.target.event_counter(2) == (0, 0)
    assert remote.poll_event() is None
    for counter in (
        Counter.REFUSED_REQUESTS, Counter.EVENTS, Counter.LINE_READS, Counter.LINE_WRITES, Counter.DMA_READ_ERRORS,
        Counter.DMA_WRITE_ERRORS, Counter.COUNTER_WRITES, Counter.DROPPED_MALFORMED,
    ):  # fmt: skip
        assert bench.there(counter) == 0, counter
    assert (bench.there(Counter.REQUESTS_RECEIVED), bench.here(Counter.ERROR_COMPLETIONS)) == (1, 0)
    assert pair.initiator.device.faults() == pair.target.device.faults() == []


def test_a_ping_s_frame_is_a_no_op_that_reports_no_error(bench: Bench) -> None:
    assert bench.pair.local.execute(**PING)["status"] == OK
    (header, reply) = bench.frames()
    assert (header.opcode, header.psn, header.request_length) == (RequestOpcode.NO_OP, FIRST_PSN, 0)
    assert header.flags & SesFlags.INITIATOR_ERROR == header.flags & SesFlags.HEADER_DATA == 0
    assert (reply.return_code, reply.modified_length) == (OK, 0)


def test_a_ping_asks_the_nic_and_not_the_context(bench: Bench) -> None:
    bench.pair.target.set("contexts", 0, control=0)
    bench.pair.target.settle()
    assert bench.pair.local.execute(**PING)["status"] == OK
    assert bench.pair.local.execute(**bench.write(1))["status"] == ReturnCode.BAD_INDEX


def test_pings_keep_their_place_among_requests(bench: Bench) -> None:
    bench.post(
        bench.write(1), PING, bench.add(), {**PING, "flags": COMPLETION | DescriptorFlags.FENCE}, bench.write(2)
    )
    assert bench.statuses(5) == [OK] * 5


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_ping_that_is_lost_is_sent_again(bench: Bench, lost: str) -> None:
    if lost == "request":
        bench.requests.fate = losing(request(0))
    else:
        bench.answers.fate = losing(answer(0))
    assert bench.pair.local.execute(**PING)["status"] == OK
    assert (bench.here(Counter.TIMEOUTS), bench.there(Counter.REQUESTS_RECEIVED)) == (1, 1)


def test_nobody_there_fails_a_ping_as_other_requests(bench: Bench) -> None:
    bench.pair.initiator.set("device", retransmit_limit=1)
    bench.cut_off()
    assert bench.pair.local.execute(**PING)["status"] == FAILED
    assert bench.here(Counter.FAILED_PDCS) == 1


@pytest.mark.parametrize(
    "wrong", [{"length": 1}, {"flags": COMPLETION | DescriptorFlags.IMMEDIATE}, {"flags": COMPLETION | 1 << 6}]
)
def test_a_ping_that_says_more_than_a_ping_does_is_refused(bench: Bench, wrong: dict[str, int]) -> None:
    assert bench.pair.local.execute(**{**PING, **wrong})["status"] == ReturnCode.LOCAL_BAD_DESCRIPTOR
    assert bench.pair.local.execute(**PING, peer=5)["status"] == ReturnCode.LOCAL_BAD_PEER
    assert bench.here(Counter.REQUESTS_SENT) == 0
