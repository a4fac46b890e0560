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

    def __init__(self, worker: WorkerBase, lanes: list[WorkerLane], read: ReadParam) -> None:
        super().__init__(worker, callback=read.callback, user_data=read.user_data)
        self._lanes = lanes
        """Those whose errors it tells."""
        self._pending = [(lane, lane.posted) for lane in lanes if lane.done != lane.posted]

    @property
    def waits(self) -> bool:
        """Whether something that was posted before it is under way."""
        # what an endpoint that has failed never posted is taken from its lane's count
        pending = self._pending
        while pending:
            lane, mark = pending[-1]
            if lane.done < mark and lane.done != lane.posted:
                return True
            if lane.error is None:
                lane.error = lane.endpoint.failure
            pending.pop()
        return False

    def look(self) -> bool:
        """Whether it is over, with what has to be done then."""
        if not self.done:
            if self.waits:
                return False
            self.worker.followers.remove(self)
            self.complete(self.outcome())
        return True

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """Nothing: what the NIC has of it still ends, and the rest is taken from its lane's count."""

    def cancel_all(self) -> None:
        """The worker is being destroyed."""
        self.complete(UcsStatus.UCS_ERR_CANCELED)

    def outcome(self) -> UcsStatus:
        """The first error of its lanes, which nobody is told again."""
        told = _OK
        for lane in self._lanes:
            if lane.error is not None:
                told = lane.error if told is _OK else told
                lane.error = None
        return told


def flush(worker: WorkerBase, lanes: Iterable[Lane | WorkerLane], read: ReadParam) -> Request | None:
    """Wait for all memory operations on these lanes; None if none is under way.

    Raises the first error of operations without a request if that is known now, and NO_RESOURCE if it has to be over
    at once and is not.
    """
    request = Flush(worker, [lane for lane in lanes if lane.for_memory], read)
    if not request.waits:
        if not read.immediate:
            request.complete(request.outcome())
            return request
        status = request.outcome()
        if status is not _OK:
            raise ucs_error(status, "an operation without a request has failed")
        return None
    if read.forced:
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, "operations are under way: a flush is not over at once")
    worker.rings.announce()
    worker.waiters.append(request.look)
    worker.followers.append(request)
    return request
