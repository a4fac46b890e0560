"""Sleeping until there is something to do (group WAKEUP of ucp.h).

All calls raise INVALID_PARAM without UCP_FEATURE_WAKEUP.
"""

from typing import Any

from amoeba.core.buffers import view_of
from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.constants import ucp_feature
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error, ucs_error_of
from amoeba.openucx.ucp.wakeup import Wakeup
from amoeba.openucx.ucp.worker import Worker

__all__ = ["ucp_worker_arm", "ucp_worker_get_efd", "ucp_worker_signal", "ucp_worker_wait", "ucp_worker_wait_mem"]

_MAX_WATCHED = 4096


def _wakeup(worker: Worker, call: str) -> Wakeup:
    checked_worker(worker).context.need(ucp_feature.UCP_FEATURE_WAKEUP, call)
    assert worker.wakeup is not None
    return worker.wakeup


def ucp_worker_get_efd(worker: Worker) -> int:
    """Return a descriptor of the worker that becomes readable at the next event after ``ucp_worker_arm``.

    Raises UNSUPPORTED if the worker was made with an ``event_fd`` (ucp.h, group WAKEUP).
    """
    return _wakeup(worker, "ucp_worker_get_efd").descriptor


def ucp_worker_arm(worker: Worker) -> None:
    """Ask to be woken by the next event (ucp.h, group WAKEUP).

    Raises BUSY if an event is there already: make progress first, then ask again.
    """
    if not _wakeup(worker, "ucp_worker_arm").arm():
        raise ucs_error(UcsStatus.UCS_ERR_BUSY, "events are waiting: make progress first")


def ucp_worker_wait(worker: Worker) -> None:
    """Sleep until there is something to do, without making progress (ucp.h, group WAKEUP)."""
    _wakeup(worker, "ucp_worker_wait").wait()


def ucp_worker_wait_mem(worker: Worker, address: Any) -> None:
    """Sleep until memory changes, or there is something to do (ucp.h, group WAKEUP).

    ``address``: a buffer of up to 4096 bytes.
    """
    wakeup = _wakeup(worker, "ucp_worker_wait_mem")
    try:
        view = view_of(address, name="address")
    except FabricError as error:
        raise ucs_error_of(error) from error
    if not 0 < view.nbytes <= _MAX_WATCHED:
        raise invalid_param(f"address: expected a buffer of 1 to {_MAX_WATCHED} bytes, got {view.nbytes}")
    wakeup.wait_for_change(view.cast("B"))


def ucp_worker_signal(worker: Worker) -> None:
    """Wake the sleepers of this worker. Safe in any thread; several signals count as one (ucp.h, group WAKEUP)."""
    _wakeup(worker, "ucp_worker_signal").signal()
