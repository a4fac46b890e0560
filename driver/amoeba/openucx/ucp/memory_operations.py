"""From operations on a peer's memory, whose arguments are right, to descriptors on the lane for them.

Every completion is a delivery: the peer's memory has been changed, or its contents are here. A put whose bytes are
copied ends for the application when it is posted, and for a flush when it is delivered.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request
from amoeba.openucx.ucp.status import UcsStatus, ucs_error
from amoeba.transport.posting import INLINE_SIZE, Local, PostFlags, post_vector
from amoeba.transport.requests import Grant, Kind
from amoeba.transport.rings import INJECT_SIZE

__all__ = ["MOST_COPIED", "at_once", "get", "operation_request", "post", "put"]

MOST_COPIED = 1 << 16
"""Bytes of the longest put that UCP_OP_ATTR_FLAG_FAST_CMPL has copied."""
_MOST_BYTES = 1 << 30
"""Of a descriptor."""
_MOST_PIECES = 32
"""Descriptors of one request: more take several, one behind the other."""
_WRITE = int(DescriptorOpcode.WRITE)
_READ = int(DescriptorOpcode.READ)
_INLINE = int(DescriptorFlags.INLINE)
_WRITES = int(Kind.WRITE)
_READS = int(Kind.READ)
_OK = UcsStatus.UCS_OK
_DONE = int(ReturnCode.OK)
_U64 = 2**64 - 1


class _Whole(Request):
    """An operation of several requests, of which this is the last: its ``trouble`` says how the others ended."""

    __slots__ = ()

    def over(self) -> None:
        if self.status == _DONE:
            self.status = self.trouble
        super().over()


class _Part(Quiet):
    """One of those before it."""

    __slots__ = ("whole",)

    whole: _Whole | None
    """None: nobody has a request of it."""

    def over(self) -> None:
        whole = self.whole
        if whole is None:
            super().over()
            return
        self.lane.done += 1
        if self.status != _DONE and whole.trouble == _DONE:
            whole.trouble = self.status

    def abandoned(self, status: UcsStatus) -> None:
        if self.whole is None:  # else that one, behind it on the lane, is abandoned as well
            super().abandoned(status)


def operation_request(
    lane: Lane, kind: int, length: int, read: ReadParam, buffers: Any = None, grants: tuple[Grant, ...] = ()
) -> Request:
    """The application's request of an operation. Raises INVALID_PARAM if it cannot be what the application says."""
    request = Request(lane.worker, lane, kind, length, buffers, grants, read.callback, read.user_data)
    if read.request is not None:
        request.use(read.request)
    return request


def at_once(lane: Lane, read: ReadParam) -> Request | None:
    """What a call returns of an operation that has nothing to do; if it must be a request, it is over."""
    if read.immediate:
        return None
    request = operation_request(lane, Kind.OWN, 0, read)
    request.complete(_OK)
    return request


def post(
    lane: Lane,
    request: Request | Quiet,
    more: bool,
    opcode: int,
    flags: int,
    op: int,
    datatype: int,
    length: int,
    address: int,
    key: int,
    local: int,
    result: int,
    compare: int,
) -> None:
    """Post a request of one descriptor, now or when it is its turn."""
    entry = lane.entry_now()
    rings = lane.rings
    if entry is not None:
        rings.post(request, more, entry, opcode, flags, op, datatype, length, address, key, local, result, compare)
        lane.posted += 1
        return
    lane.submit(
        lambda: rings.post(
            request, more, lane.entry(), opcode, flags, op, datatype, length, address, key, local, result, compare
        ),
        1,
        request,
    )


def put(
    lane: Lane, views: Sequence[memoryview], address: int, key: int, read: ReadParam, *, quiet: bool = False
) -> Request | None:
    """Write bytes, which lie in one or several pieces, to a peer's memory; None: the pieces may be changed.

    ``quiet``: nobody has a request of it, and the pieces may not be changed before a flush; the result says only
    whether they may. Raises NO_RESOURCE if it has to be over at once and cannot be.
    """
    length = views[0].nbytes if len(views) == 1 else sum(view.nbytes for view in views)
    if not length:
        return at_once(lane, read)
    copied = length <= INJECT_SIZE or (read.fast and length <= MOST_COPIED)
    if copied:
        if len(views) > 1:
            views = [memoryview(b"".join(views))]
        request = None if quiet or read.immediate else operation_request(lane, _WRITES, length, read)
        _post_copy(lane, request, views[0], length, address, key, read.many)
        return request
    if read.forced and not quiet:
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"a put of {length} bytes is not over at once")
    return _transfer(lane, _WRITE, _WRITES, views, length, address, key, read, quiet)


