"""ANNOUNCE: messages that meet no receive say so, and a host can keep a copy of the list that they join.

Covers ``nic/match_unit.py`` and ``nic/matcher.py``.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.nic.matching import MatchLists, Message
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import ContextControl, Counter
from amoeba_model.wire.uet import NackCode, RequestOpcode, ReturnCode

from tests.support.messages import Mailbox, valid
from tests.support.raw_driver import Pair
from tests.support.stranger import Stranger

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
ANNOUNCING = ContextControl.ENABLE | ContextControl.ANNOUNCE
ARRIVED, FOUND, TAKEN, UNEXPECTED = EventKind.ARRIVED, EventKind.FOUND, EventKind.TAKEN, EventKind.UNEXPECTED
IN_SLOT, RELEASED, TAGGED = EventFlags.IN_SLOT, EventFlags.RELEASED, EventFlags.TAGGED


@pytest.fixture
def box(make_model_pair: MakePair) -> Mailbox:
    return Mailbox(make_model_pair(NicParameters(unexpected=4)), control=ANNOUNCING)


def kinds(box: Mailbox, count: int) -> list[int]:
    return [event["kind"] for event in box.events(count)]


def test_a_message_that_meets_no_receive_says_where_it_lies_and_what_it_is(box: Mailbox) -> None:
    assert box.send(5) == OK
    box.event(context=0, length=5, kind=ARRIVED, flags=IN_SLOT)
    assert box.send(11, 7, tag=0xAB) == OK
    event = box.event(context=0, length=11, kind=ARRIVED, flags=IN_SLOT | TAGGED, tag=0xAB, slot=1)
    assert box.context.slot(event["slot"], 11) == box.sent(11, 7)
    assert box.pair.target.counter(Counter.EVENTS) == box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 2


def test_immediate_data_is_announced_too(box: Mailbox) -> None:
    stranger = Stranger(box.pair)
    fields = {"opcode": RequestOpcode.SEND, "request_length": 8, "header_data": 0xDA7A}
    stranger.ask(bytes(8), **fields, flags=stranger.header().flags | 4)
    event = valid(box.context.event())
    assert (event["kind"], event["data"], event["flags"]) == (ARRIVED, 0xDA7A, IN_SLOT | EventFlags.IMMEDIATE)


def test_of_a_rendezvous_the_announced_message_s_length_is_told(box: Mailbox) -> None:
    assert box.rendezvous(5000, tag=9) == OK
    box.event(context=0, length=5000, kind=ARRIVED, flags=IN_SLOT | EventFlags.LONG | TAGGED, tag=9)


def test_what_meets_a_receive_and_atomics_without_a_match_are_not_announced(box: Mailbox) -> None:
    box.receive()
    assert box.send() == OK
    assert kinds(box, 1) == [EventKind.RECEIVED]
    assert box.add(1, tag=3) == ReturnCode.NO_MATCH
    assert box.events(0) == []


def test_without_the_option_nothing_is_announced(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair())
    assert box.send() == OK
    assert box.events(0) == []


def test_the_option_is_that_of_the_context_whose_receives_messages_meet(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(), control=ANNOUNCING)
    box.pair.initiator.peer(1, box.pair.target.context(1, receiver=0))
    assert box.send(peer=1) == OK
    assert (box.event()["kind"], box.pair.target.counter(Counter.EVENTS)) == (ARRIVED, 1)
    quiet = Mailbox(make_model_pair())
    sharing = ANNOUNCING | ContextControl.SHARES_RECEIVES
    quiet.pair.initiator.peer(1, quiet.pair.target.context(1, receiver=0, control=sharing))
    assert quiet.send(peer=1) == OK
    assert quiet.events(0) == []


def test_a_message_says_how_many_receive_descriptors_were_done_before_it(make_model_pair: MakePair) -> None:
    """A posted receive is done, one that waits for a free place in the list is not."""
    box = Mailbox(make_model_pair(NicParameters(receives=2)), control=ANNOUNCING, receive_size=4)
    assert box.send(tag=5) == OK
    assert box.events(1)[0].get("context", 0) == 0
    for tag in (1, 2, 3, 5):
        box.receive(tag=tag)
    assert box.send(tag=4) == OK
    assert box.events(1)[0]["context"] == 2
    assert box.send(tag=1) == OK
    assert kinds(box, 1) == [EventKind.RECEIVED]
    assert box.send(tag=4) == OK
    assert box.events(1)[0]["context"] == 3


def test_the_number_of_descriptors_done_counts_modulo_65536(box: Mailbox) -> None:
    count = (1 << 16) + 2
    for _ in range(count // 128 + 1):
        posted = min(128, count)
        count -= posted
        for _ in range(posted):
            box.context.receive(opcode=ReceiveOpcode.CANCEL, context=7)
        for _ in range(posted):
            box.context.event()
    assert box.send() == OK
    assert box.events(1)[0]["context"] == 2


def test_a_message_arrives_before_it_is_found_taken_or_received(box: Mailbox) -> None:
    for tag in range(3):
        assert box.send(tag=tag) == OK
    anything = {"tag": 0, "ignore": (1 << 64) - 1}
    box.receive(opcode=ReceiveOpcode.PEEK, **anything)
    box.receive(opcode=ReceiveOpcode.TAKE, **anything)
    box.receive(**anything)
    events = box.events(6)
    assert [event["kind"] for event in events] == [ARRIVED, ARRIVED, ARRIVED, FOUND, TAKEN, UNEXPECTED]
    assert [event.get("tag", 0) for event in events] == [0, 1, 2, 0, 0, 1]
    assert [event.get("slot", 0) for event in events] == [0, 1, 2, 0, 0, 1]


def test_the_entry_of_an_announced_message_is_reserved(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(), control=ANNOUNCING, event_size=3)
    stranger = Stranger(box.pair)
    send = {"opcode": RequestOpcode.SEND, "request_length": 8}
    for _ in range(4):
        assert stranger.ask(bytes(8), **send).header.return_code == OK
    stranger.send(stranger.frame(stranger.header(**send), bytes(8)))
    (nack,) = stranger.answers()
    assert nack.header.nack_code == NackCode.NO_RESOURCE
    assert box.context.poll_event() is not None
    assert stranger.ask(bytes(8), **send).header.return_code == OK
    assert [event["slot"] for event in box.events(4)[1:]] == [2, 3, 4]


def test_a_message_whose_slot_the_host_refuses_is_in_the_list_and_announced(box: Mailbox) -> None:
    slots = box.context.slots
    assert slots is not None
    box.pair.target.device.revoke(slots.address, slots.size)
    assert box.send() == OK  # writes are posted
    assert box.pair.target.counter(Counter.DMA_WRITE_ERRORS) > 0
    box.receive()
    assert kinds(box, 2) == [ARRIVED, UNEXPECTED]


def test_an_interrupt_comes_with_an_announced_message(box: Mailbox) -> None:
    box.context.doorbell("event_arm", 0)
    box.pair.run(10)
    before = box.pair.target.counter(Counter.INTERRUPTS)
    assert box.send() == OK
    box.pair.run(10)
    assert box.pair.target.counter(Counter.INTERRUPTS) == before + 1


def test_a_host_that_goes_by_the_events_knows_the_list_exactly(
    make_model_pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy gains what ARRIVED names, at its end, and loses what TAKEN and UNEXPECTED do."""
    lists: list[MatchLists] = []
    forget = MatchLists.__init__

    def remember(self: MatchLists, receives: int, unexpected: int) -> None:
        lists.append(self)
        forget(self, receives, unexpected)

    monkeypatch.setattr(MatchLists, "__init__", remember)
    box = Mailbox(make_model_pair(NicParameters(unexpected=8, receives=4)), control=ANNOUNCING)
    copy: list[int] = []
    for number in range(60):
        if number % 3 != 2:
            box.pair.local.put(**box.message(8, number, tag=number % 5, flags=0))
            box.pair.local.ring()
        opcode = (ReceiveOpcode.RECEIVE, ReceiveOpcode.TAKE, ReceiveOpcode.PEEK)[number % 3]
        box.receive(opcode=opcode, tag=number * 7 % 5)
        box.pair.run(60)
        while (event := box.context.poll_event()) is not None:
            event = valid(event)
            slot = event.get("slot", 0)
            if event["kind"] == ARRIVED:
                copy.append(slot)
            elif event["kind"] in (TAKEN, UNEXPECTED):
                copy.remove(slot)
                box.context.release_slot(slot)
            elif event["kind"] == FOUND:
                assert slot in copy
        waiting: list[list[Message]] = [each._waiting for each in lists if each._waiting]
        assert [message.slot for each in waiting for message in each] == copy
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) > 10


def test_a_multi_receive_that_takes_what_waits_is_behind_the_announcements(box: Mailbox) -> None:
    for _ in range(2):
        assert box.send() == OK
    box.receive(0, 1000, flags=ReceiveFlags.MULTI)
    assert kinds(box, 4) == [ARRIVED, ARRIVED, UNEXPECTED, UNEXPECTED]
