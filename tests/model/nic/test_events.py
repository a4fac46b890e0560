"""Immediate data: events of the target, their space, and their interrupts.

Covers ``nic/core.py`` and ``nic/frames.py``.
"""

from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventFlags, EventKind
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.trace import Stage
from amoeba_model.wire.codec import DecodedFrame
from amoeba_model.wire.uet import NackCode, RequestOpcode, ReturnCode, SesFlags

from tests.support.raw_driver import Buffer, Pair
from tests.support.stranger import WHOLE, Stranger

MakePair = Callable[..., Pair]
SIZE = 8192
IMMEDIATE = DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE
INLINE = DescriptorFlags.INLINE
DATA = 0xFEDC_BA98_7654_3210
OK = ReturnCode.OK


@pytest.fixture
def pair(make_model_pair: MakePair) -> Pair:
    """The target's context 0 has an event ring of 8 entries, four of which are never reserved."""
    pair = make_model_pair()
    pair.remote = pair.target.context(event_size=3)
    return pair


@pytest.fixture
def region(pair: Pair) -> Buffer:
    return pair.memory(SIZE)


def fields(region: Buffer, **changes: int) -> dict[str, int]:
    """Of an inline WRITE of 8 bytes with immediate data."""
    return {
        "opcode": DescriptorOpcode.WRITE, "flags": IMMEDIATE | INLINE, "length": 8, "local": 5, "compare": DATA,
        "remote_address": region.address, "remote_key": Pair.KEY, **changes,
    }  # fmt: skip


def test_an_event_says_what_happened_where_and_who_did_it(pair: Pair, region: Buffer) -> None:
    result = pair.initiator.buffer(64)
    kinds = (
        (DescriptorOpcode.WRITE, EventKind.REMOTE_WRITE),
        (DescriptorOpcode.READ, EventKind.REMOTE_READ),
        (DescriptorOpcode.ATOMIC, EventKind.REMOTE_ATOMIC),
        (DescriptorOpcode.FETCH_ATOMIC, EventKind.REMOTE_ATOMIC),
    )
    for number, (opcode, kind) in enumerate(kinds):
        entry = pair.local.execute(
            **fields(region, opcode=opcode, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, result=result.address,
                     remote_address=region.address + 64 * number, compare=DATA + number)
        )  # fmt: skip
        assert entry["status"] == OK
        event = pair.remote.poll_event()
        assert event is not None
        assert event.pop("flags") & EventFlags.IMMEDIATE
        assert {name: value for name, value in event.items() if value} == {
            "data": DATA + number, "address": region.address + 64 * number, "length": 8,
            "source_ip": pair.initiator.ip, "kind": kind, "status": OK,
        }  # fmt: skip
        assert event["source_context"] == event["source_pdc"] == 0
    assert pair.target.counter(Counter.EVENTS) == 4


def test_an_event_names_the_context_and_pdc_of_its_source(pair: Pair, region: Buffer) -> None:
    context = pair.initiator.context(2)
    pair.initiator.peer(9, pair.remote, context=2)
    assert context.execute(**fields(region, peer=9))["status"] == OK
    event = pair.remote.poll_event()
    assert event is not None
    assert (event["source_context"], event["source_pdc"]) == (2, 9)


def test_an_event_of_an_offset_addressed_region_has_the_virtual_address(pair: Pair, region: Buffer) -> None:
    pair.target.key(99, region.address, SIZE, flags=0b111)
    assert pair.local.execute(**fields(region, remote_key=99, remote_address=24))["status"] == OK
    event = pair.remote.poll_event()
    assert event is not None
    assert event["address"] == region.address + 24


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 8192])
def test_a_write_has_one_event_of_all_its_bytes(pair: Pair, region: Buffer, length: int) -> None:
    source = pair.initiator.buffer(SIZE, fill=0x77)
    entry = pair.local.execute(**fields(region, flags=IMMEDIATE, length=length, local=source.address))
    assert entry["status"] == OK
    event = pair.remote.poll_event()
    assert event is not None
    assert (event["address"] - region.address, event["length"]) == (0, length)
    assert region[:length] == source[:length]
    assert pair.remote.poll_event() is None


def test_memory_that_a_nic_was_granted_is_no_other_buffer_later(pair: Pair) -> None:
    """The context of before has left memory that the NIC may still read: revoking a region there refuses nothing."""
    assert len({pair.target.buffer(64).address for _ in range(20)}) == 20


