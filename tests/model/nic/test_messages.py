"""Messages that come to a context: where they go, and what is said of them."""

import pytest
from amoeba_model.descriptors import RENDEZVOUS, DescriptorFlags, EventFlags, EventKind, ReceiveFlags
from amoeba_model.network import SimulatedDevice
from amoeba_model.registers import Counter
from amoeba_model.trace import Stage
from amoeba_model.wire.uet import ReturnCode

from tests.support.messages import INLINE, Mailbox

OK = ReturnCode.OK
MULTI, DIRECTED = ReceiveFlags.MULTI, ReceiveFlags.DIRECTED
RELEASED, TAGGED, IN_SLOT, LONG, IMMEDIATE = (
    EventFlags.RELEASED, EventFlags.TAGGED, EventFlags.IN_SLOT, EventFlags.LONG, EventFlags.IMMEDIATE,
)  # fmt: skip
PAYLOAD = 4096
ALL_BITS = (1 << 64) - 1


# Messages that meet a posted receive


def test_a_message_goes_where_its_receive_says(box: Mailbox) -> None:
    box.receive(8, 32)
    assert box.send(20) == OK
    assert box.buffer[:64] == bytes(8) + box.sent(20) + bytes(36)
    box.event(address=box.place(8), length=20, kind=EventKind.RECEIVED, flags=RELEASED)
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 1
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 0
    assert box.pair.target.counter(Counter.EVENTS) == 1


def test_a_tagged_message_says_its_tag_and_immediate_data(box: Mailbox) -> None:
    box.receive(tag=0xF0, ignore=0xFF)
    flags = DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE
    assert box.send(5, tag=0xAB, flags=flags, compare=0xDA7A) == OK
    box.event(
        address=box.place(), length=5, kind=EventKind.RECEIVED, flags=RELEASED | TAGGED | IMMEDIATE, tag=0xAB,
        data=0xDA7A,
    )  # fmt: skip


def test_an_untagged_message_has_no_tag_whatever_its_descriptor_says(box: Mailbox) -> None:
    box.receive()
    assert box.send(8, remote_key=0xAB, remote_address=0x1234) == OK
    assert "tag" not in box.event()


def test_a_message_names_the_context_and_pdc_of_its_source(box: Mailbox) -> None:
    context = box.pair.initiator.context(2)
    box.pair.initiator.peer(9, box.context, context=2)
    box.receive()
    assert context.execute(**box.message(peer=9))["status"] == OK
    event = box.event()
    assert (event["source_context"], event["source_pdc"]) == (2, 9)


@pytest.mark.parametrize(
    ("receive", "message", "matches"),
    [
        ({"tag": 5}, {"tag": 5}, True),
        ({"tag": 5}, {"tag": 4}, False),
        ({"tag": 5, "ignore": 1}, {"tag": 4}, True),
        ({"tag": 0, "ignore": ALL_BITS}, {"tag": ALL_BITS}, True),
        ({"tag": 1 << 63}, {"tag": 0}, False),
        ({"tag": 0, "ignore": ALL_BITS}, {}, False),
        ({}, {"tag": 0}, False),
        ({}, {}, True),
        ({"flags": DIRECTED, "source_ip": 0x0A000001}, {}, True),
        ({"flags": DIRECTED, "source_ip": 0x0A000001, "source_context": 1}, {}, False),
        ({"flags": DIRECTED, "source_ip": 0x0A000002}, {}, False),
        ({"source_ip": 0x0A000002, "source_context": 1}, {}, True),
        ({"flags": DIRECTED, "source_ip": 0x0A000001, "tag": 5}, {"tag": 5}, True),
        ({"flags": DIRECTED, "source_ip": 0x0A000001, "tag": 5}, {"tag": 6}, False),
    ],
)
@pytest.mark.parametrize("receive_first", [True, False])
def test_receive_and_message_match_by_kind_tag_under_the_mask_and_source(
    box: Mailbox, receive_first: bool, receive: dict[str, int], message: dict[str, int], matches: bool
) -> None:
    if receive_first:
        box.receive(**receive)
    assert box.send(**message) == OK
    if not receive_first:
        box.receive(**receive)
    kind = EventKind.RECEIVED if receive_first else EventKind.UNEXPECTED
    assert [event["kind"] for event in box.events(int(matches))] == [kind] * matches


def test_the_oldest_receive_that_matches_gets_the_message(box: Mailbox) -> None:
    for context, tag in enumerate([3, 5, 5, 3], start=1):
        box.receive(tag=tag, context=context)
    for tag in (5, 3, 5, 3):
        assert box.send(tag=tag) == OK
    assert [event["context"] for event in box.events(4)] == [2, 1, 3, 4]


