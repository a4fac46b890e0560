"""OpenMessages: the message of several packets that a target PDC has begun."""

from dataclasses import dataclass

from amoeba_model.nic.checker import MemoryRequest
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode, SesFlags

__all__ = ["OpenMessage", "follow_message"]

_START, _END = SesFlags.START_OF_MESSAGE.value, SesFlags.END_OF_MESSAGE.value
_HEADER_DATA = SesFlags.HEADER_DATA.value


@dataclass(slots=True, eq=False)
class OpenMessage:
    """A message of which packets have come, and none was refused. A PDC has at most one: ROD keeps the order."""

    identity: tuple[int, ...]
    """The fields that are equal in all its packets, but for the key."""
    key: int
    received: int
    """Bytes that have come: where the next packet's part begins."""
    data: int | None
    """Immediate data, which the first packet brought."""
    faulty: bool = False
    """The host refused an access."""


def follow_message(
    message: OpenMessage | None, header: FrameHeader, checked: MemoryRequest | ReturnCode, has_events: bool
) -> tuple[OpenMessage | None, MemoryRequest | ReturnCode]:
    """Let a request that was ``checked`` for itself begin a message, or continue ``message``.

    Return the message to which the request belongs, if that has several packets and goes on or ends with it, and the
    request, or the code of its refusal. A refusal ends the message. ``has_events``: the request's context has an
    event ring.
    """
    if isinstance(checked, ReturnCode):
        return None, checked
    if header.flags & _START:
        return None if header.flags & _END else _begin(header, checked), checked
    if message is None or message.identity != _identity(header) or message.received != checked.offset:
        return None, ReturnCode.OP_VIOLATION
    if message.key != header.memory_key:
        return None, ReturnCode.PERM_VIOLATION
    if header.flags & _END and message.data is not None and not has_events:
        return None, ReturnCode.DISABLED
    message.received += checked.length
    return message, checked


def _begin(header: FrameHeader, request: MemoryRequest) -> OpenMessage:
    data = header.header_data if header.flags & _HEADER_DATA else None
    return OpenMessage(_identity(header), header.memory_key, request.length, data)


def _identity(header: FrameHeader) -> tuple[int, ...]:
    return (
        header.opcode, header.message_id, header.job_id, header.resource_index, header.initiator,
        header.buffer_offset, header.request_length,
    )  # fmt: skip
