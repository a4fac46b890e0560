"""READs whose data comes in the return direction, from an independent UET endpoint."""

import struct
from collections.abc import Callable, Iterator

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support import uet_packets as uet
from tests.support.uet_endpoint import Initiator, Target
from tests.support.uet_packets import Answer
from tests.system.test_interoperation import CONTENT, KEY, NICS, STEPS, Bench, bench_of

START = 0x4000_0000
"""The first psn of the NIC's PDC, in both directions."""


@pytest.fixture(params=tuple(NICS))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_of(request.param)


def read(bench: Bench, target: Target, length: int, **fields: int) -> int:
    """READ from place 0x40 of the endpoint's memory."""
    return bench.execute(target, DescriptorOpcode.READ, length=length, remote_address=0x40, **fields)


def settle(target: Target, steps: int = Initiator.STEPS) -> None:
    for _ in range(steps):
        target.serve()


def returned(target: Target) -> list[tuple[int, int, int, int]]:
    """(psn, NACK, opcode, code) of the answers to requests in the return direction."""
    return [(answer.psn - START, answer.nack, answer.opcode, answer.code) for answer in target.acknowledged]


def taken(psn: int) -> tuple[int, int, int, int]:
    return psn, 0, uet.DEFAULT, uet.RC_OK


@pytest.mark.parametrize("packets", [1, 3])
def test_each_request_in_the_return_direction_is_acknowledged(bench: Bench, packets: int) -> None:
    target, payload = bench.target(), bench.nic.parameters.payload
    length = (packets - 1) * payload + 100
    assert read(bench, target, length) == ReturnCode.OK
    settle(target)
    assert bench.result[: length + 1] == CONTENT[0x40 : 0x40 + length] + b"\0"
    assert returned(target) == [taken(number) for number in range(packets)]
    assert [answer.modified for answer in target.acknowledged] == [payload] * (packets - 1) + [100]
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == 0


def test_data_in_either_direction_and_other_requests_complete_in_their_order(bench: Bench) -> None:
    target = bench.target()
    lengths = [64, 16, 200, 8, 100]
    for number, length in enumerate(lengths):
        place = bench.result.address + 0x100 * number
        bench.context.put(
            opcode=DescriptorOpcode.READ, length=length, result=place, remote_address=0x40, context=number
        )
        bench.context.put(
            opcode=DescriptorOpcode.WRITE, length=8, local=bench.source.address, remote_address=0x2000,
            flags=DescriptorFlags.COMPLETION, context=0x10 + number,
        )  # fmt: skip
    bench.context.ring()
    assert [bench.status(target) for _ in lengths] == [ReturnCode.OK] * len(lengths)
    for number, length in enumerate(lengths):
        assert bench.result[0x100 * number : 0x100 * number + length + 1] == CONTENT[0x40 : 0x40 + length] + b"\0"


@pytest.mark.parametrize("lost", range(6))
def test_any_packet_of_the_target_may_be_lost(bench: Bench, lost: int) -> None:
    target, payload = bench.target(), bench.nic.parameters.payload
    target.drop = {lost}
    length = 2 * payload + 100
    assert read(bench, target, length) == ReturnCode.OK
    assert bench.result[: length + 1] == CONTENT[0x40 : 0x40 + length] + b"\0"


@pytest.mark.parametrize("lost", range(6))
def test_any_packet_to_the_target_may_be_lost(bench: Bench, lost: int) -> None:
    target, payload = bench.target(), bench.nic.parameters.payload
    target.deaf = {lost}
    length = 2 * payload + 100
    assert read(bench, target, length) == ReturnCode.OK
    settle(target, STEPS)
    assert bench.result[: length + 1] == CONTENT[0x40 : 0x40 + length] + b"\0"
    assert not target.unacknowledged


