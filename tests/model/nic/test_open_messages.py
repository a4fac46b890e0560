"""Messages of several packets: WRITEs that a target takes in parts, and parts that do not belong together.

Covers ``nic/open_messages.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter, KeyFlags
from amoeba_model.wire.codec import DecodedFrame, decode
from amoeba_model.wire.uet import (
    AtomicDatatype,
    AtomicOpcode,
    NackCode,
    RequestOpcode,
    ReturnCode,
    SesFlags,
    message_place,
)

from tests.support.raw_driver import Buffer, Pair
from tests.support.stranger import Stranger
from tests.support.three_parts import DATA, END, FIRST, HEADER_DATA, LENGTH, SECOND, START, ThreeParts

MakePair = Callable[..., Pair]
OK, OP_VIOLATION = ReturnCode.OK, ReturnCode.OP_VIOLATION
SIZE, PAGE = 1 << 14, 4096
OTHER_KEY = Pair.KEY ^ 0xFF


@dataclass
class Bench(ThreeParts):
    """A target with one region, and a stranger that sends it the parts of one WRITE of ``LENGTH`` bytes."""

    pair: Pair
    stranger: Stranger = field(init=False)
    region: Buffer = field(init=False)

    def __post_init__(self) -> None:
        self.region = self.pair.memory(SIZE)
        self.pair.target.key(OTHER_KEY, self.region.address, SIZE)
        self.stranger = Stranger(self.pair)

    def fields(self, at: int, end: int, **fields: Any) -> dict[str, Any]:
        return super().fields(at, end, **{"buffer_offset": self.region.address + 64, **fields})

    def events(self) -> list[dict[str, int]]:
        found = []
        while (event := self.pair.remote.poll_event()) is not None:
            found.append(event)
        return found

    def written(self) -> bytes:
        return self.region[64 : 64 + LENGTH]

    def assert_nothing_is_told(self) -> None:
        assert self.events() == []
        assert self.pair.target.counter(Counter.EVENTS) == 0


@pytest.fixture
def pair(make_model_pair: MakePair) -> Pair:
    """The target's context 0 has an event ring of 16 entries."""
    pair = make_model_pair()
    pair.remote = pair.target.context(event_size=4)
    return pair


@pytest.fixture
def bench(pair: Pair) -> Bench:
    return Bench(pair)


def test_the_parts_are_one_message_with_one_event(bench: Bench) -> None:
    assert [bench.first(), bench.second(), bench.last()] == [OK, OK, OK]
    assert bench.written() == bench.content
    (event,) = bench.events()
    assert (event["kind"], event["data"], event["length"]) == (EventKind.REMOTE_WRITE, DATA, LENGTH)
    assert event["address"] == bench.region.address + 64


def test_the_range_of_the_whole_message_is_checked_at_each_packet(bench: Bench) -> None:
    outside = {"buffer_offset": bench.region.address + SIZE - LENGTH + 1}
    assert bench.first(**outside) == ReturnCode.BAD_ADDR
    assert bench.second(**outside) == ReturnCode.BAD_ADDR
    assert bench.last(**outside) == ReturnCode.BAD_ADDR
    assert bench.region[:] == bytes(SIZE)
    bench.assert_nothing_is_told()


def test_after_a_refusal_the_rest_of_a_message_is_refused_too(bench: Bench) -> None:
    assert bench.first(job_id=bench.pair.remote.job_id ^ 1) == ReturnCode.BAD_JOB_ID
    assert [bench.second(), bench.last()] == [OP_VIOLATION] * 2
    assert bench.written() == bytes(LENGTH)
    bench.assert_nothing_is_told()


