"""Messages and tagged atomics that come to a context: where they go, and what is said of them."""

import random
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import (
    RENDEZVOUS,
    DescriptorFlags,
    DescriptorOpcode,
    EventFlags,
    EventKind,
    ReceiveFlags,
)
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.trace import Stage
from amoeba_model.wire.codec import DecodedFrame, decode
from amoeba_model.wire.uet import AtomicDatatype, AtomicOpcode, NackCode, RequestOpcode, ReturnCode, SesFlags
from support.messages import INLINE, Mailbox
from support.raw_driver import Pair
from support.saboteur import Saboteur, chance
from support.stranger import WHOLE, Stranger

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
MULTI, DIRECTED = ReceiveFlags.MULTI, ReceiveFlags.DIRECTED
RELEASED, TAGGED, IN_SLOT, LONG, IMMEDIATE = (
    EventFlags.RELEASED, EventFlags.TAGGED, EventFlags.IN_SLOT, EventFlags.LONG, EventFlags.IMMEDIATE,
)  # fmt: skip
PAYLOAD = 4096
ALL_BITS = (1 << 64) - 1


@pytest.fixture
def pair(make_model_pair: MakePair) -> Pair:
    return make_model_pair()


@pytest.fixture
def box(pair: Pair) -> Mailbox:
    return Mailbox(pair)


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


@pytest.mark.parametrize("room", [0, 1, 10])
def test_a_message_that_is_too_long_is_cut(box: Mailbox, room: int) -> None:
    box.receive(0, room)
    assert box.send(11) == OK
    assert box.buffer[:16] == box.sent(room) + bytes(16 - room)
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
    box.receive(0, 32, flags=MULTI, least_room=8)
    for length in (10, 14, 12):
        assert box.send(length) == OK
    assert box.buffer[:40] == box.sent(10) + box.sent(14) + box.sent(8) + bytes(8)
    assert [
        (event["address"] - box.place(), event["length"], event["status"], event.get("flags", 0))
        for event in box.events(3)
    ] == [(0, 10, OK, 0), (10, 14, OK, 0), (24, 12, ReturnCode.TOO_LONG, RELEASED)]
    assert box.send() == OK  # is unexpected
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 1


@pytest.mark.parametrize(
    ("least_room", "length", "released"),
    [(8, 24, False), (8, 25, True), (0, 31, False), (0, 32, True), (33, 0, True)],
)
def test_a_multi_receive_is_used_up_when_less_than_its_least_room_or_nothing_is_left(
    box: Mailbox, least_room: int, length: int, released: bool
) -> None:
    box.receive(0, 32, flags=MULTI, least_room=least_room)
    assert box.send(length) == OK
    assert box.event().get("flags", 0) == (RELEASED if released else 0)


def test_a_multi_receive_keeps_its_turn(box: Mailbox) -> None:
    box.receive(0, 64, flags=MULTI, context=1)
    box.receive(64, 64, context=2)
    for _ in range(3):
        assert box.send(20) == OK
    assert [event["context"] for event in box.events(3)] == [1, 1, 1]


def test_addresses_count_modulo_two_to_the_64th(box: Mailbox) -> None:
    box.context.receive(address=ALL_BITS, length=64, flags=MULTI)
    assert box.send(4) == OK  # refused by the host, like any write posted
    assert box.send(4) == OK
    assert [event["address"] for event in box.events(2)] == [ALL_BITS, 3]
    assert [fault.address for fault in box.pair.target.device.faults()] == [ALL_BITS, 3]


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
        (5000, IN_SLOT | LONG | RELEASED),
    ]


def test_the_length_of_a_rendezvous_has_32_bits(box: Mailbox) -> None:
    box.receive()
    assert box.rendezvous((7 << 32) + 5) == OK
    assert box.event()["length"] == 5


# Tagged atomics


