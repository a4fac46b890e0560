"""Operations from their call to their end: one object for programs that poll, that wait and that await."""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

from amoeba.openucx.ucp.calls.requests import ucp_request_cancel
from amoeba.openucx.ucp.constants import ucp_op_attr_t
from amoeba.openucx.ucp.requests import Request as UcpRequest
from amoeba.openucx.ucp.status import UcsError, UcsStatus, ucs_error
from amoeba.openucx.ucp.structures import ucp_request_param_t
from amoeba.openucx.ucp.worker import Worker as UcpWorker
from amoeba.openucx.ucp.worker_base import RequestMemory
from amoeba.openucx.ucxx.loops import LoopProgress
from amoeba.openucx.ucxx.progress import Attended, Progress

__all__ = ["BufferRequest", "BufferRequests", "Home", "Request", "ended", "new_param"]

_FIELDS = ucp_op_attr_t.UCP_OP_ATTR_FIELD_CALLBACK | ucp_op_attr_t.UCP_OP_ATTR_FIELD_USER_DATA
_ALWAYS = ucp_op_attr_t.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
_OK = UcsStatus.UCS_OK
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_CANCELED = UcsStatus.UCS_ERR_CANCELED


class Home(Attended):
    """A worker, as its requests use it."""

    _progress: Progress
    ucp: UcpWorker

    @property
    def served(self) -> bool:
        """Whether a thread makes progress for the worker."""
        raise NotImplementedError


