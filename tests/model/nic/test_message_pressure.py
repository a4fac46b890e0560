"""Messages that there is no space for, that are lost or come twice: held back, and delivered once and in order."""

import random
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorOpcode, EventFlags, EventKind, ReceiveOpcode
from amoeba_model.network import SimulatedDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import AtomicDatatype, AtomicOpcode, NackCode, RequestOpcode, ReturnCode

from tests.support.messages import Mailbox
from tests.support.raw_driver import Pair
from tests.support.saboteur import Saboteur, chance
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
IN_SLOT = EventFlags.IN_SLOT


# Back-pressure


def test_without_a_free_slot_messages_are_held_back_and_none_is_lost_or_doubled(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(NicParameters(unexpected=2)))
    box.pair.initiator.set("device", retransmit_timeout=2000, retransmit_limit=1)
    for number in range(6):
        box.pair.local.put(**box.message(8, number))
    box.pair.local.ring()
    box.pair.run(300)
    assert [box.pair.local.completion()["status"] for _ in range(2)] == [OK] * 2
    assert box.pair.local.poll() is None
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 2
    assert box.pair.initiator.counter(Counter.TIMEOUTS) == 0
    assert box.pair.initiator.counter(Counter.NACKS_RECEIVED) > 0
    received = []
    for _ in range(6):
        box.receive()
        event = box.context.event()
        if event["flags"] & IN_SLOT:
            received.append(box.context.slot(event["slot"], 8))
            box.context.release_slot(event["slot"])
        else:
            received.append(box.buffer[:8])
    assert received == [box.sent(8, number) for number in range(6)]
    assert [box.pair.local.completion()["status"] for _ in range(4)] == [OK] * 4


def ask(stranger: Stranger, opcode: RequestOpcode, payload: bytes = bytes(8), **fields: int) -> FrameHeader:
    """The answer to the next message with tag 3; one that is held back may be sent again."""
    stranger.send(stranger.frame(stranger.header(**message(opcode, payload), **fields), payload))
    (answer,) = stranger.answers()
    return answer.header


def message(opcode: RequestOpcode, payload: bytes) -> dict[str, int]:
    operation = {"atomic_opcode": AtomicOpcode.SUM, "atomic_datatype": AtomicDatatype.UINT64}
    return {"opcode": opcode, "memory_key": 3, "request_length": len(payload), **operation}


@pytest.fixture
def full(make_model_pair: MakePair) -> Mailbox:
    """Both slots are taken by messages of a sender who is read by nobody."""
    box = Mailbox(make_model_pair(NicParameters(unexpected=2)))
    for _ in range(2):
        assert box.send() == OK
    return box


def test_a_message_that_meets_a_receive_needs_no_slot(full: Mailbox) -> None:
    stranger = Stranger(full.pair)
    for place in range(0, 256, 64):
        full.receive(place, tag=3)
    for number in range(4):
        fields = message(RequestOpcode.TAGGED_SEND, bytes(8))
        assert stranger.ask(bytes([number] * 8), **fields).header.return_code == OK
    assert [event["kind"] for event in full.events(4)] == [EventKind.RECEIVED] * 4
    assert [full.buffer[64 * number : 64 * number + 8] for number in range(4)] == [bytes([n] * 8) for n in range(4)]


def test_without_a_slot_a_message_that_meets_no_receive_is_held_back_until_one_is_posted(full: Mailbox) -> None:
    stranger = Stranger(full.pair)
    full.receive(tag=4)
    held = ask(stranger, RequestOpcode.TAGGED_SEND)
    assert (held.nack_code, held.psn) == (NackCode.NO_RESOURCE, stranger.psn)
    full.receive(tag=3)
    assert ask(stranger, RequestOpcode.TAGGED_SEND).return_code == OK
    assert full.event()["tag"] == 3
    assert full.pair.target.counter(Counter.DROPPED_SEQUENCE) == 1
    assert full.pair.target.counter(Counter.MESSAGES_MATCHED) == 1


def test_a_rendezvous_needs_a_slot_for_its_record_whatever_it_meets(full: Mailbox) -> None:
    stranger = Stranger(full.pair)
    full.receive(tag=3)
    record = full.record(100)
    assert ask(stranger, RequestOpcode.RENDEZVOUS_TSEND, record).nack_code == NackCode.NO_RESOURCE
    full.context.receive(opcode=ReceiveOpcode.TAKE)
    full.context.release_slot(full.event().get("slot", 0))
    assert ask(stranger, RequestOpcode.RENDEZVOUS_TSEND, record).return_code == OK
    assert full.event()["kind"] == EventKind.RENDEZVOUS