def test_requests_that_are_refused_have_no_event(pair: Pair, region: Buffer) -> None:
    assert pair.local.execute(**fields(region, remote_key=1))["status"] == ReturnCode.BAD_MKEY
    pair.target.device.revoke(region.address, SIZE)
    read = fields(region, opcode=DescriptorOpcode.READ, flags=IMMEDIATE)
    assert pair.local.execute(**read)["status"] == ReturnCode.HOST_UNSUCCESS_CMPL
    assert pair.remote.poll_event() is None
    assert pair.target.counter(Counter.EVENTS) == 0


def test_operands_that_cannot_be_read_have_no_event(pair: Pair, region: Buffer) -> None:
    entry = pair.local.execute(**fields(region, flags=IMMEDIATE, local=Buffer(64).address))
    assert entry["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert pair.remote.poll_event() is None


def test_a_context_without_event_ring_refuses_immediate_data(make_model_pair: MakePair) -> None:
    pair = make_model_pair()
    region = pair.memory(SIZE)
    assert pair.local.execute(**fields(region))["status"] == ReturnCode.DISABLED
    assert pair.local.execute(**fields(region, remote_key=1))["status"] == ReturnCode.DISABLED  # before the key
    oversized = {"flags": WHOLE | SesFlags.HEADER_DATA, "request_length": 9}
    answer = Stranger(pair).ask(bytes(8), **oversized)
    assert answer.header.return_code == ReturnCode.UNSUPPORTED_SIZE  # after the size
    assert region[:] == bytes(SIZE)


def test_a_full_ring_holds_requests_back_and_none_is_lost_or_doubled(pair: Pair, region: Buffer) -> None:
    pair.initiator.set("device", retransmit_timeout=2000, retransmit_limit=1)
    result = pair.initiator.buffer(128)
    for number in range(10):
        pair.local.put(
            **fields(region, opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, local=1,
                     result=result.address + 8 * number, compare=number)
        )  # fmt: skip
    pair.local.ring()
    pair.run(300)
    assert [pair.local.completion()["status"] for _ in range(4)] == [OK] * 4
    assert pair.local.poll() is None
    assert pair.target.counter(Counter.EVENTS) == region.integer(0) == 4
    assert pair.initiator.counter(Counter.TIMEOUTS) == 0
    seen: list[Any] = []
    for _ in range(400):
        event = pair.remote.poll_event()
        if event is not None:
            seen.append(event["data"])
        pair.network.step()
    assert seen == list(range(10))
    assert [pair.local.completion()["status"] for _ in range(6)] == [OK] * 6
    assert [result.integer(8 * number) for number in range(10)] == list(range(10))


def test_a_full_ring_holds_up_nobody_without_immediate_data(pair: Pair, region: Buffer) -> None:
    pair.initiator.peer(1, pair.remote)
    for _ in range(5):
        pair.local.post(**fields(region))
    pair.run(20)
    plain = fields(region, flags=DescriptorFlags.COMPLETION | INLINE, peer=1, context=77)
    pair.local.post(**plain)
    entries = [pair.local.completion() for _ in range(5)]
    assert entries[-1]["context"] == 77


def test_space_is_asked_for_before_anything_else_is_looked_at(pair: Pair, region: Buffer) -> None:
    stranger = Stranger(pair)
    write = {"flags": WHOLE | SesFlags.HEADER_DATA, "request_length": 8, "buffer_offset": region.address}
    for _ in range(4):
        assert stranger.ask(bytes(8), **write).header.return_code == OK
    for fault in ({}, {"memory_key": 1}, {"job_id": 3}):
        stranger.send(stranger.frame(stranger.header(**{**write, **fault}), bytes(8)))
        (nack,) = stranger.answers()
        assert (nack.header.nack_code, nack.header.psn) == (NackCode.NO_RESOURCE, 504)
    later = stranger.frame(stranger.header(psn=505, dpdcid=5))
    stranger.send(later)
    assert stranger.answers() == []  # the NACK before said it all, and it is kept
    assert pair.target.counter(Counter.DROPPED_SEQUENCE) == 3
    elsewhere = stranger.header(**{**write, "resource_index": 1})  # not enabled: no ring to be full
    stranger.send(stranger.frame(elsewhere, bytes(8)))
    answers = [(answer.header.psn, answer.header.return_code) for answer in stranger.answers()]
    assert answers == [(504, ReturnCode.BAD_INDEX), (505, ReturnCode.BAD_ADDR)]


def test_a_no_op_has_no_event(pair: Pair) -> None:
    stranger = Stranger(pair)
    answer = stranger.ask(opcode=RequestOpcode.NO_OP, flags=WHOLE | SesFlags.HEADER_DATA)
    assert answer.header.return_code == OK
    assert pair.remote.poll_event() is None


def test_a_repeated_request_has_one_event(pair: Pair, region: Buffer) -> None:
    stranger = Stranger(pair)
    write = {"flags": WHOLE | SesFlags.HEADER_DATA, "request_length": 8, "buffer_offset": region.address}
    stranger.ask(bytes(8), **write)
    stranger.send(stranger.frame(stranger.header(psn=500, dpdcid=0, **write), bytes(8)))
    (again,) = stranger.answers()
    assert isinstance(again, DecodedFrame)
    assert again.header.retx
    assert pair.target.counter(Counter.EVENTS) == 1


def test_the_phase_turns_with_every_lap(pair: Pair, region: Buffer) -> None:
    for number in range(40):
        assert pair.local.execute(**fields(region, compare=number))["status"] == OK
        event = pair.remote.poll_event()
        assert event is not None
        assert event["data"] == number
        assert bool(event["flags"] & EventFlags.PHASE) == (number // 8 % 2 == 0)


def test_enabling_a_context_again_begins_its_event_ring_anew(pair: Pair, region: Buffer) -> None:
    for _ in range(3):
        assert pair.local.execute(**fields(region))["status"] == OK
    pair.remote = pair.target.context(event_size=3)
    for number in range(4):
        assert pair.local.execute(**fields(region, compare=number))["status"] == OK
    events = [pair.remote.poll_event() for _ in range(4)]
    assert [event["data"] for event in events if event is not None] == [0, 1, 2, 3]


def vectors(pair: Pair) -> int:
    assert isinstance(pair.target.device, SimulatedDevice)
    return pair.target.device.take_interrupts()


def test_an_armed_ring_interrupts_once(pair: Pair, region: Buffer) -> None:
    pair.remote.doorbell("event_arm", 1)
    interrupts = []
    for _ in range(3):
        pair.local.execute(**fields(region))
        interrupts.append(vectors(pair))
        assert pair.remote.poll_event() is not None
    assert interrupts == [0, 1, 0]
    pair.remote.doorbell("event_arm", 2)  # written already
    assert vectors(pair) == 1
    assert pair.target.counter(Counter.INTERRUPTS) == 2


def test_completions_and_events_are_armed_apart(pair: Pair, region: Buffer) -> None:
    pair.remote.doorbell("arm", 0)
    pair.local.execute(**fields(region))
    assert vectors(pair) == 0
    pair.remote.doorbell("event_arm", 1)
    assert pair.remote.execute(opcode=DescriptorOpcode.NOP)["status"] == OK
    assert vectors(pair) == 1
    pair.local.execute(**fields(region))
    assert vectors(pair) == 1


def test_an_event_is_traced_behind_its_lines_and_before_its_answer(pair: Pair, region: Buffer) -> None:
    assert isinstance(pair.target.device, SimulatedDevice)
    pair.target.device.tracing = True
    pair.local.execute(**fields(region))
    pair.local.execute(**fields(region))
    events = pair.target.device.trace_events()
    stages = [event.stage for event in events]
    assert stages.index(Stage.LINE_WRITTEN) < stages.index(Stage.EVENT_WRITTEN) < stages.index(Stage.RESPONSE_SENT)
    written = [event for event in events if event.stage is Stage.EVENT_WRITTEN]
    assert [(event.context, event.pdc, event.psn, event.status) for event in written] == [
        (0, 0, 0, OK),
        (0, 0, 1, OK),
    ]


def test_an_event_ring_that_the_host_refuses_is_counted(pair: Pair, region: Buffer) -> None:
    assert pair.remote.events is not None
    pair.target.device.revoke(pair.remote.events.address, pair.remote.events.size)
    assert pair.local.execute(**fields(region))["status"] == OK
    (fault,) = pair.target.device.faults()
    assert (fault.requester, fault.write, fault.size) == ("EVENT_WRITER", True, 64)
