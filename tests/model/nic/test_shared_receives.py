"""Contexts whose messages meet the receives of another one."""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.registers import ContextControl, Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.messages import Mailbox, valid
from tests.support.raw_driver import Pair, RawContext

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
TAKE = ReceiveOpcode.TAKE
ADDRESSED, TAGGED = ReceiveFlags.ADDRESSED, ReceiveFlags.TAGGED
IMMEDIATE = DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE
ENABLE, SHARES = ContextControl.ENABLE, ContextControl.SHARES_RECEIVES
PEER = {0: 0, 2: 1, 3: 2}
"""The initiator's peer entry of each context of the target."""


@pytest.fixture
def box(make_model_pair: MakePair) -> Mailbox:
    """Context 0 of the target; contexts 2 and 3 share its receives, and 2 has an event ring of its own."""
    box = Mailbox(make_model_pair())
    share(box, 2, event_size=3)
    share(box, 3)
    return box


def share(box: Mailbox, number: int, receiver: int = 0, **options: int) -> RawContext:
    """A context of the target, and the initiator's way to it."""
    context = box.pair.target.context(number, receiver=receiver, **options)
    box.pair.initiator.peer(PEER[number], context)
    box.pair.initiator.settle()
    return context


def say(event: dict[str, int]) -> tuple[int, int, int]:
    """The event's subject: its kind, the receive and the context that the message was for."""
    return event["kind"], event.get("context", 0), event.get("target_context", 0)


def test_messages_for_all_meet_the_receives_in_the_order_of_posting(box: Mailbox) -> None:
    for number in range(4):
        box.receive(64 * number, context=number + 1)
    for start, target in enumerate((3, 0, 2, 3)):
        assert box.send(8, start, peer=PEER[target]) == OK
    received = EventKind.RECEIVED
    assert [say(event) for event in box.events(4)] == [(received, number + 1, target)
                                                       for number, target in enumerate((3, 0, 2, 3))]  # fmt: skip
    assert [box.buffer[64 * number : 64 * number + 8] for number in range(4)] == [
        box.sent(8, number) for number in range(4)
    ]


def test_messages_for_all_wait_in_one_list(box: Mailbox) -> None:
    for start, target in enumerate((2, 3, 0)):
        assert box.send(8, start, peer=PEER[target]) == OK
    for number in range(3):
        box.receive(context=number + 1)
    events = box.events(3)
    assert [say(event) for event in events] == [
        (EventKind.UNEXPECTED, 1, 2),
        (EventKind.UNEXPECTED, 2, 3),
        (EventKind.UNEXPECTED, 3, 0),
    ]
    contents = [box.context.slot(event.get("slot", 0), 8) for event in events]
    assert contents == [box.sent(8, start) for start in range(3)]


def test_a_tagged_atomic_is_performed_on_the_shared_receive(box: Mailbox) -> None:
    box.receive(tag=5)
    assert box.add(3, tag=5, peer=PEER[3]) == OK
    assert box.buffer.integer(0) == 3
    assert say(box.event()) == (EventKind.ATOMIC_RECEIVED, 77, 3)


def test_immediate_data_of_other_requests_stays_with_the_context_it_is_for(box: Mailbox) -> None:
    region = box.pair.memory(64)
    fields = {"opcode": 1, "flags": IMMEDIATE, "length": 8, "local": box.source.address, "compare": 42}
    entry = box.pair.local.execute(
        **fields, peer=PEER[2], remote_address=region.address, remote_key=box.pair.KEY
    )
    assert entry["status"] == OK
    assert box.events(0) == []
    assert box.pair.target.counter(Counter.EVENTS) == 1
    # Context 3 has no event ring, which is no matter for messages.
    entry = box.pair.local.execute(
        **fields, peer=PEER[3], remote_address=region.address, remote_key=box.pair.KEY
    )
    assert entry["status"] == ReturnCode.DISABLED
    assert box.send(8, peer=PEER[3]) == OK


def test_an_event_about_a_peers_request_names_its_context(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair())
    context = share(box, 2, event_size=3)
    region = box.pair.memory(64)
    box.pair.local.execute(
        opcode=1, flags=IMMEDIATE, length=8, local=box.source.address, compare=42, peer=PEER[2],
        remote_address=region.address, remote_key=box.pair.KEY,
    )  # fmt: skip
    assert valid(context.event())["target_context"] == 2


