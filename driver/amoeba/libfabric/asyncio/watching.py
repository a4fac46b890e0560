"""Waiting for descriptors: of counters, event queues and other objects that have one."""

import asyncio
import contextlib
import os
import time
from collections.abc import Coroutine
from typing import Any, Protocol, Self

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, TimedOutError, fabric_error
from amoeba.core.locking import Locker
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import Event, EventQueue
from amoeba.libfabric.objects.queues.wait_set import WaitSet

__all__ = ["Watch", "read_event", "resolve", "round_after", "wait_counter", "wait_set", "within"]


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """Return a descriptor for ``select``."""


class Watch:
    """Waits until an object's descriptor is readable, whichever tasks wait for the same one."""

    def __init__(self, watched: _HasDescriptor) -> None:
        self._fd = os.dup(watched.fileno())

    async def readable(self, deadline: float | None = None) -> None:
        """Wait until the descriptor is readable, or ``time.monotonic()`` reaches ``deadline``."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.add_reader(self._fd, resolve, future)
        timer = None if deadline is None else loop.call_later(deadline - time.monotonic(), resolve, future)
        try:
            await future
        finally:
            loop.remove_reader(self._fd)
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def resolve(future: "asyncio.Future[None]") -> None:
    """End the wait of the task, if one waits."""
    if not future.done():
        future.set_result(None)


async def round_after(auto: Locker, rounds: int) -> None:
    """Wait until more than ``rounds`` rounds have passed: time has passed on the NICs, which may have freed space."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(resolve, future)

    with auto:
        forget = auto.call_when(lambda: auto.rounds != rounds, tell)
    try:
        await future
    finally:
        with auto.guard:
            forget()


async def within(timeout: float | None, waiting: Coroutine[Any, Any, Any], what: str) -> Any:
    """Return the result of ``waiting``. Raises FI_ETIMEDOUT after ``timeout`` seconds (None: without limit)."""
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return await waiting
    except TimeoutError as error:
        if not deadline.expired() or isinstance(error, FabricError):
            raise
        raise fabric_error(Errno.FI_ETIMEDOUT, f"{what} took longer than {timeout} seconds") from None


async def wait_counter(counter: Counter, threshold: int, timeout: float | None = None) -> None:
    """Wait until at least ``threshold`` operations have succeeded, as :meth:`amoeba.Counter.wait` does.

    The counter was opened with FI_WAIT_FD, else FI_ENOSYS is raised. Raises FI_EAVAIL if an operation fails
    meanwhile, FI_ETIMEDOUT after ``timeout`` seconds.
    """

    async def reached() -> None:
        errors = counter.expected_errors
        with Watch(counter) as watch:
            while (value := counter.read()) < threshold:
                if counter.readerr() != errors:
                    raise fabric_error(Errno.FI_EAVAIL, f"an operation failed, {value} of {threshold} are done")
                await watch.readable()

    await within(timeout, reached(), f"{threshold} operations")


async def read_event(queue: EventQueue, timeout: float | None = None) -> Event:
    """Wait for the next event and take it, as :meth:`amoeba.EventQueue.sread` does.

    The queue was opened with FI_WAIT_FD, else FI_ENOSYS is raised. Raises FI_EAVAIL if the next event is an error,
    FI_ETIMEDOUT after ``timeout`` seconds.
    """

    async def taken() -> Event:
        with Watch(queue) as watch:
            while (event := queue.read()) is None:
                await watch.readable(queue.deadline)
            return event

    event: Event = await within(timeout, taken(), "an event")
    return event


async def wait_set(waiting: WaitSet, timeout: float | None = None) -> None:
    """Wait until something of a wait set can be read, as :meth:`amoeba.WaitSet.wait` does.

    The set was opened with FI_WAIT_FD, else FI_ENOSYS is raised. Raises FI_ETIMEDOUT after ``timeout`` seconds.
    """

    async def readable() -> None:
        with Watch(waiting) as watch:
            while not _has_news(waiting):
                await watch.readable(waiting.deadline)
                waiting.glance()

    await within(timeout, readable(), "waiting for a set")


def _has_news(waiting: WaitSet) -> bool:
    try:
        waiting.wait(0)
    except TimedOutError:
        return False
    return True
