"""Messages and tagged atomics that come to a context: where they go, and what is said of them."""

from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventFlags, EventKind, ReceiveFlags
from amoeba_model.wire.uet import ReturnCode
from support.raw_driver import Pair

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
TAGGED = ReceiveFlags.TAGGED
SEND, TAGGED_SEND = DescriptorOpcode.SEND, DescriptorOpcode.TAGGED_SEND


@pytest.fixture
def pair(make_model_pair: MakePair) -> Pair:
    """The target's context 0 takes messages; its event ring has 64 entries."""
    pair = make_model_pair()
    pair.remote = pair.target.context(event_size=6, receive_size=4)
    return pair


def valid(event: dict[str, int]) -> dict[str, int]:
    """What an event says: fields that are not 0, flags without the phase."""
    event = {**event, "flags": event["flags"] & ~EventFlags.PHASE}
    return {name: value for name, value in event.items() if value}


def test_a_message_meets_a_posted_receive(pair: Pair) -> None:
    buffer, source = pair.target.buffer(64), pair.initiator.buffer(64, fill=0x5A)
    pair.remote.receive(address=buffer.address + 8, length=32, context=77)
    entry = pair.local.execute(opcode=SEND, length=20, local=source.address)
    assert entry["status"] == OK
    assert buffer[:] == bytes(8) + b"\x5a" * 20 + bytes(36)
    assert valid(pair.remote.event()) == {
        "context": 77, "address": buffer.address + 8, "length": 20, "source_ip": pair.initiator.ip,
        "kind": EventKind.RECEIVED, "status": OK, "flags": EventFlags.RELEASED,
    }  # fmt: skip


def test_a_message_without_a_receive_waits_in_a_slot_for_one(pair: Pair) -> None:
    buffer = pair.target.buffer(64)
    flags = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
    assert pair.local.execute(opcode=TAGGED_SEND, flags=flags, length=8, local=9, remote_key=5)["status"] == OK
    assert pair.remote.poll_event() is None
    pair.remote.receive(flags=TAGGED, tag=5, address=buffer.address, length=64, context=78)
    assert valid(pair.remote.event()) == {
        "context": 78, "address": buffer.address, "tag": 5, "length": 8, "source_ip": pair.initiator.ip,
        "kind": EventKind.UNEXPECTED, "status": OK,
        "flags": EventFlags.RELEASED | EventFlags.TAGGED | EventFlags.IN_SLOT,
    }  # fmt: skip
    assert pair.remote.slot(0, 8) == (9).to_bytes(8, "little")
    assert buffer[:] == bytes(64)
