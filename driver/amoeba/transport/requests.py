"""What the driver remembers of a request until its completion, and what becomes of it then."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from amoeba_model.wire.uet import ReturnCode

from amoeba.fabric.constants import FI_ADDR_NOTAVAIL, Caps

if TYPE_CHECKING:
    from amoeba.fabric.triggered.deferral import Deferral

__all__ = [
    "COUNTED",
    "Companion",
    "Completed",
    "Ending",
    "Fields",
    "Operation",
    "Owner",
    "Piece",
    "Tally",
    "closing",
    "is_counted",
    "take_reported",
]

COUNTED = int(Caps.FI_READ | Caps.FI_WRITE | Caps.FI_SEND | Caps.FI_RECV)
"""Kinds of operations as counters tell them apart: each has one of these in ``flags`` of its completion."""

_OK = int(ReturnCode.OK)
_NOBODY = -1
"""``dest_addr`` of the driver's own operations."""


class Ending:
    """What the end of an operation takes, beyond freeing its place."""

    __slots__ = ("deferral", "done", "grants", "last", "length", "owner", "places", "status")

    def __init__(
        self,
        length: int,
        grants: tuple[tuple[int, int], ...] = (),
        done: Callable[[int], None] | None = None,
    ) -> None:
        self.length = length
        """Bytes of the whole operation."""
        self.grants = grants
        """Device access made for this operation alone: (address, length)."""
        self.done = done
        """The driver's own operation: this is called with the status, of which nobody else hears."""
        self.places: tuple[int, ...] = ()
        """What a chain occupies besides its token."""
        self.last = -1
        """Ring index of the descriptor that ends a chain; -1 without one."""
        self.status = _OK
        """The chain's first error."""
        self.owner: Owner | None = None
        """Who posted it, if several share the rings."""
        self.deferral: Deferral | None = None
        """What has waited for a counter, and is told of its end."""


class Operation(NamedTuple):
    """What the driver remembers of a request until its completion."""

    context: Any
    """``op_context`` of the completion entry."""
    flags: int
    """``flags`` of the completion entry."""
    silent: bool
    """Success is not reported."""
    dest_addr: int
    buffers: tuple[Any, ...]
    """Kept alive while the NIC may touch them."""
    ending: Ending | None = None


class Completed(NamedTuple):
    """An operation that is over, or something that a peer did."""

    operation: Operation
    length: int
    status: int
    data: int = 0
    """Immediate data of a peer."""
    source: int = FI_ADDR_NOTAVAIL
    """That peer's number in the address vector."""
    tag: int = 0
    """Of a tagged message."""
    buf: int = 0
    """Address of a message in a buffer that takes several."""
    olen: int = 0
    """Bytes of a message that did not fit."""


class Piece(NamedTuple):
    """A descriptor, without what those of one request share."""

    opcode: int
    flags: int
    length: int
    remote_address: int
    remote_key: int
    local: int
    result: int
    compare: int


Fields = tuple[int, int, int, int, int, int, int, int]
"""Those of a :class:`Piece`, in its order: a plain tuple is made several times faster."""


class Companion(Protocol):
    """What works hand in hand with the rings of a context: its event ring, when there are messages."""

    def progress(self) -> None:
        """Do what can be done now."""

    def arm(self) -> None:
        """Ask for an interrupt at the next event."""


class Tally(Protocol):
    """Counters of operations."""

    def __call__(self, flags: int, status: int, told: int | None) -> None:
        """An operation, of this kind, has ended; ``told``: the status by which the NIC counted it, if it did."""


class Owner(Protocol):
    """Who posted an operation into rings that several share."""

    peer_failed: Callable[[int], None]


def closing(done: Callable[[int], None]) -> Operation:
    """The driver's own operation that closes a peer entry; ``done`` is called when it is closed, or cannot be."""
    return Operation(None, 0, True, _NOBODY, (), Ending(0, done=done))


def take_reported(backlog: list[Completed], limit: int) -> list[Completed]:
    """Take up to ``limit`` of the oldest out of ``backlog``, and none behind one that reports an error."""
    count = next((number for number, completed in enumerate(backlog[:limit], 1) if completed.status != _OK), limit)
    taken = backlog[:count]
    del backlog[:count]
    return taken


def is_counted(operation: Operation) -> bool:
    """Whether counters of its endpoint count an operation: deferred work may have one of its own instead."""
    ending = operation.ending
    return ending is None or ending.deferral is None or ending.deferral.counted
