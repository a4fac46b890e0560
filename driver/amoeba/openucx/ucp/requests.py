"""Requests of UCX's API: one object from the call to the end, which is the engine's operation as well."""

from collections.abc import Callable
from typing import Any

from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.openucx.ucp.lanes import Lane, Posted
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, status_of_completion, ucs_error, wrong_type
from amoeba.openucx.ucp.worker_base import RequestMemory, WorkerBase
from amoeba.transport.requests import Grant, Kind

__all__ = ["CountingRequest", "Quiet", "Request", "number_operation", "request_of", "status_on"]

_DONE = int(ReturnCode.OK)
_GIVEN_UP = int(ReturnCode.LOCAL_PDC_FAILED)
_OWN = int(Kind.OWN)
_INLINE = int(DescriptorFlags.INLINE)
_made: Callable[[type[Any]], Any] = object.__new__
_OK = UcsStatus.UCS_OK
_CANCELED = UcsStatus.UCS_ERR_CANCELED
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS


def status_on(lane: Lane, code: int) -> UcsStatus:
    """Return the status of an operation that has not succeeded: the endpoint's failure, if that is the cause."""
    failure = lane.endpoint.failure
    return failure if failure is not None and code == _GIVEN_UP else status_of_completion(code)


class Quiet(Posted):
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
        self.op = self.datatype = self.flags = self.remote_address = self.remote_key = 0
        self.local = self.result = self.compare = self.more = 0

    def over(self) -> None:
        """The NIC has done it: it was taken out of the ring."""
        lane = self.lane
        lane.done += 1
        if self.status != _DONE:
            lane.failed(status_on(lane, self.status))

    def abandoned(self, status: UcsStatus) -> None:
        """It will not be posted."""
        self.lane.failed(status)


def number_operation(lane: Lane, kind: int, opcode: int, length: int, number: int) -> Quiet:
    """An operation on up to 8 bytes, which the descriptor has room for; of an atomic, op and datatype are missing.

    It is filled without a constructor, which takes half the time.
    """
    operation: Quiet = _made(Quiet)
    operation.lane = lane
    operation.kind = kind
    operation.opcode = opcode
    operation.length = length
    operation.local = number
    operation.dest_addr = lane.number
    operation.flags = _INLINE
    operation.context = operation.buffers = None
    operation.grants = ()
    operation.silent = operation.op = operation.datatype = operation.result = operation.compare = 0
    return operation


class Request(Posted):
    """What ``_nb`` and ``_nbx`` calls return of an operation that is not over.

    ``callback`` is called at the end with this, the status, what :meth:`told` says, and ``user_data``, unless
    :meth:`free` was called before. ``code`` is the status: UCS_INPROGRESS until then.
    """

    __slots__ = ("callback", "code", "freed", "lane", "user_data", "worker")

    lane: Lane | None
    """That it was posted on; None: it has no descriptor of its own."""
    memory: RequestMemory | None = None
    """By which the application knows it; None: by itself."""

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
        """The NIC has done it: it was taken out of the ring."""
        lane = self.lane
        assert lane is not None
        lane.done += 1
        self.complete(_OK if self.status == _DONE else status_on(lane, self.status))

    def abandoned(self, status: UcsStatus) -> None:
        """It will not be posted."""
        self.complete(status)

    def complete(self, status: UcsStatus) -> None:
        """It has ended; nothing if it has ended before (a forced close ends it before its completion is read)."""
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
        """What callbacks of its kind hear besides the status."""
        return ()

    def answer(self, *, immediate: bool) -> "Request | None":
        """What the call returns: None, or this. ``immediate``: it may say so at once that it is over.

        Raises the error with which it has ended.
        """
        if self.code is _IN_PROGRESS or not immediate:
            return self.memory or self  # type: ignore[return-value]  # what applications use of either is the same
        if self.memory is not None:
            self.free()
        if self.code is not _OK:
            raise ucs_error(self.code, f"{type(self).__name__} failed at once")
        return None

    def cancel(self) -> None:
        """Take it back if nothing has met it; of most kinds nothing."""

    def free(self) -> None:
        """The application has no use for it any more: nobody is called at its end."""
        self.freed = True
        if self.memory is not None and self.code is not _IN_PROGRESS:
            self.memory.let_go(self)

    def release(self) -> None:
        """The same, but its callback is called at its end."""
        self.released = True
        if self.code is not _IN_PROGRESS:
            self.free()

    released = False
    """The application has no use for it after its end."""

    def _settle(self) -> None:
        """It has ended, and its callback was called."""
        self.freed = self.freed or self.released
        if self.freed and self.memory is not None:
            self.memory.let_go(self)

    @property
    def handle(self) -> Any:
        """By what the application knows it."""
        return self.memory or self

    def use(self, memory: Any) -> None:
        """The application knows it by memory of its own, as ucp_request_alloc() gives it; before it is posted.

        Raises INVALID_PARAM for something else, and while another request has that memory.
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
        """What it is, in words."""
        return f"{self.what} of {self.length} bytes in host memory: {self.code.name}"

    what = "operation"
    """What :meth:`describe` calls it."""

    @property
    def done(self) -> bool:
        return self.code is not _IN_PROGRESS


class CountingRequest(Request):
    """A request for several operations, whose ends it counts. It ends at once if they are cancelled.

    The NIC does not know such a request, so its worker keeps it from :meth:`follow` until its end.
    """

    __slots__ = ()

    def follow(self) -> None:
        """Hear of endpoints that end, and of the worker's end."""
        self.worker.followers[self] = None

    def complete(self, status: UcsStatus) -> None:
        """It has ended; nothing if it has ended before."""
        self.worker.followers.pop(self, None)
        super().complete(status)

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """Nothing if an endpoint has failed: the NIC ends its operations, and they are counted.

        If it was closed (CANCELED), they are not waited for: see :meth:`canceled`.
        """
        if status is _CANCELED:
            self.canceled(endpoint)

    def canceled(self, endpoint: Any) -> None:
        """The operations of this endpoint that have not been counted are cancelled."""
        raise NotImplementedError

    def cancel_all(self) -> None:
        """The worker is being destroyed."""
        self.complete(_CANCELED)


def request_of(handle: Any) -> Request:
    """The request that an application knows by this. Raises INVALID_PARAM if there is none, or it was freed."""
    request = handle.request if isinstance(handle, RequestMemory) else handle
    if not isinstance(request, Request):
        raise wrong_type("request", "a request", handle)
    if request.freed:
        raise invalid_param("this request was freed")
    return request
