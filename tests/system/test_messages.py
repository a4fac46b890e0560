"""Messages on every pair of devices: random programs, and what needs many of them."""

from collections.abc import Callable

from amoeba_model.descriptors import EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.registers import ContextControl, Counter
from amoeba_model.wire.uet import ReturnCode
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.message_programs import Step, programs, run
from tests.support.messages import Mailbox
from tests.support.raw_driver import Pair

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
SLOTS = 64


@settings(
    max_examples=10,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # every example takes two new devices: none to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=programs(SLOTS), announces=st.booleans())
def test_random_programs_do_what_two_plain_lists_say(
    make_pair: MakePair, steps: list[Step], announces: bool
) -> None:
    run(make_pair(), steps, announces=announces)


def test_without_a_free_slot_messages_wait_and_none_is_lost_or_doubled(device_pair: Pair) -> None:
    box = Mailbox(device_pair)
    box.pair.initiator.set("device", retransmit_timeout=4000)
    local = box.pair.local = box.pair.initiator.context(transmit_size=7, completion_size=7)
    for number in range(SLOTS + 6):
        local.put(**box.message(8, number))
    local.ring()
    assert [local.completion()["status"] for _ in range(SLOTS)] == [OK] * SLOTS
    box.pair.run(100)
    assert local.poll() is None
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == SLOTS
    received = []
    for _ in range(SLOTS + 6):
        box.receive()
        event = box.context.event()
        if event["flags"] & EventFlags.IN_SLOT:
            received.append(box.context.slot(event["slot"], 8))
            box.context.release_slot(event["slot"])
        else:
            received.append(box.buffer[:8])
    assert received == [box.sent(8, number) for number in range(SLOTS + 6)]
    assert [local.completion()["status"] for _ in range(6)] == [OK] * 6


def test_receives_beyond_the_posted_list_wait_for_a_place(device_pair: Pair) -> None:
    box = Mailbox(device_pair)
    for number in range(SLOTS + 3):
        box.receive(8 * number, 8, tag=number, context=number + 1)
    box.pair.run(20)
    assert box.send(8, 1, tag=SLOTS) == OK  # that receive is not posted yet
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 1
    assert box.send(8, 2, tag=0) == OK
    assert [event["context"] for event in box.events(2)] == [1, SLOTS + 1]


def test_a_full_event_ring_holds_messages_back_until_the_driver_reads(device_pair: Pair) -> None:
    box = Mailbox(device_pair, event_size=3)
    box.pair.initiator.set("device", retransmit_timeout=4000)
    box.receive(0, 10 * 128, flags=ReceiveFlags.MULTI)
    for number in range(10):
        box.pair.local.put(**box.message(100, number))
    box.pair.local.ring()
    box.pair.run(100)
    assert box.pair.target.counter(Counter.EVENTS) == 4
    assert [event["address"] - box.place() for event in box.events(10)] == list(range(0, 1280, 128))
    assert [box.pair.local.completion()["status"] for _ in range(10)] == [OK] * 10
    assert box.buffer[:1280] == b"".join(box.sent(100, number) + bytes(28) for number in range(10))


def test_unread_messages_of_one_sender_hold_up_no_posted_receive_of_another(device_pair: Pair) -> None:
    box = Mailbox(device_pair)
    box.pair.initiator.set("device", retransmit_timeout=4000)
    unread = box.pair.initiator.context(transmit_size=7, completion_size=7)
    for number in range(SLOTS + 2):
        unread.put(**box.message(8, number))
    unread.ring()
    assert [unread.completion()["status"] for _ in range(SLOTS)] == [OK] * SLOTS
    other = box.pair.initiator.context(1, transmit_size=6, completion_size=6)
    box.pair.initiator.peer(1, box.context, context=1)
    for number in range(20):
        box.receive(64 * number, tag=number)
    for number in reversed(range(20)):
        other.put(**box.message(8, 100 + number, tag=number, peer=1))
    other.ring()
    assert [other.completion()["status"] for _ in range(20)] == [OK] * 20
    assert [event["tag"] for event in box.events(20)[:-1]] == list(reversed(range(1, 20)))
    assert all(box.buffer[64 * number : 64 * number + 8] == box.sent(8, 100 + number) for number in range(20))
    # One that meets none waits, and goes on when its receive is posted, though nobody has read anything.
    other.post(**box.message(8, 7, tag=99, peer=1))
    box.pair.run(100)
    assert other.poll() is None
    box.receive(0, tag=99)
    assert (other.completion()["status"], box.event()["tag"]) == (OK, 99)
    assert unread.poll() is None
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == SLOTS


def test_announced_messages_come_before_what_finds_them(device_pair: Pair) -> None:
    box = Mailbox(device_pair, control=ContextControl.ENABLE | ContextControl.ANNOUNCE)
    for tag in range(1, 4):
        assert box.send(8, tag, tag=tag) == OK
    anything = {"tag": 0, "ignore": (1 << 64) - 1}
    box.receive(opcode=ReceiveOpcode.TAKE, **anything)
    box.receive(**anything)
    box.receive(tag=3)
    arrived = [(EventKind.ARRIVED, tag) for tag in range(1, 4)]
    assert [(event["kind"], event["tag"]) for event in box.events(6)] == [
        *arrived,
        (EventKind.TAKEN, 1),
        (EventKind.UNEXPECTED, 2),
        (EventKind.UNEXPECTED, 3),
    ]
    assert box.pair.target.counter(Counter.EVENTS) == 6
