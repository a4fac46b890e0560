"""Results of calls, and how the blocking calls of ucp_compat.h wait."""

from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, ucs_error

__all__ = ["handed_out", "until_over"]


def handed_out(request: Request | None) -> Request | None:
    """Return the application's handle of a posted operation; None if there is no request."""
    return None if request is None else request.memory or request  # type: ignore[return-value]


def until_over(request: Request | None) -> None:
    """Make progress until a call's request ends. Raises the error with which it has ended."""
    if request is None:
        return
    worker = request.worker
    while not request.done:
        worker.progress()
    request.free()
    if request.code is not UcsStatus.UCS_OK:
        raise ucs_error(request.code, f"{request!r} has failed")
