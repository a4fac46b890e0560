"""Endpoints (group ENDPOINT of ucp.h)."""

import sys
from typing import Any, TextIO

from amoeba_model.device import DeviceError

from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.connections import ConnectionRequest, accept, call
from amoeba.openucx.ucp.constants import (
    ucp_ep_close_flags_t,
    ucp_ep_close_mode,
    ucp_ep_params_field,
    ucp_ep_params_flags_field,
    ucp_ep_perf_attr_field_t,
    ucp_err_handling_mode_t,
    ucp_feature,
)
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.kinds import unsigned
from amoeba.openucx.ucp.request_params import ReadParam, old_param, read_param
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error, wrong_type
from amoeba.openucx.ucp.structures import (
    ucp_ep_attr_t,
    ucp_ep_evaluate_perf_attr_t,
    ucp_ep_evaluate_perf_param_t,
    ucp_ep_params_t,
    ucp_request_param_t,
)
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_disconnect_nb",
    "ucp_ep_close_nb",
    "ucp_ep_close_nbx",
    "ucp_ep_create",
    "ucp_ep_destroy",
    "ucp_ep_evaluate_perf",
    "ucp_ep_modify_nb",
    "ucp_ep_print_info",
    "ucp_ep_query",
]

_FLAGS = ucp_ep_params_flags_field
_MODES = ucp_ep_close_mode
_FORCE = int(ucp_ep_close_flags_t.UCP_EP_CLOSE_FLAG_FORCE)
_FIELD = ucp_ep_params_field
_MODIFIABLE = int(_FIELD.UCP_EP_PARAM_FIELD_ERR_HANDLER | _FIELD.UCP_EP_PARAM_FIELD_USER_DATA)
_PEER = ucp_err_handling_mode_t.UCP_ERR_HANDLING_MODE_PEER
_FEATURES = ~ucp_feature.UCP_FEATURE_WAKEUP & sum(ucp_feature)
"""Features of which an endpoint needs one."""
_MAX_NAME = 31
"""Maximum characters of a name."""
_LATENCY_CYCLES = 1000
"""Cycles of the NIC's clock from a doorbell to the completion of an operation of 8 bytes: docs/benchmarks.md."""
_unsigned = unsigned(32)


def checked_endpoint(ep: Endpoint) -> Endpoint:
    """Return the endpoint if it is open. Raises INVALID_PARAM."""
    if ep.__class__ is not Endpoint and not isinstance(ep, Endpoint):
        raise wrong_type("ep", "an endpoint, as ucp_ep_create() returns it", ep)
    if ep.closed:
        raise invalid_param("ep: this endpoint is closed")
    return ep


def ucp_ep_create(worker: Worker, params: ucp_ep_params_t) -> Endpoint:
    """Make an endpoint without waiting for its connection; operations wait for it.

    With UCP_EP_PARAMS_FLAGS_CLIENT_SERVER the endpoint connects to the listener at ``params.sockaddr``, else to the
    sender of ``params.conn_request``, else to the worker with ``params.address``. If that worker has made an endpoint
    to this worker already, the two pair up: the first with the first, and so on. ``params.err_mode`` PEER informs the
    other end at once; otherwise nothing is sent before the first operation.

    Raises UNREACHABLE if no frame can get to the address, INVALID_ADDR for an unknown host, NO_RESOURCE if the NIC
    has no free entry (ucp.h, group ENDPOINT).
    """
    checked_worker(worker)
    taken = ucp_ep_params_t.taken(params)
    worker.context.need(ucp_feature(_FEATURES), "an endpoint")
    flags = taken.flags or _FLAGS(0)
    if flags & _FLAGS.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER:
        if taken.sockaddr is None:
            raise invalid_param("params: expected sockaddr with UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, got none")
        send_id = flags & _FLAGS.UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID
        client_id = worker.params.client_id or 0
        endpoint = call(worker, taken.sockaddr, client_id if send_id else 0)
    elif taken.conn_request is not None:
        if not isinstance(taken.conn_request, ConnectionRequest):
            raise wrong_type("params.conn_request", "one that a listener's handler was given", taken.conn_request)
        endpoint = accept(worker, taken.conn_request)
    elif taken.address is not None:
        remote = WorkerAddress.unpack(taken.address)
        try:
            endpoint = worker.connect(remote, loopback=not flags & _FLAGS.UCP_EP_PARAMS_FLAGS_NO_LOOPBACK)
        except DeviceError as error:
            raise ucs_error(UcsStatus.UCS_ERR_UNREACHABLE, str(error)) from error
    else:
        raise invalid_param("params: expected address, conn_request, or sockaddr with its flag, got none")
    endpoint.peer_failures = taken.err_mode is _PEER
    if taken.name is not None:
        endpoint.name = taken.name[:_MAX_NAME]
    _give_handler(endpoint, taken)
    if endpoint.peer_failures and endpoint.connected:
        endpoint.wire()
    return endpoint


