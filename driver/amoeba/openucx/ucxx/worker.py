"""Workers: post operations, receive messages, and make progress."""

import functools
import io
import time
import weakref
from collections.abc import Callable
from typing import Any

from amoeba.openucx.ucp.calls.flushes import ucp_worker_fence, ucp_worker_flush_nbx
from amoeba.openucx.ucp.calls.tags import ucp_tag_msg_recv_nbx, ucp_tag_probe_nb, ucp_tag_recv_nbx
from amoeba.openucx.ucp.calls.wakeup import ucp_worker_get_efd, ucp_worker_signal
from amoeba.openucx.ucp.calls.workers import ucp_worker_create, ucp_worker_print_info
from amoeba.openucx.ucp.status import invalid_param
from amoeba.openucx.ucp.structures import ucp_worker_params_t
from amoeba.openucx.ucp.worker import Worker as UcpWorker
from amoeba.openucx.ucxx.active_messages import ActiveMessages
from amoeba.openucx.ucxx.buffers import bytes_view
from amoeba.openucx.ucxx.context import Context
from amoeba.openucx.ucxx.errors import UCXCloseError
from amoeba.openucx.ucxx.lifetime import Closable
from amoeba.openucx.ucxx.names import Feature, TagMaskFull, TagProbeResult
from amoeba.openucx.ucxx.packed import Address
from amoeba.openucx.ucxx.progress import in_turn
from amoeba.openucx.ucxx.request import Home, Request, new_param

__all__ = ["Worker"]

_FULL = int(TagMaskFull)
_MAX_PASSES = 1000
"""Maximum number of rounds of one call of :meth:`Worker.progress`."""


