"""How the calls of ucp_compat.h wait."""

from amoeba.ucp.requests import Request
from amoeba.ucp.status import UcsStatus, ucs_error

__all__ = ["until_over"]


def until_over(request: Request | None) -> None:
    """Make progress until what a call has returned is over. Raises the error with which it has ended."""
    if request is None:
        return
    worker = request.worker
    while not request.done:
        worker.progress()
    if request.code is not UcsStatus.UCS_OK:
        raise ucs_error(request.code, f"{request!r} has failed")
