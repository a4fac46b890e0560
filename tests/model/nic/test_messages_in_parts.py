"""SENDs of several packets: the receive that the first one meets, and how each such message ends.

Covers ``nic/match_unit.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from amoeba_model.descriptors import EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.nic.core import IDLE_TIMEOUTS
from amoeba_model.nic.match_unit import STALLED_TURNS
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import RETRANSMIT_LIMIT, RETRANSMIT_TIMEOUT, ContextControl, Counter
from amoeba_model.wire.uet import NackCode, RequestOpcode, ReturnCode, SesFlags, message_place

from tests.support.messages import RECEIVER_CONTEXT, Mailbox, valid
from tests.support.raw_driver import Pair
from tests.support.stranger import Stranger
from tests.support.three_parts import DATA, END, FIRST, LENGTH, SECOND, ThreeParts

MakePair = Callable[..., Pair]
OK, NO_MATCH, OP_VIOLATION = ReturnCode.OK, ReturnCode.NO_MATCH, ReturnCode.OP_VIOLATION
INITIATOR_ERROR = ReturnCode.INITIATOR_ERROR
SEND, TAGGED_SEND = RequestOpcode.SEND, RequestOpcode.TAGGED_SEND
TAG = 0x7A6
STALLED = STALLED_TURNS * IDLE_TIMEOUTS
"""Timeouts, times ``retransmit_limit`` + 1, without a part after which a message has stalled."""
NANOSECONDS_PER_CYCLE = 4


@dataclass
class Sender(ThreeParts):
    """A stranger that sends a message of ``LENGTH`` bytes in three packets."""

    box: Mailbox
    number: int = 0
    stranger: Stranger = field(init=False)

    def __post_init__(self) -> None:
        number = self.number
        self.stranger = Stranger(self.box.pair, mac=0x0200_0000_00AA + number, ip=0x0A00_00AA + number)

    def fields(self, at: int, end: int, **fields: Any) -> dict[str, Any]:
        return super().fields(at, end, **{"opcode": SEND, "memory_key": 0, "initiator": 3, **fields})

    def close(self) -> None:
        self.stranger.send(self.stranger.frame(self.stranger.close()))
        self.stranger.answers()
        self.stranger.psn += 1
        self.stranger.first_psn = self.stranger.psn


def pass_time(sender: Sender, cycle: int) -> None:
    """Let time pass until a cycle of the target's."""
    while sender.box.pair.target.device.cycles < cycle:
        sender.box.pair.run(1)


@pytest.fixture
def sender(box: Mailbox) -> Sender:
    return Sender(box)


def received(sender: Sender, status: int = OK, **fields: int) -> dict[str, int]:
    """The event of a whole message."""
    event: dict[str, int] = {
        "kind": EventKind.RECEIVED, "status": status, "context": RECEIVER_CONTEXT, "data": DATA, "length": LENGTH,
        "address": sender.box.place(), "flags": EventFlags.RELEASED | EventFlags.IMMEDIATE,
        "source_ip": sender.stranger.ip, "source_context": 3, "source_pdc": sender.stranger.spdcid,
    }  # fmt: skip
    return event | fields


def failed(sender: Sender, **fields: int) -> dict[str, int]:
    """The event of a message that ended before its last packet."""
    nothing = {"length": 0, "data": 0, "address": 0, "flags": EventFlags.RELEASED}
    event = received(sender, INITIATOR_ERROR, **{**nothing, **fields})
    return {name: value for name, value in event.items() if value}


def test_the_parts_are_one_message_with_one_event(sender: Sender) -> None:
    box = sender.box
    box.receive(0, 200)
    assert [sender.first(), sender.second()] == [OK, OK]
    assert box.events(0) == []
    assert sender.last() == OK
    assert box.buffer[:LENGTH] == sender.content
    assert box.events(1) == [received(sender)]
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 1


def test_a_tag_finds_its_receive_at_the_first_packet(sender: Sender) -> None:
    sender.box.receive(0, 200, tag=TAG + 1)
    sender.box.receive(200, 200, tag=TAG)
    tagged = {"opcode": TAGGED_SEND, "memory_key": TAG}
    assert [sender.first(**tagged), sender.second(**tagged), sender.last(**tagged)] == [OK] * 3
    assert sender.box.buffer[200 : 200 + LENGTH] == sender.content
    flags = EventFlags.RELEASED | EventFlags.IMMEDIATE | EventFlags.TAGGED
    assert sender.box.events(1) == [received(sender, tag=TAG, address=sender.box.place(200), flags=flags)]