def test_a_tagged_atomic_is_performed_in_the_buffer_of_the_receive(box: Mailbox) -> None:
    box.buffer[64 + 24] = (100).to_bytes(8, "little")
    box.receive(64, 32, tag=3)
    assert box.add(5, tag=3, remote_address=24) == OK
    assert box.buffer.integer(88) == 105
    box.event(
        address=box.place(88), length=8, tag=3, kind=EventKind.ATOMIC_RECEIVED, flags=RELEASED | TAGGED
    )  # fmt: skip
    assert box.result.integer(0) == 0
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 1


def test_a_tagged_fetching_atomic_gives_the_old_values_back(box: Mailbox) -> None:
    box.buffer[0] = (100).to_bytes(8, "little")
    box.receive(tag=3)
    fetch = DescriptorOpcode.TAGGED_FETCH_ATOMIC
    flags = INLINE | DescriptorFlags.IMMEDIATE
    assert box.add(5, tag=3, opcode=fetch, flags=flags, compare=0xDA7A) == OK
    assert (box.buffer.integer(0), box.result.integer(0)) == (105, 100)
    assert box.event()["data"] == 0xDA7A
    box.receive(tag=3)
    assert box.add(0, tag=3, opcode=fetch, op=Op.FI_ATOMIC_READ) == OK
    assert box.result.integer(0) == 105


def test_a_tagged_atomic_without_a_receive_is_refused_and_nothing_is_kept(box: Mailbox) -> None:
    assert box.add(5, tag=3) == ReturnCode.NO_MATCH
    box.receive(tag=3)
    assert box.events(0) == []
    assert box.pair.target.counter(Counter.MESSAGES_UNEXPECTED) == 0
    assert box.pair.target.counter(Counter.REFUSED_REQUESTS) == 1


def test_a_tagged_atomic_outside_the_buffer_is_refused_and_the_receive_stays(box: Mailbox) -> None:
    box.receive(0, 32, tag=3)
    for offset in (25, 32, 1 << 32, ALL_BITS, ALL_BITS - 7):
        assert box.add(5, tag=3, remote_address=offset) == ReturnCode.BAD_ADDR
    assert box.events(0) == []
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 0
    assert box.add(5, tag=3, remote_address=24) == OK
    assert box.event()["address"] == box.place(24)
    assert box.buffer[:32] == bytes(24) + (5).to_bytes(8, "little")


def test_an_atomic_uses_a_multi_receive_up(box: Mailbox) -> None:
    box.receive(0, 1024, flags=MULTI, tag=3)
    assert box.send(16, tag=3) == OK
    assert box.add(5, tag=3, remote_address=8) == OK
    first, second = box.events(2)
    assert (first["flags"], second["flags"]) == (TAGGED, TAGGED | RELEASED)
    assert second["address"] == box.place(24)  # behind what the message has used
    assert box.add(5, tag=3) == ReturnCode.NO_MATCH


def test_a_buffer_that_the_host_refuses_is_said_to_both_sides(box: Mailbox) -> None:
    elsewhere = box.place() + (1 << 40)
    box.context.receive(address=elsewhere, length=64, flags=ReceiveFlags.TAGGED, tag=3, context=77)
    assert box.add(5, tag=3) == ReturnCode.HOST_UNSUCCESS_CMPL
    box.event(
        address=elsewhere, length=8, tag=3, kind=EventKind.ATOMIC_RECEIVED, flags=RELEASED | TAGGED,
        status=ReturnCode.HOST_UNSUCCESS_CMPL,
    )  # fmt: skip
    assert box.pair.target.counter(Counter.MESSAGES_MATCHED) == 1


def test_an_atomic_and_a_message_are_ordered_in_the_buffer(box: Mailbox) -> None:
    box.receive(0, 64, tag=1)
    box.receive(0, 64, tag=2)
    for fields in (
        box.message(8, tag=1, flags=INLINE, local=7),
        box.message(8, tag=2, flags=INLINE, local=3, opcode=DescriptorOpcode.TAGGED_ATOMIC, op=Op.FI_PROD,
                    datatype=Datatype.FI_UINT64),
    ):  # fmt: skip
        box.pair.local.post(**fields)
    assert [event["kind"] for event in box.events(2)] == [EventKind.RECEIVED, EventKind.ATOMIC_RECEIVED]
    assert box.buffer.integer(0) == 21


