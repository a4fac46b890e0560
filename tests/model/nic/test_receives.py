"""Receive descriptors: what each does, what it waits for, and what disabling a context makes of them.

Covers ``descriptors.py``, ``nic/host.py`` and ``nic/memory.py``.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import (
    RENDEZVOUS,
    DescriptorOpcode,
    EventFlags,
    EventKind,
    ReceiveFlags,
    ReceiveOpcode,
)
from amoeba_model.network import SimulatedDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.trace import Stage
from amoeba_model.wire.uet import ReturnCode

from tests.support.messages import RECEIVER_CONTEXT, Mailbox
from tests.support.raw_driver import Buffer, Pair

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
PEEK, TAKE, CANCEL = ReceiveOpcode.PEEK, ReceiveOpcode.TAKE, ReceiveOpcode.CANCEL
MULTI = ReceiveFlags.MULTI
RELEASED, TAGGED, IN_SLOT, LONG = EventFlags.RELEASED, EventFlags.TAGGED, EventFlags.IN_SLOT, EventFlags.LONG


@pytest.fixture
def pair(make_model_pair: MakePair) -> Pair:
    return make_model_pair(NicParameters(receives=4, unexpected=4))


def kinds(box: Mailbox, count: int) -> list[EventKind]:
    return [EventKind(event["kind"]) for event in box.events(count)]


# The ring


def test_a_nic_says_how_many_receives_and_messages_a_context_may_keep(box: Mailbox) -> None:
    assert box.pair.target.get("device", "receives") == 4
    assert box.pair.target.get("device", "unexpected") == 4


def test_receives_are_taken_in_ring_order_round_and_round(pair: Pair) -> None:
    box = Mailbox(pair, receive_size=1)
    for number in range(9):
        box.receive(8 * number, 8, context=number + 1)
        assert box.send(8, number) == OK
        assert box.event()["context"] == number + 1
    assert box.buffer[:72] == b"".join(box.sent(8, number) for number in range(9))


def test_several_receives_are_posted_with_one_doorbell(box: Mailbox) -> None:
    for number in range(3):
        box.context.put_receive(address=box.place(8 * number), length=8, context=number + 1)
    assert box.send() == OK
    assert box.events(0) == []  # not rung for yet: the message is unexpected
    box.context.ring_receives()
    assert [event["kind"] for event in box.events(1)] == [EventKind.UNEXPECTED]
    for _ in range(2):
        assert box.send() == OK
    assert [event["context"] for event in box.events(2)] == [2, 3]


def test_the_receive_indices_wrap_at_16_bits(pair: Pair) -> None:
    box = Mailbox(pair, event_size=13, receive_size=12)
    for lap in range(17):
        for number in range(4096):
            box.context.put_receive(opcode=CANCEL, context=lap << 12 | number)
        box.context.ring_receives()
        assert [box.context.event()["context"] & 0xFFF for _ in range(4096)] == list(range(4096))
    assert box.context.receive_tail == 4096


@pytest.mark.parametrize("fields", [{"opcode": 0}, {"opcode": 5}, {"flags": 16}, {"opcode": PEEK, "flags": 0x80}])
def test_a_receive_descriptor_that_makes_no_sense_is_refused(box: Mailbox, fields: dict[str, int]) -> None:
    box.receive(tag=7, **fields)
    assert box.event() == {
        "context": RECEIVER_CONTEXT, "kind": EventKind.REFUSED, "status": ReturnCode.LOCAL_BAD_DESCRIPTOR,
        "flags": RELEASED,
    }  # fmt: skip
    box.receive()  # the ring goes on
    assert box.send() == OK
    assert kinds(box, 1) == [EventKind.RECEIVED]


def test_a_receive_ring_that_the_host_refuses_says_so_for_each_descriptor(box: Mailbox) -> None:
    assert box.context.receives is not None
    box.pair.target.device.revoke(box.context.receives.address, box.context.receives.size)
    box.receive()
    box.receive()
    refused = {"kind": EventKind.REFUSED, "status": ReturnCode.LOCAL_DMA_FAULT, "flags": RELEASED}
    assert box.events(2) == [refused, refused]
    faults = box.pair.target.device.faults()
    assert {(fault.requester, fault.write) for fault in faults} == {("RECEIVE_FETCH", False)}
    box.pair.target.device.grant(box.context.receives.address, box.context.receives.size)
    box.receive()
    assert box.send() == OK
    assert kinds(box, 1) == [EventKind.RECEIVED]


# Looking at what waits


def test_a_receive_meets_the_oldest_message_that_matches(box: Mailbox) -> None:
    for length, tag in enumerate([5, 7, 5], start=1):
        assert box.send(length, tag=tag) == OK
    for tag in (7, 5, 5):
        box.receive(tag=tag)
    assert [event["length"] for event in box.events(3)] == [2, 1, 3]


def test_a_receive_says_where_its_buffer_is_and_leaves_it_alone(box: Mailbox) -> None:
    assert box.send(20) == OK
    box.receive(16, 4)  # shorter than the message, which the driver has to see to
    box.event(address=box.place(16), length=20, kind=EventKind.UNEXPECTED, flags=RELEASED | IN_SLOT)
    assert box.buffer[:] == bytes(box.SIZE)


def test_a_multi_receive_takes_all_that_waits_and_is_then_posted(box: Mailbox) -> None:
    for length in (10, 20, 30):
        assert box.send(length) == OK
    box.receive(0, 256, flags=MULTI)
    assert [(event["kind"], event["address"] - box.place(), event["flags"]) for event in box.events(3)] == [
        (EventKind.UNEXPECTED, 0, IN_SLOT),
        (EventKind.UNEXPECTED, 64, IN_SLOT),
        (EventKind.UNEXPECTED, 128, IN_SLOT),
    ]
    assert box.send(5) == OK
    box.event(address=box.place(192), length=5, kind=EventKind.RECEIVED, flags=RELEASED)
    assert box.buffer[:198] == bytes(192) + box.sent(5) + bytes(1)


def test_a_multi_receive_that_is_used_up_looks_no_further(box: Mailbox) -> None:
    for length in (10, 20, 30):
        assert box.send(length) == OK
    box.receive(0, 128, flags=MULTI, least_space=8)
    assert [event["flags"] for event in box.events(2)] == [IN_SLOT, IN_SLOT | RELEASED]
    box.receive()
    assert box.event()["length"] == 30


def test_a_peek_says_what_a_receive_would_meet_and_leaves_it(box: Mailbox) -> None:
    assert box.send(9, tag=4) == OK
    for _ in range(2):
        box.receive(tag=5, ignore=1, opcode=PEEK)
        assert box.event() == {
            "context": RECEIVER_CONTEXT, "tag": 4, "length": 9, "source_ip": box.pair.initiator.ip,
            "kind": EventKind.FOUND, "status": OK, "flags": RELEASED | TAGGED | IN_SLOT,
        }  # fmt: skip
    box.receive(tag=4)
    assert kinds(box, 1) == [EventKind.UNEXPECTED]


def test_a_take_is_a_peek_that_takes(box: Mailbox) -> None:
    assert box.send(8) == OK
    assert box.rendezvous(5000, tag=4) == OK
    box.receive(tag=4, opcode=TAKE)
    assert box.event() == {
        "context": RECEIVER_CONTEXT, "tag": 4, "length": 5000, "source_ip": box.pair.initiator.ip, "slot": 1,
        "kind": EventKind.TAKEN, "status": OK, "flags": RELEASED | TAGGED | IN_SLOT | LONG,
    }  # fmt: skip
    assert box.context.slot(1, RENDEZVOUS.size) == box.record(5000)
    box.receive(tag=4)
    assert box.events(0) == []


@pytest.mark.parametrize("opcode", [PEEK, TAKE])
@pytest.mark.parametrize("wanted", [{"tag": 5}, {}, {"tag": 4, "flags": ReceiveFlags.DIRECTED, "source_ip": 1}])
def test_without_a_match_a_peek_or_take_says_so(box: Mailbox, opcode: int, wanted: dict[str, int]) -> None:
    assert box.send(tag=4) == OK
    box.receive(opcode=opcode, **wanted)
    assert box.event() == {
        "context": RECEIVER_CONTEXT, "kind": EventKind.NO_MATCH, "status": ReturnCode.NO_MATCH, "flags": RELEASED,
    }  # fmt: skip
    assert box.send() == OK  # and nothing was posted
    box.pair.run(5)
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 0


def test_a_cancelled_receive_gets_no_message(box: Mailbox) -> None:
    for context in (1, 2, 1):
        box.receive(8 * context, 8, context=context)
    box.receive(opcode=CANCEL, context=1)
    assert box.event() == {
        "context": 1, "kind": EventKind.CANCELLED, "status": ReturnCode.CANCELLED, "flags": RELEASED,
    }  # fmt: skip
    for _ in range(2):
        assert box.send() == OK
    assert [event["context"] for event in box.events(2)] == [2, 1]  # the older of both was taken back


def test_cancelling_what_has_been_used_says_so_and_releases_nothing(box: Mailbox) -> None:
    box.receive(context=1)
    assert box.send() == OK
    assert kinds(box, 1) == [EventKind.RECEIVED]
    box.receive(opcode=CANCEL, context=1)
    assert box.event() == {"context": 1, "kind": EventKind.NO_MATCH, "status": ReturnCode.NO_MATCH}


def test_a_multi_receive_can_be_cancelled_after_its_first_message(box: Mailbox) -> None:
    box.receive(0, 128, flags=MULTI)
    assert box.send() == OK
    box.receive(opcode=CANCEL)
    assert kinds(box, 2) == [EventKind.RECEIVED, EventKind.CANCELLED]


# Slots


def test_a_slot_whose_message_waits_is_not_released(box: Mailbox) -> None:
    assert box.send(8, 0) == OK
    box.receive(opcode=PEEK)
    assert box.event().get("slot", 0) == 0
    box.context.release_slot(0)
    assert box.send(8, 1) == OK
    assert box.context.slot(0, 8) == box.sent(8)
    assert box.context.slot(1, 8) == box.sent(8, 1)


@pytest.mark.parametrize("number", [1, 4, 0xFFFF])
def test_releasing_what_is_free_or_does_not_exist_changes_nothing(box: Mailbox, number: int) -> None:
    box.context.release_slot(number)
    for start in range(4):
        assert box.send(8, start) == OK
    for start in range(4):
        box.receive(opcode=TAKE)
        assert box.event().get("slot", 0) == start


@pytest.mark.parametrize("look", [{}, {"opcode": TAKE}])
def test_a_slot_is_taken_until_it_is_released_also_when_its_message_is_received(
    box: Mailbox, look: dict[str, int]
) -> None:
    for _ in range(4):
        assert box.send() == OK
    box.receive(**look)
    slot = box.event().get("slot", 0)
    box.pair.local.post(**box.message(8, 3))
    box.pair.run(50)
    assert box.pair.local.poll() is None
    box.context.release_slot(slot)
    assert box.pair.local.completion()["status"] == OK
    assert box.context.slot(slot, 8) == box.sent(8, 3)


def test_a_rendezvous_keeps_its_slot_until_it_is_released(box: Mailbox) -> None:
    for number in range(2):
        box.receive()
        assert box.rendezvous(100) == OK
        assert box.event().get("slot", 0) == number
    box.context.release_slot(0)
    box.receive()
    assert box.rendezvous(100) == OK
    assert box.event().get("slot", 0) == 0


# What descriptors wait for


def test_receives_beyond_the_posted_list_wait_for_a_place(box: Mailbox) -> None:
    for number in range(6):
        box.receive(8 * number, 8, context=number + 1)
    box.receive(opcode=CANCEL, context=3)  # waits behind them
    assert box.events(0) == []
    for _ in range(2):
        assert box.send() == OK
    assert [event["context"] for event in box.events(3)] == [1, 2, 3]
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 0


def test_a_receive_without_a_place_does_not_look_at_what_waits(box: Mailbox) -> None:
    assert box.send(tag=9) == OK
    for _ in range(4):
        box.receive(tag=1)
    box.receive(tag=9)
    assert box.events(0) == []
    box.pair.local.execute(**box.message(tag=1))
    assert kinds(box, 2) == [EventKind.RECEIVED, EventKind.UNEXPECTED]


def test_descriptors_that_post_nothing_need_no_place(box: Mailbox) -> None:
    for _ in range(4):
        box.receive(tag=1)
    box.receive(opcode=PEEK)
    box.receive(flags=0x40)
    box.receive(opcode=CANCEL)
    assert kinds(box, 3) == [EventKind.NO_MATCH, EventKind.REFUSED, EventKind.CANCELLED]


def test_a_descriptor_is_taken_only_with_space_for_two_events(pair: Pair) -> None:
    box = Mailbox(pair, event_size=3)
    for context in range(1, 8):
        box.receive(opcode=CANCEL, context=context)
    box.pair.run(10)
    assert box.pair.target.counter(Counter.EVENTS) == 3
    assert [event["context"] for event in box.events(7)] == list(range(1, 8))


def test_a_receive_that_would_be_posted_without_an_event_waits_for_space_all_the_same(pair: Pair) -> None:
    box = Mailbox(pair, event_size=3)
    for _ in range(3):
        box.receive(opcode=PEEK)
    box.receive()
    assert box.send() == OK
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 1
    assert kinds(box, 4) == [EventKind.NO_MATCH] * 3 + [EventKind.UNEXPECTED]


def test_a_multi_receive_that_looks_again_waits_for_space(pair: Pair) -> None:
    box = Mailbox(pair, event_size=3)
    for length in (1, 2, 3, 4):
        assert box.send(length) == OK
    box.receive(0, 512, flags=MULTI)
    box.receive(opcode=CANCEL)
    box.pair.run(10)
    assert box.pair.target.counter(Counter.EVENTS) == 3
    events = box.events(5)
    assert [event.get("length", 0) for event in events] == [1, 2, 3, 4, 0]
    assert events[-1]["kind"] == EventKind.CANCELLED  # it was posted before this was looked at


def test_messages_go_on_while_descriptors_wait_for_a_place(box: Mailbox) -> None:
    for _ in range(5):
        box.receive(tag=1)
    for _ in range(2):
        assert box.send(tag=2) == OK
    assert box.send(tag=1) == OK
    assert kinds(box, 1) == [EventKind.RECEIVED]
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 2


def test_a_waiting_context_holds_up_no_other(box: Mailbox) -> None:
    other = box.pair.target.context(1, event_size=6, receive_size=4)
    for _ in range(5):
        box.receive(tag=1)
    other.receive(opcode=PEEK, context=5)
    assert other.event()["context"] == 5


def test_without_an_event_ring_no_descriptor_is_taken(box: Mailbox) -> None:
    context = box.pair.target.context(1, receive_size=4)
    context.receive(opcode=PEEK)
    box.pair.run(20)
    assert box.pair.target.counter(Counter.EVENTS) == 0


# Contexts


def test_contexts_have_lists_and_slots_of_their_own(box: Mailbox) -> None:
    other = box.pair.target.context(1, event_size=6, receive_size=4)
    box.pair.initiator.peer(1, other)
    buffer = box.other_buffer()
    other.receive(address=buffer.address, length=64, context=5)
    assert box.send() == OK
    assert box.send(8, 3, peer=1) == OK
    assert other.event()["context"] == 5
    assert buffer[:8] == box.sent(8, 3)
    assert box.send(8, 4, peer=1) == OK
    assert other.slot(0, 8) == box.sent(8, 4)
    assert box.context.slot(0, 8) == box.sent(8)


def enable_anew(box: Mailbox) -> None:
    """Disable and enable the context, with the rings it has."""
    box.pair.target.set("contexts", 0, control=0)
    box.pair.target.set("contexts", 0, control=1)
    context = box.context
    context.event_head = context.receive_tail = 0
    for ring in (context.events, context.receives):
        assert isinstance(ring, Buffer)
        ring[0] = bytes(ring.size)


def test_disabling_a_context_empties_its_lists_and_frees_its_slots(box: Mailbox) -> None:
    for _ in range(4):
        assert box.send(tag=1) == OK
    for _ in range(2):
        box.receive()
    box.receive(tag=1)
    assert kinds(box, 1) == [EventKind.UNEXPECTED]
    enable_anew(box)
    assert box.send(8, 5) == OK  # meets nothing, and finds a free slot
    box.receive(tag=1)
    assert box.events(0) == []
    assert box.context.slot(0, 8) == box.sent(8, 5)
    box.receive()
    assert kinds(box, 1) == [EventKind.UNEXPECTED]


def test_disabling_a_context_forgets_descriptors_that_wait(box: Mailbox) -> None:
    for _ in range(6):
        box.receive(tag=1)
    box.pair.run(2)
    enable_anew(box)
    box.pair.run(2)
    box.receive(opcode=CANCEL)
    assert kinds(box, 1) == [EventKind.NO_MATCH]


def test_descriptors_of_a_disabled_context_are_not_read(box: Mailbox) -> None:
    box.pair.target.set("contexts", 0, control=0)
    box.receive(opcode=PEEK)
    box.pair.run(5)
    assert box.events(0) == []
    enable_anew(box)
    box.pair.run(5)
    assert box.events(0) == []  # indices began from zero
    box.receive(opcode=PEEK)
    assert kinds(box, 1) == [EventKind.NO_MATCH]


def test_a_message_that_waits_for_a_slot_gets_one_of_a_context_enabled_anew(box: Mailbox) -> None:
    for _ in range(5):
        box.pair.local.post(**box.message())
    assert [box.pair.local.completion()["status"] for _ in range(4)] == [OK] * 4
    enable_anew(box)
    assert box.pair.local.completion()["status"] == OK
    box.receive(opcode=TAKE)
    assert kinds(box, 1) == [EventKind.TAKEN]


# Interrupts and the trace


def test_events_of_descriptors_interrupt_and_are_traced(box: Mailbox) -> None:
    device = box.pair.target.device
    assert isinstance(device, SimulatedDevice)
    device.tracing = True
    box.context.doorbell("event_arm", 1)
    box.receive(opcode=PEEK)
    assert kinds(box, 1) == [EventKind.NO_MATCH]
    assert device.take_interrupts() == 0
    box.receive(opcode=CANCEL)
    assert kinds(box, 1) == [EventKind.NO_MATCH]
    assert device.take_interrupts() == 1
    written = [event for event in device.trace_events() if event.stage is Stage.EVENT_WRITTEN]
    assert [(event.context, event.pdc, event.psn, event.status) for event in written] == [
        (0, 0, 0, ReturnCode.NO_MATCH),
        (0, 0, 1, ReturnCode.NO_MATCH),
    ]


def test_a_context_that_takes_messages_sends_some_too(box: Mailbox) -> None:
    reply = box.pair.initiator.context(1, event_size=6, receive_size=4)
    box.pair.target.peer(1, reply, initial_psn=0x7000)
    buffer = box.pair.initiator.buffer(64)
    reply.receive(address=buffer.address, length=64, context=9)
    box.receive()
    assert box.send() == OK
    entry = box.context.execute(opcode=DescriptorOpcode.SEND, peer=1, length=8, local=box.place())
    assert entry["status"] == OK
    assert reply.event()["context"] == 9
    assert buffer[:8] == box.sent(8)