@pytest.mark.parametrize("space", [0, 1, FIRST, FIRST + 10, LENGTH - 1])
def test_a_message_longer_than_its_receive_is_cut(sender: Sender, space: int) -> None:
    sender.box.receive(0, space)
    assert [sender.first(), sender.second(), sender.last()] == [OK] * 3
    assert sender.box.buffer[: LENGTH + 1] == sender.content[:space] + bytes(LENGTH + 1 - space)
    assert sender.box.events(1) == [received(sender, ReturnCode.TOO_LONG)]


def test_without_a_receive_the_message_is_refused_and_keeps_nothing(sender: Sender) -> None:
    """The initiator repeats the whole message later."""
    assert [sender.first(), sender.second(), sender.last()] == [NO_MATCH] * 3
    assert sender.box.events(0) == []
    assert sender.box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 0
    sender.box.receive(0, 200)
    assert sender.last() == OP_VIOLATION
    assert [sender.first(), sender.second(), sender.last()] == [OK] * 3
    assert sender.box.events(1) == [received(sender)]


def test_the_receive_is_the_message_s_alone(sender: Sender) -> None:
    box, other = sender.box, Sender(sender.box, 1)
    box.receive(0, 200)
    assert sender.first() == OK
    assert other.first() == NO_MATCH
    box.receive(200, 200, context=5)
    assert [other.first(header_data=4), sender.second(), other.second(), sender.last(), other.last()] == [OK] * 5
    assert box.buffer[:LENGTH] == box.buffer[200 : 200 + LENGTH] == sender.content
    assert box.events(2) == [
        received(sender),
        received(other, context=5, data=4, address=box.place(200)),
    ]


def test_a_multi_receive_is_used_up_by_a_message_in_parts(sender: Sender) -> None:
    """So no other message's event gives the buffer back while parts are still written."""
    box = sender.box
    box.receive(0, 1000, flags=ReceiveFlags.MULTI)
    assert sender.first() == OK
    assert box.send(8) == OK
    assert box.events(0) == []  # it waits
    assert [sender.second(), sender.last()] == [OK, OK]
    assert box.events(1) == [received(sender)]


def test_a_directed_receive_is_met_by_its_source_alone(sender: Sender) -> None:
    directed = {"flags": ReceiveFlags.DIRECTED, "source_ip": sender.stranger.ip}
    sender.box.receive(0, 200, source_context=4, **directed)
    assert sender.first() == NO_MATCH
    sender.box.receive(0, 200, source_context=3, **directed)
    assert [sender.first(), sender.second(), sender.last()] == [OK] * 3
    assert sender.box.events(1) == [received(sender)]


def other_tag(sender: Sender) -> None:
    assert sender.second(memory_key=1) == ReturnCode.PERM_VIOLATION


def other_message(sender: Sender) -> None:
    assert sender.second(message_id=8) == OP_VIOLATION


def wrong_place(sender: Sender) -> None:
    assert sender.second(header_data=message_place(SECOND, FIRST + 1)) == OP_VIOLATION


def msg_error(sender: Sender) -> None:
    assert sender.part(FIRST, FIRST, opcode=RequestOpcode.MSG_ERROR, flags=END) == OK


def error_flag(sender: Sender) -> None:
    assert sender.second(flags=SesFlags.INITIATOR_ERROR) == INITIATOR_ERROR


def new_start(sender: Sender) -> None:
    assert sender.first() == NO_MATCH


def other_request(sender: Sender) -> None:
    assert sender.stranger.ask(opcode=RequestOpcode.NO_OP).header.return_code == OK


