"""Workers (group WORKER of ucp.h)."""

import sys
from typing import TextIO

from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.status import wrong_type
from amoeba.openucx.ucp.structures import ucp_worker_address_attr_t, ucp_worker_attr_t, ucp_worker_params_t
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_worker_address_query",
    "ucp_worker_create",
    "ucp_worker_destroy",
    "ucp_worker_get_address",
    "ucp_worker_print_info",
    "ucp_worker_progress",
    "ucp_worker_query",
    "ucp_worker_release_address",
]

DEBUG_STRING = 256
"""Maximum characters of ucp_request_query's description of a request."""


def checked_worker(worker: Worker) -> Worker:
    """Return the worker if it is open. Raises INVALID_PARAM."""
    if not isinstance(worker, Worker):
        raise wrong_type("worker", "a worker, as ucp_worker_create() returns it", worker)
    worker._check_open()
    return worker


def ucp_worker_create(context: Context, params: ucp_worker_params_t) -> Worker:
    """Make a worker (ucp.h, group WORKER).

    Raises NO_RESOURCE if the NIC has too few free contexts: a worker takes one, or two if the features have streams
    or active messages.
    """
    if not isinstance(context, Context):
        raise wrong_type("context", "a context, as ucp_init() returns it", context)
    context._check_open()
    return Worker(context, ucp_worker_params_t.taken(params))


def ucp_worker_destroy(worker: Worker) -> None:
    """Close a worker and its endpoints (ucp.h, group WORKER).

    Outstanding operations and posted receives end with CANCELED.
    """
    checked_worker(worker).close()


def ucp_worker_progress(worker: Worker) -> int:
    """Go on with everything that can go on; return 0 if nothing did. Raises INVALID_PARAM inside a callback."""
    if worker.__class__ is not Worker:
        checked_worker(worker)
    return worker.progress()


def ucp_worker_get_address(worker: Worker) -> tuple[bytes, int]:
    """Return (address, its length), with which peers make endpoints to this worker (ucp.h, group WORKER)."""
    address = checked_worker(worker).pack_address()
    return address, len(address)


def ucp_worker_release_address(worker: Worker, address: bytes) -> None:
    """Check the address of a worker, which Python frees (ucp.h, group WORKER)."""
    checked_worker(worker)
    WorkerAddress.unpack(address)


def ucp_worker_address_query(address: bytes, attr: ucp_worker_address_attr_t) -> ucp_worker_address_attr_t:
    """Fill ``attr`` with the contents of an address, and return it (ucp.h, group WORKER)."""
    attr = ucp_worker_address_attr_t.expected(attr)
    return attr.fill(worker_uid=WorkerAddress.unpack(address).uid)


def ucp_worker_query(worker: Worker, attr: ucp_worker_attr_t) -> ucp_worker_attr_t:
    """Fill ``attr`` with the fields of its mask, without a mask with all, and return it (ucp.h, group WORKER)."""
    attr = ucp_worker_attr_t.expected(attr)
    address = checked_worker(worker).pack_address()
    return attr.fill(
        thread_mode=worker.thread_mode,
        address=address,
        address_length=len(address),
        max_am_header=worker.active_messages.most_header,
        name=worker.name,
        max_debug_string=DEBUG_STRING,
    )


def ucp_worker_print_info(worker: Worker, stream: TextIO | None = None) -> None:
    """Print to ``stream`` what the worker is and has (ucp.h, group WORKER)."""
    print(checked_worker(worker).describe(), file=sys.stdout if stream is None else stream)
