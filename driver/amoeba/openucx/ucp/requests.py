"""Requests of UCX's API: one object from the call to the end, which is the engine's operation as well."""

from collections.abc import Callable
from typing import Any

from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.openucx.ucp.lanes import Lane, Posted
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, status_of_completion, ucs_error, wrong_type
from amoeba.openucx.ucp.worker_base import RequestMemory, WorkerBase
from amoeba.transport.requests import Grant, Kind

__all__ = ["CountingRequest", "Quiet", "Request", "made", "number_operation", "request_of", "status_on"]

_DONE = int(ReturnCode.OK)
_GIVEN_UP = int(ReturnCode.LOCAL_PDC_FAILED)
_OWN = int(Kind.OWN)
_INLINE = int(DescriptorFlags.INLINE)
made: Callable[[type[Any]], Any] = object.__new__
"""Makes an operation without its constructor: the caller sets every field, which takes half the time."""
_OK = UcsStatus.UCS_OK
_CANCELED = UcsStatus.UCS_ERR_CANCELED
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS


def status_on(lane: Lane, code: int) -> UcsStatus:
    """Return the status of an operation that has not succeeded: the endpoint's failure, if that is the cause."""
    failure = lane.endpoint.failure
    return failure if failure is not None and code == _GIVEN_UP else status_of_completion(code)


class Quiet(Posted):
    """An operation without a request: its buffers are copied, or a flush alone sees its end."""

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
        self.op = self.datatype = self.flags = self.remote_address = self.remote_key = 0
        self.local = self.result = self.compare = self.more = 0

    def over(self) -> None:
        """End the operation: the NIC has done it, and it was taken out of the ring."""
        lane = self.lane
        lane.done += 1
        if self.status != _DONE:
            lane.failed(status_on(lane, self.status))

    def abandoned(self, status: UcsStatus) -> None:
        """End the operation, which will not be posted."""
        self.lane.failed(status)


class NumberOperation(Quiet):
    """An operation on up to 8 bytes, which travel in the descriptor; :func:`number_operation` makes it."""

    __slots__ = ()

    def over(self) -> None:
        """End the operation; if it has succeeded, its lane uses the object again: nothing else knows it any more."""
        lane = self.lane
        lane.done += 1
        if self.status == _DONE:
            lane.spare.append(self)
        else:
            lane.failed(status_on(lane, self.status))


def number_operation(
    lane: Lane, kind: int, opcode: int, length: int, number: int, op: int = 0, datatype: int = 0
) -> Quiet:
    """Make an operation on up to 8 bytes, which travel in the descriptor; ``op`` and ``datatype``: of an atomic.

    The caller adds where it goes. A lane's earlier operation serves if there is one: most of its fields stay.
    """
    if lane.spare:
        operation: Quiet = lane.spare.pop()
    else:
        operation = made(NumberOperation)
        operation.lane = lane
        operation.dest_addr = lane.number
        operation.context = operation.buffers = None
        operation.grants = ()
        operation.silent = operation.result = 0
    operation.kind = kind
    operation.opcode = opcode
    operation.op = op
    operation.datatype = datatype
    operation.flags = _INLINE
    operation.length = length
    operation.local = number
    operation.compare = 0
    return operation


