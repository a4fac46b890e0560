"""What calls return, and how those of ucp_compat.h wait."""

from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, ucs_error

__all__ = ["handed_out", "until_over"]


def handed_out(request: Request | None) -> Request | None:
    """What a call returns of what was posted: None, or that by which the application knows it."""
    return None if request is None else request.answer(immediate=False)


def until_over(request: Request | None) -> None:
    """Make progress until what a call has returned is over. Raises the error with which it has ended."""
    if request is None:
        return
    worker = request.worker
    while not request.done:
        worker.progress()
    request.free()
    if request.code is not UcsStatus.UCS_OK:
        raise ucs_error(request.code, f"{request!r} has failed")
