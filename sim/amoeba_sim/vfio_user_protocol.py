"""vfio-user's messages on a socket: framing, descriptors, and nothing of what they mean.

QEMU's ``docs/interop/vfio-user.rst``. A message is read alone, never beyond its end, so that descriptors that come
with bytes come with their message's.
"""

import array
import enum
import os
import select
import socket
import struct
from dataclasses import dataclass, field

__all__ = [
    "HEADER",
    "MAX_DATA",
    "MAX_DESCRIPTORS",
    "REGION_ACCESS",
    "VERSION",
    "Channel",
    "Command",
    "Flags",
    "Message",
    "ProtocolError",
]

HEADER = struct.Struct("<HHIII")
"""Message identifier, command, size with header, flags, error number."""
VERSION = struct.Struct("<HH")
"""Major, minor; then JSON, ended by a zero byte."""
REGION_ACCESS = struct.Struct("<QII")
"""Offset, region, count; then the data."""
MAX_DATA = 1 << 20
"""Bytes that one message reads or writes."""
MAX_DESCRIPTORS = 64
_MAX_BYTES = HEADER.size + 64 + MAX_DATA
_MAX_WAITING = 8 << 20
"""Bytes of answers that a client may leave unread."""


class Command(enum.IntEnum):
    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    DEVICE_GET_INFO = 4
    DEVICE_GET_REGION_INFO = 5
    DEVICE_GET_REGION_IO_FDS = 6
    DEVICE_GET_IRQ_INFO = 7
    DEVICE_SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    DMA_READ = 11
    DMA_WRITE = 12
    DEVICE_RESET = 13
    DIRTY_PAGES = 14


class Flags(enum.IntFlag):
    REPLY = 1 << 0
    NO_REPLY = 1 << 4
    ERROR = 1 << 5


_TYPE = 0xF


class ProtocolError(Exception):
    """The received bytes are no message: the begin of the next one is unknown, and the connection ends."""


@dataclass
class Message:
    number: int
    command: int
    flags: int
    error: int
    body: bytes
    descriptors: list[int] = field(default_factory=list)
    """Open, and the receiver's to close."""

    @property
    def is_reply(self) -> bool:
        return self.flags & _TYPE == Flags.REPLY

    def close(self) -> None:
        """Close the descriptors that nobody has taken out of the list."""
        while self.descriptors:
            os.close(self.descriptors.pop())


class Channel:
    """One end of a connection; never waits, neither to receive nor to send."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._arrived = bytearray()
        self._descriptors: list[int] = []
        self._unsent = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_hung_up(self) -> bool:
        """The other end is closed, whatever it has said before that is still to be received."""
        poll = select.poll()
        poll.register(self._socket, 0)
        return bool(poll.poll(0))

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> Message | None:
        """Take the next message; None before it is complete. Raises ProtocolError, EOFError or OSError at the end."""
        while True:
            wanted = HEADER.size
            if len(self._arrived) >= HEADER.size:
                wanted = HEADER.unpack_from(self._arrived)[2]
                if not HEADER.size <= wanted <= _MAX_BYTES:
                    raise ProtocolError(f"a message of {wanted} bytes")
            if len(self._arrived) == wanted:
                return self._take()
            if not self._read(wanted - len(self._arrived)):
                return None

    def _take(self) -> Message:
        number, command, _, flags, error = HEADER.unpack_from(self._arrived)
        message = Message(number, command, flags, error, bytes(self._arrived[HEADER.size :]), self._descriptors)
        self._arrived, self._descriptors = bytearray(), []
        return message

    def _read(self, size: int) -> bool:
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        try:
            data, extra, flags, _ = self._socket.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        for level, kind, content in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
                self._descriptors += descriptors
        if not data:
            raise EOFError("the other end is closed")
        self._arrived += data
        if flags & socket.MSG_CTRUNC or len(self._descriptors) > MAX_DESCRIPTORS:
            raise ProtocolError(f"a message with more than {MAX_DESCRIPTORS} descriptors")
        return True

    def reply(self, to: Message, body: bytes = b"", error: int = 0) -> None:
        """Answer a message, unless it wants no answer. Raises as :meth:`receive`."""
        if to.flags & Flags.NO_REPLY:
            return
        flags = Flags.REPLY | (Flags.ERROR if error else 0)
        self._unsent += HEADER.pack(to.number, to.command, HEADER.size + len(body), flags, error) + body
        self.flush()
        if len(self._unsent) > _MAX_WAITING:
            raise ProtocolError(f"more than {_MAX_WAITING} bytes of answers are not read")

    def flush(self) -> None:
        """Send the unsent bytes, as far as the socket takes them."""
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def close(self) -> None:
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.pop())
