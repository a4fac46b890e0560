"""Streams (group COMM of ucp.h). All calls raise INVALID_PARAM without UCP_FEATURE_STREAM."""

from typing import Any

from amoeba.openucx.ucp.calls.endpoints import checked_endpoint
from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.constants import ucp_dt_type, ucp_feature, ucp_stream_recv_flags_t
from amoeba.openucx.ucp.datatypes import destination, source
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_datatype_t
from amoeba.openucx.ucp.kinds import SIZE, unsigned
from amoeba.openucx.ucp.messages import Handle
from amoeba.openucx.ucp.request_params import ReadParam, old_param, read_param
from amoeba.openucx.ucp.requests import request_of
from amoeba.openucx.ucp.status import UcsStatus, wrong_type
from amoeba.openucx.ucp.streams import StreamReceive
from amoeba.openucx.ucp.structures import ucp_request_param_t, ucp_stream_poll_ep_t
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_stream_data_release",
    "ucp_stream_recv_data_nb",
    "ucp_stream_recv_nb",
    "ucp_stream_recv_nbx",
    "ucp_stream_recv_request_test",
    "ucp_stream_send_nb",
    "ucp_stream_send_nbx",
    "ucp_stream_worker_poll",
]

_STREAM = ucp_feature.UCP_FEATURE_STREAM
_WAITALL = int(ucp_stream_recv_flags_t.UCP_STREAM_RECV_FLAG_WAITALL)
_SHIFT = int(ucp_dt_type.UCP_DATATYPE_SHIFT)
_CLASS = int(ucp_dt_type.UCP_DATATYPE_CLASS_MASK)
_unsigned = unsigned(32)


def _checked(ep: Endpoint, call: str) -> Worker:
    """Return the worker of an endpoint that can be used for streams."""
    worker = checked_endpoint(ep).worker
    worker.context.need(_STREAM, call)
    assert isinstance(worker, Worker)
    return worker


def ucp_stream_send_nb(
    ep: Endpoint, buffer: Any, count: int, datatype: ucp_datatype_t, cb: Any, flags: int
) -> Handle | None:
    """Send as :func:`ucp_stream_send_nbx` does; ``flags`` are reserved (ucp.h, group COMM)."""
    _unsigned("flags", flags)
    read = old_param(cb)
    return _send(ep, buffer, count, datatype, read)


def ucp_stream_send_nbx(ep: Endpoint, buffer: Any, count: int, param: ucp_request_param_t | None) -> Handle | None:
    """Send ``count`` elements behind everything that was sent before (ucp.h, group COMM).

    Return None if the buffer can be used again, else a request that ends when it can. The send is over when the
    receiver's NIC has the bytes, not when they were read; a send of 0 bytes is over at once. Bytes beyond the
    receiver's window wait.

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL.
    """
    read = read_param(param)
    return _send(ep, buffer, count, read.datatype, read)


def _send(ep: Endpoint, buffer: Any, count: int, datatype: int, read: ReadParam) -> Handle | None:
    worker = _checked(ep, "a stream")
    ep.check()
    ep.messages  # noqa: B018  the peer takes such messages
    with source(buffer, count, datatype) as layout:
        return worker.streams.send(ep, layout, read)


def ucp_stream_recv_nb(
    ep: Endpoint, buffer: Any, count: int, datatype: ucp_datatype_t, cb: Any, flags: int
) -> tuple[Handle | None, int]:
    """Receive as :func:`ucp_stream_recv_nbx` does, with its parameters as arguments (ucp.h, group COMM)."""
    return _receive(ep, buffer, count, datatype, int(_unsigned("flags", flags)), old_param(cb))


def ucp_stream_recv_nbx(
    ep: Endpoint, buffer: Any, count: int, param: ucp_request_param_t | None
) -> tuple[Handle | None, int]:
    """Receive a multiple of an element, at least one and at most ``count``; with WAITALL in ``param.flags`` all.

    Return (None, bytes received), or (request, 0): then the callback and :func:`ucp_stream_recv_request_test` tell
    the bytes. Receives end in order.

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, the error of an unpack function, and the endpoint's
    failure if nothing is unread (ucp.h, group COMM).
    """
    read = read_param(param)
    return _receive(ep, buffer, count, read.datatype, read.flags, read)


def _receive(
    ep: Endpoint, buffer: Any, count: int, datatype: int, flags: int, read: ReadParam
) -> tuple[Handle | None, int]:
    worker = _checked(ep, "a stream")
    if ep.stream is None or not ep.stream.unread_bytes:
        ep.check()
    layout = destination(buffer, count, datatype)
    element = datatype >> _SHIFT if not datatype & _CLASS else 1
    receive = StreamReceive(worker, layout, element or 1, read, whole=bool(flags & _WAITALL))
    request = worker.streams.receive(ep, receive, read)
    return (None, receive.received) if request is None else (request, 0)


def ucp_stream_recv_data_nb(ep: Endpoint) -> memoryview | None:
    """Return the oldest bytes by reference, valid until they are released; None if nothing has come.

    Raises the endpoint's failure if nothing is unread (ucp.h, group COMM).
    """
    worker = _checked(ep, "a stream")
    data = worker.streams.take_data(ep)
    if data is None:
        ep.check()
    return data


def ucp_stream_data_release(ep: Endpoint, data: memoryview) -> None:
    """Release ``data`` of :func:`ucp_stream_recv_data_nb`: that very object, once (ucp.h, group COMM)."""
    worker = _checked(ep, "a stream")
    if not isinstance(data, memoryview):
        raise wrong_type("data", "a result of ucp_stream_recv_data_nb()", data)
    worker.streams.release(ep, data)


def ucp_stream_recv_request_test(request: Handle) -> tuple[UcsStatus, int]:
    """Return (status of a receive, bytes received); 0 bytes in UCS_INPROGRESS (ucp.h, group COMM)."""
    found = request_of(request)
    if not isinstance(found, StreamReceive):
        raise wrong_type("request", "a request of ucp_stream_recv_nb() or ucp_stream_recv_nbx()", request)
    return found.code, found.received if found.done else 0


def ucp_stream_worker_poll(worker: Worker, max_eps: int, flags: int) -> list[ucp_stream_poll_ep_t]:
    """Return at most ``max_eps`` endpoints with unread data, each once until more comes (ucp.h, group WORKER)."""
    checked_worker(worker).context.need(_STREAM, "a stream")
    most = SIZE("max_eps", max_eps)
    _unsigned("flags", flags)
    return [ucp_stream_poll_ep_t(ep, ep.user_data) for ep in worker.streams.poll(most)]
