"""Flushes: they end when all memory operations before them have been done at their targets.

A completion is a delivery, and completions of a lane come in the order of its operations, so a flush counts: nothing
is sent. It tells the first error of operations of which there was no request.
"""

from collections.abc import Iterable
from typing import Any

from amoeba.ucp.lanes import Lane
from amoeba.ucp.request_params import ReadParam
from amoeba.ucp.requests import Request
from amoeba.ucp.status import UcsStatus, ucs_error
from amoeba.ucp.worker_base import WorkerBase, WorkerLane

__all__ = ["flush"]

_OK = UcsStatus.UCS_OK


class Flush(Request):
    """What a flush returns while something is under way."""

    __slots__ = ("_lanes", "_pending")

    what = "flush"

    def __init__(self, worker: WorkerBase, lanes: list[WorkerLane], read: ReadParam) -> None:
        super().__init__(worker, callback=read.callback, user_data=read.user_data)
        self.use(read.request)
        self._lanes = lanes
        """Those whose errors it tells."""
        self._pending = [(lane, lane.posted) for lane in lanes if lane.done != lane.posted]

    def look(self) -> bool:
        """Whether it is over, with what has to be done then."""
        if not self.done:
            pending = self._pending
            while pending:
                lane, mark = pending[-1]
                if lane.done < mark:
                    return False
                if lane.error is None:
                    lane.error = lane.endpoint.failure
                pending.pop()
            self.worker.followers.remove(self)
            self.complete(_outcome(self._lanes))
        return True

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """Nothing: all that was posted on its lanes ends, and is counted."""

    def cancel_all(self) -> None:
        """The worker is being destroyed."""
        self.complete(UcsStatus.UCS_ERR_CANCELED)


def flush(worker: WorkerBase, lanes: Iterable[Lane | WorkerLane], read: ReadParam) -> Request | None:
    """Wait for all memory operations on these lanes; None if none is under way.

    Raises the first error of operations without a request if that is known now, and NO_RESOURCE if it has to be over
    at once and is not.
    """
    for_memory = [lane for lane in lanes if lane.for_memory]
    if all(lane.done == lane.posted for lane in for_memory):
        if not read.immediate:
            request = Flush(worker, for_memory, read)
            request.complete(_outcome(for_memory))
            return request
        status = _outcome(for_memory)
        if status is not _OK:
            raise ucs_error(status, "an operation without a request has failed")
        return None
    if read.forced:
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, "operations are under way: a flush is not over at once")
    request = Flush(worker, for_memory, read)
    worker.rings.announce()
    worker.waiters.append(request.look)
    worker.followers.append(request)
    return request


def _outcome(lanes: Iterable[Lane | WorkerLane]) -> UcsStatus:
    """The first error on these lanes, which nobody is told again."""
    told = _OK
    for lane in lanes:
        if lane.error is not None:
            told = lane.error if told is _OK else told
            lane.error = None
    return told