# What the initiator sends, and what it refuses


def test_messages_travel_as_the_wire_format_says(box: Mailbox) -> None:
    box.pair.network.recording = True
    opcodes = DescriptorOpcode
    expected = {
        opcodes.SEND: RequestOpcode.SEND, opcodes.TAGGED_SEND: RequestOpcode.TAGGED_SEND,
        opcodes.RENDEZVOUS_SEND: RequestOpcode.RENDEZVOUS_SEND,
        opcodes.RENDEZVOUS_TAGGED_SEND: RequestOpcode.RENDEZVOUS_TSEND,
        opcodes.TAGGED_ATOMIC: RequestOpcode.TSEND_ATOMIC,
        opcodes.TAGGED_FETCH_ATOMIC: RequestOpcode.TSEND_FETCH_ATOMIC,
    }  # fmt: skip
    for opcode in expected:
        box.pair.local.execute(
            **box.message(32, opcode=opcode, remote_key=0x7A6, remote_address=0xABC, op=Op.FI_SUM,
                          datatype=Datatype.FI_UINT64)
        )  # fmt: skip
    frames = [decode(frame.data) for _, frame in box.pair.network.log]
    sent = [frame for frame in frames if isinstance(frame, DecodedFrame) and frame.header.is_request]
    assert [frame.header.opcode for frame in sent] == list(expected.values())
    for header, payload in sent:
        assert payload == box.sent(32)
        assert (header.memory_key, header.buffer_offset, header.request_length) == (0x7A6, 0xABC, 32)
        assert header.flags == WHOLE | SesFlags.DELIVERY_COMPLETE
        is_atomic = header.opcode in (RequestOpcode.TSEND_ATOMIC, RequestOpcode.TSEND_FETCH_ATOMIC)
        assert (header.atomic_opcode == AtomicOpcode.SUM) is is_atomic
        assert (header.atomic_datatype == AtomicDatatype.UINT64) is is_atomic


