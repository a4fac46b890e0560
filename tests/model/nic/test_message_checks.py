"""Messages on the wire, and what initiator and target refuse of them.

Covers ``nic/checker.py``.
"""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, decode
from amoeba_model.wire.uet import AtomicDatatype, AtomicOpcode, NackCode, RequestOpcode, ReturnCode, SesFlags

from tests.support.messages import INLINE, Mailbox
from tests.support.raw_driver import Pair
from tests.support.stranger import WHOLE, Stranger

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
PAYLOAD = 4096
ALL_BITS = (1 << 64) - 1


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
        assert (header.memory_key, header.buffer_offset, header.request_length) == (0x7A6, 0xABC, 32)
        assert header.flags == WHOLE | SesFlags.DELIVERY_COMPLETE
        is_atomic = header.opcode in (RequestOpcode.TSEND_ATOMIC, RequestOpcode.TSEND_FETCH_ATOMIC)
        content = box.sent(32)
        swapped = b"".join(content[at : at + 8][::-1] for at in range(0, 32, 8))
        assert payload == (swapped if is_atomic else content)
        assert (header.atomic_opcode == AtomicOpcode.SUM) is is_atomic
        assert (header.atomic_datatype == AtomicDatatype.UINT64) is is_atomic


_BAD = ReturnCode.LOCAL_BAD_DESCRIPTOR
_UNSUPPORTED = ReturnCode.AMO_UNSUPPORTED_OP


@pytest.mark.parametrize(
    ("fields", "status"),
    [
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


def test_without_slots_space_is_asked_for_only_by_immediate_data(
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