def test_a_packet_behind_a_gap_is_refused_once_for_each_gap(bench: Bench) -> None:
    target, payload = bench.target(), bench.nic.parameters.payload
    target.drop = {1}
    assert read(bench, target, 3 * payload) == ReturnCode.OK
    refusals = [answer for answer in target.acknowledged if answer.nack]
    assert [(answer.nack, answer.psn) for answer in refusals] == [(uet.ROD_OUT_OF_ORDER, START)]


def test_a_request_that_comes_again_is_acknowledged_and_not_written(bench: Bench) -> None:
    target = bench.target()
    assert read(bench, target, 64) == ReturnCode.OK
    bench.result[0] = bytes(64)
    target.send_returned(START, lambda packet: packet[:32] + b"\xee" * 64)
    settle(target)
    assert returned(target) == [taken(0), taken(0)]
    assert bench.result[:64] == bytes(64)
    assert read(bench, target, 64) == ReturnCode.OK


def _put(packet: bytes, at: int, value: bytes) -> bytes:
    return packet[:at] + value + packet[at + len(value) :]


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "job": lambda packet: _put(packet, 16, struct.pack(">I", 0x00BB_BBBB)),
    "sender's PDC": lambda packet: _put(packet, 8, struct.pack(">H", 99)),
    "receiver's PDC": lambda packet: _put(packet, 10, struct.pack(">H", 2)),
    "no PDC of the NIC": lambda packet: _put(packet, 10, struct.pack(">H", 0xFFFF)),
    "psn far ahead": lambda packet: _put(packet, 4, struct.pack(">I", START + 0x1_0000)),
    "psn long past": lambda packet: _put(packet, 4, struct.pack(">I", START - 0x1_0000)),
    "psn before the first": lambda packet: _put(packet, 4, struct.pack(">I", START - 1)),
    "message of no READ": lambda packet: _put(packet, 20, struct.pack(">H", 77)),
}
"""Data that is not for the READ: dropped without an answer."""


@pytest.mark.parametrize("change", HOSTILE)
def test_data_for_no_read_is_dropped(bench: Bench, change: str) -> None:
    target = bench.target()
    assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == ReturnCode.OK
    target.forge = lambda packet: HOSTILE[change](packet)[:32] + b"\xee" * 64
    bench.context.post(
        opcode=DescriptorOpcode.READ, remote_key=KEY, length=64, remote_address=0x40, result=bench.result.address
    )
    settle(target)
    assert bench.context.poll() is None
    assert bench.result[:64] == bytes(64)
    assert bench.nic.counter(Counter.DROPPED_RESPONSE)
    assert not target.acknowledged
    target.forge = None
    assert bench.status(target) == ReturnCode.OK
    assert bench.result[:64] == CONTENT[0x40:0x80]


WRONG: dict[str, Callable[[bytes], bytes]] = {
    "too long": lambda packet: _put(packet[:32], 22, struct.pack(">HI", 80, 80)) + b"\xee" * 80,
    "too short": lambda packet: _put(packet[:32], 22, struct.pack(">HI", 48, 48)) + b"\xee" * 48,
    "a part of it": lambda packet: _put(packet[:32], 22, struct.pack(">HI", 48, 64)) + b"\xee" * 48,
    "an offset": lambda packet: _put(packet[:32], 28, struct.pack(">I", 8)) + b"\xee" * 64,
    "more than it says": lambda packet: _put(packet[:32], 24, struct.pack(">I", 65)) + b"\xee" * 64,
}
"""Data for the READ that is not as long as it asked for: the READ ends with UNCOR."""


@pytest.mark.parametrize("change", WRONG)
def test_data_of_another_length_ends_the_read(bench: Bench, change: str) -> None:
    target = bench.target()
    target.forge = WRONG[change]
    assert read(bench, target, 64) == ReturnCode.UNCOR
    assert bench.result[:100] == bytes(100)
    target.forge = None
    assert read(bench, target, 64) == ReturnCode.OK


