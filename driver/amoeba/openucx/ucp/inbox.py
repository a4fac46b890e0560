"""Buffers in which messages of streams, active messages and wireup land, one after the other.

A message is used in place: it holds its buffer until it is released. The NIC gets a buffer back when it has used the
buffer up and nobody holds a message in it. While the application holds many messages, more buffers are in use.
"""

from collections import deque
from typing import NamedTuple

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import address_of, allocate
from amoeba.transport.receives import ANYBODY, Receive, Receives
from amoeba.transport.requests import DATA, RELEASED, Arrival

__all__ = ["Chunk", "Inbox"]

_DONE = int(ReturnCode.OK)
_BUFFER_SIZE = 1 << 18
_POSTED = 4
"""Buffers that the NIC has, so that it can fill one while the driver does something else."""
_MAX_SPARE = 4
"""Maximum buffers that are kept though neither NIC nor application needs them."""
_CROWD = 32
"""Maximum buffers besides those of the NIC that may be full of messages which the application has not been given."""


class _Buffer:
    """Memory for messages. ``held``: messages in it that are in use."""

    __slots__ = ("address", "held", "posted", "spent", "view")

    def __init__(self, size: int) -> None:
        self.view = allocate(size)
        self.address = address_of(self.view)
        self.held = 0
        self.posted = False
        self.spent = False
        """The application may use the buffer for as long as it likes: the inbox does not use it again."""


class Chunk:
    """A message, or the rest of it, in the buffer where it landed."""

    __slots__ = ("_buffer", "_inbox", "view")

    def __init__(self, inbox: "Inbox", buffer: _Buffer, view: memoryview) -> None:
        self._inbox = inbox
        self._buffer = buffer
        self.view = view
        buffer.held += 1

    def release(self) -> None:
        """Release the message. Idempotent."""
        buffer = self._buffer
        if buffer is not None:
            self._buffer = None  # type: ignore[assignment]  # so that a second call does nothing
            self._inbox.let_go(buffer)

    def abandon(self) -> None:
        """Leave the message to the application, which does not release it. Idempotent."""
        if self._buffer is not None:
            self._buffer.spent = True
            self.release()


class Letter(NamedTuple):
    """An arrived message."""

    source: int
    """IPv4 address of the sender's NIC, and 32 bits of its context."""
    data: int
    """Immediate data: a UCP_MESSAGE."""
    chunk: Chunk


class Inbox:
    """Keeps receives posted, and makes letters of arrivals. ``payload``: bytes of the longest message."""

    def __init__(self, receives: Receives, payload: int, size: int = _BUFFER_SIZE) -> None:
        self._receives = receives
        self._payload = payload
        self._size = size
        self._spare: list[_Buffer] = []
        self._out = 0
        """Buffers in use that the NIC does not have."""
        self._open = True
        self.malformed = 0
        """Messages that were dropped: without immediate data, longer than a packet, or failed."""

    def start(self) -> None:
        """Post the first buffers after the NIC's context was enabled."""
        for _ in range(_POSTED):
            self._post()

    def _post(self) -> None:
        buffer = self._spare.pop() if self._spare else _Buffer(self._size)
        view = buffer.view
        receive = Receive(False, 0, 0, ANYBODY, buffer, False, (view,), view)
        receive.address, receive.length = buffer.address, view.nbytes
        receive.multi = True
        receive.grants = ((buffer.address, view.nbytes, True),)
        buffer.posted = True
        self._receives.post(receive, self._payload, False)

    def take(self, ready: deque[Arrival]) -> Letter | None:
        """Return the oldest message, or None. The caller releases its chunk."""
        while ready:
            arrival = ready.popleft()
            buffer = arrival.context
            if buffer is None:  # immediate data of a memory operation, which no receiver here asks for
                self.malformed += 1
                continue
            letter = None
            start = arrival.buf - buffer.address
            if arrival.kind & DATA and arrival.status == _DONE and arrival.length <= self._payload:
                chunk = Chunk(self, buffer, buffer.view[start : start + arrival.length])
                letter = Letter(arrival.source, arrival.data, chunk)
            else:
                self.malformed += 1
            if arrival.kind & RELEASED:
                buffer.posted = False
                if self._open:
                    self._post()
                if buffer.held:
                    self._out += 1
                else:
                    self._keep(buffer)
            if letter is not None:
                return letter
        return None

    def let_go(self, buffer: _Buffer) -> None:
        """Count a message of a buffer as released."""
        buffer.held -= 1
        if not buffer.held and not buffer.posted:
            self._out -= 1
            self._keep(buffer)

    @property
    def crowded(self) -> bool:
        """Whether so many buffers are in use that messages without a receiver should not stay in one for long."""
        return self._out >= _CROWD

    def _keep(self, buffer: _Buffer) -> None:
        if len(self._spare) < _MAX_SPARE and not buffer.spent:
            self._spare.append(buffer)

    def close(self) -> None:
        """Stop posting."""
        self._open = False
