"""Operations, counters and events for asyncio programs.

::

    queue = domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD)
    endpoint = domain.endpoint(cq=queue, av=peers)
    async with aio.AsyncCompletionQueue(queue) as completions:
        remote = completions.endpoint(endpoint)
        await remote.fetch_atomic(np.uint64(1), found, peer, address, key, Op.FI_SUM)

Waiting is by file descriptors, so that other tasks run meanwhile. Cancelling a task, or a timeout, ends the waiting,
not the operation: a NIC cannot call it back. Until it completes its buffers are kept alive, and may be written to.
"""

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import os
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self

from amoeba.atomics import AtomicOperations
from amoeba.completion import CompletionQueue, Entry
from amoeba.constants import Errno, OpFlags
from amoeba.counters import Counter
from amoeba.errors import ErrorAvailableError, FabricError, TryAgainError, fabric_error
from amoeba.event_queue import Event, EventQueue
from amoeba.lifetime import FabricObject
from amoeba.messages import MessageOperations
from amoeba.rma import RmaOperations
from amoeba.triggered import TriggeredContext
from amoeba.waiting import WAIT_SLICE

if TYPE_CHECKING:
    from amoeba.transmit import Posting

__all__ = ["AsyncCompletionQueue", "AsyncEndpoint", "read_event", "wait_counter"]

P = ParamSpec("P")
_BATCH = 64
"""Entries that are read before other tasks get their turn."""


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """What ``select`` can wait for."""


class _Watch:
    """Waits until an object's descriptor is readable, whoever else waits for the same one."""

    def __init__(self, watched: _HasDescriptor) -> None:
        self._fd = os.dup(watched.fileno())

    async def readable(self) -> None:
        """Return when it is, at the latest after a slice of time: some of what is waited for has no descriptor."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.add_reader(self._fd, _resolve, future)
        timer = loop.call_later(WAIT_SLICE, _resolve, future)
        try:
            await future
        finally:
            loop.remove_reader(self._fd)
            timer.cancel()

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _within(timeout: float | None, waiting: Coroutine[Any, Any, Any], what: str) -> Any:
    """The result of ``waiting``. Raises FI_ETIMEDOUT after ``timeout`` seconds (None: without limit)."""
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
        errors = counter.readerr()
        with _Watch(counter) as watch:
            while (value := counter.read()) < threshold:
                if counter.readerr() != errors:
                    raise fabric_error(Errno.FI_EAVAIL, f"an operation failed, {value} of {threshold} are done")
                await watch.readable()

    await _within(timeout, reached(), f"{threshold} operations")


async def read_event(queue: EventQueue, timeout: float | None = None) -> Event:
    """Wait for the next event and take it, as :meth:`amoeba.EventQueue.sread` does.

    The queue was opened with FI_WAIT_FD, else FI_ENOSYS is raised. Raises FI_EAVAIL if the next event is an error,
    FI_ETIMEDOUT after ``timeout`` seconds.
    """

    async def taken() -> Event:
        with _Watch(queue) as watch:
            while (event := queue.read()) is None:
                await watch.readable()
            return event

    event: Event = await _within(timeout, taken(), "an event")
    return event


class _Waiter:
    """An operation that somebody awaits, or awaited before being cancelled."""

    __slots__ = ("context", "future", "token")

    def __init__(self, token: Any, context: Any, future: "asyncio.Future[Entry]") -> None:
        self.token = token
        """``context`` of the operation; it is found again by its identity, so it must live."""
        self.context = context
        """What the application has given instead."""
        self.future = future


class AsyncCompletionQueue(FabricObject):
    """Reads a completion queue for the tasks of an event loop; nobody else may read it meanwhile.

    What belongs to no awaited operation, such as peers' immediate data, waits for :meth:`read`, without limit; so
    bind FI_RECV to a queue of its own if peers are to be held back.

    Leaving its ``async with`` block waits for the operations under way. Closed before, it raises FI_EBADF in all who
    wait. Raises FI_ENOSYS for a queue that was opened without FI_WAIT_FD, FI_EBUSY for one that has a reader already.
    """

    def __init__(self, queue: CompletionQueue) -> None:
        if any(isinstance(child, AsyncCompletionQueue) and not child.closed for child in queue._children.values()):
            raise fabric_error(Errno.FI_EBUSY, f"{queue!r} has an AsyncCompletionQueue already")
        self.queue = queue
        self._watch = _Watch(queue)
        self._waiters: dict[int, _Waiter] = {}
        self._sleepers: list[asyncio.Future[None]] = []
        """Wait for the queue to be read once more."""
        self._entries: deque[tuple[Entry, int] | FabricError] = deque()
        """For nobody in particular."""
        self._task: asyncio.Task[None] | None = None
        super().__init__(queue)

    def endpoint(self, endpoint: "Posting", timeout: float | None = None) -> "AsyncEndpoint":
        """The operations of an endpoint that reports to this queue, to be awaited: see :class:`AsyncEndpoint`."""
        return AsyncEndpoint(self, endpoint, timeout)

    async def read(self, count: int = 1) -> list[Entry]:
        """One to ``count`` entries that nobody awaits; waits for the first. Raises a failure when its turn comes."""
        return [entry for entry, _ in await self.readfrom(count)]

    async def readfrom(self, count: int = 1) -> list[tuple[Entry, int]]:
        """Like :meth:`read`, each entry with the number of the peer that caused it."""
        while not self._entries:
            await self._next_read()
        taken: list[tuple[Entry, int]] = []
        while self._entries and len(taken) < count:
            first = self._entries[0]
            if isinstance(first, FabricError):
                if taken:
                    break
                self._entries.popleft()
                raise first
            taken.append(first)
            self._entries.popleft()
        return taken

    @property
    def under_way(self) -> int:
        """Operations posted to be awaited that have not completed, also those that nobody awaits any more."""
        return len(self._waiters)

    async def drain(self) -> None:
        """Wait until no awaited operation is under way."""
        while self._waiters:
            await self._next_read()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if not self.closed:
                await self.drain()
        finally:
            self.close()

    def _expect(self, token: Any, context: Any) -> "asyncio.Future[Entry]":
        """What is awaited of the operation that is about to be posted with ``token`` as its context."""
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._waiters[id(token)] = _Waiter(token, context, future)
        self._serve()
        return future

    def _forget(self, token: Any) -> None:
        """It was not posted."""
        self._waiters.pop(id(token), None)

    async def _next_read(self) -> None:
        """Wait until the queue has been read once more."""
        self._check_open()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(future)
        self._serve()
        await future

    def _serve(self) -> None:
        """Have the queue read as long as somebody waits."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._read_on())

    async def _read_on(self) -> None:
        try:
            while self._waiters or self._sleepers:
                await self._watch.readable()
                self._take()
        except Exception as error:  # whatever reading raises, a closed device's errors too, those who wait must hear
            self._fail(error)

    def _take(self) -> None:
        """Read the queue once, and wake those concerned."""
        try:
            for entry, source in self.queue.readfrom(_BATCH):
                waiter = self._waiters.pop(id(entry.op_context), None)
                if waiter is None:
                    self._entries.append((entry, source))
                elif not waiter.future.done():
                    waiter.future.set_result(entry._replace(op_context=waiter.context))
        except ErrorAvailableError:
            failure = self.queue.readerr()
            assert failure is not None
            waiter = self._waiters.pop(id(failure.op_context), None)
            if waiter is None:
                self._entries.append(failure.error())
            elif not waiter.future.done():
                waiter.future.set_exception(failure.error())
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            _resolve(sleeper)

    def _fail(self, error: Exception) -> None:
        """Raise this in all who wait."""
        waiting: list[asyncio.Future[Any]] = [waiter.future for waiter in self._waiters.values()]
        for future in (*waiting, *self._sleepers):
            if not future.done() and not future.get_loop().is_closed():
                future.set_exception(error)
        self._waiters.clear()
        self._sleepers.clear()

    def _release(self) -> None:
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            self._task.cancel()
        self._fail(fabric_error(Errno.FI_EBADF, "the AsyncCompletionQueue was closed"))
        self._watch.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.under_way} operations under way"
        return f"<AsyncCompletionQueue {state}>"


