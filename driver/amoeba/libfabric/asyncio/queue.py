"""Reading a completion queue for the tasks of an event loop."""

import asyncio
import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, FabricError, TryAgainError, fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.waiting import WAIT_SLICE
from amoeba.libfabric.asyncio.endpoints import AsyncEndpoint, AsyncReceiver
from amoeba.libfabric.asyncio.waiters import Home, Single, Stream, Waiter
from amoeba.libfabric.asyncio.watching import Watch, resolve, round_after
from amoeba.libfabric.objects.constants import OpFlags, TriggerOp
from amoeba.libfabric.objects.deferred_work import DeferredWork, OpCntr
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.queues.completion import CompletionQueue, Entry
from amoeba.libfabric.objects.reporting import receive_queues, transmit_queue

if TYPE_CHECKING:
    from amoeba.libfabric.objects.endpoints.transmit import Posting

__all__ = ["AsyncCompletionQueue"]

_BATCH = 64
"""Maximum number of entries read before other tasks run."""
_RECEIVES = (TriggerOp.FI_OP_RECV, TriggerOp.FI_OP_TRECV)


class AsyncCompletionQueue(FabricObject):
    """Reads a completion queue for the tasks of an event loop, as its only reader.

    Entries of operations that no task awaits, such as peers' immediate data, wait for :meth:`read`, without limit. To
    hold peers back instead, bind FI_RECV to a separate queue.

    Leaving its ``async with`` block waits for the outstanding operations. Closing it before raises FI_EBADF in all
    waiting tasks. Raises FI_ENOSYS for a queue without FI_WAIT_FD, FI_EBUSY for a queue that has a reader already.
    """

    def __init__(self, queue: CompletionQueue[Any]) -> None:
        if any(isinstance(child, AsyncCompletionQueue) and not child.closed for child in queue._children.values()):
            raise fabric_error(Errno.FI_EBUSY, f"{queue!r} has an AsyncCompletionQueue already")
        self.queue = queue
        self._watch = Watch(queue)
        self._waiters: dict[int, Waiter] = {}
        """Waiters by the identity of their tokens."""
        self._sleepers: list[asyncio.Future[None]] = []
        """Futures of tasks that wait for the next read of the queue."""
        self._entries: deque[tuple[Entry, int] | FabricError] = deque()
        """Entries that no task awaits."""
        self._task: asyncio.Task[None] | None = None
        super().__init__(queue)

    def endpoint(self, endpoint: "Posting", timeout: float | None = None) -> AsyncEndpoint:
        """Return the operations of an endpoint that reports to this queue: see :class:`AsyncEndpoint`."""
        return AsyncEndpoint(self, endpoint, timeout)

    def receiver(
        self, endpoint: ReceiveOperations, timeout: float | None = None, others: "Sequence[AsyncCompletionQueue]" = ()
    ) -> AsyncReceiver:
        """Return the receives of an endpoint or a receive context, also a shared one: see :class:`AsyncReceiver`.

        The receives report to this queue, and to ``others``.
        """
        return AsyncReceiver(self, endpoint, timeout, others)

    async def work(self, work: DeferredWork) -> Entry:
        """Submit deferred work (FI_QUEUE_WORK) of an endpoint that reports to this queue, and wait for its end.

        Returns the operation's entry, as with FI_COMPLETION, or raises the operation's error. Cancelling the task
        cancels work that still waits for its counter. Raises what :meth:`amoeba.Domain.queue_work` raises, and
        FI_EINVAL for counter operations, which have no completion, and for endpoints that report to another queue.
        """
        self._check_open()
        if isinstance(work.op, OpCntr):
            raise fabric_error(Errno.FI_EINVAL, f"{work.op_type!r} has no completion: wait for its counter")
        endpoint: Any = work.op.ep
        domain = endpoint.domain
        told = receive_queues(endpoint) if work.op_type in _RECEIVES else [transmit_queue(endpoint)]
        if any(queue is not self.queue for queue in told):
            raise fabric_error(Errno.FI_EINVAL, f"{work.op_type.name} of {endpoint!r} does not report to this queue")
        token = object()
        msg: Any = dataclasses.replace(work.op.msg, context=token)  # of the class that op has
        op = dataclasses.replace(work.op, msg=msg, flags=work.op.flags | OpFlags.FI_COMPLETION)
        submitted = dataclasses.replace(work, op=op)
        future = self._expect(token, work.op.msg.context)
        try:
            domain.queue_work(submitted)
        except BaseException:
            self._forget(token)
            raise
        try:
            return (await future)[0]
        except asyncio.CancelledError:
            with contextlib.suppress(FabricError):  # it was started
                domain.cancel_work(submitted)
                self._forget(token)
            raise

    async def read(self, count: int = 1) -> list[Entry]:
        """Return one to ``count`` entries that no task awaits; wait for the first. Raises failures in order."""
        return [entry for entry, _ in await self.readfrom(count)]

    async def readfrom(self, count: int = 1) -> list[tuple[Entry, int]]:
        """Read as :meth:`read`, each entry with the number of the peer that caused it."""
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
    def outstanding(self) -> int:
        """The number of awaited operations that have not completed, also those whose task was cancelled."""
        return len(self._waiters)

    async def drain(self) -> None:
        """Wait until no awaited operation is outstanding."""
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

    def _expect(
        self, token: Any, context: Any, others: Sequence[Home] = ()
    ) -> "asyncio.Future[tuple[Entry, int]]":
        """Return the future of the operation that is about to be posted with ``token`` as its context.

        The operation's entry comes here or to one of ``others``. Raises FI_EINVAL if an operation with this token is
        awaited already.
        """
        waiter = Single(token, context, (self, *others))
        waiter.register()
        return waiter.future

    def _expect_many(self, token: Any, context: Any, others: Sequence[Home] = ()) -> Stream:
        """Return the stream of a receive with FI_MULTI_RECV. Raises as :meth:`_expect`."""
        waiter = Stream(token, context, (self, *others))
        waiter.register()
        return waiter

    def _forget(self, token: Any) -> None:
        """Forget an operation that was not posted, or will not complete."""
        if (waiter := self._waiters.get(id(token))) is not None:
            waiter.leave()

    async def _retry(self, post: Callable[[], None]) -> None:
        """Post as soon as the ring has free space.

        With manual progress the queue gets no event from a ring that others share: try again now and then.
        """
        self._check_open()
        auto = self._auto
        while True:
            rounds = 0 if auto is None else auto.rounds
            try:
                return post()
            except TryAgainError:
                if auto is None:
                    await self._next_read(WAIT_SLICE)
                else:
                    await round_after(auto, rounds)

    async def _next_read(self, most: float | None = None) -> None:
        """Wait until the queue has been read once more, ``most`` seconds at most."""
        self._check_open()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._sleepers.append(future)
        self._serve()
        timer = None if most is None else loop.call_later(most, resolve, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            if future in self._sleepers:
                self._sleepers.remove(future)

    def _serve(self) -> None:
        """Have the queue read as long as a task waits."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._read_on())

    async def _read_on(self) -> None:
        try:
            while self._waiters or self._sleepers:
                await self._watch.readable()
                self._take()
        except Exception as error:  # waiting tasks must get any error of reading, also of a closed device
            self._fail(error)

    def _take(self) -> None:
        """Read the queue once, and wake the tasks of its entries."""
        ended: list[Waiter] = []
        self._tell(ended)
        for waiter in ended:  # more of them may come meanwhile
            if isinstance(waiter, Stream) and len(waiter.homes) > 1:
                # entries before its last one are in the other queues by now
                for home in waiter.homes:
                    while home._tell(ended):
                        pass
            waiter.leave()
        self._wake()

    def _tell(self, ended: list[Waiter]) -> bool:
        """Notify the waiters of a few entries; return whether there were any. Adds finished waiters to ``ended``."""
        try:
            entries = self.queue.readfrom(_BATCH)
        except ErrorAvailableError:
            failure = self.queue.readerr()
            assert failure is not None
            waiter = self._waiters.get(id(failure.op_context))
            if waiter is None:
                self._entries.append(failure.error())
            elif waiter.fail(failure):
                ended.append(waiter)
            return True
        for entry, source in entries:
            waiter = self._waiters.get(id(entry.op_context))
            if waiter is None:
                self._entries.append((entry, source))
            elif waiter.tell(entry, source):
                ended.append(waiter)
        return bool(entries)

    def _wake(self) -> None:
        """Wake the tasks that wait for a read of the queue."""
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.get_loop().is_closed():
                resolve(sleeper)

    def _fail(self, error: Exception) -> None:
        """Raise an error in all waiting tasks."""
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done() and not sleeper.get_loop().is_closed():
                sleeper.set_exception(error)
        for waiter in list(self._waiters.values()):
            waiter.abandon(error)
            waiter.leave()

    def _release(self) -> None:
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            self._task.cancel()
        self._fail(fabric_error(Errno.FI_EBADF, "the AsyncCompletionQueue was closed"))
        self._watch.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.outstanding} operations in flight"
        return f"<AsyncCompletionQueue {state}>"
