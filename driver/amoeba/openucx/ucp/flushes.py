"""Flushes: they end when all memory operations before them have been done at their targets.

A completion is a delivery, and completions of a lane come in the order of its operations, so a flush counts them: it
sends nothing. A flush reports the first error of operations without a request. It reports CANCELED if operations that
it waits for are cancelled by a forced close of their endpoint.
"""

from collections.abc import Iterable
from typing import Any

from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import CountingRequest, Request
from amoeba.openucx.ucp.status import UcsStatus, ucs_error
from amoeba.openucx.ucp.worker_base import WorkerBase, WorkerLane

__all__ = ["flush"]

_OK = UcsStatus.UCS_OK


class Flush(CountingRequest):
    """The request of a flush while operations are outstanding."""

    __slots__ = ("_lanes", "_pending", "_status")

    what = "flush"

    def __init__(self, worker: WorkerBase, lanes: list[WorkerLane], read: ReadParam) -> None:
        super().__init__(worker, callback=read.callback, user_data=read.user_data)
        self.use(read.request)
        self._lanes = lanes
        """Lanes whose errors the flush reports."""
        self._pending = [(lane, lane.posted) for lane in lanes if lane.done != lane.posted]
        self._status = _OK
        """CANCELED if operations before the flush have been cancelled."""

    def look(self) -> bool:
        """Return whether the flush is over, and end it then."""
        if not self.done:
            pending = self._pending
            while pending:
                lane, mark = pending[-1]
                if lane.done < mark:
                    return False
                if lane.error is None:
                    lane.error = lane.endpoint.failure
                pending.pop()
            told = _outcome(self._lanes)
            self.complete(told if self._status is _OK else self._status)
        return True

    def canceled(self, endpoint: Any) -> None:
        """Wait for the other endpoints alone."""
        its = [lane for lane, mark in self._pending if lane.endpoint is endpoint and lane.done < mark]
        if its:
            self._status = UcsStatus.UCS_ERR_CANCELED
            self._pending = [(lane, mark) for lane, mark in self._pending if lane not in its]
            self.look()


def flush(worker: WorkerBase, lanes: Iterable[Lane | WorkerLane], read: ReadParam) -> Request | None:
    """Wait for all memory operations on these lanes; return None if none is outstanding.

    Raises the first error of operations without a request if that is known now. Raises NO_RESOURCE if the flush must
    be over at once and is not.
    """
    # the NIC has done with an endpoint that has ended; the ends of its operations may still have to be counted
    for_memory = [lane for lane in lanes if lane.for_memory and not lane.endpoint.ended]
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
        raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, "operations are outstanding: a flush is not over at once")
    request = Flush(worker, for_memory, read)
    worker.rings.announce()
    worker.waiters.append(request.look)
    request.follow()
    return request


def _outcome(lanes: Iterable[Lane | WorkerLane]) -> UcsStatus:
    """Take the first error on these lanes, so that it is reported once."""
    told = _OK
    for lane in lanes:
        if lane.error is not None:
            told = lane.error if told is _OK else told
            lane.error = None
    return told
