"""From checked operations on a peer's memory to descriptors on the lane.

Every completion is a delivery: the peer's memory has been changed, or its contents are here. A put whose bytes are
copied ends for the application when it is posted, and for a flush when it is delivered.
"""

import functools
from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment, address_of, line_aligned
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request, made, number_operation
from amoeba.openucx.ucp.status import UcsStatus, ucs_error
from amoeba.transport.posting import INLINE_SIZE, Local, Scattered, post_scattered
from amoeba.transport.requests import Kind
from amoeba.transport.rings import INJECT_SIZE

__all__ = ["MAX_BYTES", "MAX_COPIED", "at_once", "get", "operation_request", "put", "put_number"]

MAX_COPIED = 1 << 16
"""Bytes of the longest put that UCP_OP_ATTR_FLAG_FAST_CMPL has copied."""
MAX_BYTES = 1 << 30
"""Maximum bytes of a descriptor."""
_MAX_PIECES = 32
"""Maximum descriptors of one request; longer operations take several requests, one behind the other."""
_WRITE = int(DescriptorOpcode.WRITE)
_READ = int(DescriptorOpcode.READ)
_INLINE = int(DescriptorFlags.INLINE)
_WRITES = int(Kind.WRITE)
_READS = int(Kind.READ)
_OK = UcsStatus.UCS_OK
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_in_memory = c_char.from_buffer
_DONE = int(ReturnCode.OK)
_U64 = 2**64 - 1


class _Whole(Request):
    """The last of an operation's several requests: its ``trouble`` says how the others ended."""

    __slots__ = ()

    def over(self) -> None:
        if self.status == _DONE:
            self.status = self.trouble
        super().over()


class _Part(Quiet):
    """A request of an operation before the last."""

    __slots__ = ("whole",)

    whole: _Whole | None
    """None: the operation has no request of the application."""

    def over(self) -> None:
        whole = self.whole
        if whole is None:
            super().over()
            return
        self.lane.done += 1
        if self.status != _DONE and whole.trouble == _DONE:
            whole.trouble = self.status

    def abandoned(self, status: UcsStatus) -> None:
        if self.whole is None:  # else the last request, behind this one on the lane, is abandoned as well
            super().abandoned(status)


def operation_request(
    lane: Lane, kind: int, opcode: int, length: int, read: ReadParam, address: int = 0, key: int = 0
) -> Request:
    """Make the application's request of an operation, whose operands and buffers the caller adds.

    Raises INVALID_PARAM if ``param.request`` cannot serve.
    """
    request: Request = made(Request)
    request.worker = worker = lane.worker
    request.lane = lane
    request.callback = read.callback
    request.user_data = read.user_data
    request.code = _IN_PROGRESS
    request.freed = False
    request.context = request
    request.kind = kind
    request.opcode = opcode
    request.length = length
    request.remote_address = address
    request.remote_key = key
    request.more = read.many
    request.dest_addr = lane.number
    request.buffers = None
    request.grants = ()
    request.silent = request.op = request.datatype = request.flags = 0
    request.local = request.result = request.compare = 0
    if worker.request_pool is not None:
        request.memory = worker.request_pool.take(request)
    if read.request is not None:
        request.use(read.request)
    return request


def at_once(lane: Lane, read: ReadParam) -> Request | None:
    """Return the result of an operation that has nothing to do: None, or a request that is over."""
    if read.immediate:
        return None
    request = operation_request(lane, Kind.OWN, 0, 0, read)
    request.complete(_OK)
    return request


def put(
    lane: Lane, views: Sequence[memoryview], address: int, key: int, read: ReadParam, *, quiet: bool = False
) -> Request | None:
    """Write the bytes of one or several pieces to a peer's memory; return None if the pieces may be changed now.

    ``quiet``: the operation has no request, and None does not mean that the pieces may be changed before a flush.
    Raises NO_RESOURCE if the put must be over at once and cannot be.
    """
    length = views[0].nbytes if len(views) == 1 else sum(view.nbytes for view in views)
    if not length:
        return at_once(lane, read)
    copied = length <= INJECT_SIZE or (read.fast and length <= MAX_COPIED)
    if copied:
        if len(views) > 1:
            views = [memoryview(b"".join(views))]
        if quiet or read.immediate:
            _post_copy(lane, _quiet_transfer(lane, _WRITE, length, read, address, key), views[0])
            return None
        request = operation_request(lane, _WRITES, _WRITE, length, read, address, key)
        _post_copy(lane, request, views[0])
        return request
    if read.forced and not quiet:
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"a put of {length} bytes is not over at once")
    return _transfer(lane, _WRITE, views, address, key, read, quiet=quiet)


def put_number(lane: Lane, number: int, length: int, address: int, key: int, more: bool) -> None:
    """Write up to 8 bytes, which travel in the descriptor, without a request."""
    posted = number_operation(lane, _WRITES, _WRITE, length, number)
    posted.remote_address, posted.remote_key, posted.more = address, key, more
    lane.post(posted)