class Request:
    """A started operation. The operation continues without references to this object, and keeps its buffers.

    ``await request`` waits in an event loop, :meth:`result` in a thread. Both return the operation's result: the
    buffer of a receive, the earlier value of a fetching atomic, else None. Both raise the operation's error, and
    make progress unless a thread does.
    """

    __slots__ = ("_handle", "_home", "_later", "_loops", "_owner", "_status", "_value", "info", "recv_buffer")

    def __init__(self, home: Home, owner: Any = None) -> None:
        self._home = home
        self._owner = owner
        """The object that stays open until the operation ends."""
        self._handle: UcpRequest | RequestMemory | None = None
        self._status: UcsStatus = _IN_PROGRESS
        self._value: Any = None
        self.recv_buffer: Any = None
        """Of a receive: its buffer, or the received data if the receive brings its own buffer."""
        self.info: Any = None
        """Of an ended tagged receive: ``sender_tag`` and ``length``; of a stream's receive: the length."""
        self._loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None = None
        self._later: list[Callable[[Request], object]] | None = None

    # End

    def finish(self, status: UcsStatus) -> None:
        """End the operation and notify its waiters; the second call does nothing."""
        if self._status is not _IN_PROGRESS:
            return
        self._status = status
        self._handle = self._owner = None
        if self._later is not None:
            later, self._later = self._later, None
            for call in later:
                call(self)
        if self._loops is not None:
            loops, self._loops = self._loops, None
            for loop, future in loops:
                _tell(loop, future)

    def follow(self, handle: UcpRequest | RequestMemory | None, param: ucp_request_param_t) -> "Request":
        """Take the return value of an ``_nbx`` call, whose ``param`` had this request; returns the request."""
        param.user_data = None
        if handle is None:
            self.finish(_OK)
        elif self._status is _IN_PROGRESS:
            self._handle = handle
        return self

    def then(self, call: Callable[["Request"], object]) -> None:
        """Have a function called at the end, from progress; now if the request has ended."""
        if self._status is not _IN_PROGRESS:
            call(self)
        elif self._later is None:
            self._later = [call]
        else:
            self._later.append(call)

    @property
    def worker(self) -> Home:
        """The worker whose progress the operation needs."""
        return self._home

    @property
    def status(self) -> UcsStatus:
        """UCS_INPROGRESS, UCS_OK, or the error with which the operation has ended."""
        return self._status

    @property
    def completed(self) -> bool:
        """Whether the operation has ended, successfully or not."""
        return self._status is not _IN_PROGRESS

    done = completed

    def is_completed(self) -> bool:
        """Whether the operation has ended, successfully or not."""
        return self._status is not _IN_PROGRESS

    def error(self) -> UcsError | None:
        """Return the operation's error as an exception."""
        status = self._status
        return None if status >= 0 else ucs_error(status)

    def check_error(self) -> None:
        """Raise the operation's error, if it has ended with one."""
        error = self.error()
        if error is not None:
            raise error

    def get_recv_buffer(self) -> Any:
        """Return ``recv_buffer``."""
        return self.recv_buffer

    def cancel(self) -> None:
        """Cancel a receive that has met no message: it ends with CANCELED. Other operations continue."""
        progress = self._home._progress
        if progress.threaded:
            with progress:
                self._cancel()
        else:
            self._cancel()

    def _cancel(self) -> None:
        handle = self._handle
        if handle is not None and self._status is _IN_PROGRESS and not self._home.closed:
            ucp_request_cancel(self._home.ucp, handle)

    # Waiting

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end, and return the operation's result.

        Makes progress meanwhile, unless a thread does. Raises the operation's error, TIMED_OUT after ``timeout``
        seconds (the operation continues then), and INVALID_PARAM inside a callback of progress.
        """
        if self._status is _IN_PROGRESS:
            home = self._home
            progress = home._progress
            if progress.threaded:
                with progress:
                    progress.wait_for(self.is_completed, timeout, home.served)
            else:
                progress.wait_for(self.is_completed, timeout, home.served)
        return self._outcome()

    def _outcome(self) -> Any:
        if self._status is not _OK:
            raise ucs_error(self._status)
        return self.recv_buffer if self._value is None else self._value

    def __await__(self) -> Generator[Any, None, Any]:
        if self._status is not _IN_PROGRESS:
            return self._outcome()
        return (yield from self._awaited())

    def _awaited(self) -> Generator[Any, None, Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        serving = self._wait_in(loop, future)
        try:
            yield from future
        except asyncio.CancelledError:
            self._given_up(future)
            raise
        finally:
            if serving is not None:
                serving.waiting -= 1
        return self._outcome()

    def _wait_in(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> LoopProgress | None:
        """Complete a future at the end, and ensure progress; returns the loop's progress if the loop makes it."""
        home = self._home
        progress = home._progress
        if not progress.threaded:
            serving = progress.serve(loop)
            self._tell_later(loop, future)
            serving.waiting += 1
            serving.begin()
            return serving
        with progress:
            if self.completed:
                future.set_result(None)
                return None
            self._tell_later(loop, future)
            if home.served:
                return None
            serving = progress.serve(loop)
            serving.waiting += 1
            serving.begin()
            return serving

    def _tell_later(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
        if self._loops is None:
            self._loops = [(loop, future)]
        else:
            self._loops.append((loop, future))

    def _given_up(self, future: "asyncio.Future[None]") -> None:
        """Note that a waiting task was cancelled, and cancel a receive that no other task waits for."""
        if self._loops is not None:
            self._loops = [each for each in self._loops if each[1] is not future]
            if not self._loops:
                self._loops = None
                with contextlib.suppress(UcsError):
                    self.cancel()

    async def wait(self, timeout: float | None = None) -> Any:
        """Wait for the end, at most ``timeout`` seconds, as ``await`` does. TIMED_OUT leaves the operation going."""
        if timeout is None or self.completed:
            return await self
        try:
            return await asyncio.wait_for(self.get_future(), timeout)
        except TimeoutError:
            if self.completed:
                return self._outcome()
            raise ucs_error(UcsStatus.UCS_ERR_TIMED_OUT, f"nothing has come of it in {timeout} seconds") from None

    async def wait_yield(self) -> Any:
        """Call :meth:`wait`."""
        return await self

    def get_future(self) -> "asyncio.Future[Any]":
        """Return a future of the running event loop with the result. Cancelling it does not affect the operation."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        told: asyncio.Future[None] = loop.create_future()
        if self.completed:
            self._settle(result)
            return result
        serving = self._wait_in(loop, told)

        def over(_: object) -> None:
            if serving is not None:
                serving.waiting -= 1
            self._settle(result)

        told.add_done_callback(over)
        return result

    @property
    def future(self) -> "asyncio.Future[Any]":
        """Return :meth:`get_future`."""
        return self.get_future()

    def _settle(self, result: "asyncio.Future[Any]") -> None:
        if result.done():
            return
        try:
            result.set_result(self._outcome())
        except UcsError as error:
            result.set_exception(error)
            result.exception()  # avoids a warning if no task asks

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._status.name}>"


def ended(handle: Any, status: UcsStatus, *told: Any) -> None:
    """Complete an operation: the callback of all. ``told``: a receive's info, and the :class:`Request`."""
    request: Request = told[-1]
    if len(told) > 1 and status >= 0:
        request.info = told[0]
    request.finish(status)


def new_param(*, always: bool = False, **fields: Any) -> ucp_request_param_t:
    """Make parameters of ``_nbx`` calls, for repeated use: only ``user_data``, the request, changes.

    ``always``: call the callback for every operation, also for one that completes at once.
    """
    named = ucp_request_param_t(cb=ended, **fields)
    named.op_attr_mask = int(named.mask | _FIELDS | (_ALWAYS if always else 0))
    return named


def _tell(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    """Complete a future that is not done, from any thread."""
    try:
        if asyncio.get_running_loop() is loop:
            _resolve(future)
            return
    except RuntimeError:
        pass  # this thread runs none
    with contextlib.suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class BufferRequests(Request):
    """Several operations as one: it ends when all have, with the first error in their order."""

    __slots__ = ("_left", "_parts")

    def __init__(self, home: Home, requests: Sequence[Request] = ()) -> None:
        super().__init__(home)
        self._parts: list[Request] = []
        self._left = 1
        """Number of operations that have not ended, plus 1 until their number is known."""
        for request in requests:
            self.add(request)
        if requests:
            self.close()

    def add(self, request: Request) -> None:
        """Add an operation."""
        self._parts.append(request)
        self._left += 1
        request.then(self._over)

    def close(self) -> None:
        """Note that all operations were added."""
        self._over(None)

    def _over(self, _: object) -> None:
        self._left -= 1
        if not self._left:
            self.finish(next((each.status for each in self._parts if each.status is not _OK), _OK))

    def _cancel(self) -> None:
        for each in self._parts:
            each._cancel()

    def get_requests(self) -> list["BufferRequest"]:
        """One request for each operation."""
        return [BufferRequest(each) for each in self._parts]

    @property
    def all_completed(self) -> bool:
        """Whether all operations have ended."""
        return self.completed

    @property
    def py_buffers(self) -> list[Any]:
        """The buffers of the receives; empty until all have ended."""
        return [] if not self.completed or self._value is None else list(self._value)

    def get_py_buffers(self) -> list[Any]:
        """Return ``py_buffers``."""
        return self.py_buffers


class BufferRequest:
    """One operation of several, and its buffer."""

    __slots__ = ("py_buffer", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.py_buffer = request.recv_buffer
