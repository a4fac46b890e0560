"""Flush and fence (group COMM-FLUSH of ucp.h), and the blocking flushes of ucp_compat.h.

A flush ends with the first error since the last flush of operations that have no request: as the status of its
request, or raised if it is known at once. Blocking flushes raise INVALID_PARAM inside a callback.
"""

from typing import Any

from amoeba.openucx.ucp.calls.arguments import U32, checked_endpoint, outside_callbacks
from amoeba.openucx.ucp.calls.blocking import handed_out, until_over
from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.flushes import flush
from amoeba.openucx.ucp.request_params import DEFAULTS, old_param, read_param
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import invalid_param
from amoeba.openucx.ucp.structures import ucp_request_param_t
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_ep_flush",
    "ucp_ep_flush_nb",
    "ucp_ep_flush_nbx",
    "ucp_worker_fence",
    "ucp_worker_flush",
    "ucp_worker_flush_nb",
    "ucp_worker_flush_nbx",
]


def ucp_ep_flush_nb(ep: Endpoint, flags: int, cb: Any) -> Request | None:
    """Wait until memory operations on this endpoint are done at the target; ``flags`` mean nothing.

    Return None if they are, else a request, at whose end ``cb(request, status)`` is called (ucp.h, group ENDPOINT).
    """
    endpoint = checked_endpoint(ep)
    U32("flags", flags)
    return handed_out(flush(endpoint.worker, endpoint.lanes, old_param(cb)))


def ucp_ep_flush_nbx(ep: Endpoint, param: ucp_request_param_t | None = None) -> Request | None:
    """Wait as :func:`ucp_ep_flush_nb` does, with the callback of ``param`` (ucp.h, group ENDPOINT).

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL if operations are outstanding.
    """
    endpoint = checked_endpoint(ep)
    return handed_out(flush(endpoint.worker, endpoint.lanes, read_param(param)))


def ucp_ep_flush(ep: Endpoint) -> None:
    """Make progress until the memory operations on this endpoint are done at the target (ucp_compat.h)."""
    outside_callbacks(ep)
    endpoint = checked_endpoint(ep)
    until_over(flush(endpoint.worker, endpoint.lanes, DEFAULTS))


def ucp_worker_flush_nb(worker: Worker, flags: int, cb: Any) -> Request | None:
    """Wait as :func:`ucp_ep_flush_nb` does, for memory operations on all endpoints (ucp.h, group WORKER)."""
    checked_worker(worker)
    U32("flags", flags)
    return handed_out(flush(worker, worker.lanes.values(), old_param(cb)))


def ucp_worker_flush_nbx(worker: Worker, param: ucp_request_param_t | None = None) -> Request | None:
    """Wait as :func:`ucp_worker_flush_nb` does, with the callback of ``param`` (ucp.h, group WORKER).

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL if operations are outstanding.
    """
    return handed_out(flush(checked_worker(worker), worker.lanes.values(), read_param(param)))


def ucp_worker_flush(worker: Worker) -> None:
    """Make progress until the memory operations on all endpoints are done at their targets (ucp_compat.h)."""
    if checked_worker(worker).progressing:
        raise invalid_param("a call that waits was made inside a callback of progress")
    until_over(flush(worker, worker.lanes.values(), DEFAULTS))


def ucp_worker_fence(worker: Worker) -> None:
    """Let all earlier memory operations end before any later operation begins, to whichever peer.

    Later operations include messages, but the fence does not wait for earlier messages. The call itself waits for
    nothing (ucp.h, group WORKER).
    """
    checked_worker(worker).fence()