@pytest.mark.parametrize(
    "end", [other_tag, other_message, wrong_place, msg_error, error_flag, new_start, other_request, Sender.close]
)
def test_whatever_ends_the_message_is_told_and_nothing_is_written_any_more(
    sender: Sender, end: Callable[[Sender], None]
) -> None:
    box = sender.box
    box.receive(0, 200, counter=9)
    box.pair.target.counter_memory()
    assert sender.first() == OK
    end(sender)
    assert box.events(1) == [failed(sender)]
    before = box.buffer[:LENGTH]
    assert sender.second() in (OP_VIOLATION, NO_MATCH)
    assert sender.last() in (OP_VIOLATION, NO_MATCH)
    assert box.buffer[:LENGTH] == before == sender.content[:FIRST] + bytes(LENGTH - FIRST)
    assert box.events(0) == []


def test_the_failure_comes_before_the_message_that_ends_it(sender: Sender) -> None:
    box = sender.box
    box.receive(0, 200)
    box.receive(200, 200, context=5)
    assert [sender.first(), sender.first(), sender.second(), sender.last()] == [OK] * 4
    assert box.events(2) == [failed(sender), received(sender, context=5, address=box.place(200))]


def test_a_pdc_that_the_host_closes_keeps_its_receive_until_that_is_cancelled(sender: Sender) -> None:
    box = sender.box
    box.receive(0, 200)
    assert sender.first() == OK
    box.pair.target.set("target_pdcs", close=0)
    box.pair.target.settle()
    assert box.events(0) == []
    box.context.receive(opcode=ReceiveOpcode.CANCEL, context=RECEIVER_CONTEXT)
    (event,) = box.events(1)
    assert (event["kind"], event["context"]) == (EventKind.CANCELLED, RECEIVER_CONTEXT)


def test_a_pdc_that_is_given_to_another_sender_ends_its_message(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(NicParameters(target_pdcs=4)))
    target = box.pair.target
    target.set("device", retransmit_limit=0)
    senders = [Sender(box, number) for number in range(5)]
    box.receive(0, 200)
    assert senders[0].first() == OK
    assert [sender.first() for sender in senders[1:4]] == [NO_MATCH] * 3
    until = senders[0].stranger.device.cycles + 33 * target.get("device", "retransmit_timeout")
    while senders[0].stranger.device.cycles < until:
        box.pair.run(1)
    assert [event["status"] for event in box.events(0)] == []
    others = [Sender(box, number).first() for number in range(10, 14)]
    assert others == [NO_MATCH] * 4
    assert box.events(1) == [failed(senders[0])]


def test_a_message_of_which_no_part_comes_for_long_is_given_up(sender: Sender) -> None:
    """5 seconds with the timeouts of a NIC after its reset."""
    box, target = sender.box, sender.box.pair.target
    target.counter_memory()
    assert 4.5e9 < STALLED * (RETRANSMIT_LIMIT + 1) * RETRANSMIT_TIMEOUT * NANOSECONDS_PER_CYCLE < 5.5e9
    target.set("device", retransmit_timeout=2, retransmit_limit=1)
    box.receive(0, 200, counter=9)
    assert sender.first() == OK
    begun = target.device.cycles
    pass_time(sender, begun + STALLED * 4 - 2000)
    assert box.events(0) == []
    assert sender.second() == OK  # which begins the time anew
    again = target.device.cycles
    pass_time(sender, again + STALLED * 4 - 2000)
    assert box.events(0) == []
    pass_time(sender, again + STALLED * 4)
    assert box.events(1) == [failed(sender)]
    assert target.event_counter(9) == (0, 1)
    assert sender.last() == NO_MATCH
    assert box.buffer[:LENGTH] == sender.content[: FIRST + SECOND] + bytes(LENGTH - FIRST - SECOND)


def test_of_messages_that_stall_only_those_that_have_a_receive_are_told(sender: Sender) -> None:
    box, others = sender.box, [Sender(sender.box, number) for number in (1, 2)]
    box.pair.target.set("device", retransmit_timeout=1, retransmit_limit=0)
    for number in range(2):
        box.receive(200 * number, 200, context=number + 1)
    assert [sender.first(), others[0].first(), others[1].first()] == [OK, OK, NO_MATCH]
    box.context.receive(opcode=ReceiveOpcode.CANCEL, context=2)
    assert [event["kind"] for event in box.events(1)] == [EventKind.CANCELLED]
    pass_time(sender, box.pair.target.device.cycles + 2 * STALLED)
    assert box.events(1) == [failed(sender, context=1)]
    assert [others[0].second(), others[1].second()] == [NO_MATCH] * 2