def _give_handler(endpoint: Endpoint, params: ucp_ep_params_t) -> None:
    """Set the fields that creating and modifying have in common."""
    mask = params.field_mask or 0
    if mask & _FIELD.UCP_EP_PARAM_FIELD_USER_DATA:
        endpoint.user_data = params.user_data
    if params.err_handler is not None:
        endpoint.err_handler = params.err_handler.cb
        endpoint.err_arg = params.err_handler.arg
    if mask & _FIELD.UCP_EP_PARAM_FIELD_USER_DATA:
        endpoint.err_arg = params.user_data


def ucp_ep_modify_nb(ep: Endpoint, params: ucp_ep_params_t) -> None:
    """Give an endpoint another error handler, or other user data. Deprecated (``ucp_compat.h``).

    Raises INVALID_PARAM if ``params`` sets any other field.
    """
    checked_endpoint(ep)
    taken = ucp_ep_params_t.taken(params)
    if (taken.field_mask or 0) & ~_MODIFIABLE:
        raise invalid_param("params: only err_handler and user_data can be changed")
    _give_handler(ep, taken)


def ucp_ep_close_nb(ep: Endpoint, mode: int) -> Request | None:
    """Close an endpoint as :func:`ucp_ep_close_nbx` does, with a :class:`ucp_ep_close_mode` (ucp_compat.h)."""
    modes = {int(each): each for each in _MODES}
    if isinstance(mode, bool) or not isinstance(mode, int) or mode not in modes:
        raise invalid_param(f"mode: expected FORCE (0) or FLUSH (1), got {mode!r}")
    return _close(ep, modes[mode] is _MODES.UCP_EP_CLOSE_MODE_FORCE, old_param(None))


def ucp_ep_close_nbx(ep: Endpoint, param: ucp_request_param_t | None) -> Request | None:
    """Close an endpoint, which cannot be used from now on; the request ends when the endpoint is closed.

    Without flags the call waits for everything that was sent, and informs the other end. With UCP_EP_CLOSE_FLAG_FORCE
    in ``param.flags`` outstanding operations end now with CANCELED, and the NIC touches none of their buffers any
    more; that needs UCP_ERR_HANDLING_MODE_PEER. The error handler is not called any more.

    Return None or a request. Raises NOT_CONNECTED if the endpoint is closed already (ucp.h, group ENDPOINT).
    """
    read = read_param(param)
    return _close(ep, bool(read.flags & _FORCE), read)


