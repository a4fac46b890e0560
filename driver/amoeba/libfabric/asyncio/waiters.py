"""Waiters for the entries of operations, in the queues of an event loop."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, Self

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.constants import Caps
from amoeba.libfabric.objects.queues.completion import CqErrEntry, Entry

__all__ = ["Home", "Single", "Stream", "Waiter"]

_MULTI_RECV = int(Caps.FI_MULTI_RECV)


class Home(Protocol):
    """A queue of entries: an :class:`amoeba.aio.AsyncCompletionQueue`."""

    @property
    def _waiters(self) -> "dict[int, Waiter]":
        """Waiters by the identity of their tokens."""

    def _check_open(self) -> None: ...

    def _serve(self) -> None:
        """Have the queue read as long as a task waits."""

    def _tell(self, ended: "list[Waiter]") -> bool:
        """Notify the waiters of a few entries; return whether there were any. Adds finished waiters to ``ended``."""

    def _wake(self) -> None:
        """Wake the tasks that wait for a read of the queue."""


class Waiter(ABC):
    """The waiter for an operation whose result a task awaits, or awaited before its cancellation.

    ``token``: context of the operation; its identity finds the waiter, so the token must live. ``context``: the
    application's own context. ``homes``: queues in which the entries may come.
    """

    def __init__(self, token: Any, context: Any, homes: Sequence[Home]) -> None:
        self.token = token
        self.context = context
        self.homes = homes

    def register(self) -> None:
        """Register with all queues. Raises FI_EINVAL if an operation with this token is awaited already."""
        for home in self.homes:
            home._check_open()
            if id(self.token) in home._waiters:
                raise fabric_error(Errno.FI_EINVAL, f"an operation with context {self.token!r} is awaited already")
        for home in self.homes:
            home._waiters[id(self.token)] = self
            home._serve()

    def leave(self) -> None:
        """Leave all queues."""
        for home in self.homes:
            home._waiters.pop(id(self.token), None)
            home._wake()

    @abstractmethod
    def tell(self, entry: Entry, source: int) -> bool:
        """Take an entry of the operation; return whether it was the last."""

    @abstractmethod
    def fail(self, failure: CqErrEntry) -> bool:
        """Take an error entry of the operation; return whether it was the last."""

    @abstractmethod
    def abandon(self, error: Exception) -> None:
        """End the waiting: no entry will come any more."""


class Single(Waiter):
    """The waiter for an operation with one entry."""

    def __init__(self, token: Any, context: Any, homes: Sequence[Home]) -> None:
        super().__init__(token, context, homes)
        self.future: asyncio.Future[tuple[Entry, int]] = asyncio.get_running_loop().create_future()
        """The entry, and the number of the peer that caused it."""

    def tell(self, entry: Entry, source: int) -> bool:
        if not self.future.done():
            self.future.set_result((entry._replace(op_context=self.context), source))
        return True

    def fail(self, failure: CqErrEntry) -> bool:
        self.abandon(failure.error())
        return True

    def abandon(self, error: Exception) -> None:
        if not self.future.done() and not self.future.get_loop().is_closed():
            self.future.set_exception(error)


class Stream(Waiter):
    """The waiter for a receive with FI_MULTI_RECV: yields its entries one after the other, by ``async for``."""

    def __init__(self, token: Any, context: Any, homes: Sequence[Home]) -> None:
        super().__init__(token, context, homes)
        self.over = False
        """Whether no more entries will come."""
        self.heard = True
        """The future of the task that waits for the next entry."""
        self.told: deque[tuple[Entry, int] | Exception] = deque()
        self._news = asyncio.Event()

    def tell(self, entry: Entry, source: int) -> bool:
        return self._take((entry._replace(op_context=self.context), source), entry)

    def fail(self, failure: CqErrEntry) -> bool:
        return self._take(failure.error(), failure)

    def abandon(self, error: Exception) -> None:
        self.over = True
        self.told.append(error)
        self._news.set()

    def _take(self, told: tuple[Entry, int] | Exception, entry: Any) -> bool:
        if self.heard:
            self.told.append(told)
            self._news.set()
        last = bool(entry.flags & _MULTI_RECV)
        self.over |= last
        return last

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[Entry, int]:
        while not self.told:
            if self.over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        told = self.told.popleft()
        if isinstance(told, Exception):
            raise told
        return told