@pytest.mark.parametrize("space", [0, 1, 10])
def test_a_message_that_is_too_long_is_cut(box: Mailbox, space: int) -> None:
    box.receive(0, space)
    assert box.send(11) == OK
    assert box.buffer[:16] == box.sent(space) + bytes(16 - space)
    box.event(
        address=box.place(), length=11, kind=EventKind.RECEIVED, flags=RELEASED, status=ReturnCode.TOO_LONG
    )  # fmt: skip


@pytest.mark.parametrize("length", [0, 1, PAYLOAD])
def test_messages_have_up_to_a_payload_of_bytes(box: Mailbox, length: int) -> None:
    box.receive(0, length)
    assert box.send(length) == OK
    assert box.buffer[: length + 1] == box.sent(length) + bytes(1)
    box.event(address=box.place(), length=length, kind=EventKind.RECEIVED, flags=RELEASED)


def test_small_messages_travel_in_their_descriptors(box: Mailbox) -> None:
    box.receive()
    assert box.send(5, flags=INLINE, local=0x99_5544332211) == OK
    assert box.buffer[:6] == b"\x11\x22\x33\x44\x55\0"


def test_a_multi_receive_takes_message_after_message(box: Mailbox) -> None:
    box.receive(0, 136, flags=MULTI, least_space=8)
    for length in (10, 64, 12):
        assert box.send(length) == OK
    assert box.buffer[:144] == box.sent(10) + bytes(54) + box.sent(64) + box.sent(8) + bytes(8)
    assert [
        (event["address"] - box.place(), event["length"], event["status"], event.get("flags", 0))
        for event in box.events(3)
    ] == [(0, 10, OK, 0), (64, 64, OK, 0), (128, 12, ReturnCode.TOO_LONG, RELEASED)]
    assert box.send() == OK  # is unexpected
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 1


@pytest.mark.parametrize(
    ("least_space", "length", "released"),
    [(36, 0, False), (36, 64, False), (37, 64, True), (36, 65, True), (0, 64, False), (0, 65, True), (101, 0, True)],
)
def test_a_multi_receive_is_used_up_when_less_than_its_least_space_or_nothing_is_left(
    box: Mailbox, least_space: int, length: int, released: bool
) -> None:
    """Of 100 bytes a message of 1 to 64 leaves 36."""
    box.receive(0, 100, flags=MULTI, least_space=least_space)
    assert box.send(length) == OK
    assert box.event().get("flags", 0) == (RELEASED if released else 0)


def test_places_in_a_multi_receive_are_multiples_of_64_of_the_address(box: Mailbox) -> None:
    box.receive(30, 226, flags=MULTI)
    for length in (1, 0, 40, 65):
        assert box.send(length) == OK
    assert [event["address"] - box.place() for event in box.events(4)] == [30, 64, 64, 128]
    assert box.buffer[:256] == b"".join(
        [bytes(30), box.sent(1), bytes(33), box.sent(40), bytes(24), box.sent(65), bytes(63)]
    )
    assert box.send() == OK
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 1


def test_the_last_message_uses_a_multi_receive_to_its_last_byte(box: Mailbox) -> None:
    box.receive(0, 100, flags=MULTI)
    for length in (1, 36):
        assert box.send(length) == OK
    assert [(event["status"], event.get("flags", 0)) for event in box.events(2)] == [(OK, 0), (OK, RELEASED)]
    assert box.buffer[64:101] == box.sent(36) + bytes(1)


def test_a_multi_receive_keeps_its_turn(box: Mailbox) -> None:
    box.receive(0, 256, flags=MULTI, context=1)
    box.receive(256, 64, context=2)
    for _ in range(3):
        assert box.send(20) == OK
    assert [event["context"] for event in box.events(3)] == [1, 1, 1]


def test_addresses_count_modulo_two_to_the_64th(box: Mailbox) -> None:
    box.context.receive(address=ALL_BITS, length=128, flags=MULTI)
    assert box.send(4) == OK  # refused by the host, like any write posted
    assert box.send(4) == OK
    assert [event.get("address", 0) for event in box.events(2)] == [ALL_BITS, 64]
    assert [fault.address for fault in box.pair.target.device.faults()] == [ALL_BITS, 64]


# Messages that nobody has asked for yet


