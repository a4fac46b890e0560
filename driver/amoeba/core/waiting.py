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
    """Whether nothing in this process goes on while its thread waits: no other thread, no handler of a signal but
    Python's own of Ctrl-C."""
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
        """Make it readable, or not. Safe in any thread."""
        if raised:
            os.eventfd_write(self._fd, 1)
        else:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._fd)

    def close(self) -> None:
        self.set()  # whoever waits for a duplicate is to see that nothing will come
        os.close(self._fd)


@functools.cache
def _always_readable() -> WaitFd:
    """A descriptor of the process's, which is never closed."""
    descriptor = WaitFd()
    descriptor.set()
    return descriptor


def close_epoll(epoll: select.epoll) -> None:
    """Close it; whoever waits for a duplicate of its descriptor is to see that nothing will come."""
    epoll.register(_always_readable(), select.EPOLLIN)
    epoll.close()


class Waitable(Protocol):
    """What :meth:`amoeba.Fabric.trywait` takes: completion queues, event queues, counters and wait sets."""

    def _may_wait(self) -> bool:
        """Whether nothing is there to be read, so that waiting for its file descriptor makes sense."""


class Source(Protocol):
    """Something with a descriptor that an event queue lets go on when it is ready."""

    deadline: float | None
    """When ``time.monotonic()`` is past this, it is also let go on."""

    def fileno(self) -> int: ...

    def go_on(self) -> None:
        """Do what can be done without waiting, and report it."""


class Watcher(Protocol):
    """An object that lets sources go on: event queues of libfabric, workers of UCX."""

    def _watch(self, source: Source, *, writing: bool = False) -> None:
        """Let ``source`` go on from now on, when it can be read or, with ``writing``, written to."""

    def _unwatch(self, source: Source) -> None:
        """Forget it, before its descriptor is closed; nothing if it is not watched."""


class Sources:
    """What an event queue lets go on while it is read. ``fd``: one more descriptor to wait for. Linux only."""

    def __init__(self, fd: WaitFd | None = None) -> None:
        self._epoll = select.epoll()
        self._sources: dict[int, Source] = {}
        if fd is not None:
            self._epoll.register(fd, select.EPOLLIN)

    def __len__(self) -> int:
        return len(self._sources)

    def fileno(self) -> int:
        """A descriptor that is readable while ``fd`` or one of the sources is ready."""
        return self._epoll.fileno()

    def add(self, source: Source, *, writing: bool = False) -> None:
        """Let it go on when there is something to be read, or when it can be written to."""
        self._sources[source.fileno()] = source
        self._epoll.register(source, select.EPOLLOUT if writing else select.EPOLLIN)

    def split(self) -> "Sources":
        """What was added to be read, in sources of its own; these keep the first descriptor alone."""
        taken = Sources()
        for source in list(self._sources.values()):
            self.remove(source)
            taken.add(source)
        return taken

    @property
    def deadline(self) -> float | None:
        """When the first of them is let go on, if nothing else happens."""
        deadlines = [source.deadline for source in self._sources.values() if source.deadline is not None]
        return min(deadlines, default=None)

    def remove(self, source: Source) -> None:
        """Forget it, before it is closed; nothing if it is not there."""
        if self._sources.pop(source.fileno(), None) is not None:
            self._epoll.unregister(source)

    def go_on(self) -> int:
        """Let all that are ready go on, and those that have waited long enough; how many."""
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
        """Whether something would go on now."""
        return bool(self._epoll.poll(0, 1))

    def wait(self, timeout: float) -> None:
        """Sleep until one is ready, at most ``timeout`` seconds; also when closed meanwhile by another thread."""
        with contextlib.suppress(ValueError):
            self._epoll.poll(min(timeout, LONGEST_POLL))

    def close(self) -> None:
        close_epoll(self._epoll)