def _awaitable(
    call: Callable[Concatenate[Any, P], None], *, receives: bool = False
) -> "Callable[Concatenate[AsyncEndpoint, P], Coroutine[Any, Any, Entry]]":
    """An operation, to be awaited; ``receives``: it is taken back when nobody awaits it any more."""
    signature = inspect.signature(call)

    @functools.wraps(call)
    async def perform(self: "AsyncEndpoint", /, *args: P.args, **kwargs: P.kwargs) -> Entry:
        bound = signature.bind(self.endpoint, *args, **kwargs)
        bound.apply_defaults()
        named = bound.arguments
        named["flags"] |= OpFlags.FI_COMPLETION
        context = named["msg"].context if "msg" in named else named["context"]

        def post(token: Any) -> None:
            if "msg" in named:
                named["msg"] = dataclasses.replace(named["msg"], context=token)
            else:
                named["context"] = token
            call(*bound.args, **bound.kwargs)

        if receives:
            self._check_receive(named["flags"])
        return await self._perform(post, context, take_back=receives)

    return perform


def _awaiting_room(
    call: Callable[Concatenate[Any, P], None],
) -> "Callable[Concatenate[AsyncEndpoint, P], Coroutine[Any, Any, None]]":
    """An operation without completion, for which only room in the ring is awaited."""

    @functools.wraps(call)
    async def perform(self: "AsyncEndpoint", /, *args: P.args, **kwargs: P.kwargs) -> None:
        await self._post(lambda: call(self.endpoint, *args, **kwargs))

    return perform