@pytest.mark.parametrize("opcode", [RequestOpcode.TSEND_ATOMIC, RequestOpcode.TSEND_FETCH_ATOMIC])
def test_a_tagged_atomic_needs_no_slot(full: Mailbox, opcode: RequestOpcode) -> None:
    stranger = Stranger(full.pair)
    one = (1).to_bytes(8, "big")
    assert stranger.ask(one, **message(opcode, one)).header.return_code == ReturnCode.NO_MATCH
    full.receive(tag=3)
    assert stranger.ask(one, **message(opcode, one)).header.return_code == OK
    assert full.event()["kind"] == EventKind.ATOMIC_RECEIVED
    assert full.buffer.integer(0) == 1


def test_what_the_checks_refuse_uses_up_no_receive_that_it_would_meet(full: Mailbox) -> None:
    stranger = Stranger(full.pair)
    full.receive(tag=3)
    fields = message(RequestOpcode.TAGGED_SEND, bytes(8))
    assert stranger.ask(bytes(8), **fields, job_id=1).header.return_code == ReturnCode.BAD_JOB_ID
    assert full.events(0) == []
    assert stranger.ask(bytes(8), **fields).header.return_code == OK
    assert full.event()["kind"] == EventKind.RECEIVED


def test_every_message_needs_space_for_an_event_also_if_it_has_none(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(), event_size=3)
    stranger = Stranger(box.pair)
    send = {"opcode": RequestOpcode.SEND, "request_length": 8}
    for _ in range(4):
        box.receive()
    for _ in range(4):
        assert stranger.ask(bytes(8), **send).header.return_code == OK
    stranger.send(stranger.frame(stranger.header(**send), bytes(8)))
    (nack,) = stranger.answers()
    assert nack.header.nack_code == NackCode.NO_RESOURCE
    assert box.context.poll_event() is not None
    for _ in range(3):  # unneeded reservations are released
        assert stranger.ask(bytes(8), **send).header.return_code == OK
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 3


def test_a_full_event_ring_holds_messages_back_until_the_driver_reads(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(), event_size=3)
    box.pair.initiator.set("device", retransmit_timeout=2000, retransmit_limit=1)
    for place in range(0, 640, 64):
        box.receive(place)
    for number in range(10):
        box.pair.local.put(**box.message(8, number))
    box.pair.local.ring()
    box.pair.run(300)
    assert box.pair.target.counter(Counter.EVENTS) == 4
    assert box.pair.initiator.counter(Counter.TIMEOUTS) == 0
    assert [event["address"] - box.place() for event in box.events(10)] == list(range(0, 640, 64))
    assert [box.pair.local.completion()["status"] for _ in range(10)] == [OK] * 10
    assert [box.buffer[64 * number : 64 * number + 8] for number in range(10)] == [
        box.sent(8, number) for number in range(10)
    ]


def test_messages_held_back_hold_up_nobody_else(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(NicParameters(unexpected=2)))
    box.pair.initiator.peer(1, box.context)
    region = box.pair.memory(64)
    for _ in range(3):
        box.pair.local.post(**box.message())
    assert [box.pair.local.completion()["status"] for _ in range(2)] == [OK] * 2
    write = {"opcode": DescriptorOpcode.WRITE, "peer": 1, "remote_key": Pair.KEY, "remote_address": region.address}
    assert box.send(**write) == OK
    assert region[:8] == box.sent(8)


# Exactly once


def test_a_message_received_again_is_answered_again_and_not_delivered(box: Mailbox) -> None:
    stranger = Stranger(box.pair)
    box.receive()
    box.receive()
    fields = {"opcode": RequestOpcode.SEND, "request_length": 8}
    stranger.ask(bytes(8), **fields)
    stranger.send(stranger.frame(stranger.header(psn=500, dpdcid=0, **fields), bytes(8)))
    (again,) = stranger.answers()
    assert again.header.retx
    assert box.event()["kind"] == EventKind.RECEIVED


@pytest.mark.parametrize("seed", range(3))
def test_messages_arrive_once_and_in_order_over_a_network_that_loses(make_model_pair: MakePair, seed: int) -> None:
    box = Mailbox(make_model_pair(NicParameters(unexpected=4)))
    box.pair.initiator.set("device", retransmit_timeout=1500, retransmit_limit=30)
    generator = random.Random(seed)
    for nic in (box.pair.initiator, box.pair.target):
        assert isinstance(nic.device, SimulatedDevice)
        Saboteur(nic.device, chance(generator, 0.05))
    for round_number in range(10):
        for number in range(10):
            box.pair.local.put(**box.message(8, 10 * round_number + number, flags=0))
        box.pair.local.ring()
        received = []
        for _ in range(10):
            box.receive()
            event = box.context.event(20_000)
            if event["flags"] & IN_SLOT:
                received.append(box.context.slot(event["slot"], 8))
                box.context.release_slot(event["slot"])
            else:
                received.append(box.buffer[:8])
        assert received == [box.sent(8, 10 * round_number + number) for number in range(10)], f"seed {seed}"
    box.pair.run(100)
    assert box.pair.target.counter(Counter.EVENTS) == 100
    assert box.pair.initiator.counter(Counter.RETRANSMISSIONS) > 0