_BAD = ReturnCode.LOCAL_BAD_DESCRIPTOR
_UNSUPPORTED = ReturnCode.AMO_UNSUPPORTED_OP


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"length": PAYLOAD + 1}, _BAD),
        ({"opcode": DescriptorOpcode.TAGGED_SEND, "length": PAYLOAD + 1}, _BAD),
        ({"opcode": DescriptorOpcode.RENDEZVOUS_SEND, "length": 31}, _BAD),
        ({"opcode": DescriptorOpcode.RENDEZVOUS_TAGGED_SEND, "length": 33}, _BAD),
        ({"opcode": DescriptorOpcode.RENDEZVOUS_SEND, "length": 32, "flags": INLINE}, _BAD),
        ({"flags": INLINE, "length": 9}, _BAD),
        ({"opcode": DescriptorOpcode.TAGGED_ATOMIC, "length": PAYLOAD + 8}, _BAD),
        ({"opcode": DescriptorOpcode.TAGGED_FETCH_ATOMIC, "length": PAYLOAD + 8}, _BAD),
        ({"opcode": DescriptorOpcode.TAGGED_ATOMIC, "length": 0}, _BAD),
        ({"opcode": DescriptorOpcode.TAGGED_ATOMIC, "length": 12}, _BAD),
        ({"opcode": DescriptorOpcode.TAGGED_ATOMIC, "op": Op.FI_ATOMIC_READ}, _UNSUPPORTED),
        ({"opcode": DescriptorOpcode.TAGGED_ATOMIC, "op": Op.FI_CSWAP}, _UNSUPPORTED),
        ({"opcode": DescriptorOpcode.TAGGED_FETCH_ATOMIC, "op": Op.FI_CSWAP}, _UNSUPPORTED),
        ({"opcode": DescriptorOpcode.TAGGED_FETCH_ATOMIC, "op": Op.FI_MSWAP}, _UNSUPPORTED),
        ({"opcode": 13}, _BAD),
        ({"peer": 31}, ReturnCode.LOCAL_BAD_PEER),
    ],
)  # fmt: skip
def test_the_initiator_refuses_messages_that_make_no_sense(
    box: Mailbox, fields: dict[str, int], status: ReturnCode
) -> None:
    assert box.send(**{"op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, **fields}) == status
    assert box.pair.initiator.counter(Counter.REQUESTS_SENT) == 0


@pytest.mark.parametrize("op", [Op.FI_ATOMIC_READ, Op.FI_CSWAP, 99])
def test_a_send_means_nothing_by_its_atomic_operation(box: Mailbox, op: int) -> None:
    box.receive()
    assert box.send(8, op=op, datatype=99) == OK
    assert box.buffer[:8] == box.sent(8)


def test_chained_sends_are_messages_of_their_own_and_one_request(box: Mailbox) -> None:
    for place in (0, 64):
        box.receive(place)
    chained = box.message(8, flags=DescriptorFlags.CHAINED, context=1)
    box.pair.local.put(**chained)
    box.pair.local.post(**box.message(9, context=2))
    entry = box.pair.local.completion()
    assert (entry["context"], entry["status"]) == (2, OK)
    assert [event["length"] for event in box.events(2)] == [8, 9]


def test_a_message_whose_bytes_cannot_be_read_never_arrives(box: Mailbox) -> None:
    assert box.send(8, local=box.source.address + (1 << 40)) == ReturnCode.LOCAL_DMA_FAULT
    box.receive()
    assert box.events(0) == []


# What the target refuses


@pytest.mark.parametrize(
    ("opcode", "fields", "size", "code"),
    [
        (RequestOpcode.SEND, {"request_length": 9}, 8, ReturnCode.UNSUPPORTED_SIZE),
        (RequestOpcode.TAGGED_SEND, {"request_length": 8}, 9, ReturnCode.UNSUPPORTED_SIZE),
        (RequestOpcode.SEND, {"request_length": PAYLOAD + 1}, PAYLOAD, ReturnCode.UNSUPPORTED_SIZE),
        (RequestOpcode.RENDEZVOUS_SEND, {"request_length": 31}, 31, ReturnCode.UNSUPPORTED_SIZE),
        (RequestOpcode.RENDEZVOUS_TSEND, {"request_length": 32}, 33, ReturnCode.UNSUPPORTED_SIZE),
        (RequestOpcode.RENDEZVOUS_TSEND, {"request_length": 64}, 64, ReturnCode.UNSUPPORTED_SIZE),
        (RequestOpcode.TSEND_ATOMIC, {"request_length": 4}, 4, ReturnCode.AMO_UNSUPPORTED_SIZE),
        (RequestOpcode.TSEND_FETCH_ATOMIC, {"request_length": 8}, 16, ReturnCode.AMO_UNSUPPORTED_SIZE),
        (RequestOpcode.TSEND_ATOMIC, {"atomic_opcode": AtomicOpcode.READ}, 0, ReturnCode.AMO_UNSUPPORTED_OP),
        (RequestOpcode.TSEND_FETCH_ATOMIC, {"atomic_opcode": AtomicOpcode.CSWAP, "request_length": 8}, 32,
         ReturnCode.AMO_UNSUPPORTED_OP),
        (RequestOpcode.TSEND_ATOMIC, {"atomic_datatype": 0x7F}, 8, ReturnCode.AMO_UNSUPPORTED_DT),
        (RequestOpcode.DATAGRAM_SEND, {"request_length": 8}, 8, ReturnCode.UNSUPPORTED_OP),
        (RequestOpcode.DEFERRABLE_TSEND, {"request_length": 8}, 8, ReturnCode.UNSUPPORTED_OP),
    ],
)  # fmt: skip
def test_the_target_refuses_messages_that_make_no_sense(
    box: Mailbox, opcode: RequestOpcode, fields: dict[str, int], size: int, code: ReturnCode
) -> None:
    box.receive()
    box.receive(tag=0, ignore=ALL_BITS)
    atomic = {"atomic_opcode": AtomicOpcode.SUM, "atomic_datatype": AtomicDatatype.UINT64}
    answer = Stranger(box.pair).ask(bytes(size), opcode=opcode, **{**atomic, **fields})
    assert answer.header.return_code == code
    assert box.events(0) == []


@pytest.mark.parametrize("missing", ["event_base", "unexpected_base"])
@pytest.mark.parametrize("immediate", [0, SesFlags.HEADER_DATA])
def test_a_context_that_takes_no_messages_says_so_after_the_size(box: Mailbox, missing: str, immediate: int) -> None:
    box.pair.target.set_wide("contexts", 0, **{missing: 0})
    stranger = Stranger(box.pair)
    send = {"opcode": RequestOpcode.SEND, "flags": WHOLE | immediate}
    assert stranger.ask(bytes(8), **send, request_length=8).header.return_code == ReturnCode.DISABLED
    assert stranger.ask(bytes(8), **send, request_length=9).header.return_code == ReturnCode.UNSUPPORTED_SIZE
    assert box.pair.target.counter(Counter.NACKS_SENT) == 0


def test_without_slots_room_is_asked_for_only_by_immediate_data(
    make_model_pair: MakePair,
) -> None:
    box = Mailbox(make_model_pair(), event_size=3)
    region = box.pair.memory(64)
    box.pair.target.set_wide("contexts", 0, unexpected_base=0)
    stranger = Stranger(box.pair)
    immediate = {"flags": WHOLE | SesFlags.HEADER_DATA}
    for _ in range(4):
        stranger.ask(bytes(8), **immediate, request_length=8, buffer_offset=region.address)
    send = {"opcode": RequestOpcode.SEND, "request_length": 8}
    assert stranger.ask(bytes(8), **send).header.return_code == ReturnCode.DISABLED
    stranger.send(stranger.frame(stranger.header(**send, **immediate), bytes(8)))
    (nack,) = stranger.answers()
    assert nack.header.nack_code == NackCode.NO_RESOURCE


def test_messages_are_for_the_job_and_process_of_an_enabled_context(box: Mailbox) -> None:
    stranger = Stranger(box.pair)
    send = {"opcode": RequestOpcode.SEND, "request_length": 8}
    for fields, code in (
        ({"resource_index": 1}, ReturnCode.BAD_INDEX),
        ({"resource_index": 99}, ReturnCode.BAD_INDEX),
        ({"job_id": 1}, ReturnCode.BAD_JOB_ID),
        ({"pid_on_fep": 1}, ReturnCode.BAD_PID),
    ):
        assert stranger.ask(bytes(8), **send, **fields).header.return_code == code
    box.receive()
    assert box.events(0) == []


def test_messages_need_no_key(box: Mailbox) -> None:
    box.receive()
    answer = Stranger(box.pair).ask(bytes(8), opcode=RequestOpcode.SEND, request_length=8, memory_key=0)
    assert answer.header.return_code == OK
    assert box.event()["kind"] == EventKind.RECEIVED


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


def test_every_message_needs_a_free_slot_also_if_it_will_not_use_it(make_model_pair: MakePair) -> None:
    box = Mailbox(make_model_pair(NicParameters(unexpected=2)))
    for _ in range(2):
        assert box.send() == OK
    box.receive(tag=3)
    stranger = Stranger(box.pair)
    atomic = {"atomic_opcode": AtomicOpcode.SUM, "atomic_datatype": AtomicDatatype.UINT64}
    for opcode in (RequestOpcode.TAGGED_SEND, RequestOpcode.TSEND_ATOMIC, RequestOpcode.TSEND_FETCH_ATOMIC):
        fields = {"opcode": opcode, "memory_key": 3, "request_length": 8, **atomic}
        stranger.send(stranger.frame(stranger.header(**fields), bytes(8)))
        (nack,) = stranger.answers()
        assert (nack.header.nack_code, nack.header.psn) == (NackCode.NO_RESOURCE, stranger.psn)
    assert box.events(0) == []
    assert box.pair.target.counter(Counter.DROPPED_SEQUENCE) == 3


def test_every_message_needs_room_for_an_event_also_if_it_has_none(make_model_pair: MakePair) -> None:
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
    for _ in range(3):  # what turns out not to be needed is given back
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
