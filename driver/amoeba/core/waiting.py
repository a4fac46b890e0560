"""Waiting by a file descriptor: FI_WAIT_FD of fi_cq(3) and fi_eq(3), and fi_trywait of fi_poll(3)."""

import contextlib
import functools
import os
import select
import signal
import threading
import time
from collections.abc import Iterable
from typing import Protocol

from amoeba_model.side_by_side import helping_threads

__all__ = [
    "LONGEST_POLL",
    "WAIT_SLICE",
    "HasFileno",
    "Source",
    "Sources",
    "WaitFd",
    "Waitable",
    "Watcher",
    "alone",
    "close_epoll",
    "readable_within",
]

WAIT_SLICE = 0.05
"""Seconds that a wait sleeps at a time, so that signal handlers run and other threads are heard."""
LONGEST_POLL = 1e6
"""Maximum seconds of one sleep for descriptors: the system counts milliseconds in 31 bits."""


class HasFileno(Protocol):
    """An object with a file descriptor."""

    def fileno(self) -> int: ...


def readable_within(descriptors: Iterable[int | HasFileno], seconds: float | None) -> bool:
    """Sleep until one of the descriptors can be read, at most ``seconds`` (None: any time); whether one can be.

    The sleep ends after LONGEST_POLL seconds, too: callers who wait longer ask again.
    """
    poll = select.poll()  # unlike select(), it takes descriptors of any number
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else min(max(seconds, 0.0), LONGEST_POLL) * 1000))


def alone() -> bool:
    """Return whether the process is idle while its thread waits.

    No other thread runs, and no signal has a handler but Python's own handler of Ctrl-C.
    """
    if threading.active_count() - helping_threads() > 1:
        return False
    handlers = map(signal.getsignal, signal.valid_signals())
    return not any(callable(handler) and handler is not signal.default_int_handler for handler in handlers)


class WaitFd:
    """A file descriptor for ``select``, ``poll``, ``epoll`` and ``asyncio``: readable while raised. Linux only."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def set(self, raised: bool = True) -> None:
        """Make the descriptor readable, or not. Safe in any thread."""
        if raised:
            os.eventfd_write(self._fd, 1)
        else:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._fd)

    def close(self) -> None:
        self.set()  # wakes waiters on duplicates: nothing will come
        os.close(self._fd)


@functools.cache
def _always_readable() -> WaitFd:
    """Return a descriptor of the process that is never closed."""
    descriptor = WaitFd()
    descriptor.set()
    return descriptor


def close_epoll(epoll: select.epoll) -> None:
    """Close the descriptor; waiters on duplicates wake up, as nothing will come."""
    epoll.register(_always_readable(), select.EPOLLIN)
    epoll.close()


class Waitable(Protocol):
    """An object that :meth:`amoeba.Fabric.trywait` takes: completion queue, event queue, counter or wait set."""

    def _may_wait(self) -> bool:
        """Return whether nothing is there to be read, so that waiting for the file descriptor makes sense."""


class Source(Protocol):
    """An object with a descriptor, which an event queue lets proceed when the descriptor is ready."""

    deadline: float | None
    """Deadline on ``time.monotonic()``; past it the source proceeds even so."""

    def fileno(self) -> int: ...

    def go_on(self) -> None:
        """Do the work that needs no waiting, and report it."""


class Watcher(Protocol):
    """An object that lets sources go on: event queues of libfabric, workers of UCX."""

    def _watch(self, source: Source, *, writing: bool = False) -> None:
        """Let ``source`` go on from now on, when it can be read or, with ``writing``, written to."""

    def _unwatch(self, source: Source) -> None:
        """Forget it, before its descriptor is closed; nothing if it is not watched."""


class Sources:
    """Sources that proceed while an event queue is read. ``fd``: one more descriptor to wait for. Linux only."""

    def __init__(self, fd: WaitFd | None = None) -> None:
        self._epoll = select.epoll()
        self._sources: dict[int, Source] = {}
        if fd is not None:
            self._epoll.register(fd, select.EPOLLIN)

    def __len__(self) -> int:
        return len(self._sources)

    def fileno(self) -> int:
        """Return a descriptor that is readable while ``fd`` or one of the sources is ready."""
        return self._epoll.fileno()

    def add(self, source: Source, *, writing: bool = False) -> None:
        """Let the source proceed when it has data to read, or when it can be written to."""
        self._sources[source.fileno()] = source
        self._epoll.register(source, select.EPOLLOUT if writing else select.EPOLLIN)

    def split(self) -> "Sources":
        """Move the added read sources into a new object; this object keeps the first descriptor alone."""
        taken = Sources()
        for source in list(self._sources.values()):
            self.remove(source)
            taken.add(source)
        return taken

    @property
    def deadline(self) -> float | None:
        """Time at which the first source proceeds if nothing else happens."""
        deadlines = [source.deadline for source in self._sources.values() if source.deadline is not None]
        return min(deadlines, default=None)

    def remove(self, source: Source) -> None:
        """Forget a source before it is closed; do nothing if it is unknown."""
        if self._sources.pop(source.fileno(), None) is not None:
            self._epoll.unregister(source)

    def go_on(self) -> int:
        """Let all sources proceed that are ready or past their deadline; returns how many."""
        count = 0
        ready = {fd for fd, _ in self._epoll.poll(0)}
        now = time.monotonic()
        for fd, source in list(self._sources.items()):
            late = source.deadline is not None and now > source.deadline
            if (fd in ready or late) and self._sources.get(fd) is source:
                source.go_on()
                count += 1
        return count

    @property
    def ready(self) -> bool:
        """Return whether a source would proceed now."""
        return bool(self._epoll.poll(0, 1))

    def wait(self, timeout: float) -> None:
        """Sleep until a source is ready, at most ``timeout`` seconds, or until another thread closes this."""
        with contextlib.suppress(ValueError):
            self._epoll.poll(min(timeout, LONGEST_POLL))

    def close(self) -> None:
        close_epoll(self._epoll)
