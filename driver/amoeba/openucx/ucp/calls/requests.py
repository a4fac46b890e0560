"""Requests (group COMM of ucp.h). Functions raise INVALID_PARAM for a request that was freed."""

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
    """Return memory for a request, to be named in ``ucp_request_param_t.request``; its ``area`` is the application's.

    The memory serves one operation after the other, as long as the worker exists (ucp.h, group COMM).
    """
    checked_worker(worker)
    if worker.request_pool is None:
        return RequestPool(0, None, None).new(own=True)
    return worker.request_pool.new(own=True)


def ucp_request_check_status(request: Any) -> UcsStatus:
    """Return UCS_INPROGRESS, or the status with which a request has ended (ucp.h, group COMM)."""
    return request_of(request).code


def ucp_request_is_completed(request: Any) -> bool:
    """Return whether a request has ended. Deprecated (``ucp_compat.h``)."""
    return request_of(request).done


def ucp_request_query(request: Any, attr: ucp_request_attr_t) -> ucp_request_attr_t:
    """Fill ``attr`` with the fields of its mask, without a mask with all, and return it (ucp.h, group COMM)."""
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
    """Cancel a tagged receive that has met no message, which ends with CANCELED (ucp.h, group COMM).

    Other requests go on.
    """
    checked_worker(worker)
    request_of(request).cancel()


def ucp_request_free(request: Any) -> None:
    """Free a request, whose operation goes on without its callback (ucp.h, group COMM)."""
    request_of(request).free()


def ucp_request_release(request: Any) -> None:
    """Free a request, but call its callback at its end. Deprecated (``ucp_compat.h``)."""
    request_of(request).release()
