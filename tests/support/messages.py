"""A pair whose target takes messages, for tests that say what is sent and received and look at the events."""

from amoeba_model.descriptors import RENDEZVOUS, DescriptorFlags, DescriptorOpcode, EventFlags, ReceiveFlags
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import Buffer, Pair, RawContext

__all__ = ["RECEIVER_CONTEXT", "Mailbox", "valid"]

RECEIVER_CONTEXT = 77
"""``context`` of receives, unless a test says otherwise."""
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE


def valid(event: dict[str, int]) -> dict[str, int]:
    """The fields of an event that are not 0, flags without the phase."""
    event = {**event, "flags": event["flags"] & ~EventFlags.PHASE}
    return {name: value for name, value in event.items() if value}


class Mailbox:
    """Context 0 of a pair's target with a receive ring, unexpected slots and one buffer for all receives."""

    SIZE = 1 << 14

    def __init__(self, pair: Pair, *, event_size: int = 8, receive_size: int = 8, **options: int) -> None:
        self.pair = pair
        pair.remote = pair.target.context(event_size=event_size, receive_size=receive_size, **options)
        self.buffer = pair.target.buffer(self.SIZE)
        self.source = pair.initiator.buffer(self.SIZE)
        self.source[0] = bytes(1 + number % 251 for number in range(self.SIZE))
        self.result = pair.initiator.buffer(self.SIZE)

    @property
    def context(self) -> RawContext:
        return self.pair.remote

    def receive(self, place: int = 0, length: int = 64, **fields: int) -> None:
        """A receive descriptor for ``length`` bytes of the buffer; with ``tag`` a tagged one."""
        fields["flags"] = fields.get("flags", 0) | (ReceiveFlags.TAGGED if "tag" in fields else 0)
        fields.setdefault("context", RECEIVER_CONTEXT)
        self.context.receive(address=self.buffer.address + place, length=length, **fields)

    def send(self, length: int = 8, start: int = 0, **fields: int) -> int:
        """Send bytes of the source as a message, and wait; the status. With ``tag`` a tagged one."""
        return self.pair.local.execute(**self.message(length, start, **fields))["status"]

    def message(self, length: int = 8, start: int = 0, **fields: int) -> dict[str, int]:
        """The descriptor of a message."""
        opcode = DescriptorOpcode.TAGGED_SEND if "tag" in fields else DescriptorOpcode.SEND
        return {
            "opcode": opcode, "flags": DescriptorFlags.COMPLETION, "length": length,
            "local": self.source.address + start, "remote_key": fields.pop("tag", 0), **fields,
        }  # fmt: skip

    def rendezvous(self, length: int, **fields: int) -> int:
        """Announce a message of ``length`` bytes; the status."""
        self.source[0] = self.record(length)
        tagged = "tag" in fields
        opcode = DescriptorOpcode.RENDEZVOUS_TAGGED_SEND if tagged else DescriptorOpcode.RENDEZVOUS_SEND
        return self.send(RENDEZVOUS.size, opcode=opcode, remote_address=length, **fields)

    @staticmethod
    def record(length: int) -> bytes:
        return RENDEZVOUS.pack(key=length, resource_index=0x9ABC, job_id=0x5678)

    def add(self, value: int, **fields: int) -> int:
        """Add ``value`` to 8 bytes of the receive with ``tag``, and wait; the status."""
        entry = self.pair.local.execute(**{
            "opcode": DescriptorOpcode.TAGGED_ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64,
            "flags": INLINE, "length": 8, "local": value, "remote_key": fields.pop("tag", 0),
            "result": self.result.address, **fields,
        })  # fmt: skip
        return entry["status"]

    def events(self, count: int) -> list[dict[str, int]]:
        """The fields of the next events; there must be so many, and no more."""
        events = [valid(self.context.event()) for _ in range(count)]
        self.pair.run(5)
        assert self.context.poll_event() is None
        return events

    def event(self, **expected: int) -> dict[str, int]:
        """The only event: OK, from the initiator's context 0, and otherwise as ``expected`` if anything is."""
        (event,) = self.events(1)
        if expected:
            known = {"context": RECEIVER_CONTEXT, "status": ReturnCode.OK, "source_ip": self.pair.initiator.ip}
            assert event == {name: value for name, value in {**known, **expected}.items() if value}
        return event

    def place(self, offset: int = 0) -> int:
        """Address of a byte of the buffer."""
        return self.buffer.address + offset

    def sent(self, length: int, start: int = 0) -> bytes:
        return self.source[start : start + length]

    def other_buffer(self, size: int = 64) -> Buffer:
        return self.pair.target.buffer(size)
