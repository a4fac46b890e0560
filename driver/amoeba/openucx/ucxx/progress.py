"""Progress for the workers of one network: by the application, an event loop, or a thread.

Simulated NICs of one network have one clock, so time that passes for one worker passes for all. So a network has one
:class:`Progress`, with one lock. Only while a thread runs, calls take the lock; without a thread all calls come from
one thread at a time, as with UCX. Waiting makes progress for all workers that no thread serves: so a program may
have both ends of a connection.
"""

import asyncio
import atexit
import contextlib
import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from amoeba.core.guard import Guard
from amoeba.core.waiting import WAIT_SLICE, WaitFd, readable_within
from amoeba.openucx.ucp.adapter import Adapter
from amoeba.openucx.ucp.status import UcsError, UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucxx.loops import LoopProgress

__all__ = ["Attended", "Progress", "expect_exit", "in_turn", "progress_of"]

_COURTESY = 5e-5
"""Seconds for woken threads to begin: a thread that computes lets others run every 5 ms only."""
_LONGEST_SLEEP = 1.0
"""Seconds after which a sleeping thread looks again."""


class Attended(Protocol):
    """A worker, as this module uses it."""

    polling: bool
    """Whether the worker must be polled, so that nothing may sleep for it."""

    @property
    def closed(self) -> bool: ...

    def go_on(self) -> int:
        """Make progress once; returns how much there was."""

    def arm(self) -> bool:
        """Ask to be woken; False: there is work already, or the worker must be polled."""

    def fileno(self) -> int:
        """Return the descriptor that becomes readable then."""


class Progress:
    """The progress of one network's workers."""

    def __init__(self) -> None:
        self.guard = Guard()
        self.threaded = False
        """Whether a thread runs, so that every call has to take the lock."""
        self.workers: weakref.WeakSet[Attended] = weakref.WeakSet()
        """All workers."""
        self.by_thread: weakref.WeakSet[Attended] = weakref.WeakSet()
        """Workers that the thread serves."""
        self._abandoned: deque[Callable[[], object]] = deque()
        """Functions that close objects without references."""
        self._loops: dict[asyncio.AbstractEventLoop, LoopProgress] = {}
        self._thread: threading.Thread | None = None
        self._alarm: WaitFd | None = None
        self._asleep = False
        self._stopping = False
        self._inside = False
        """Whether a call of progress runs."""
        self.sleep_at_most = _LONGEST_SLEEP
        self.on_start: Callable[[], object] | None = None
        """Called by the thread before anything else."""

    # The lock

    def __enter__(self) -> None:
        self.guard.__enter__()

    def __exit__(self, *_: object) -> None:
        if self._asleep and self._alarm is not None:
            self._asleep = False
            self._alarm.set()
        self.guard.__exit__()

    # Progress by callers

    def go_on(self) -> int:
        """Make progress once for all workers that no thread serves; returns how much there was.

        Raises INVALID_PARAM inside a callback, and what callbacks raise.
        """
        if self._abandoned:
            self.tidy()
        count = 0
        for worker in list(self.workers):
            if not worker.closed and worker not in self.by_thread:
                count += worker.go_on()
        return count

    def arm(self) -> list[int] | None:
        """Return descriptors to sleep for; None: there is work, or a worker must be polled."""
        return _armed(each for each in list(self.workers) if each not in self.by_thread)

    def wait_for(self, ready: Callable[[], object], timeout: float | None, served: bool) -> None:
        """Return when the condition is true. Raises TIMED_OUT after ``timeout`` seconds, INVALID_PARAM in a callback.

        ``served``: the thread makes progress for the condition. The lock is held if there is a thread.
        """
        if ready():
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._inside:
            raise invalid_param("a call that waits was made inside a callback of progress")
        while not ready():
            rest = None if deadline is None else deadline - time.monotonic()
            if rest is not None and rest <= 0:
                raise ucs_error(UcsStatus.UCS_ERR_TIMED_OUT, f"nothing has come of it in {timeout} seconds")
            if served and self.threaded:
                self._wake()
                self.guard.wait_for(lambda: ready() or not self.threaded, rest)
            elif self.threaded:
                self.go_on()
                self.guard.without(lambda: None)
            elif not self.go_on() and not ready() and (armed := self.arm()):
                readable_within(armed, WAIT_SLICE if rest is None else min(rest, WAIT_SLICE))

    def sleep_for(self, worker: Attended, seconds: float | None) -> None:
        """Sleep until a worker has work, at most ``timeout`` seconds; do not sleep if one has."""
        if self.threaded:
            with self:
                armed = _armed((worker,))
        else:
            armed = _armed((worker,))
        if armed is not None:
            readable_within(armed, WAIT_SLICE if seconds is None else min(seconds, WAIT_SLICE))

    def serve(self, loop: asyncio.AbstractEventLoop) -> LoopProgress:
        """Return this event loop's progress. Raises BUSY if a loop of another thread is at work, without a thread."""
        found = self._loops.get(loop)
        if found is None:
            for other in [each for each in self._loops if each.is_closed()]:
                del self._loops[other]
            here = threading.get_ident()
            if not self.threaded and any(each.thread != here and each.busy for each in self._loops.values()):
                raise ucs_error(
                    UcsStatus.UCS_ERR_BUSY,
                    "an event loop of another thread makes progress: several need a progress thread (thread mode)",
                )
            found = self._loops[loop] = LoopProgress(self, loop)
        return found

    # Objects without references

    def abandon(self, close: Callable[[], object]) -> None:
        """Have an object closed in the next call: the garbage collector may interrupt anything."""
        if sys.is_finalizing() or _exiting:
            _close(close)
        else:
            self._abandoned.append(close)

    def tidy(self) -> None:
        """Close objects without references; the lock is held if there is a thread."""
        while self._abandoned and not self._inside:
            _close(self._abandoned.popleft())

    # The thread

    def start(self, worker: Attended) -> None:
        """Have the thread serve this worker; starts the thread if necessary."""
        with self.guard:  # a running thread goes through its workers
            self.by_thread.add(worker)
            if self._thread is not None:
                self._wake()
                return
        self._alarm = WaitFd()
        self._stopping = False
        self.threaded = True
        self._thread = threading.Thread(target=self._run, name="amoeba ucx progress", daemon=True)
        _running.add(self)
        self._thread.start()

    def stop(self, worker: Attended) -> None:
        """Remove a worker from the thread, which ends with its last one. The lock is held if there is a thread."""
        self.by_thread.discard(worker)
        if not any(not each.closed for each in self.by_thread):
            self.stop_thread()

    def stop_thread(self) -> None:
        """End the thread, and wait for its end, unless this is the thread. Idempotent."""
        thread = self._thread
        if thread is None:
            return
        with self.guard:
            self._stopping = True
            self._wake()
            if thread is not threading.current_thread():
                self.guard.without(thread.join)

    def _wake(self) -> None:
        if self._alarm is not None:
            self._asleep = False
            self._alarm.set()

    def _run(self) -> None:
        try:
            if self.on_start is not None:
                self.on_start()
            while (descriptors := self._turn()) is not None:
                if descriptors:
                    self._sleep(descriptors)
        finally:
            with self.guard:
                self.threaded = self._asleep = False
                self._thread = None
                self.by_thread.clear()
                _running.discard(self)
                alarm, self._alarm = self._alarm, None
            if alarm is not None:
                alarm.close()

    def _turn(self) -> list[int] | None:
        """Run one round; return the descriptors to sleep for (empty: do not sleep), or None to end the thread."""
        with self.guard:
            self._asleep = False
            if self._stopping or self._alarm is None:
                return None
            self.tidy()
            woken = self.guard.calls
            busy = 0
            workers = [each for each in list(self.by_thread) if not each.closed]
            for worker in workers:
                try:
                    busy += worker.go_on()
                except Exception:  # a callback's: the others must proceed
                    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            if not workers:
                return None
            armed = None if busy else _armed(workers)
            if armed is not None:
                self._asleep = True
                return [self._alarm.fileno(), *armed]
        if self.guard.calls != woken:
            time.sleep(_COURTESY)
        return []

    def _sleep(self, descriptors: list[int]) -> None:
        readable_within(descriptors, self.sleep_at_most)
        if self._alarm is not None:
            self._alarm.set(False)

    def inside(self, call: Callable[[], int]) -> int:
        """Make a call of progress, in which no other may be made."""
        if self._inside:
            raise invalid_param("progress was called inside a callback of progress")
        self._inside = True
        try:
            return call()
        finally:
            self._inside = False

    def forked(self) -> None:
        """Reset the progress in a child process, without its thread; all objects are closed there."""
        self.guard.forked()
        self._thread = self._alarm = None
        self.threaded = self._asleep = self._inside = False
        self._abandoned.clear()
        self._loops.clear()
        self.by_thread.clear()


