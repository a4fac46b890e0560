"""Requests of UCX's API: one object from the call to the end, which is the engine's request as well."""

from collections.abc import Callable
from typing import Any

from amoeba_model.wire.uet import ReturnCode

from amoeba.transport import requests as engine
from amoeba.transport.requests import Grant, Kind
from amoeba.ucp.lanes import Lane
from amoeba.ucp.status import UcsStatus, status_of_completion, ucs_error
from amoeba.ucp.worker_base import WorkerBase

__all__ = ["Quiet", "Request"]

_DONE = int(ReturnCode.OK)
_OWN = int(Kind.OWN)
_OK = UcsStatus.UCS_OK
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS


class Quiet(engine.Request):
    """An operation that nobody has a request of: its buffers are copied, or its end is seen by a flush alone."""

    __slots__ = ("lane",)

    def __init__(
        self, lane: Lane, kind: int, length: int, buffers: Any = None, grants: tuple[Grant, ...] = ()
    ) -> None:
        self.lane = lane
        self.context = None
        self.kind = kind
        self.silent = 0
        self.dest_addr = lane.number
        self.length = length
        self.buffers = buffers
        self.grants = grants

    def over(self) -> None:
        """The NIC has done it: it was taken out of the ring."""
        lane = self.lane
        lane.done += 1
        if self.status != _DONE:
            lane.failed(status_of_completion(self.status))


class Request(engine.Request):
    """What ``_nb`` and ``_nbx`` calls return of an operation that is not over.

    ``callback`` is called at the end with this, the status, what :meth:`told` says, and ``user_data``, unless
    :meth:`free` was called before. ``code`` is the status: UCS_INPROGRESS until then.
    """

    __slots__ = ("callback", "code", "freed", "lane", "user_data", "worker")

    lane: Lane | None
    """That it was posted on; None: it has no descriptor of its own."""

    def __init__(
        self,
        worker: WorkerBase,
        lane: Lane | None = None,
        kind: int = _OWN,
        length: int = 0,
        buffers: Any = None,
        grants: tuple[Grant, ...] = (),
        callback: Callable[..., Any] | None = None,
        user_data: Any = None,
    ) -> None:
        self.worker = worker
        self.lane = lane
        self.callback = callback
        self.user_data = user_data
        self.code: UcsStatus = _IN_PROGRESS
        self.freed = False
        self.context = self
        self.kind = kind
        self.silent = 0
        self.dest_addr = -1 if lane is None else lane.number
        self.length = length
        self.buffers = buffers
        self.grants = grants

    def over(self) -> None:
        """The NIC has done it: it was taken out of the ring."""
        assert self.lane is not None
        self.lane.done += 1
        self.complete(_OK if self.status == _DONE else status_of_completion(self.status))

    def complete(self, status: UcsStatus) -> None:
        """It has ended; nothing if it has ended before (a forced close does not wait for the NIC)."""
        if self.code is not _IN_PROGRESS:
            return
        self.code = status
        if self.callback is not None and not self.freed:
            self.callback(self, status, *self.told(), self.user_data)

    def told(self) -> tuple[Any, ...]:
        """What callbacks of its kind hear besides the status."""
        return ()

    def answer(self, *, immediate: bool) -> "Request | None":
        """What the call returns: None, or this. ``immediate``: it may say so at once that it is over.

        Raises the error with which it has ended.
        """
        if self.code is _IN_PROGRESS or not immediate:
            return self
        if self.code is not _OK:
            raise ucs_error(self.code, f"{type(self).__name__} failed at once")
        return None

    def cancel(self) -> None:
        """Take it back if nothing has met it; of most kinds nothing."""

    def free(self) -> None:
        """The application has no use for it any more: nobody is called at its end."""
        self.freed = True

    @property
    def done(self) -> bool:
        return self.code is not _IN_PROGRESS
