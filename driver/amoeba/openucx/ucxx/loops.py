"""Progress in an event loop: while a task waits there, or for as long as the loop runs."""

import asyncio
import threading
from typing import Protocol

__all__ = ["LoopProgress", "Progressing"]


class Progressing(Protocol):
    """The maker of progress for several workers: see :class:`amoeba.openucx.ucxx.progress.Progress`."""

    def go_on(self) -> int: ...

    def arm(self) -> list[int] | None: ...


class LoopProgress:
    """Calls progress between the other callbacks of one event loop, and lets an idle loop sleep.

    No task is involved: progress needs no cancellation, and ends with the loop.
    """

    def __init__(self, progress: Progressing, loop: asyncio.AbstractEventLoop) -> None:
        self._progress = progress
        self._loop = loop
        self.thread = threading.get_ident()
        """The thread in which the loop runs."""
        self.waiting = 0
        """Number of waiting tasks."""
        self.lasting = False
        """Whether progress continues without waiting tasks."""
        self._scheduled = False
        self._watched: list[int] = []

    @property
    def busy(self) -> bool:
        """Whether it makes progress now."""
        return (self.waiting > 0 or self.lasting) and self._loop.is_running()

    def begin(self) -> None:
        """Begin to make progress: a task waits."""
        if not self._scheduled:
            self._scheduled = True
            if self._watched:
                self._unwatch()
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        if self._watched:
            self._unwatch()
        if not (self.waiting or self.lasting):
            return
        try:
            count = self._progress.go_on()
        except Exception as error:  # a callback's
            count = 1
            self._loop.call_exception_handler({"message": "a callback of progress has failed", "exception": error})
        if not (self.waiting or self.lasting):
            return
        descriptors = None if count else self._progress.arm()
        if descriptors is None:
            self._scheduled = True
            self._loop.call_soon(self._step)
            return
        for descriptor in descriptors:
            self._loop.add_reader(descriptor, self.begin)
            self._watched.append(descriptor)

    def _unwatch(self) -> None:
        for descriptor in self._watched:
            self._loop.remove_reader(descriptor)
        self._watched.clear()