class AsyncEndpoint:
    """The operations of :class:`amoeba.Endpoint`, with the same arguments, to be awaited.

    Each returns the operation's entry in the completion queue, or raises what it has failed with. If the ring is full
    it waits for room, in turn with others. ``inject...`` only do that, as they have no completion. A receive that
    nobody awaits any more, because its task was cancelled or the timeout has passed, is taken back.

    ``timeout``: seconds after which waiting ends with FI_ETIMEDOUT; None: without limit.
    Raises FI_EINVAL for an endpoint that reports to another queue.
    """

    def __init__(self, completions: AsyncCompletionQueue, endpoint: "Posting", timeout: float | None = None) -> None:
        if endpoint._cq is not completions.queue:
            raise fabric_error(Errno.FI_EINVAL, f"{endpoint!r} does not report to {completions.queue!r}")
        self.completions = completions
        self.endpoint = endpoint
        self.timeout = timeout
        self._turn = asyncio.Lock()

    write = _awaitable(RmaOperations.write)
    writev = _awaitable(RmaOperations.writev)
    writemsg = _awaitable(RmaOperations.writemsg)
    writedata = _awaitable(RmaOperations.writedata)
    inject_write = _awaiting_room(RmaOperations.inject_write)
    inject_writedata = _awaiting_room(RmaOperations.inject_writedata)
    read = _awaitable(RmaOperations.read)
    readv = _awaitable(RmaOperations.readv)
    readmsg = _awaitable(RmaOperations.readmsg)
    atomic = _awaitable(AtomicOperations.atomic)
    atomicv = _awaitable(AtomicOperations.atomicv)
    atomicmsg = _awaitable(AtomicOperations.atomicmsg)
    inject_atomic = _awaiting_room(AtomicOperations.inject_atomic)
    fetch_atomic = _awaitable(AtomicOperations.fetch_atomic)
    fetch_atomicv = _awaitable(AtomicOperations.fetch_atomicv)
    fetch_atomicmsg = _awaitable(AtomicOperations.fetch_atomicmsg)
    compare_atomic = _awaitable(AtomicOperations.compare_atomic)
    compare_atomicv = _awaitable(AtomicOperations.compare_atomicv)
    compare_atomicmsg = _awaitable(AtomicOperations.compare_atomicmsg)

    send = _awaitable(MessageOperations.send)
    sendv = _awaitable(MessageOperations.sendv)
    sendmsg = _awaitable(MessageOperations.sendmsg)
    senddata = _awaitable(MessageOperations.senddata)
    inject = _awaiting_room(MessageOperations.inject)
    injectdata = _awaiting_room(MessageOperations.injectdata)
    recv = _awaitable(MessageOperations.recv, receives=True)
    recvv = _awaitable(MessageOperations.recvv, receives=True)
    recvmsg = _awaitable(MessageOperations.recvmsg, receives=True)
    tsend = _awaitable(MessageOperations.tsend)
    tsendv = _awaitable(MessageOperations.tsendv)
    tsendmsg = _awaitable(MessageOperations.tsendmsg)
    tsenddata = _awaitable(MessageOperations.tsenddata)
    tinject = _awaiting_room(MessageOperations.tinject)
    tinjectdata = _awaiting_room(MessageOperations.tinjectdata)
    trecv = _awaitable(MessageOperations.trecv, receives=True)
    trecvv = _awaitable(MessageOperations.trecvv, receives=True)
    trecvmsg = _awaitable(MessageOperations.trecvmsg, receives=True)

    def _check_receive(self, flags: OpFlags) -> None:
        """Raise FI_EINVAL if receives report to another queue, FI_EBADFLAGS for what is no receive of its own."""
        receiver = self.endpoint._receiver
        if receiver is None or receiver.queue is not self.completions.queue:
            raise fabric_error(Errno.FI_EINVAL, f"receives of {self.endpoint!r} do not report to this queue")
        if flags & (OpFlags.FI_MULTI_RECV | OpFlags.FI_CLAIM):
            raise fabric_error(
                Errno.FI_EBADFLAGS, "FI_MULTI_RECV and FI_CLAIM have entries of several calls: post, then read()"
            )

    async def _perform(self, post: Callable[[Any], None], context: Any, *, take_back: bool = False) -> Entry:
        """Post an operation and wait for its end; ``take_back`` it when this is cancelled."""
        # a triggered operation is known by the context that the application made
        token = context if isinstance(context, TriggeredContext) else object()

        async def performed() -> Entry:
            self.completions._check_open()
            async with self._turn:
                future = self.completions._expect(token, context)
                try:
                    await self._retry(lambda: post(token))
                except BaseException:
                    self.completions._forget(token)
                    raise
            try:
                return await future
            except asyncio.CancelledError:
                if take_back:
                    with contextlib.suppress(FabricError):  # it has met a message
                        self.endpoint.cancel(token)
                raise

        entry: Entry = await _within(self.timeout, performed(), "the operation")
        return entry

    async def _post(self, post: Callable[[], None]) -> None:
        """Post an operation without completion."""

        async def posted() -> None:
            self.completions._check_open()
            async with self._turn:
                await self._retry(post)

        await _within(self.timeout, posted(), "posting")

    async def _retry(self, post: Callable[[], None]) -> None:
        """Post as soon as there is room."""
        while True:
            try:
                return post()
            except TryAgainError:
                await self.completions._next_read()