@pytest.mark.parametrize("message_first", [True, False])
def test_an_addressed_receive_takes_messages_for_one_context(box: Mailbox, message_first: bool) -> None:
    def receive() -> None:
        box.receive(flags=ADDRESSED, target_context=3, context=1)
        box.receive(flags=ADDRESSED, target_context=0, context=2)
        box.pair.run(20)

    if not message_first:
        receive()
    for target in (2, 0, 3):
        assert box.send(8, peer=PEER[target]) == OK
    if message_first:
        receive()
    events = sorted(say(event)[1:] for event in box.events(2))
    assert events == [(1, 3), (2, 0)]
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == (3 if message_first else 1)


def test_a_target_means_nothing_without_addressed(box: Mailbox) -> None:
    box.receive(target_context=3)
    assert box.send(8, peer=PEER[2]) == OK
    assert say(box.event()) == (EventKind.RECEIVED, 77, 2)


@pytest.mark.parametrize("receiver", [1, 2, 99, 255])
def test_without_a_receiver_that_takes_messages_they_are_disabled(box: Mailbox, receiver: int) -> None:
    """1 is not enabled, 2 has an event ring and no slots, the others do not exist."""
    share(box, 3, receiver)
    assert box.send(8, peer=PEER[3]) == ReturnCode.DISABLED
    assert box.send(8, peer=PEER[3], flags=IMMEDIATE, compare=1) == ReturnCode.DISABLED
    assert box.pair.target.counter(Counter.NACKS_SENT) == 0
    assert box.send(8) == OK


def test_a_receiver_that_shares_receives_itself_keeps_those_of_others(box: Mailbox) -> None:
    """Context 0 gives its own messages away, to a context without slots; those for 3 still meet its receives."""
    box.pair.target.set("contexts", 0, control=0)
    box.pair.target.set("contexts", 0, receive_context=2, control=ENABLE | SHARES)
    box.receive()
    assert box.send(8) == ReturnCode.DISABLED
    assert box.send(8, peer=PEER[3]) == OK
    assert say(box.event()) == (EventKind.RECEIVED, 77, 3)


def test_all_are_held_back_while_the_receiver_has_no_slot(box: Mailbox) -> None:
    box.pair.initiator.set("device", retransmit_timeout=400)
    slots = box.pair.target.parameters.unexpected
    for _ in range(slots):
        assert box.send(8, peer=PEER[3]) == OK
    box.pair.local.post(**box.message(8, 1, peer=PEER[2]))
    box.pair.run(100)
    assert box.pair.local.poll() is None
    assert box.pair.target.counter(Counter.NACKS_SENT) > 0
    box.receive()
    assert say(box.event()) == (EventKind.UNEXPECTED, 77, 3)
    box.context.release_slot(0)
    assert box.pair.local.completion()["status"] == OK


def test_messages_for_a_context_that_is_disabled_wait_until_they_are_taken(box: Mailbox) -> None:
    assert [box.send(8, peer=PEER[3]), box.send(8, tag=4, peer=PEER[3]), box.send(8, 1)] == [OK] * 3
    box.pair.target.set("contexts", 3, control=0)
    assert box.send(8, peer=PEER[3]) == ReturnCode.BAD_INDEX
    everything = {"opcode": TAKE, "target_context": 3, "ignore": (1 << 64) - 1}
    for flags in (ADDRESSED, ADDRESSED | TAGGED) * 2:
        box.receive(**everything, flags=flags)
    assert [say(event) for event in box.events(4)] == [
        (EventKind.TAKEN, 77, 3), (EventKind.TAKEN, 77, 3), (EventKind.NO_MATCH, 77, 0), (EventKind.NO_MATCH, 77, 0),
    ]  # fmt: skip
    box.receive()
    event = box.event()
    assert say(event) == (EventKind.UNEXPECTED, 77, 0)
    assert event["flags"] & EventFlags.IN_SLOT
    assert box.context.slot(event["slot"], 8) == box.sent(8, 1)


def test_disabling_the_receiver_disables_messages_for_all_and_empties_its_lists(box: Mailbox) -> None:
    assert box.send(8, peer=PEER[3]) == OK
    box.pair.target.set("contexts", 0, control=0)
    assert box.send(8, peer=PEER[3]) == ReturnCode.DISABLED
    again = box.pair.remote = box.pair.target.context(event_size=8, receive_size=8)
    box.receive()
    box.pair.run(20)
    assert again.poll_event() is None
    assert box.send(8, peer=PEER[3]) == OK
    assert say(box.event()) == (EventKind.RECEIVED, 77, 3)


def test_a_context_enabled_without_sharing_is_its_own_receiver_again(box: Mailbox) -> None:
    own = box.pair.target.context(3, event_size=3, receive_size=3)
    box.receive()
    assert box.send(8, peer=PEER[3]) == OK
    assert box.events(0) == []
    own.receive(address=box.place(), length=8, context=5)
    assert say(valid(own.event())) == (EventKind.UNEXPECTED, 5, 3)
