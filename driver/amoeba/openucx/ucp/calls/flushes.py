"""Flush and fence (group COMM-FLUSH of ucp.h), and the blocking flushes of ucp_compat.h."""

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

    ``cb``: called with the request and the status, if it is not so at once. The status is the first error of
    operations that have no request, since the last flush.
    """
    endpoint = checked_endpoint(ep)
    U32("flags", flags)
    return handed_out(flush(endpoint.worker, endpoint.lanes, old_param(cb)))


def ucp_ep_flush_nbx(ep: Endpoint, param: ucp_request_param_t | None = None) -> Request | None:
    """:func:`ucp_ep_flush_nb` with what ``param`` says."""
    endpoint = checked_endpoint(ep)
    return handed_out(flush(endpoint.worker, endpoint.lanes, read_param(param)))


def ucp_ep_flush(ep: Endpoint) -> None:
    """:func:`ucp_ep_flush_nb`, and progress until it is over. Not inside a callback."""
    outside_callbacks(ep)
    endpoint = checked_endpoint(ep)
    until_over(flush(endpoint.worker, endpoint.lanes, DEFAULTS))


def ucp_worker_flush_nb(worker: Worker, flags: int, cb: Any) -> Request | None:
    """Wait until memory operations on all endpoints are done at their targets; as :func:`ucp_ep_flush_nb`."""
    checked_worker(worker)
    U32("flags", flags)
    return handed_out(flush(worker, worker.lanes.values(), old_param(cb)))


def ucp_worker_flush_nbx(worker: Worker, param: ucp_request_param_t | None = None) -> Request | None:
    """:func:`ucp_worker_flush_nb` with what ``param`` says."""
    return handed_out(flush(checked_worker(worker), worker.lanes.values(), read_param(param)))


def ucp_worker_flush(worker: Worker) -> None:
    """:func:`ucp_worker_flush_nb`, and progress until it is over. Not inside a callback."""
    if checked_worker(worker).progressing:
        raise invalid_param("a call that waits was made inside a callback of progress")
    until_over(flush(worker, worker.lanes.values(), DEFAULTS))


def ucp_worker_fence(worker: Worker) -> None:
    """Let memory operations before this end before anything begins that is posted after, to whichever peer.

    What is posted after it includes messages; messages before it are not waited for. The call itself waits for
    nothing.
    """
    checked_worker(worker).fence()
