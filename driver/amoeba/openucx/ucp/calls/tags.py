"""Tagged messages (group COMM-TAG of ucp.h), and ucp_request_test of ucp_compat.h.

All calls raise INVALID_PARAM without UCP_FEATURE_TAG. A message matches a receive if its tag equals ``tag`` in the
bits of ``tag_mask``.
"""

from typing import Any

from amoeba.openucx.ucp.calls.arguments import U64, checked_endpoint
from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.constants import ucp_feature
from amoeba.openucx.ucp.datatypes import BYTES, destination, source
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_datatype_t, ucp_tag_t
from amoeba.openucx.ucp.request_params import DEFAULTS, ReadParam, old_param, read_param, unset
from amoeba.openucx.ucp.requests import Request, request_of
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, wrong_type
from amoeba.openucx.ucp.structures import ucp_request_param_t, ucp_tag_recv_info
from amoeba.openucx.ucp.tags import TagMessage, TagReceive, Tags
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_request_test",
    "ucp_tag_msg_recv_nb",
    "ucp_tag_msg_recv_nbx",
    "ucp_tag_probe_nb",
    "ucp_tag_recv_nb",
    "ucp_tag_recv_nbr",
    "ucp_tag_recv_nbx",
    "ucp_tag_recv_request_test",
    "ucp_tag_send_nb",
    "ucp_tag_send_nbr",
    "ucp_tag_send_nbx",
    "ucp_tag_send_sync_nb",
    "ucp_tag_send_sync_nbx",
]

_BYTES = (bytes, bytearray)
_number = int.from_bytes
_TAG = ucp_feature.UCP_FEATURE_TAG


def _sender(ep: Any, tag: Any) -> tuple[Tags, int]:
    """Return the tagged messages of an endpoint's worker, and the tag."""
    worker = checked_endpoint(ep).worker
    worker.context.need(_TAG, "a tagged message")
    tags: Tags = worker.tags
    return tags, tag if tag.__class__ is int and not tag >> 64 else U64("tag", tag)


def _receiver(worker: Any) -> Tags:
    """Return the tagged messages of a worker that can be used."""
    if worker.__class__ is not Worker or worker.closed or worker.tags is None:
        checked_worker(worker)
        worker.context.need(_TAG, "a tagged message")
    tags: Tags = worker.tags
    return tags


def _send(
    ep: Endpoint, buffer: Any, count: int, datatype: int, tag: int, read: ReadParam, *, sync: bool = False
) -> Request | None:
    tags, tag = _sender(ep, tag)
    layout = source(buffer, count, datatype)
    try:
        return tags.send(ep, layout, tag, read, sync=sync)
    finally:
        layout.finish()


def ucp_tag_send_nb(
    ep: Endpoint, buffer: Any, count: int, datatype: ucp_datatype_t, tag: ucp_tag_t, cb: Any
) -> Request | None:
    """Send as :func:`ucp_tag_send_nbx` does, with its parameters as arguments (ucp.h, group COMM)."""
    return _send(ep, buffer, count, datatype, tag, old_param(cb))


def ucp_tag_send_nbr(
    ep: Endpoint, buffer: Any, count: int, datatype: ucp_datatype_t, tag: ucp_tag_t, req: Any
) -> UcsStatus:
    """Send with ``req`` of ucp_request_alloc() (ucp.h, group COMM).

    Return UCS_OK if the send is over, else UCS_INPROGRESS; then :func:`ucp_request_check_status` of ``req`` tells.
    """
    return _polled(_send(ep, buffer, count, datatype, tag, _of_own(req)))


def ucp_tag_send_nbx(
    ep: Endpoint, buffer: Any, count: int, tag: ucp_tag_t, param: ucp_request_param_t | None
) -> Request | None:
    """Send ``count`` elements of ``param.datatype`` with a tag (ucp.h, group COMM).

    Return None if the buffer can be used again, else a request that ends when it can. A message of up to a packet is
    over when it has been copied, or is delivered, a longer one when the receiver has read it.

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL.
    """
    read = DEFAULTS if param is None else read_param(param)
    if (
        ep.__class__ is Endpoint
        and buffer.__class__ in _BYTES
        and count.__class__ is int
        and 0 < count <= len(buffer)
        and tag.__class__ is int
        and not tag >> 64
        and ep.failure is None
        and not ep.closed
        and read.immediate
        and read.datatype == BYTES
        and (tags := ep.worker.tags) is not None
        and count <= tags.most_inline
        and (entry := (lane := ep.tagged).entry_now()) is not None
    ):
        # one number, to a peer that is known
        number = _number(buffer if count == len(buffer) else buffer[:count], "little")
        tags.send_number(lane, entry, count, number, tag, read.many)
        return None
    return _send(ep, buffer, count, read.datatype, tag, read)


def ucp_tag_send_sync_nb(
    ep: Endpoint, buffer: Any, count: int, datatype: ucp_datatype_t, tag: ucp_tag_t, cb: Any
) -> Request | None:
    """Send as :func:`ucp_tag_send_sync_nbx` does, with its parameters as arguments (ucp.h, group COMM)."""
    return _send(ep, buffer, count, datatype, tag, old_param(cb), sync=True)


def ucp_tag_send_sync_nbx(
    ep: Endpoint, buffer: Any, count: int, tag: ucp_tag_t, param: ucp_request_param_t | None
) -> Request | None:
    """Send as :func:`ucp_tag_send_nbx` does; the send is over when a receive has read the message.

    See ucp.h, group COMM.
    """
    read = read_param(param)
    return _send(ep, buffer, count, read.datatype, tag, read, sync=True)


