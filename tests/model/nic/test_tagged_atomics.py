"""Tagged atomics: performed in the buffer of the receive that they match, or refused."""

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventFlags, EventKind, ReceiveFlags
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.messages import INLINE, Mailbox

OK = ReturnCode.OK
MULTI = ReceiveFlags.MULTI
RELEASED, TAGGED, IMMEDIATE = EventFlags.RELEASED, EventFlags.TAGGED, EventFlags.IMMEDIATE
ALL_BITS = (1 << 64) - 1


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
    assert second["address"] == box.place(72)  # behind what the message has used
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
