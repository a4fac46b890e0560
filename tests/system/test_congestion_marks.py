"""Congestion marks of requests and their echo in answers, and the classes of requests and answers."""

from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.switch import congestion_experienced
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import NackCode, RequestOpcode, ReturnCode

from tests.support.lossy_bench import FIRST_PSN, OK, Bench
from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair
from tests.support.stranger import Stranger
from tests.support.uet_dissector import ACK, CONTROL, EXPEDITED, NACK, ROD_REQUEST, dissect

MakePair = Callable[..., Pair]
KINDS = pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
"""Each kind of device with its like."""


def say(stranger: Stranger, header: FrameHeader, *, marked: bool, payload: bytes = b"") -> list[FrameHeader]:
    """Send a request that a switch has marked, or not; the headers of all that comes back."""
    frame = stranger.frame(header, payload)
    stranger.send(congestion_experienced(frame) if marked else frame)
    return [answer.header for answer in stranger.answers()]


def echoes(stranger: Stranger, header: FrameHeader, *, payload: bytes = b"") -> list[bool]:
    """Send a request without a mark, then again with one; whether each answer has the echo."""
    answers = [say(stranger, header, marked=marked, payload=payload) for marked in (False, True)]
    stranger.psn += 1
    return [answer.marked for (answer,) in answers]


@KINDS
def test_every_answer_echoes_the_mark_of_the_packet_that_it_answers(make_pair: MakePair) -> None:
    pair = make_pair()
    pair.memory(64)
    stranger = Stranger(pair)
    read: dict[str, Any] = {"opcode": RequestOpcode.READ, "request_length": 8}
    for fields in ({}, read, {"memory_key": 1}):
        (answer,) = say(stranger, stranger.header(**fields), marked=True)
        stranger.psn += 1
        assert answer.marked
        assert echoes(stranger, stranger.header(**fields)) == [False, True]  # the second answer is a replay
    assert pair.target.counter(Counter.DUPLICATES) == 3
    assert echoes(stranger, stranger.close()) == [False, True]
    assert pair.target.counter(Counter.MARKED_REQUESTS) == 7


@KINDS
def test_every_nack_echoes_the_mark_of_the_packet_that_it_refuses(make_pair: MakePair) -> None:
    stranger = Stranger(make_pair())
    unknown = stranger.header(syn=False, dpdcid=3)
    stale = stranger.header(psn=510, dpdcid=10)
    for header, code in ((unknown, NackCode.INV_DPDCID), (stale, NackCode.ROD_OOO)):
        for marked in (True, False):
            (nack,) = say(stranger, header, marked=marked)
            assert (nack.nack_code, nack.marked) == (code, marked)


@KINDS
def test_a_packet_that_is_kept_has_its_own_mark_in_its_answer(make_pair: MakePair) -> None:
    pair = make_pair()
    pair.memory(64)
    stranger = Stranger(pair)
    stranger.ask()
    (nack,) = say(stranger, stranger.header(psn=502, dpdcid=2), marked=True)
    assert (nack.nack_code, nack.marked) == (NackCode.ROD_OOO, True)
    answers = say(stranger, stranger.header(psn=501, dpdcid=1), marked=False)
    assert [(answer.psn, answer.marked) for answer in answers] == [(501, False), (502, True)]


@KINDS
def test_an_echo_is_counted_and_changes_nothing_else(make_pair: MakePair) -> None:
    bench = Bench(make_pair(), timeout=100_000)
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2))
    bench.sent(2)
    bench.say(marked=True)
    bench.say(is_control=True, nack_code=0xFF, marked=True)  # dropped, but a frame that was accepted
    bench.say(psn=FIRST_PSN + 1)
    assert bench.statuses(2) == [OK, OK]
    assert bench.here(Counter.MARKED_RESPONSES) == 2
    assert bench.here(Counter.MARKED_REQUESTS) == bench.here(Counter.RETRANSMISSIONS) == 0


@KINDS
def test_a_frame_that_is_dropped_counts_no_mark(make_pair: MakePair) -> None:
    pair = make_pair()
    stranger = Stranger(pair)
    frame = congestion_experienced(stranger.frame(stranger.header()))
    for dropped in (frame[:-1] + bytes([frame[-1] ^ 1]), frame[:-1], b"\2" + bytes(5) + frame[6:]):
        stranger.send(dropped)
    assert [pair.target.counter(cause) for cause in (
        Counter.DROPPED_CHECK, Counter.DROPPED_MALFORMED, Counter.DROPPED_ADDRESS, Counter.MARKED_REQUESTS,
    )] == [1, 1, 1, 0]  # fmt: skip


@KINDS
def test_requests_have_the_class_of_the_register_and_answers_are_expedited(make_pair: MakePair) -> None:
    pair = make_pair()
    region = pair.memory(64)
    pair.network.recording = True
    classes = {0: 0, 0x2A: 0x2A, 0xFFFF_FFC1: 1}
    for register in classes:
        if register:  # 0 after reset
            pair.initiator.set("device", dscp=register)
        write = {"remote_address": region.address, "remote_key": Pair.KEY, "length": 8}
        assert pair.local.execute(opcode=DescriptorOpcode.WRITE, local=1 << 50, **write)["status"] != ReturnCode.OK
        assert pair.local.execute(opcode=DescriptorOpcode.CLOSE)["status"] == ReturnCode.OK
    frames = [dissect(frame.data) for _, frame in pair.network.log]
    asked = [(frame["dscp"], frame["ecn"]) for frame in frames if frame["type"] in (ROD_REQUEST, CONTROL)]
    told = {(frame["dscp"], frame["ecn"]) for frame in frames if frame["type"] in (ACK, NACK)}
    assert asked == [(number, 2) for number in classes.values() for _ in range(2)]
    assert told == {(EXPEDITED, 0)}
