"""Requests (group COMM of ucp.h)."""

from typing import Any

from amoeba.openucx.ucp.calls.workers import DEBUG_STRING, checked_worker
from amoeba.openucx.ucp.constants import ucs_memory_type_t
from amoeba.openucx.ucp.requests import request_of
from amoeba.openucx.ucp.status import UcsStatus
from amoeba.openucx.ucp.structures import ucp_request_attr_t
from amoeba.openucx.ucp.worker import Worker
from amoeba.openucx.ucp.worker_base import RequestMemory, RequestPool

__all__ = [
    "ucp_request_alloc",
    "ucp_request_cancel",
    "ucp_request_check_status",
    "ucp_request_free",
    "ucp_request_is_completed",
    "ucp_request_query",
    "ucp_request_release",
]


def ucp_request_alloc(worker: Worker) -> RequestMemory:
    """Memory for a request, to be named in ``ucp_request_param_t.request``: its ``area`` is the application's.

    It can be used for one operation after the other, as long as the worker is there.
    """
    checked_worker(worker)
    if worker.request_pool is None:
        return RequestPool(0, None, None).new(own=True)
    return worker.request_pool.new(own=True)


def ucp_request_check_status(request: Any) -> UcsStatus:
    """UCS_INPROGRESS, or the status with which it has ended."""
    return request_of(request).code


def ucp_request_is_completed(request: Any) -> bool:
    """Whether it has ended. Deprecated (``ucp_compat.h``)."""
    return request_of(request).done


def ucp_request_query(request: Any, attr: ucp_request_attr_t) -> ucp_request_attr_t:
    """Fill ``attr`` with what its mask asks for, without one with everything; returns it."""
    attr = ucp_request_attr_t.expected(attr)
    found = request_of(request)
    most = DEBUG_STRING if attr.debug_string_size is None else attr.debug_string_size
    return attr.fill(
        debug_string=found.describe()[: max(most - 1, 0)],
        debug_string_size=most,
        status=found.code,
        mem_type=ucs_memory_type_t.UCS_MEMORY_TYPE_HOST,
    )


def ucp_request_cancel(worker: Worker, request: Any) -> None:
    """Take back a tagged receive that has met no message: it ends with CANCELED. Of anything else, nothing."""
    checked_worker(worker)
    request_of(request).cancel()


def ucp_request_free(request: Any) -> None:
    """The application has no use for it any more. What has not ended goes on, and nobody hears of its end."""
    request_of(request).free()


def ucp_request_release(request: Any) -> None:
    """The same, but its callback is still called. Deprecated (``ucp_compat.h``)."""
    request_of(request).release()