CHANGES: list[dict[str, Any]] = [
    {"message_id": 10},
    {"request_length": LENGTH - 1},
    {"request_length": LENGTH + 1},
    {"initiator": 1},
    {"header_data": message_place(SECOND, FIRST + 1)},
    {"header_data": message_place(SECOND, FIRST - 1)},
    {"header_data": message_place(SECOND, 0)},
    {"header_data": message_place(SECOND, LENGTH)},
    {"header_data": message_place(SECOND, (1 << 32) - SECOND)},
    {"header_data": message_place(SECOND - 1, FIRST)},
    {"header_data": message_place(0, FIRST)},
    {"flags": END},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_part_that_does_not_continue_the_message_ends_it(bench: Bench, change: dict[str, int]) -> None:
    assert bench.first() == OK
    assert bench.second(**change) == OP_VIOLATION
    assert [bench.second(), bench.last()] == [OP_VIOLATION] * 2
    assert bench.written() == bench.content[:FIRST] + bytes(LENGTH - FIRST)
    bench.assert_nothing_is_told()


def test_another_place_in_memory_is_no_part_of_the_message(bench: Bench) -> None:
    assert bench.first() == OK
    assert bench.second(buffer_offset=bench.region.address) == OP_VIOLATION
    assert bench.region[:64] == bytes(64)
    bench.assert_nothing_is_told()


def test_another_context_is_not_told_of_data_that_it_did_not_get(bench: Bench) -> None:
    other = bench.pair.target.context(1, event_size=4)
    assert bench.first() == OK
    assert bench.part(FIRST, LENGTH, resource_index=1, pid_on_fep=other.pid_on_fep) == OP_VIOLATION
    assert other.poll_event() is None


def test_another_key_in_the_middle_is_a_violation_of_rights(bench: Bench) -> None:
    assert bench.first() == OK
    assert bench.second(memory_key=OTHER_KEY) == ReturnCode.PERM_VIOLATION
    assert bench.last(memory_key=OTHER_KEY) == OP_VIOLATION
    bench.assert_nothing_is_told()


def test_a_message_whose_key_is_revoked_halfway_is_not_told(bench: Bench) -> None:
    assert bench.first() == OK
    bench.pair.target.key(Pair.KEY, 0, 0, flags=KeyFlags(0))
    assert bench.second() == ReturnCode.BAD_MKEY
    bench.pair.target.key(Pair.KEY, bench.region.address, SIZE)
    assert bench.last() == OP_VIOLATION
    bench.assert_nothing_is_told()


def test_a_message_without_its_first_packet_is_refused(bench: Bench) -> None:
    assert [bench.second(), bench.last()] == [OP_VIOLATION] * 2
    assert bench.written() == bytes(LENGTH)
    bench.assert_nothing_is_told()


def test_a_second_start_begins_anew_and_the_first_message_is_forgotten(bench: Bench) -> None:
    assert [bench.first(), bench.second(), bench.first(header_data=5)] == [OK, OK, OK]
    assert bench.last() == OP_VIOLATION
    assert [bench.first(header_data=6), bench.second(), bench.last()] == [OK, OK, OK]
    assert [event["data"] for event in bench.events()] == [6]


@pytest.mark.parametrize("opcode", [RequestOpcode.NO_OP, RequestOpcode.READ])
def test_any_other_message_ends_one_that_is_unfinished(bench: Bench, opcode: RequestOpcode) -> None:
    assert bench.first() == OK
    other = bench.stranger.ask(opcode=opcode, request_length=0, buffer_offset=bench.region.address)
    assert other.header.return_code == OK
    assert bench.second() == OP_VIOLATION
    bench.assert_nothing_is_told()


@pytest.mark.parametrize("size", [0, LENGTH, LENGTH + 1])
def test_a_first_packet_that_is_no_part_is_refused(bench: Bench, size: int) -> None:
    answer = bench.stranger.ask(bytes(size), flags=START, request_length=LENGTH, buffer_offset=bench.region.address)
    assert answer.header.return_code == OP_VIOLATION
    assert bench.region[:] == bytes(SIZE)


def test_other_messages_have_one_packet(bench: Bench) -> None:
    for opcode in {*range(64)} - {1, 5, 9, RequestOpcode.MSG_ERROR, 0x30, 0x31, 0x32}:
        for flags in (0, START, END):
            answer = bench.stranger.ask(bytes(8), opcode=opcode, flags=flags, request_length=16)
            assert answer.header.return_code == OP_VIOLATION, (opcode, flags)


def test_a_msg_error_ends_the_message_and_is_answered(bench: Bench) -> None:
    fields = {"opcode": RequestOpcode.MSG_ERROR, "flags": END, "message_id": 9, "header_data": FIRST}
    assert bench.first() == OK
    assert bench.stranger.ask(**fields).header.return_code == OK
    assert bench.second() == OP_VIOLATION
    assert bench.first() == OK
    fields["flags"] = END | SesFlags.INITIATOR_ERROR
    assert bench.stranger.ask(**fields).header.return_code == ReturnCode.INITIATOR_ERROR
    assert bench.second() == OP_VIOLATION
    bench.assert_nothing_is_told()


def test_a_close_gives_the_message_up(bench: Bench) -> None:
    assert bench.first() == OK
    stranger = bench.stranger
    stranger.send(stranger.frame(stranger.close()))
    stranger.answers()
    stranger.psn += 1
    stranger.first_psn = stranger.psn
    assert bench.second() == OP_VIOLATION
    bench.assert_nothing_is_told()


def test_messages_of_several_pdcs_do_not_meet(bench: Bench) -> None:
    other = Bench.__new__(Bench)
    other.pair, other.region, other.content = bench.pair, bench.region, bench.content
    other.stranger = Stranger(bench.pair, ip=bench.stranger.ip + 1, mac=bench.stranger.mac + 1)
    assert bench.first() == OK
    assert other.second() == OP_VIOLATION
    assert [bench.second(), other.first(header_data=4), bench.last()] == [OK] * 3
    assert [other.second(), other.last()] == [OK] * 2
    assert [event["data"] for event in bench.events()] == [DATA, 4]


def test_the_last_packet_waits_for_an_event_entry_and_the_others_do_not(bench: Bench) -> None:
    entries = (1 << bench.pair.remote.event_size) - 4
    for _ in range(entries):
        fields = {"flags": START | END | HEADER_DATA, "buffer_offset": bench.region.address}
        assert bench.stranger.ask(**fields).header.return_code == OK
    assert [bench.first(), bench.second()] == [OK, OK]
    stranger = bench.stranger
    refusal = stranger.ask(
        bench.content[FIRST + SECOND :], flags=END, message_id=9, request_length=LENGTH,
        buffer_offset=bench.region.address + 64, header_data=message_place(LENGTH - FIRST - SECOND, FIRST + SECOND),
    )  # fmt: skip
    assert (refusal.header.is_control, refusal.header.nack_code) == (True, NackCode.NO_RESOURCE)
    stranger.psn -= 1
    assert len(bench.events()) == entries
    assert bench.last() == OK
    (event,) = bench.events()
    assert (event["data"], event["length"]) == (DATA, LENGTH)


def test_a_write_of_two_gibibytes_is_a_message(bench: Bench) -> None:
    """Nothing is held for it: its first part is placed, and the key's bounds are those of the whole."""
    fields = {"request_length": (1 << 32) - 1, "flags": START, "buffer_offset": bench.region.address}
    assert bench.stranger.ask(bytes(8), **fields).header.return_code == ReturnCode.BAD_ADDR


def test_the_nic_sends_one_message_and_reports_one_length(pair: Pair) -> None:
    region, source = pair.memory(SIZE), pair.initiator.buffer(SIZE, fill=0x77)
    entry = pair.local.execute(
        opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE, length=10_000,
        local=source.address, remote_address=region.address, remote_key=Pair.KEY, compare=DATA,
    )  # fmt: skip
    assert entry["status"] == OK
    event = pair.remote.poll_event()
    assert event is not None
    assert (event["data"], event["length"], event["address"]) == (DATA, 10_000, region.address)
    assert region[:10_000] == source[:10_000]


def test_operands_refused_halfway_end_the_message_with_a_msg_error(pair: Pair) -> None:
    region, source = pair.memory(SIZE), Buffer(SIZE, fill=0x77)
    pair.initiator.device.grant(source.address, PAGE)
    pair.network.recording = True
    entry = pair.local.execute(
        opcode=DescriptorOpcode.WRITE, flags=DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE, length=10_000,
        local=source.address, remote_address=region.address, remote_key=Pair.KEY, compare=DATA,
    )  # fmt: skip
    assert entry["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert pair.remote.poll_event() is None
    assert region[:] == source[:PAGE] + bytes(SIZE - PAGE)
    sent = [frame.header for frame in map(decode, frames_of(pair)) if isinstance(frame, DecodedFrame)]
    assert [(header.opcode, header.flags) for header in sent] == [
        (RequestOpcode.WRITE, START | HEADER_DATA),
        (RequestOpcode.MSG_ERROR, END | SesFlags.INITIATOR_ERROR),
    ]
    assert (sent[1].header_data, sent[1].request_length) == (message_place(0, PAGE), 10_000)
    assert sent[0].message_id == sent[1].message_id


ATOMICS = [
    (DescriptorOpcode.ATOMIC, Op.FI_SUM, RequestOpcode.AMOEBA_ATOMIC),
    (DescriptorOpcode.FETCH_ATOMIC, Op.FI_SUM, RequestOpcode.AMOEBA_FETCHING_ATOMIC),
    (DescriptorOpcode.COMPARE_ATOMIC, Op.FI_CSWAP, RequestOpcode.AMOEBA_COMPARE_ATOMIC),
]
COUNT = 2048


def execute(pair: Pair, opcode: DescriptorOpcode, op: Op, count: int, region: Buffer) -> tuple[int, Buffer]:
    """Execute an atomic of ones on the first so many numbers; its status, and its result."""
    ones, result = pair.initiator.buffer(8 * count), pair.initiator.buffer(8 * count)
    ones[0] = (1).to_bytes(8, "little") * count
    zeros = pair.initiator.buffer(8 * count)
    entry = pair.local.execute(
        opcode=opcode, op=op, datatype=Datatype.FI_UINT64, length=8 * count, local=ones.address,
        compare=zeros.address, result=result.address, remote_address=region.address, remote_key=Pair.KEY,
    )  # fmt: skip
    return entry["status"], result


@pytest.mark.parametrize(("opcode", "op", "ses_opcode"), ATOMICS)
def test_a8_an_atomic_beyond_its_region_is_refused_whole(
    pair: Pair, opcode: DescriptorOpcode, op: Op, ses_opcode: RequestOpcode
) -> None:
    region = pair.memory(8 * COUNT)
    pair.network.recording = True
    status, result = execute(pair, opcode, op, COUNT + 1, region)
    assert status == ReturnCode.BAD_ADDR
    assert region[:] == result[: 8 * COUNT] == bytes(8 * COUNT)
    sent = [frame.header for frame in map(decode, frames_of(pair)) if isinstance(frame, DecodedFrame)]
    assert {(header.opcode, header.request_length, header.message_id) for header in sent} == {
        (ses_opcode, 8 * (COUNT + 1), 0)
    }
    assert (sent[0].flags & 3, sent[1].flags & 3, sent[-1].flags & 3) == (START, 0, END)


@pytest.mark.parametrize(("opcode", "op", "ses_opcode"), ATOMICS)
def test_an_atomic_of_several_packets_is_executed_once(
    pair: Pair, opcode: DescriptorOpcode, op: Op, ses_opcode: RequestOpcode
) -> None:
    region = pair.memory(8 * COUNT)
    before = (0 if op == Op.FI_CSWAP else 7).to_bytes(8, "little") * COUNT
    region[0] = before
    status, result = execute(pair, opcode, op, COUNT, region)
    assert status == OK
    assert region[:] == (1 if op == Op.FI_CSWAP else 8).to_bytes(8, "little") * COUNT
    assert result[:] == (bytes(8 * COUNT) if opcode == DescriptorOpcode.ATOMIC else before)


def test_reading_atomics_of_several_packets_are_messages_of_their_own(pair: Pair) -> None:
    region = pair.memory(8 * COUNT, fill=3)
    pair.network.recording = True
    status, result = execute(pair, DescriptorOpcode.FETCH_ATOMIC, Op.FI_ATOMIC_READ, COUNT, region)
    assert (status, result[:]) == (OK, region[:])
    sent = [frame.header for frame in map(decode, frames_of(pair)) if isinstance(frame, DecodedFrame)]
    assert {(header.opcode, header.flags & 3) for header in sent} == {(RequestOpcode.FETCHING_ATOMIC, START | END)}


def test_a_long_atomic_tells_of_all_its_bytes(pair: Pair) -> None:
    region, ones = pair.memory(8 * COUNT), pair.initiator.buffer(8 * COUNT)
    status = pair.local.execute(
        opcode=DescriptorOpcode.ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, length=8 * COUNT, compare=DATA,
        flags=DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE, local=ones.address,
        remote_address=region.address, remote_key=Pair.KEY,
    )["status"]  # fmt: skip
    event = pair.remote.poll_event()
    assert event is not None
    assert (status, event["kind"], event["data"]) == (OK, EventKind.REMOTE_ATOMIC, DATA)
    assert (event["length"], event["address"]) == (8 * COUNT, region.address)


ATOMIC_PART = {
    "opcode": RequestOpcode.AMOEBA_ATOMIC, "atomic_opcode": AtomicOpcode.SUM, "request_length": 48,
    "atomic_datatype": AtomicDatatype.UINT64, "message_id": 3, "flags": START,
}  # fmt: skip


@pytest.mark.parametrize(
    ("size", "fields", "code"),
    [
        (16, {}, OK),
        (16, {"request_length": 44}, ReturnCode.AMO_UNSUPPORTED_SIZE),
        (12, {}, ReturnCode.AMO_UNSUPPORTED_SIZE),
        (0, {}, OP_VIOLATION),
        (48, {}, OP_VIOLATION),
        (16, {"opcode": RequestOpcode.AMOEBA_FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.CSWAP}, 0xF),
        (0, {"opcode": RequestOpcode.AMOEBA_FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.READ}, OP_VIOLATION),
        (8, {"opcode": RequestOpcode.AMOEBA_FETCHING_ATOMIC, "atomic_opcode": AtomicOpcode.READ}, 0x11),
        (16, {"opcode": RequestOpcode.AMOEBA_COMPARE_ATOMIC, "atomic_opcode": AtomicOpcode.CSWAP}, OK),
        (17, {"opcode": RequestOpcode.AMOEBA_COMPARE_ATOMIC, "atomic_opcode": AtomicOpcode.CSWAP}, 0x11),
        (4096, {"opcode": RequestOpcode.AMOEBA_COMPARE_ATOMIC, "atomic_opcode": AtomicOpcode.CSWAP}, OP_VIOLATION),
    ],
)
def test_parts_of_atomics_are_whole_elements(bench: Bench, size: int, fields: dict[str, Any], code: int) -> None:
    place = {"buffer_offset": bench.region.address}
    assert bench.stranger.ask(bytes(size), **{**ATOMIC_PART, **place, **fields}).header.return_code == code


def test_a_part_that_the_host_refuses_fails_the_rest_of_the_message(bench: Bench) -> None:
    memory, device = Buffer(2 * PAGE), bench.pair.target.device
    device.grant(memory.address, PAGE)
    bench.pair.target.key(Pair.KEY, memory.address, 2 * PAGE)

    def part(at: int, flags: int) -> int:
        place = {"buffer_offset": memory.address + PAGE - 16, "flags": flags}
        field = message_place(16, at) if at else DATA
        return bench.stranger.ask(bytes(16), **{**ATOMIC_PART, **place, "header_data": field}).header.return_code

    assert [part(0, START | HEADER_DATA), part(16, 0)] == [OK, ReturnCode.HOST_UNSUCCESS_CMPL]
    device.grant(memory.address + PAGE, PAGE)
    assert part(32, END) == ReturnCode.HOST_UNSUCCESS_CMPL
    bench.assert_nothing_is_told()
    assert [part(0, START | HEADER_DATA), part(16, 0), part(32, END)] == [OK] * 3
    assert [event["length"] for event in bench.events()] == [48]


def frames_of(pair: Pair) -> list[bytes]:
    """Requests that the initiator has sent."""
    mac = pair.initiator.mac.to_bytes(6, "big")
    return [frame.data for _, frame in pair.network.log if frame.data[6:12] == mac]