def get(
    lane: Lane, views: Sequence[memoryview], address: int, key: int, read: ReadParam, *, quiet: bool = False
) -> Request | None:
    """Read a peer's memory into one or several pieces. Return None only of no bytes, or without a request.

    A single piece of up to :data:`MAX_BYTES` may be any writable buffer with ``nbytes``. Raises NO_RESOURCE if the
    get must be over at once: it never is.
    """
    length = views[0].nbytes if len(views) == 1 else sum(view.nbytes for view in views)
    if not length:
        return at_once(lane, read)
    if read.forced and not quiet:
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, f"a get of {length} bytes is not over at once")
    return _transfer(lane, _READ, views, address, key, read, quiet=quiet)


def _quiet_transfer(lane: Lane, opcode: int, length: int, read: ReadParam, address: int, key: int) -> Quiet:
    """Make a put or get that has no request."""
    quiet = Quiet(lane, _READS if opcode == _READ else _WRITES, length)
    quiet.opcode, quiet.remote_address, quiet.remote_key, quiet.more = opcode, address, key, read.many
    return quiet


def _post_copy(lane: Lane, posted: Quiet | Request, view: memoryview) -> None:
    """Write bytes that may be changed at once."""
    length = posted.length
    if length <= INLINE_SIZE:
        posted.flags, posted.local = _INLINE, int.from_bytes(view, "little")
        lane.post(posted)
        return
    if length > INJECT_SIZE:
        copy = line_aligned(length)
        copy[:] = view
        posted.local = start = address_of(copy)
        posted.buffers = copy
        posted.grants = ((start, length, False),)
        lane.post(posted)
        return
    rings = lane.rings
    entry = lane.entry_now()
    if entry is not None:
        posted.peer, posted.local = entry, rings.bounce((view,))
        rings.post(posted)
        lane.posted += 1
        return
    lane.submit(functools.partial(_post_bounced, lane, posted, (memoryview(bytes(view)),)), 1, posted)


def _post_bounced(lane: Lane, posted: Quiet | Request, views: Sequence[memoryview]) -> None:
    """Post up to 64 bytes, copied to the ring's bounce buffer, when it is their turn."""
    posted.peer, posted.local = lane.entry(), lane.rings.bounce(views)
    lane.rings.post(posted)


def _transfer(
    lane: Lane, opcode: int, views: Sequence[memoryview], address: int, key: int, read: ReadParam, *, quiet: bool
) -> Request | None:
    """Move bytes between pieces in place and a peer's memory."""
    writable = opcode == _READ
    kind = _READS if writable else _WRITES
    length = views[0].nbytes
    request: Request | Quiet
    if len(views) == 1 and length <= MAX_BYTES:
        start = addressof(_in_memory(views[0])) if writable else address_of(views[0])
        if quiet:
            request = _quiet_transfer(lane, opcode, length, read, address, key)
        else:
            request = operation_request(lane, kind, opcode, length, read, address, key)
        request.buffers = views[0]
        request.grants = ((start, length, writable),)
        if writable:
            request.result = start
        else:
            request.local = start
        lane.post(request)
    else:
        whole = None
        if not quiet:
            whole = _Whole(lane.worker, lane, kind, 0, None, (), read.callback, read.user_data)
            whole.use(read.request)
        parts = list(_parts(views))
        for pieces in parts[:-1]:
            part = _Part(lane, kind, 0)
            part.whole = whole
            part.opcode, part.more = opcode, True
            address = _post_pieces(lane, part, pieces, address, key)
        request = Quiet(lane, kind, 0) if whole is None else whole
        request.opcode, request.more = opcode, read.many
        _post_pieces(lane, request, parts[-1], address, key)
    return None if isinstance(request, Quiet) else request


def _parts(views: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """Yield pieces, none longer than a descriptor can say, as many at a time as one request may have."""
    part: list[memoryview] = []
    for view in views:
        for start in range(0, view.nbytes, MAX_BYTES):
            part.append(view[start : start + MAX_BYTES])
            if len(part) == _MAX_PIECES:
                yield part
                part = []
    if part:
        yield part


def _post_pieces(
    lane: Lane, request: Request | Quiet, pieces: list[memoryview], address: int, key: int
) -> int:
    """Post a request of several descriptors, now or when it is its turn; return the remote address behind it."""
    writable = request.opcode == _READ
    buffers = [Local(piece, None, writable=writable) for piece in pieces]
    request.length = sum(buffer.length for buffer in buffers)
    remote = [Segment(address, request.length, key)]
    memory = Scattered((), (), buffers, remote) if writable else Scattered(buffers, (), (), remote)

    def post_now() -> None:
        request.peer = lane.entry()
        post_scattered(lane.rings, request, memory)

    lane.submit(post_now, len(pieces), request)
    return address + request.length & _U64
