"""Waiting by a file descriptor: FI_WAIT_FD of fi_cq(3) and fi_eq(3), and fi_trywait of fi_poll(3)."""

import contextlib
import os
from typing import Protocol

from amoeba.constants import WaitObj

__all__ = ["WAIT_OBJECTS", "WAIT_SLICE", "WaitFd", "Waitable"]

WAIT_OBJECTS = (WaitObj.FI_WAIT_NONE, WaitObj.FI_WAIT_UNSPEC, WaitObj.FI_WAIT_FD)
"""What queues and counters can wait by."""
WAIT_SLICE = 0.05
"""Seconds that a wait sleeps at a time, so that signal handlers run and other threads are heard."""


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
        os.close(self._fd)


class Waitable(Protocol):
    """What :meth:`amoeba.Fabric.trywait` takes: completion queues, event queues and counters."""

    def _may_wait(self) -> bool:
        """Whether nothing is there to be read, so that waiting for its file descriptor makes sense."""