def _close(ep: Endpoint, force: bool, read: ReadParam) -> Request | None:
    if not isinstance(ep, Endpoint):
        raise wrong_type("ep", "an endpoint, as ucp_ep_create() returns it", ep)
    if ep.closed:
        raise ucs_error(UcsStatus.UCS_ERR_NOT_CONNECTED, "this endpoint is closed already")
    if force and not ep.peer_failures:
        raise invalid_param("closing by force needs an endpoint with UCP_ERR_HANDLING_MODE_PEER")
    request = Request(ep.worker, callback=read.callback, user_data=read.user_data)
    request.what = "close"
    request.use(read.request)
    if force:
        ep.close()
        request.complete(UcsStatus.UCS_OK) if not read.immediate else _silently(request)
    else:
        callback, request.callback = request.callback, None
        ep.disconnect(request)
        if not request.done or not read.immediate:
            request.callback = callback
            if request.done and callback is not None:
                callback(request.handle, request.code, read.user_data)
    return request.answer(immediate=read.immediate)


def _silently(request: Request) -> None:
    """End a request at once, without its callback."""
    request.callback = None
    request.complete(UcsStatus.UCS_OK)


def ucp_disconnect_nb(ep: Endpoint) -> Request | None:
    """Close an endpoint by :func:`ucp_ep_close_nb` with FLUSH. Deprecated (``ucp_compat.h``)."""
    return ucp_ep_close_nb(ep, _MODES.UCP_EP_CLOSE_MODE_FLUSH)


def ucp_ep_destroy(ep: Endpoint) -> None:
    """Close an endpoint with FLUSH, and make progress until it is closed. Deprecated (``ucp_compat.h``)."""
    request = ucp_disconnect_nb(ep)
    if request is not None:
        worker = ep.worker
        assert isinstance(worker, Worker)
        while not request.done:
            worker.progress()
        request.free()


def ucp_ep_print_info(ep: Endpoint, stream: TextIO | None = None) -> None:
    """Print to ``stream`` what the endpoint is and does (ucp.h, group ENDPOINT)."""
    print(checked_endpoint(ep).describe(), file=sys.stdout if stream is None else stream)


def ucp_ep_query(ep: Endpoint, attr: ucp_ep_attr_t) -> ucp_ep_attr_t:
    """Fill ``attr`` with the fields of its mask, without a mask with all that the endpoint has, and return it.

    Raises NOT_CONNECTED if the mask asks for a socket address, and the endpoint has none (yet) (ucp.h, group
    ENDPOINT).
    """
    attr = ucp_ep_attr_t.expected(attr)
    link = checked_endpoint(ep).link
    known: dict[str, Any] = {"name": ep.name}
    for field in ("local_sockaddr", "remote_sockaddr"):
        address = None if link is None else getattr(link, field)
        if address is not None or attr.field_mask is None:
            known[field] = address
        elif attr.asks(field):
            raise ucs_error(UcsStatus.UCS_ERR_NOT_CONNECTED, f"{ep!r} has no {field}: it was not connected by one")
        else:
            known[field] = None
    return attr.fill(**known)


def ucp_ep_evaluate_perf(
    ep: Endpoint, param: ucp_ep_evaluate_perf_param_t, attr: ucp_ep_evaluate_perf_attr_t
) -> ucp_ep_evaluate_perf_attr_t:
    """Fill ``attr`` with the seconds that an operation of ``param.message_size`` bytes should take, and return it.

    The estimate is a fixed part, and the time of the bytes at the link's rate, one beat in each cycle of the NIC's
    clock. Raises INVALID_PARAM unless both masks name their field (ucp.h, group ENDPOINT).
    """
    taken = ucp_ep_evaluate_perf_param_t.taken(param)
    attr = ucp_ep_evaluate_perf_attr_t.expected(attr)
    if taken.message_size is None:
        raise invalid_param("param.message_size: expected a number of bytes, got none")
    wanted = ucp_ep_perf_attr_field_t.UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME
    if attr.field_mask is not None and not attr.field_mask & wanted:
        raise invalid_param("attr.field_mask: expected UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME")
    parameters = checked_endpoint(ep).worker.nic.parameters
    cycles = _LATENCY_CYCLES + taken.message_size / parameters.beat_bytes
    return attr.fill(estimated_time=cycles / parameters.clock_hz)
