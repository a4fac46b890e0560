"""One operation, from the check of its arguments to the ring, and from its completion back to the application.

A call fills an :class:`Operation` as a C program fills a ``struct fi_msg_rma``, and hands it to ``post``. The same
object comes back when the operation is over: then it is its own completion.
"""

from collections.abc import Callable
from typing import Any

from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.transport.requests import NEVER, NO_SOURCE, NOBODY, Grant, Kind, Owner

__all__ = ["Operation", "begun", "carry", "engine_operation", "filled", "keeps", "take_reported"]

_OK = int(ReturnCode.OK)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)


class Operation:
    """The fields of an operation's descriptor, and of its completion.

    There is no constructor: the caller sets every field that the descriptor has, which takes half the time.
    :func:`filled` makes an operation where time does not count. Attributes that few operations have are no slots:
    they cost nothing where nobody sets them.
    """

    __slots__ = (
        "__dict__",
        "buffers",
        "compare",
        "context",
        "datatype",
        "dest_addr",
        "flags",
        "grants",
        "kind",
        "length",
        "local",
        "more",
        "op",
        "opcode",
        "peer",
        "remote_address",
        "remote_key",
        "result",
        "silent",
        "status",
    )

    opcode: int
    """A :class:`DescriptorOpcode`; so are the fields up to ``compare`` those of the descriptor."""
    op: int
    datatype: int
    flags: int
    """:class:`DescriptorFlags`; the rings add those that say when the descriptor completes."""
    length: int
    """Bytes, also of the completion."""
    peer: int
    """The entry of the peer table that it goes to."""
    remote_address: int
    remote_key: int
    local: int
    """Where the operands are, or with INLINE the operands."""
    result: int
    compare: int
    """Where compare values are, or the values, or the immediate data."""
    more: int
    """Others follow at once: the doorbell is theirs."""
    buffers: Any
    """Kept alive while the NIC may touch them."""
    grants: tuple[Grant, ...]
    """Device access, made when it is posted, withdrawn at its end."""
    context: Any
    kind: int
    silent: int
    dest_addr: int
    status: int
    """From its end on."""

    ended: Callable[[int], None] | None = None
    """Told of the end, with the status."""
    counted: bool = True
    """Counters of its context count it."""
    owner: Owner | None = None
    """The share that posted it, if several share the rings."""
    places: tuple[int, ...] = ()
    """Tokens that a chain of descriptors occupies besides its own."""
    last: int = -1
    """Ring index of the descriptor that ends a chain; -1: there is no chain."""
    trouble: int = _OK
    """The first error of a chain, whose end is still to come."""
    pauses: int = 0
    """How often it was sent again after a pause."""
    turns: int = 0
    """How often it was sent again at once."""
    data: int = 0
    source: int = NO_SOURCE
    tag: int = 0
    buf: int = 0
    olen: int = 0

    @property
    def pieces(self) -> int:
        """Descriptors that it took."""
        return 1 + len(self.places)

    @property
    def err_data(self) -> bytes:
        """More about an error: nothing."""
        return b""


def begun(kind: int, opcode: int, context: Any, dest_addr: int, address: int = 0, key: int = 0) -> Operation:
    """Make an operation with what its call was given; its buffers, and whom it goes to, are still to be looked at."""
    operation = Operation()
    operation.kind = kind
    operation.opcode = opcode
    operation.context = context
    operation.dest_addr = dest_addr
    operation.remote_address = address
    operation.remote_key = key
    operation.op = operation.datatype = operation.flags = operation.local = operation.result = operation.compare = 0
    operation.buffers = None
    operation.grants = ()
    return operation


def carry(operation: Operation, data: int) -> None:
    """Let immediate data go with an operation."""
    operation.flags |= _IMMEDIATE
    operation.compare = data


_EMPTY: dict[str, Any] = dict.fromkeys(
    ("opcode", "op", "datatype", "flags", "length", "peer", "remote_address", "remote_key", "local", "result"), 0
) | {"compare": 0, "more": 0, "buffers": None, "grants": (), "context": None, "silent": 0, "dest_addr": NOBODY}


def filled(kind: int, **fields: Any) -> Operation:
    """Make an operation with these fields; the others are 0, or say that there is nothing."""
    operation = Operation()
    operation.kind = kind
    for name, value in (_EMPTY | fields).items():
        setattr(operation, name, value)
    return operation


def engine_operation(done: Callable[[int], None], **fields: Any) -> Operation:
    """Make an operation of the engine's own, as :func:`filled` does: ``done`` is called with the status of its end.

    With ``dest_addr``, the peer with this number is known to have failed if the operation does.
    """
    return filled(Kind.OWN, silent=NEVER, ended=done, **fields)


def keeps(kept: Any, keeper: object) -> bool:
    """Whether ``keeper`` is what an operation keeps, or among it."""
    return kept is keeper or (isinstance(kept, tuple | list) and any(keeps(each, keeper) for each in kept))


def take_reported(backlog: list[Operation], limit: int, into: list[Operation]) -> None:
    """Move up to ``limit`` of the oldest out of ``backlog``, and none behind one that reports an error."""
    count = next((number for number, completed in enumerate(backlog[:limit], 1) if completed.status != _OK), limit)
    # no call between these, so that a signal's handler finds everything in one place
    into += backlog[:count]
    del backlog[:count]