def _receive(
    worker: Worker, buffer: Any, count: int, datatype: int, tag: int, tag_mask: int, read: ReadParam
) -> Request | None:
    tags = _receiver(worker)
    if tag.__class__ is not int or tag_mask.__class__ is not int or (tag | tag_mask) >> 64:
        tag, tag_mask = U64("tag", tag), U64("tag_mask", tag_mask)
    return tags.receive(destination(buffer, count, datatype), tag, tag_mask, read)


def ucp_tag_recv_nb(
    worker: Worker,
    buffer: Any,
    count: int,
    datatype: ucp_datatype_t,
    tag: ucp_tag_t,
    tag_mask: ucp_tag_t,
    cb: Any,
) -> Request:
    """Receive as :func:`ucp_tag_recv_nbx` does, but always return a request (ucp.h, group COMM).

    ``cb(request, status, info)`` is called with a :class:`ucp_tag_recv_info_t`, perhaps inside this call.
    """
    request = _receive(worker, buffer, count, datatype, tag, tag_mask, old_param(cb, immediate=False))
    assert request is not None
    return request


def ucp_tag_recv_nbr(
    worker: Worker,
    buffer: Any,
    count: int,
    datatype: ucp_datatype_t,
    tag: ucp_tag_t,
    tag_mask: ucp_tag_t,
    req: Any,
) -> UcsStatus:
    """Receive with ``req`` of ucp_request_alloc() (ucp.h, group COMM).

    Return UCS_INPROGRESS; :func:`ucp_tag_recv_request_test` of ``req`` tells whether the receive is over.
    """
    read = _of_own(req)
    read.immediate = False
    _receive(worker, buffer, count, datatype, tag, tag_mask, read)
    return UcsStatus.UCS_INPROGRESS


def ucp_tag_recv_nbx(
    worker: Worker,
    buffer: Any,
    count: int,
    tag: ucp_tag_t,
    tag_mask: ucp_tag_t,
    param: ucp_request_param_t | None,
) -> Request | None:
    """Receive the oldest message that matches, or wait for one (ucp.h, group COMM).

    Return None if the message is there, and fill ``param.recv_info``; else return a request, whose callback gets the
    information. A message that does not fit is lost, and leaves the buffer as it is: the status is MESSAGE_TRUNCATED,
    raised if it is known at once.

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, which takes no message, and the error of an unpack
    function.
    """
    read = DEFAULTS if param is None else read_param(param)
    return _receive(worker, buffer, count, read.datatype, tag, tag_mask, read)


def ucp_tag_probe_nb(
    worker: Worker, tag: ucp_tag_t, tag_mask: ucp_tag_t, remove: int
) -> tuple[TagMessage | None, ucp_tag_recv_info | None]:
    """Find the oldest message that matches and met no receive (ucp.h, group COMM).

    Return (message, its :class:`ucp_tag_recv_info_t`), or (None, None). The call makes no progress. With ``remove``
    only :func:`ucp_tag_msg_recv_nbx` gets the message from now on; without, the message stays.
    """
    found = _receiver(worker).probe(U64("tag", tag), U64("tag_mask", tag_mask), remove=bool(remove))
    return (None, None) if found is None else found


def ucp_tag_msg_recv_nb(
    worker: Worker, buffer: Any, count: int, datatype: ucp_datatype_t, message: TagMessage, cb: Any
) -> Request:
    """Receive as :func:`ucp_tag_msg_recv_nbx` does, but always return a request (ucp.h, group COMM)."""
    request = _receive_message(worker, buffer, count, datatype, message, old_param(cb, immediate=False))
    assert request is not None
    return request


def ucp_tag_msg_recv_nbx(
    worker: Worker, buffer: Any, count: int, message: TagMessage, param: ucp_request_param_t | None
) -> Request | None:
    """Receive a message that a probe has removed, once, as :func:`ucp_tag_recv_nbx` does (ucp.h, group COMM)."""
    read = read_param(param)
    return _receive_message(worker, buffer, count, read.datatype, message, read)


def _receive_message(
    worker: Worker, buffer: Any, count: int, datatype: int, message: TagMessage, read: ReadParam
) -> Request | None:
    tags = _receiver(worker)
    if not isinstance(message, TagMessage):
        raise wrong_type("message", "a message that ucp_tag_probe_nb() has removed", message)
    if message.worker is not worker or message.claim is None:
        raise invalid_param("message: expected one that a probe of this worker has removed, not received yet")
    return tags.receive_message(message, destination(buffer, count, datatype), read)


def ucp_tag_recv_request_test(request: Any) -> tuple[UcsStatus, ucp_tag_recv_info]:
    """Return (status, information) of a receive, without information before its end (ucp.h, group COMM)."""
    found = request_of(request)
    if not isinstance(found, TagReceive):
        raise wrong_type("request", "a request of a tagged receive", request)
    return found.code, found.info if found.done else ucp_tag_recv_info(0, 0)


def ucp_request_test(request: Any) -> tuple[UcsStatus, ucp_tag_recv_info]:
    """Return (status of any request, information of a tagged receive). Deprecated (``ucp_compat.h``)."""
    found = request_of(request)
    if isinstance(found, TagReceive) and found.done:
        return found.code, found.info
    return found.code, ucp_tag_recv_info(0, 0)


def _of_own(req: Any) -> ReadParam:
    """Read the arguments of ``_nbr`` calls: memory for the request, and no callback."""
    read = unset()
    read.request = req
    return read


def _polled(request: Request | None) -> UcsStatus:
    return UcsStatus.UCS_OK if request is None else UcsStatus.UCS_INPROGRESS