def test_an_error_in_the_return_direction_is_the_status_of_the_read(bench: Bench) -> None:
    target = bench.target()
    target.forge = lambda packet: _put(packet, 13, bytes([ReturnCode.AT_PERM]))
    assert read(bench, target, 64) == ReturnCode.AT_PERM
    assert bench.result[:64] == bytes(64)


def test_no_other_request_takes_data_in_the_return_direction(bench: Bench) -> None:
    target = bench.target()
    assert read(bench, target, 64) == ReturnCode.OK
    target.deaf = {target.heard}
    bench.context.post(
        opcode=DescriptorOpcode.FETCH_ATOMIC, op=2, datatype=7, length=8, local=1, remote_key=KEY, remote_address=0,
        flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, result=bench.result.address + 0x100,
    )  # fmt: skip
    data = struct.pack(">HHII", 1, 8, 8, 0) + b"\xee" * 8
    target.send_returned(
        START, lambda packet: _put(_put(packet[:20], 4, struct.pack(">I", START + 1)), 14, b"\0\1") + data
    )
    settle(target, 20)
    assert bench.context.poll() is None
    assert bench.result[0x100:0x108] == bytes(8)


def test_nothing_is_written_late(bench: Bench) -> None:
    """When the PDC has failed, a READ's data is dropped."""
    target = bench.target()
    target.forge = lambda packet: _put(packet, 16, struct.pack(">I", 1))
    bench.context.post(
        opcode=DescriptorOpcode.READ, remote_key=KEY, length=64, remote_address=0x40, result=bench.result.address
    )
    settle(target, 20)
    bench.nic.set("peers", fail=0)
    assert bench.status(target) == ReturnCode.LOCAL_PDC_FAILED
    target.forge = None
    settle(target, STEPS)
    assert bench.result[:64] == bytes(64)
    assert not target.acknowledged


def test_data_for_a_context_that_was_disabled_is_acknowledged_and_not_written(bench: Bench) -> None:
    target = bench.target()
    target.forge = lambda packet: _put(packet, 16, struct.pack(">I", 1))
    bench.context.post(
        opcode=DescriptorOpcode.READ, remote_key=KEY, length=64, remote_address=0x40, result=bench.result.address
    )
    settle(target, 20)
    bench.nic.set("contexts", 0, control=0)
    target.forge = None
    settle(target, STEPS)
    assert returned(target) == [taken(0)]
    assert bench.result[:64] == bytes(64)


def test_a_pdc_that_is_opened_again_counts_anew_in_the_return_direction(bench: Bench) -> None:
    target = bench.target()
    for _ in range(2):
        assert read(bench, target, 64) == ReturnCode.OK
        settle(target)
        assert bench.execute(target, DescriptorOpcode.CLOSE) == ReturnCode.OK
    first, second = (answer.psn for answer in target.acknowledged)
    opened = [request.psn for request in target.requests if request.syn]
    assert [first, second] == opened


def test_an_answer_by_default_completes_no_read(bench: Bench) -> None:
    target = bench.target()
    target.mute = True
    bench.context.post(
        opcode=DescriptorOpcode.READ, remote_key=KEY, length=64, remote_address=0x40, result=bench.result.address
    )
    settle(target, 20)
    assert bench.context.poll() is None
    assert bench.nic.counter(Counter.RESPONSES_RECEIVED)
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == 0


def test_a_peer_that_promises_data_forever_fails_its_pdc(bench: Bench) -> None:
    target = bench.target()
    target.mute = True
    bench.nic.set("device", retransmit_timeout=200, retransmit_limit=2)
    assert read(bench, target, 64) == ReturnCode.LOCAL_PDC_FAILED


def test_answers_are_those_of_the_packet(bench: Bench) -> None:
    target = bench.target()
    assert read(bench, target, 64) == ReturnCode.OK
    settle(target)
    answer: Answer = target.acknowledged[0]
    assert (answer.spdcid, answer.message, answer.modified, answer.tos >> 2) == (1, 0, 64, 46)