def get(
    lane: Lane, views: Sequence[memoryview], address: int, key: int, read: ReadParam, *, quiet: bool = False
) -> Request | None:
    """Read a peer's memory into one or several pieces. None only of no bytes, or if nobody has a request of it.

    Raises NO_RESOURCE if it has to be over at once: it never is.
    """
    length = views[0].nbytes if len(views) == 1 else sum(view.nbytes for view in views)
    if not length:
        return at_once(lane, read)
    if read.forced and not quiet:
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"a get of {length} bytes is not over at once")
    return _transfer(lane, _READ, _READS, views, length, address, key, read, quiet)


def _post_copy(
    lane: Lane, request: Request | None, view: memoryview, length: int, address: int, key: int, more: bool
) -> None:
    """Write bytes that may be changed at once."""
    posted = Quiet(lane, _WRITES, length) if request is None else request
    if length <= INLINE_SIZE:
        post(lane, posted, more, _WRITE, _INLINE, 0, 0, length, address, key, int.from_bytes(view, "little"), 0, 0)
        return
    if length > INJECT_SIZE:
        copy = memoryview(bytearray(view))
        start = address_of(copy)
        posted.buffers = copy
        posted.grants = ((start, length, False),)
        post(lane, posted, more, _WRITE, 0, 0, 0, length, address, key, start, 0, 0)
        return
    rings = lane.rings
    entry = lane.entry_now()
    if entry is not None:
        rings.post(posted, more, entry, _WRITE, 0, 0, 0, length, address, key, rings.stash((view,)), 0, 0)
        lane.posted += 1
        return
    kept = (memoryview(bytes(view)),)

    def post_later() -> None:
        peer = lane.entry()
        rings.post(posted, more, peer, _WRITE, 0, 0, 0, length, address, key, rings.stash(kept), 0, 0)

    lane.submit(post_later, 1, posted)


def _transfer(
    lane: Lane,
    opcode: int,
    kind: int,
    views: Sequence[memoryview],
    length: int,
    address: int,
    key: int,
    read: ReadParam,
    quiet: bool,
) -> Request | None:
    """Move bytes between pieces in place and a peer's memory."""
    writable = opcode == _READ
    request: Request | Quiet
    if len(views) == 1 and length <= _MOST_BYTES:
        start = address_of(views[0])
        grants = ((start, length, writable),)
        if quiet:
            request = Quiet(lane, kind, length, views[0], grants)
        else:
            request = operation_request(lane, kind, length, read, views[0], grants)
        local, result = (0, start) if writable else (start, 0)
        post(lane, request, read.many, opcode, 0, 0, 0, length, address, key, local, result, 0)
    else:
        whole = None
        if not quiet:
            whole = _Whole(lane.worker, lane, kind, length, None, (), read.callback, read.user_data)
            whole.use(read.request)
        parts = list(_parts(views))
        for pieces in parts[:-1]:
            part = _Part(lane, kind, 0)
            part.whole = whole
            address = _post_pieces(lane, part, opcode, pieces, address, key, more=True)
        request = Quiet(lane, kind, 0) if whole is None else whole
        _post_pieces(lane, request, opcode, parts[-1], address, key, more=read.many)
    return None if isinstance(request, Quiet) else request


def _parts(views: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """Pieces, none longer than a descriptor can say, as many at a time as one request may have."""
    part: list[memoryview] = []
    for view in views:
        for start in range(0, view.nbytes, _MOST_BYTES):
            part.append(view[start : start + _MOST_BYTES])
            if len(part) == _MOST_PIECES:
                yield part
                part = []
    if part:
        yield part


def _post_pieces(
    lane: Lane, request: Request | Quiet, opcode: int, pieces: list[memoryview], address: int, key: int, *, more: bool
) -> int:
    """Post a request of several descriptors, now or when it is its turn; returns the remote address behind it."""
    writable = opcode == _READ
    buffers = [Local(piece, None, writable=writable) for piece in pieces]
    operands, results = ([], buffers) if writable else (buffers, [])
    request.length = sum(buffer.length for buffer in buffers)
    remote = [Segment(address, request.length, key)]
    flags = PostFlags.MORE if more else PostFlags.NONE
    rings = lane.rings
    lane.submit(
        lambda: post_vector(rings, request, flags, lane.entry(), opcode, 0, 0, operands, [], results, remote),
        len(pieces),
        request,
    )
    return address + request.length & _U64
