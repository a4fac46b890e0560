"""Common parts of sending streams and active messages.

A message that fits into a packet can be copied: then the call is over at once, and the application has its buffer
back. Only messages that go into the ring at once are copied; a lane's share of the ring bounds the copies.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.ucp import MessageKind

from amoeba.core.buffers import address_of, line_aligned
from amoeba.core.errors import ResourceError, TryAgainError
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.message_headers import message_header
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request
from amoeba.openucx.ucp.status import UcsStatus
from amoeba.openucx.ucp.worker_base import RequestMemory, WorkerBase
from amoeba.transport.requests import Kind
from amoeba.transport.rings import INJECT_SIZE

__all__ = ["Handle", "over", "requested", "send_copy", "will_copy"]

_SEND = int(DescriptorOpcode.SEND)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_SENDS = int(Kind.SEND)


Handle: TypeAlias = Request | RequestMemory
"""The application's handle of a request."""


def requested(
    worker: WorkerBase, lane: Lane | None, kind: int, length: int, buffers: Any, read: ReadParam
) -> Request:
    """Make a request as the application has asked for it. Raises INVALID_PARAM if the named memory cannot serve."""
    request = Request(worker, lane, kind, length, buffers, (), read.callback, read.user_data)
    request.use(read.request)
    return request


def over(request: Request | None) -> Handle | None:
    """Return the result of a call that is over: nothing, or the request if there has to be one."""
    if request is None:
        return None
    request.complete(UcsStatus.UCS_OK)
    return request.answer(immediate=False)


def will_copy(length: int, read: ReadParam, payload: int, *, scattered: bool) -> bool:
    """Return whether a message of so many bytes is to be copied. ``scattered``: it has to be gathered in any case."""
    return length <= INJECT_SIZE or (length <= payload and (scattered or read.forced or read.fast))


def send_copy(
    endpoint: Endpoint,
    kind: MessageKind,
    views: Sequence[memoryview],
    length: int,
    *,
    flags: int = 0,
    am_id: int = 0,
    header_length: int = 0,
) -> bool:
    """Send the ``length`` bytes of ``views``, at most a packet, as they are now; False if that is impossible now."""
    if not endpoint.wired:
        endpoint.wire()
    lane = endpoint.messages
    if not lane.may_post():
        return False
    worker = endpoint.worker
    entry = worker.peers.open.get(lane.number)
    if entry is None:
        try:
            entry = lane.entry()
        except (TryAgainError, ResourceError):
            return False
    rings = worker.rings
    sent = Quiet(lane, _SENDS, length)
    sent.opcode, sent.flags, sent.peer = _SEND, _IMMEDIATE, entry
    sent.compare = message_header(kind, endpoint.remote_number, flags, am_id, header_length)
    if length <= INJECT_SIZE:
        sent.local = rings.bounce(views) if length else 0
    else:
        copy = line_aligned(length)
        at = 0
        for view in views:
            copy[at : at + view.nbytes] = view
            at += view.nbytes
        sent.local = place = address_of(copy)
        sent.buffers = copy
        sent.grants = ((place, length, False),)
    rings.post(sent)
    lane.posted += 1
    return True