def _armed(workers: Iterable[Attended]) -> list[int] | None:
    descriptors = []
    for worker in workers:
        if not worker.closed:
            if worker.polling or not worker.arm():
                return None
            descriptors.append(worker.fileno())
    return descriptors


def _close(close: Callable[[], object]) -> None:
    """Close an object, and ignore errors, for which there is no caller."""
    with contextlib.suppress(UcsError, OSError):
        close()


class _HasProgress(Protocol):
    @property
    def _progress(self) -> Progress: ...


S = TypeVar("S", bound=_HasProgress)
P = ParamSpec("P")
R = TypeVar("R")


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Wrap a method so that it holds the lock while a thread runs."""

    @functools.wraps(method)
    def called(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        progress = self._progress
        if not progress.threaded:
            return method(self, *args, **named)
        with progress:
            return method(self, *args, **named)

    return called


_networks: weakref.WeakKeyDictionary[Any, Progress] = weakref.WeakKeyDictionary()
_running: set[Progress] = set()
"""Instances with a thread."""
_exiting: list[bool] = []
"""Holds an entry once the process ends."""


def progress_of(adapter: Adapter) -> Progress:
    """Return the progress of a NIC's network."""
    progress = _networks.get(adapter.wire)
    if progress is None:
        progress = _networks[adapter.wire] = Progress()
    return progress


@functools.cache
def expect_exit() -> None:
    """Have threads end before finalizers run, which exit calls in the opposite order of their first uses."""
    atexit.register(_at_exit)


def _at_exit() -> None:
    for progress in list(_running):
        progress.stop_thread()
    _exiting.append(True)


_locked: list[Progress] = []


def _before_fork() -> None:
    """Hold all locks while the process forks, so that no thread is within a call."""
    for progress in sorted(_running, key=id):
        progress.guard.__enter__()
        _locked.append(progress)


def _after_fork(forked: bool) -> None:
    while _locked:
        progress = _locked.pop()
        if forked:
            progress.forked()
        progress.guard.__exit__()
    if forked:
        _running.clear()
        for progress in list(_networks.values()):
            progress.forked()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=functools.partial(_after_fork, False),
    after_in_child=functools.partial(_after_fork, True),
)