class Request(Posted):
    """The result of ``_nb`` and ``_nbx`` calls whose operation is not over.

    At the end ``callback`` gets this, the status, the values of :meth:`told`, and ``user_data``, unless :meth:`free`
    was called before. ``code`` is the status: UCS_INPROGRESS until then.
    """

    __slots__ = ("callback", "code", "freed", "lane", "user_data", "worker")

    lane: Lane | None
    """The lane of the operation; None: the request has no descriptor of its own."""
    memory: RequestMemory | None = None
    """The application's memory for the request; None: the request is its own handle."""

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
        self.op = self.datatype = self.flags = self.remote_address = self.remote_key = 0
        self.local = self.result = self.compare = self.more = 0
        if worker.request_pool is not None:
            self.memory = worker.request_pool.take(self)

    def over(self) -> None:
        """End the operation: the NIC has done it, and it was taken out of the ring."""
        lane = self.lane
        assert lane is not None
        lane.done += 1
        self.complete(_OK if self.status == _DONE else status_on(lane, self.status))

    def abandoned(self, status: UcsStatus) -> None:
        """End the operation, which will not be posted."""
        self.complete(status)

    def complete(self, status: UcsStatus) -> None:
        """End the request, unless it has ended before: a forced close ends it before its completion is read."""
        if self.code is not _IN_PROGRESS:
            return
        self.code = status
        memory = self.memory
        try:
            if self.callback is not None and not self.freed:
                self.callback(memory or self, status, *self.told(), self.user_data)
        finally:
            if self.released or memory is not None:
                self._settle()

    def told(self) -> tuple[Any, ...]:
        """Return the values that callbacks of this kind get besides the status."""
        return ()

    def answer(self, *, immediate: bool) -> "Request | None":
        """Return the result of the call: None, or this. ``immediate``: the call may say at once that it is over.

        Raises the error with which the request has ended.
        """
        if self.code is _IN_PROGRESS or not immediate:
            return self.memory or self  # type: ignore[return-value]  # what applications use of either is the same
        if self.memory is not None:
            self.free()
        if self.code is not _OK:
            raise ucs_error(self.code, f"{type(self).__name__} failed at once")
        return None

    def cancel(self) -> None:
        """Cancel the operation if nothing has met it; most kinds go on."""

    def free(self) -> None:
        """Free the request: its callback is not called any more."""
        self.freed = True
        if self.memory is not None and self.code is not _IN_PROGRESS:
            self.memory.let_go(self)

    def release(self) -> None:
        """Free the request after its end, at which its callback is called."""
        self.released = True
        if self.code is not _IN_PROGRESS:
            self.free()

    released = False
    """The application does not use the request after its end."""

    def _settle(self) -> None:
        """Release the memory of a request that has ended, after its callback."""
        self.freed = self.freed or self.released
        if self.freed and self.memory is not None:
            self.memory.let_go(self)

    @property
    def handle(self) -> Any:
        """The application's handle."""
        return self.memory or self

    def use(self, memory: Any) -> None:
        """Use memory of ucp_request_alloc() as the handle, before the operation is posted.

        Raises INVALID_PARAM for another object, and while another request has that memory.
        """
        if memory is None:
            return
        if not isinstance(memory, RequestMemory):
            raise wrong_type("param.request", "a request of ucp_request_alloc()", memory)
        if memory.request is not None and not memory.request.done:
            raise invalid_param("param.request is used by an operation that has not ended")
        if self.memory is not None:
            self.memory.let_go(self)
        self.memory = memory
        memory.request = self

    def describe(self) -> str:
        """Describe the request."""
        return f"{self.what} of {self.length} bytes in host memory: {self.code.name}"

    what = "operation"
    """Name of the operation for :meth:`describe`."""

    @property
    def done(self) -> bool:
        return self.code is not _IN_PROGRESS


class CountingRequest(Request):
    """A request for several operations, whose ends it counts. It ends at once if they are cancelled.

    The NIC does not know such a request, so its worker keeps it from :meth:`follow` until its end.
    """

    __slots__ = ()

    def follow(self) -> None:
        """Follow the ends of endpoints, and the worker's end."""
        self.worker.followers[self] = None

    def complete(self, status: UcsStatus) -> None:
        """End the request, unless it has ended before."""
        self.worker.followers.pop(self, None)
        super().complete(status)

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """Cancel operations of a closed endpoint (CANCELED), see :meth:`canceled`.

        If an endpoint has failed, the NIC ends its operations, and they are counted.
        """
        if status is _CANCELED:
            self.canceled(endpoint)

    def canceled(self, endpoint: Any) -> None:
        """Cancel the operations of this endpoint that have not been counted."""
        raise NotImplementedError

    def cancel_all(self) -> None:
        """End the request: the worker is being destroyed."""
        self.complete(_CANCELED)


def request_of(handle: Any) -> Request:
    """Return the request of an application's handle. Raises INVALID_PARAM also if it was freed."""
    request = handle.request if isinstance(handle, RequestMemory) else handle
    if not isinstance(request, Request):
        raise wrong_type("request", "a request", handle)
    if request.freed:
        raise invalid_param("this request was freed")
    return request
