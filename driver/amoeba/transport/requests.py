"""Completions of operations, arrivals from peers, and the objects that they notify.

Numbers of kinds and statuses are the engine's own; an API translates them.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from amoeba.nic.dma import Grant

__all__ = [
    "COUNTED_AS",
    "DATA",
    "KINDS",
    "NEVER",
    "NOBODY",
    "NO_SOURCE",
    "RELEASED",
    "Arrival",
    "Companion",
    "Completion",
    "Counted",
    "Grant",
    "Kind",
    "Owner",
    "Piece",
    "Tally",
]

NOBODY = -1
"""``dest_addr`` of the engine's own operations."""
NO_SOURCE = 2**64 - 1
"""``source`` of what no peer has caused, or one whose number nobody knows."""


class Kind(enum.IntEnum):
    """The kind of operation that a completion reports; :data:`DATA` and :data:`RELEASED` may be added."""

    OWN = 0
    """Posted by the engine for itself: only its ``ended`` is called."""
    WRITE = 1
    READ = 2
    ATOMIC = 3
    FETCH_ATOMIC = 4
    """Also those that compare."""
    SEND = 5
    TAGGED_SEND = 6
    RECEIVE = 7
    TAGGED_RECEIVE = 8
    TAGGED_ATOMIC_RECEIVE = 9
    """A peer's tagged atomic has changed the buffer of a tagged receive."""
    REMOTE_WRITE = 10
    """A peer's, with immediate data; so are those that follow."""
    REMOTE_READ = 11
    REMOTE_ATOMIC = 12


KINDS = 16
"""More than there are kinds."""
DATA = 16
"""With immediate data."""
RELEASED = 32
"""The buffer of a receive that takes message after message has been released."""


class Counted(enum.IntEnum):
    """How counters tell completions apart."""

    NOTHING = 0
    READS = 1
    """Reads, fetching and comparing atomics."""
    WRITES = 2
    """Writes and base atomics."""
    SENDS = 3
    RECEIVES = 4


COUNTED_AS = tuple(
    {
        Kind.WRITE: Counted.WRITES,
        Kind.READ: Counted.READS,
        Kind.ATOMIC: Counted.WRITES,
        Kind.FETCH_ATOMIC: Counted.READS,
        Kind.SEND: Counted.SENDS,
        Kind.TAGGED_SEND: Counted.SENDS,
        Kind.RECEIVE: Counted.RECEIVES,
        Kind.TAGGED_RECEIVE: Counted.RECEIVES,
        Kind.TAGGED_ATOMIC_RECEIVE: Counted.RECEIVES,
    }.get(kind, Counted.NOTHING)  # type: ignore[call-overload]
    for kind in range(KINDS)
)
"""By :class:`Kind`."""

NEVER = 2
"""``silent`` of what is reported neither when it succeeds nor when it fails."""



class Completion(Protocol):
    """Something that is over: a request of this side, or an operation of a peer."""

    context: Any
    """The application's context of the operation."""
    kind: int
    """A :class:`Kind`, perhaps with more bits."""
    silent: int
    """Whether success is not reported; :data:`NEVER`: nor failure."""
    status: int
    """A :class:`amoeba_model.wire.uet.ReturnCode`."""
    length: int
    """Bytes."""
    dest_addr: int
    """The peer that it went to; -1: none."""

    @property
    def pieces(self) -> int:
        """Descriptors that it took, each of which can fail alone."""

    @property
    def data(self) -> int:
        """Immediate data of a peer."""

    @property
    def source(self) -> int:
        """That peer's number, :data:`NO_SOURCE` without one."""

    @property
    def tag(self) -> int:
        """Of a tagged message."""

    @property
    def buf(self) -> int:
        """Address of a message in a buffer that takes several."""

    @property
    def olen(self) -> int:
        """Bytes of a message that did not fit."""

    @property
    def err_data(self) -> bytes:
        """More about an error."""


@dataclass(slots=True, eq=False)
class Arrival:
    """An operation of a peer on this side: a message received, an operation with immediate data."""

    silent = 0
    dest_addr = NOBODY
    pieces = 1
    err_data = b""

    context: Any
    kind: int
    length: int
    status: int
    data: int = 0
    source: int = NO_SOURCE
    tag: int = 0
    buf: int = 0
    olen: int = 0


class Piece(NamedTuple):
    """A descriptor, without what those of one operation share."""

    opcode: int
    flags: int
    length: int
    remote_address: int
    remote_key: int
    local: int
    result: int
    compare: int


class Companion(Protocol):
    """Makes progress together with the rings of a context: its event ring, when there are messages."""

    def progress(self) -> None:
        """Do what can be done now."""

    def arm(self) -> None:
        """Ask for an interrupt at the next event."""


class Tally(Protocol):
    """Counters of operations."""

    def __call__(self, kind: int, status: int, told: int | None, times: int = 1) -> None:
        """Count the end of ``times`` operations of this kind.

        ``told``: the status by which the NIC counted the operation; None if the NIC did not count it.
        """


class Owner(Protocol):
    """The share that posted a request into rings that several share."""

    peer_failed: Callable[[int], None]
    tally: "Tally | None"

    def count(self, peer: int, by: int = 1) -> None:
        """Count ``by`` more outstanding requests to this entry of the peer table."""
