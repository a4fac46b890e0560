"""A receive: which messages it takes, and where they go."""

from collections.abc import Callable, Sequence
from typing import Any

from amoeba_model.descriptors import MULTI_ALIGNMENT, ReceiveFlags, ReceiveOpcode

from amoeba.core.buffers import Segment, address_of, line_aligned
from amoeba.nic.event_ring import Event
from amoeba.transport.requests import Grant, Kind

__all__ = ["ANYBODY", "Receive"]

_WANTS_TAG = int(ReceiveFlags.TAGGED)
_DIRECTED = int(ReceiveFlags.DIRECTED)
_ADDRESSED = int(ReceiveFlags.ADDRESSED)
_RECEIVE = int(ReceiveOpcode.RECEIVE)
_UNTAGGED_KIND, _TAGGED_KIND = int(Kind.RECEIVE), int(Kind.TAGGED_RECEIVE)
ANYBODY = (0, 0)
"""``source`` of a receive that takes messages of all senders."""


class Receive:
    """A receive, or a search for a message, from its call to its end.

    ``tagged``, ``tag``, ``ignore``: which messages it takes; bits of the tag in ``ignore`` need not be the same.
    ``source``: IPv4 address and context of the sender, :data:`ANYBODY` without one. ``buffers``: where the message
    goes, one after the other; whoever makes the receive sets ``address`` and ``length`` of these. ``keep``: what must
    stay until then.
    """

    __slots__ = (
        "__dict__",
        "address",
        "buffers",
        "context",
        "flags",
        "grants",
        "ignore",
        "keep",
        "kind",
        "length",
        "released",
        "silent",
        "source",
        "tag",
    )

    opcode: int = _RECEIVE
    multi: bool = False
    """The one buffer takes message after message."""
    target: int = 0
    """The context, of those that share the receive context, that messages are for; of any with ``flags`` ADDRESSED
    off."""
    counted: bool = True
    """Counters of its context count it."""
    ended: Callable[[int], None] | None = None
    """Told of the end, with the status."""
    own: bool = False
    """The engine posted it for itself: no completion reports its end."""
    found: Callable[[Event, memoryview], int] | None = None
    """Called with the message, or the record, that a search has found.

    Returns the address where the application finds the message, 0: nowhere.
    """
    whole: memoryview | None = None
    """Memory of the driver for a message that is to be scattered."""
    reading: int = 0
    """Long messages that are being read into the buffer."""
    used: int = 0
    """Bytes that messages have used up before it is posted, or will have when the NIC has done its descriptor."""
    least_space: int = 0
    """Bytes that must be left, of a buffer that takes message after message, or it is released."""
    reserved: bool = False
    """The NIC will bring it together with messages that have come, and then it is over."""

    def __init__(
        self,
        tagged: bool,
        tag: int,
        ignore: int,
        source: tuple[int, int],
        context: Any,
        silent: int,
        buffers: Sequence[memoryview] = (),
        keep: Any = None,
    ) -> None:
        if tagged:
            self.kind, self.flags = _TAGGED_KIND, _WANTS_TAG
        else:
            self.kind, self.flags = _UNTAGGED_KIND, 0
        if source is not ANYBODY:
            self.flags |= _DIRECTED
        self.tag = tag
        self.ignore = ignore
        self.source = source
        self.context = context
        self.silent = silent
        """Success is not reported."""
        self.buffers = buffers
        self.address = 0
        """Of the first buffer that is not empty."""
        self.length = 0
        """Bytes of all buffers."""
        self.keep = keep
        self.grants: tuple[Grant, ...] = ()
        """Device access, from when it is posted to its end."""
        self.released = False
        """The NIC has no more use for the buffer."""

    @property
    def tagged(self) -> bool:
        return self.kind != _UNTAGGED_KIND

    def address_to(self, target: int | None) -> None:
        """Take only messages for this context, of those that share the receives; None: for any."""
        if target is not None:
            self.flags |= _ADDRESSED
            self.target = target

    def use(self, length: int) -> bool:
        """Give the next bytes of the buffer, or all that are left, to a message; returns whether it is used up then.

        The NIC does the same: the next message's place is aligned, and the bytes before that place stay unused.
        """
        space = self.length - self.used
        size = min(length, space)
        self.used += min(size + -(self.address + self.used + size) % MULTI_ALIGNMENT, space)
        return self.length - self.used < max(self.least_space, 1)

    def gather(self) -> memoryview:
        """Let the message come to memory of the driver first.

        That memory has the contents of the buffers, as a tagged atomic computes with them.
        """
        contents = b"".join(self.buffers)
        self.whole = whole = line_aligned(len(contents))
        whole[:] = contents
        self.address = address_of(whole)
        return whole

    def space(self, address: int, length: int) -> int:
        """Return how many of ``length`` bytes from ``address`` on fit into the buffer."""
        return max(0, min(length, self.address + self.length - address))

    def segments(self, address: int, length: int) -> list[Segment]:
        """Return where ``length`` bytes from ``address`` on lie, as far as they fit."""
        if self.whole is None:
            space = self.space(address, length)
            return [Segment(address, space)] if space else []
        parts = []
        for buffer in self.buffers:
            size = min(buffer.nbytes, length)
            if size:
                parts.append(Segment(address_of(buffer), size))
            length -= size
        return parts

    def land(self, address: int, length: int) -> int:
        """Copy a message from the driver's memory into the buffers; returns how many bytes fit."""
        assert self.whole is not None
        fits = sum(segment.length for segment in self.segments(address, length))
        self.fill(self.whole[:fits])
        return fits

    def fill(self, data: memoryview, offset: int = 0) -> int:
        """Copy ``data`` into the buffers, ``offset`` bytes behind their start; returns how many bytes fitted."""
        copied = 0
        for buffer in self.buffers:
            size = min(max(0, buffer.nbytes - offset), data.nbytes - copied)
            if size:
                buffer.cast("B")[offset : offset + size] = data[copied : copied + size]
            copied += size
            offset = max(0, offset - buffer.nbytes)
        return copied