def test_a_message_without_a_receive_waits_in_a_slot_for_one(box: Mailbox) -> None:
    flags = DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE
    assert box.send(11, tag=5, flags=flags, compare=6) == OK
    assert box.events(0) == []
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 1
    box.receive(tag=5)
    box.event(
        address=box.place(), length=11, tag=5, data=6, kind=EventKind.UNEXPECTED,
        flags=RELEASED | TAGGED | IN_SLOT | IMMEDIATE,
    )  # fmt: skip
    assert box.context.slot(0, 12) == box.sent(11) + bytes(1)
    assert box.buffer[:64] == bytes(64)  # to be copied by the driver
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 0


def test_unexpected_messages_lie_in_the_lowest_free_slots(box: Mailbox) -> None:
    for start in range(3):
        assert box.send(100, start) == OK
    for _ in range(3):
        box.receive()
    assert [event.get("slot", 0) for event in box.events(3)] == [0, 1, 2]
    assert [box.context.slot(number, 100) for number in range(3)] == [box.sent(100, start) for start in range(3)]
    box.context.release_slot(1)
    for _ in range(2):
        assert box.send() == OK
        box.receive()
    assert [event["slot"] for event in box.events(2)] == [1, 3]


def test_a_slot_that_the_host_refuses_loses_the_bytes_and_nothing_else(box: Mailbox) -> None:
    assert box.context.slots is not None
    box.pair.target.device.revoke(box.context.slots.address, box.context.slots.size)
    assert box.send() == OK
    box.receive()
    assert box.event()["kind"] == EventKind.UNEXPECTED
    (fault,) = box.pair.target.device.faults()
    assert (fault.write, fault.address, fault.size) == (True, box.context.slots.address, 8)


# Rendezvous


@pytest.mark.parametrize("tag", [{}, {"tag": 9}])
def test_a_rendezvous_that_meets_a_receive_leaves_its_record_in_a_slot(box: Mailbox, tag: dict[str, int]) -> None:
    box.receive(16, 100, **tag)
    assert box.rendezvous(5000, **tag) == OK
    box.event(
        address=box.place(16), length=5000, kind=EventKind.RENDEZVOUS,
        flags=RELEASED | IN_SLOT | LONG | (TAGGED if tag else 0), **tag,
    )  # fmt: skip
    assert box.context.slot(0, RENDEZVOUS.size) == box.record(5000)
    assert box.buffer[:] == bytes(box.SIZE)
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 1


def test_a_rendezvous_without_a_receive_waits_like_any_message(box: Mailbox) -> None:
    assert box.rendezvous(5000, tag=9) == OK
    box.receive(16, 100, tag=9)
    box.event(
        address=box.place(16), length=5000, kind=EventKind.RENDEZVOUS, tag=9,
        flags=RELEASED | IN_SLOT | LONG | TAGGED,
    )  # fmt: skip
    assert box.context.slot(0, RENDEZVOUS.size) == box.record(5000)


@pytest.mark.parametrize("receive_first", [True, False])
def test_a_rendezvous_uses_its_length_of_a_multi_receive(box: Mailbox, receive_first: bool) -> None:
    for step in (0, 1) if receive_first else (1, 0):
        if step == 0:
            box.receive(0, 8192, flags=MULTI)
        else:
            assert [box.rendezvous(5000), box.rendezvous(5000)] == [OK, OK]
    assert [(event["address"] - box.place(), event["flags"]) for event in box.events(2)] == [
        (0, IN_SLOT | LONG),
        (5056, IN_SLOT | LONG | RELEASED),
    ]


def test_the_length_of_a_rendezvous_has_32_bits(box: Mailbox) -> None:
    box.receive()
    assert box.rendezvous((7 << 32) + 5) == OK
    assert box.event()["length"] == 5


# The trace


def test_an_event_is_traced_behind_its_lines_and_before_its_answer(box: Mailbox) -> None:
    device = box.pair.target.device
    assert isinstance(device, SimulatedDevice)
    device.tracing = True
    box.receive(0, 4)
    assert box.send(8) == OK
    events = device.trace_events()
    stages = [event.stage for event in events]
    assert stages.index(Stage.REQUEST_CHECKED) < stages.index(Stage.LINE_WRITTEN) < stages.index(Stage.EVENT_WRITTEN)
    assert stages.index(Stage.EVENT_WRITTEN) < stages.index(Stage.RESPONSE_SENT)
    (written,) = [event for event in events if event.stage is Stage.EVENT_WRITTEN]
    assert (written.context, written.pdc, written.psn, written.status) == (0, 0, 0, ReturnCode.TOO_LONG)