class Worker(Closable, Home):
    """Makes progress for its endpoints, and receives their messages.

    ``enable_delayed_submission`` and ``enable_python_future`` are ucxx's: operations are posted at once, and every
    request has a future.

    Raises NO_RESOURCE if the NIC has no free context for another worker.
    """

    def __init__(
        self, context: Context, enable_delayed_submission: bool = False, enable_python_future: bool = False
    ) -> None:
        if not isinstance(context, Context):
            raise invalid_param(f"context: expected a Context, got {context!r}")
        self.context = context
        self.enable_delayed_submission = enable_delayed_submission
        self.enable_python_future = enable_python_future
        self._progress = context._progress
        self._progress.tidy()
        self.ucp: UcpWorker = ucp_worker_create(context.ucp, ucp_worker_params_t())
        """The worker of ``amoeba.ucp``."""
        self.polling = Feature.WAKEUP not in context.feature_flags
        self._efd = -1
        self._finalizer = weakref.finalize(self, self._progress.abandon, self.ucp.close)
        self.watchers: list[Callable[[], bool]] = []
        """Functions that progress calls until they return true."""
        self.receives: dict[Request, Any] = {}
        """Outstanding tagged receives, with the endpoint that has made them."""
        self._send_param = new_param()
        self._receive_param = new_param(always=True)
        self.active_messages: ActiveMessages | None = None
        if Feature.AM in context.feature_flags:
            self.active_messages = ActiveMessages(self.ucp)
        self._progress.workers.add(self)

    # State

    @property
    def handle(self) -> int:
        """The worker's unique number in this process."""
        return id(self.ucp)

    @property
    @in_turn
    def info(self) -> str:
        """Description of the worker, in lines."""
        lines = io.StringIO()
        ucp_worker_print_info(self.ucp, lines)
        return lines.getvalue()

    @property
    @in_turn
    def address(self) -> Address:
        """Address by which peers find the worker."""
        return Address.create_from_worker(self)

    def get_address(self) -> Address:
        """Return ``address``."""
        return self.address

    def is_python_future_enabled(self) -> bool:
        """Return the argument of the worker's constructor."""
        return self.enable_python_future

    def is_delayed_request_submission_enabled(self) -> bool:
        """Return the argument of the worker's constructor; operations are posted at once all the same."""
        return self.enable_delayed_submission

    def __repr__(self) -> str:
        return f"<Worker {self.ucp.uid:#x}>"

    # Progress

    @property
    def closed(self) -> bool:
        return self.ucp.closed

    @property
    def served(self) -> bool:
        return self._progress.threaded and self in self._progress.by_thread

    def go_on(self) -> int:
        return self._progress.inside(self._go_on)

    def _go_on(self) -> int:
        count = self.ucp.progress()
        if self.watchers:
            count += self._look()
        return count

    def _look(self) -> int:
        watchers, self.watchers = self.watchers, []
        over = 0
        for each in watchers:
            if each():
                over += 1
            else:
                self.watchers.append(each)
        return over

    def progress_once(self) -> bool:
        """Make progress once; returns whether there was any. Raises INVALID_PARAM inside a callback."""
        return self._pass() > 0

    @in_turn
    def _pass(self) -> int:
        self._check()
        self._progress.tidy()
        return self.go_on()

    def progress(self) -> bool:
        """Make progress as long as there is any, but not forever; returns whether there was any."""
        passes = 0
        while passes < _MAX_PASSES and self._pass():
            passes += 1
        return passes > 0

    def arm(self) -> bool:
        """Ask to be woken through :attr:`epoll_file_descriptor`; False: there is work already."""
        wakeup = self.ucp.wakeup
        if wakeup is None:
            raise invalid_param("arm needs Feature.WAKEUP")
        return bool(wakeup.arm())

    def fileno(self) -> int:
        if self._efd < 0:
            self._efd = ucp_worker_get_efd(self.ucp)
        return self._efd

    @property
    def epoll_file_descriptor(self) -> int:
        """Readable when there is work, after :meth:`arm`. Raises INVALID_PARAM without Feature.WAKEUP."""
        self._check()
        return self.fileno()

    def init_blocking_progress_mode(self) -> None:
        """Initialize for sleeping. Raises INVALID_PARAM without Feature.WAKEUP."""
        self.fileno()
        self.polling = False

    def progress_worker_event(self, epoll_timeout: int = -1) -> bool:
        """Sleep until there is work, at most ``epoll_timeout`` milliseconds, and do it; return whether there was any.

        -1: without limit.
        """
        deadline = None if epoll_timeout < 0 else time.monotonic() + epoll_timeout / 1000
        while True:
            if self.progress():
                return True
            rest = None if deadline is None else deadline - time.monotonic()
            if rest is not None and rest <= 0:
                return False
            self._sleep(rest)

    def _sleep(self, seconds: float | None) -> None:
        self._progress.sleep_for(self, seconds)

    @in_turn
    def signal(self) -> None:
        """Wake threads that sleep for this worker."""
        ucp_worker_signal(self.ucp)

    def set_progress_thread_start_callback(
        self, cb_func: Callable[..., object], cb_args: tuple[Any, ...] = (), cb_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Have the thread call a function before it begins."""
        self._progress.on_start = functools.partial(cb_func, *cb_args, **(cb_kwargs or {}))

    def start_progress_thread(self, polling_mode: bool = False, epoll_timeout: int = 1) -> None:
        """Have a thread make progress, which sleeps without work unless ``polling_mode``.

        ``epoll_timeout``: milliseconds of the longest sleep. Callbacks are called in that thread. From
        now on any thread may call objects of workers of this NIC. Raises INVALID_PARAM where the thread would sleep
        without Feature.WAKEUP.
        """
        self._check()
        if not polling_mode:
            self.init_blocking_progress_mode()
        self.polling = polling_mode
        self._progress.sleep_at_most = max(epoll_timeout, 1) / 1000
        self._progress.start(self)

    def stop_progress_thread(self) -> None:
        """Stop the thread's progress for this worker. Idempotent."""
        if self.served:
            self._progress.stop(self)

    # Endpoints

    def create_endpoint_from_hostname(self, ip_address: str, port: int, endpoint_error_handling: bool = True) -> Any:
        """Return an endpoint to the listener at an address, without waiting for the connection."""
        return self.endpoint_class.create(self, ip_address, port, endpoint_error_handling)

    def create_endpoint_from_worker_address(self, address: Any, endpoint_error_handling: bool = True) -> Any:
        """Return an endpoint to the worker with this address."""
        return self.endpoint_class.create_from_worker_address(self, address, endpoint_error_handling)

    endpoint_class: Any = None
    """Return :class:`amoeba.ucx.Endpoint`, which is above this module."""

    # Tagged messages

    def _check(self) -> None:
        if self.ucp.closed:
            raise UCXCloseError(f"{type(self).__name__} is closed")

    @in_turn
    def tag_recv(self, buffer: Any, tag: int, tag_mask: int = _FULL) -> Request:
        """Receive the next message whose tag is ``tag`` in the bits of ``tag_mask``.

        The request ends with MESSAGE_TRUNCATED if the message does not fit; ``info`` has its tag and length.
        """
        self._check()
        return self.receive(buffer, tag, tag_mask, None)

    def receive(self, buffer: Any, tag: int, tag_mask: int, by: Any) -> Request:
        """Receive as :meth:`tag_recv`, for an endpoint."""
        view = bytes_view(buffer, writable=True)
        request = Request(self, by)
        request.recv_buffer = buffer
        param = self._receive_param
        param.user_data = request
        request.follow(ucp_tag_recv_nbx(self.ucp, view, view.nbytes, int(tag), int(tag_mask), param), param)
        if not request.completed:
            self.receives[request] = by
            request.then(self.receives.pop)
        return request

    @in_turn
    def tag_probe(self, tag: int, tag_mask: int = _FULL, remove: bool = False) -> TagProbeResult:
        """Return whether a message with such a tag has arrived and was not received; makes no progress.

        ``remove``: only :meth:`tag_recv_with_handle` with the result can receive the message from now on.
        """
        self._check()
        message, info = ucp_tag_probe_nb(self.ucp, int(tag), int(tag_mask), int(bool(remove)))
        if message is None or info is None:
            return TagProbeResult(False, 0, 0, None)
        return TagProbeResult(True, info.sender_tag, info.length, message if remove else None)

    @in_turn
    def tag_recv_with_handle(self, buffer: Any, probe_result: TagProbeResult) -> Request:
        """Receive the message that a probe has removed."""
        self._check()
        if not isinstance(probe_result, TagProbeResult) or probe_result.handle is None:
            raise invalid_param("probe_result: expected what tag_probe(..., remove=True) has found")
        view = bytes_view(buffer, writable=True)
        request = Request(self)
        request.recv_buffer = buffer
        param = self._receive_param
        param.user_data = request
        return request.follow(ucp_tag_msg_recv_nbx(self.ucp, view, view.nbytes, probe_result.handle, param), param)

    @in_turn
    def cancel_inflight_requests(self) -> int:
        """Cancel all receives that have met no message; returns their number."""
        self._check()
        receives = list(self.receives)
        for each in receives:
            each.cancel()
        return len(receives)

    # Memory operations

    @in_turn
    def flush(self) -> Request:
        """Return a request that ends when all memory operations on all endpoints are done at their targets."""
        self._check()
        request = Request(self)
        param = self._send_param
        param.user_data = request
        return request.follow(ucp_worker_flush_nbx(self.ucp, param), param)

    @in_turn
    def fence(self) -> None:
        """Order memory operations: later ones begin after all that were posted are done at their targets."""
        self._check()
        ucp_worker_fence(self.ucp)

    # End

    def close(self) -> None:
        """Close the worker and its endpoints: outstanding operations end with CANCELED. Idempotent."""
        self.stop_progress_thread()
        self._close()

    @in_turn
    def _close(self) -> None:
        self._progress.tidy()
        if self._finalizer.detach() is None:
            return
        self._progress.workers.discard(self)
        if self.active_messages is not None:
            self.active_messages.close()
        self.ucp.close()