def test_a_receive_is_cancelled_in_the_middle_of_its_message(sender: Sender) -> None:
    box = sender.box
    box.receive(0, 200)
    assert sender.first() == OK
    box.context.receive(opcode=ReceiveOpcode.CANCEL, context=RECEIVER_CONTEXT)
    (event,) = box.events(1)
    assert (event["kind"], event["status"], event["flags"]) == (
        EventKind.CANCELLED, ReturnCode.CANCELLED, EventFlags.RELEASED,
    )  # fmt: skip
    assert [sender.second(), sender.last()] == [NO_MATCH] * 2
    assert box.buffer[:LENGTH] == sender.content[:FIRST] + bytes(LENGTH - FIRST)
    box.context.receive(opcode=ReceiveOpcode.CANCEL, context=RECEIVER_CONTEXT)
    (event,) = box.events(1)
    assert event["kind"] == EventKind.NO_MATCH


def test_a_cancel_takes_the_posted_receive_before_the_one_in_use(sender: Sender) -> None:
    box = sender.box
    box.receive(0, 200)
    assert sender.first() == OK
    box.receive(200, 200)
    box.context.receive(opcode=ReceiveOpcode.CANCEL, context=RECEIVER_CONTEXT)
    assert [event["kind"] for event in box.events(1)] == [EventKind.CANCELLED]
    assert [sender.second(), sender.last()] == [OK, OK]
    assert box.events(1) == [received(sender)]


def test_a_context_that_is_disabled_forgets_its_messages(sender: Sender) -> None:
    box = sender.box
    box.receive(0, 200)
    assert sender.first() == OK
    box.pair.target.set("contexts", control=0)
    box.pair.target.settle()
    Mailbox(box.pair)
    assert [sender.second(), sender.last()] == [NO_MATCH] * 2
    assert box.pair.remote.poll_event() is None


def test_the_entry_of_the_event_is_kept_from_the_first_packet_on(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(), event_size=3)
    sender, other = Sender(box), Sender(box, 1)
    for number in range(4):
        box.receive(200 * number, 200, context=number)
    assert sender.first() == OK
    for _ in range(3):  # of eight entries four are never reserved
        assert box.send(8) == OK
    refusal = other.stranger.ask(sender.content[:FIRST], **other.fields(0, FIRST))
    assert refusal.header.nack_code == NackCode.NO_RESOURCE
    assert [sender.second(), sender.last()] == [OK, OK]
    events = [valid(box.context.event()) for _ in range(4)]
    assert [event["length"] for event in events] == [8, 8, 8, LENGTH]


def test_a_message_for_a_context_that_shares_receives_is_the_receiver_s(box: Mailbox) -> None:
    target = box.pair.target
    shared = target.context(2, receiver=0)
    sender = Sender(box)
    box.receive(0, 200)
    place = {"resource_index": 2, "pid_on_fep": shared.pid_on_fep, "job_id": shared.job_id}
    assert [sender.first(**place), sender.second(**place), sender.last(**place)] == [OK] * 3
    assert box.events(1) == [received(sender, target_context=2)]


def test_a_failure_says_for_which_context_the_message_was(box: Mailbox) -> None:
    shared = box.pair.target.context(2, receiver=0)
    sender = Sender(box)
    box.receive(0, 200)
    place = {"resource_index": 2, "pid_on_fep": shared.pid_on_fep, "job_id": shared.job_id}
    assert sender.first(**place) == OK
    sender.close()
    assert box.events(1) == [failed(sender, target_context=2)]


def test_a_message_that_arrives_says_that_the_receive_of_another_s_parts_is_no_more(
    make_model_pair: MakePair,
) -> None:
    """The host sees from the number of descriptors done that no receive is left for the message."""
    box = Mailbox(make_model_pair(), control=ContextControl.ENABLE | ContextControl.ANNOUNCE)
    sender = Sender(box)
    box.receive(0, 200)
    assert sender.first() == OK
    assert box.send(8) == OK
    (event,) = box.events(1)
    assert (event["kind"], event["context"], event["length"]) == (EventKind.ARRIVED, 1, 8)
    assert [sender.second(), sender.last()] == [OK, OK]
    assert box.events(1) == [received(sender)]
