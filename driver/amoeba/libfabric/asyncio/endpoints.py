"""The operations of endpoints, for ``await``."""

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.libfabric.asyncio.waiters import Home, Stream
from amoeba.libfabric.asyncio.watching import within
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, CqFormat, OpFlags
from amoeba.libfabric.objects.operations.atomics import AtomicOperations
from amoeba.libfabric.objects.operations.messages import MessageOperations
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.operations.rma import RmaOperations
from amoeba.libfabric.objects.queues.completion import CompletionQueue, Entry
from amoeba.libfabric.objects.reporting import receive_queues, transmit_queue
from amoeba.libfabric.objects.triggered import TriggeredContext

if TYPE_CHECKING:
    from amoeba.libfabric.objects.endpoints.transmit import Posting
    from amoeba.libfabric.objects.memory_region import MemoryRegion

__all__ = ["AsyncEndpoint", "AsyncReceiver", "Completions"]

P = ParamSpec("P")
R = TypeVar("R")
_MANY = OpFlags.FI_MULTI_RECV | OpFlags.FI_COMPLETION


class Completions(Home, Protocol):
    """The source of completions: an :class:`amoeba.aio.AsyncCompletionQueue`."""

    @property
    def queue(self) -> CompletionQueue[Any]:
        """The queue in which the operations report."""

    def _expect(self, token: Any, context: Any, others: Sequence[Home]) -> "asyncio.Future[tuple[Entry, int]]":
        """Return the future of the operation that is about to be posted with ``token`` as its context.

        The operation's entry comes here or to one of ``others``. Raises FI_EINVAL if an operation with this token is
        awaited already.
        """

    def _expect_many(self, token: Any, context: Any, others: Sequence[Home]) -> Stream:
        """Return the stream of a receive with FI_MULTI_RECV. Raises as :meth:`_expect`."""

    def _forget(self, token: Any) -> None:
        """Forget an operation that was not posted, or will not complete."""

    async def _retry(self, post: Callable[[], None]) -> None:
        """Post as soon as the ring has free space."""


def _performing(
    call: Callable[Concatenate[Any, P], None], result: "Callable[[tuple[Entry, int]], R]", *, receives: bool
) -> "Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]":
    """Make a coroutine method of an operation; ``result`` computes its value from the entry and the peer's number.

    ``receives``: cancel the operation when its task no longer waits for it.
    """
    parameters = list(inspect.signature(call).parameters.values())[1:]
    signature = inspect.Signature(parameters)

    @functools.wraps(call)
    async def perform(self: "AsyncReceiver", /, *args: P.args, **kwargs: P.kwargs) -> R:
        posting = getattr(self.endpoint, call.__name__)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = bound.arguments
        named["flags"] |= OpFlags.FI_COMPLETION
        context = named["msg"].context if "msg" in named else named["context"]
        if receives:
            self._check_receive(named["flags"])

        def post(token: Any) -> None:
            if "msg" in named:
                named["msg"] = dataclasses.replace(named["msg"], context=token)
            else:
                named["context"] = token
            posting(*bound.args, **bound.kwargs)

        claims = bool(named["flags"] & OpFlags.FI_CLAIM)
        if claims and context is None:
            raise fabric_error(Errno.FI_EINVAL, "a message is claimed by a context that nothing else has, got None")
        # these are known by the context that the application made
        known = claims or isinstance(context, TriggeredContext)
        told = await self._perform(post, context if known else object(), context, take_back=receives)
        return result(told)

    return perform


def _entry(told: tuple[Entry, int]) -> Entry:
    return told[0]


def _transmission(
    call: Callable[Concatenate[Any, P], None],
) -> "Callable[Concatenate[AsyncEndpoint, P], Coroutine[Any, Any, Entry]]":
    """Make the coroutine method of an operation that transmits."""
    return _performing(call, _entry, receives=False)


def _injection(
    call: Callable[Concatenate[Any, P], None],
) -> "Callable[Concatenate[AsyncEndpoint, P], Coroutine[Any, Any, None]]":
    """Make the coroutine method of an operation without completion, which waits only for space in the ring."""

    @functools.wraps(call)
    async def perform(self: "AsyncEndpoint", /, *args: P.args, **kwargs: P.kwargs) -> None:
        await self._post(lambda: getattr(self.endpoint, call.__name__)(*args, **kwargs))

    return perform


def _receive(
    call: Callable[Concatenate[Any, P], None],
) -> "Callable[Concatenate[AsyncReceiver, P], Coroutine[Any, Any, Entry]]":
    """Make the coroutine method of a receive."""
    return _performing(call, _entry, receives=True)


def _receive_from(
    call: Callable[Concatenate[Any, P], None],
) -> "Callable[Concatenate[AsyncReceiver, P], Coroutine[Any, Any, tuple[Entry, int]]]":
    """Make the coroutine method of a receive that returns the sender, too."""
    return _performing(call, lambda told: told, receives=True)


class AsyncReceiver:
    """The receives of an endpoint, of a receive context or of a shared one, with the same arguments, for ``await``.

    Each returns the entry in the completion queue, or raises the operation's error; ``recvfrom`` and ``trecvfrom``
    return (entry, number of the sender). While the NIC holds as many receives as it can, a new one waits. When a task
    is cancelled or its timeout has passed, its receive is cancelled, too.

    A shared receive context has its entries come to the queue of the endpoint that the message was for: ``others``
    are those of all its endpoints, also of later ones, beside ``completions``. The same event loop reads them all.
    Closing one of them ends the waiting receives with FI_EBADF.

    ``timeout``: seconds after which waiting ends with FI_ETIMEDOUT; None: without limit.
    Raises FI_EINVAL for an endpoint whose receives report to another queue; each receive does, if by then an
    endpoint of the shared context does.
    """

    def __init__(
        self,
        completions: Completions,
        endpoint: ReceiveOperations,
        timeout: float | None = None,
        others: Sequence[Completions] = (),
    ) -> None:
        self.completions = completions
        self.others = tuple(others)
        self.endpoint: Any = endpoint
        self.timeout = timeout
        self._turn = asyncio.Lock()
        self._check_endpoint()

    def _check_endpoint(self) -> None:
        self._check_receive(OpFlags(0))

    recv = _receive(ReceiveOperations.recv)
    recvfrom = _receive_from(ReceiveOperations.recv)
    recvv = _receive(ReceiveOperations.recvv)
    recvmsg = _receive(ReceiveOperations.recvmsg)
    trecv = _receive(ReceiveOperations.trecv)
    trecvfrom = _receive_from(ReceiveOperations.trecv)
    trecvv = _receive(ReceiveOperations.trecvv)
    trecvmsg = _receive(ReceiveOperations.trecvmsg)

    def recv_each(
        self,
        buf: Buffer,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
    ) -> AsyncIterator[tuple[Entry, int]]:
        """Receive message after message into ``buf`` (FI_MULTI_RECV): (entry, number of the sender) of each.

        The entry's ``buf`` is where the message begins. The iteration ends when the NIC has released the buffer. If
        ``aclose()``, a failure or a timeout between two messages ends it before, the receive is cancelled. The buffer
        is in use until the cancellation is done (:meth:`AsyncCompletionQueue.drain`).
        Raises FI_EINVAL if entries of the queue have no ``buf``.
        """

        def post(token: Any) -> None:
            self.endpoint.recv(buf, src_addr=src_addr, desc=desc, context=token, flags=_MANY)

        return self._each(post, context)

    def trecv_each(
        self,
        buf: Buffer,
        tag: int,
        ignore: int = 0,
        *,
        src_addr: int = FI_ADDR_UNSPEC,
        desc: "MemoryRegion | None" = None,
        context: Any = None,
    ) -> AsyncIterator[tuple[Entry, int]]:
        """Call :meth:`recv_each` for messages with this tag, but for the bits in ``ignore``."""

        def post(token: Any) -> None:
            self.endpoint.trecv(buf, tag, ignore, src_addr=src_addr, desc=desc, context=token, flags=_MANY)

        return self._each(post, context)

    def _check_receive(self, flags: OpFlags) -> None:
        """Raise FI_EINVAL if receives report to another queue, FI_EBADFLAGS for a receive with several entries."""
        read = [each.queue for each in (self.completions, *self.others)]
        for queue in receive_queues(self.endpoint):
            if queue not in read:
                raise fabric_error(
                    Errno.FI_EINVAL,
                    f"receives of {self.endpoint!r} do not report to this queue alone, but also to {queue!r}",
                )
        if flags & OpFlags.FI_MULTI_RECV:
            raise fabric_error(Errno.FI_EBADFLAGS, "FI_MULTI_RECV has several entries: recv_each() has them")

    async def _perform(
        self, post: Callable[[Any], None], token: Any, context: Any, *, take_back: bool = False
    ) -> tuple[Entry, int]:
        """Post an operation and wait for its end; if the wait is cancelled, call ``take_back``."""

        async def performed() -> tuple[Entry, int]:
            async with self._turn:
                future = self.completions._expect(token, context, self.others)
                await self._try(post, token)
            try:
                return await future
            except asyncio.CancelledError:
                if take_back or isinstance(token, TriggeredContext):
                    self._take_back(token)
                raise

        told: tuple[Entry, int] = await within(self.timeout, performed(), "the operation")
        return told

    async def _each(self, post: Callable[[Any], None], context: Any) -> AsyncIterator[tuple[Entry, int]]:
        self._check_receive(OpFlags(0))
        for queue in (each.queue for each in (self.completions, *self.others)):
            if queue.format < CqFormat.FI_CQ_FORMAT_DATA:
                raise fabric_error(Errno.FI_EINVAL, f"{queue!r} does not say where messages begin")
        token = object()
        async with self._turn:
            stream = self.completions._expect_many(token, context, self.others)
            await within(self.timeout, self._try(post, token), "posting")
        try:
            while not stream.over or stream.told:
                yield await within(self.timeout, anext(stream), "a message")
        finally:
            stream.heard = False
            if not stream.over:
                self._take_back(token)

    async def _try(self, post: Callable[[Any], None], token: Any) -> None:
        """Post an expected operation as soon as the ring has free space."""
        try:
            await self.completions._retry(lambda: post(token))
        except BaseException:
            self.completions._forget(token)
            raise

    async def _post(self, post: Callable[[], None]) -> None:
        """Post an operation without completion."""

        async def posted() -> None:
            async with self._turn:
                await self.completions._retry(post)

        await within(self.timeout, posted(), "posting")

    def _take_back(self, token: Any) -> None:
        try:
            self.endpoint.cancel(token)
        except FabricError as error:  # it has met a message, or was started
            if error.fi_errno is Errno.FI_EOPBADSTATE:  # no endpoint shares the context whose queue could tell of it
                self.completions._forget(token)


class AsyncEndpoint(AsyncReceiver):
    """The operations of :class:`amoeba.Endpoint`, with the same arguments, for ``await``.

    Each returns the operation's entry in the completion queue, or raises the operation's error. If the ring is full,
    operations wait for space in fair order. ``inject...`` have no completion, and wait for nothing else. An operation
    that waits for its counter (FI_TRIGGER) is cancelled with its task. Receives are those of :class:`AsyncReceiver`,
    if they report to the same queue.

    ``timeout``: seconds after which waiting ends with FI_ETIMEDOUT; None: without limit.
    Raises FI_EINVAL for an endpoint that reports to another queue.
    """

    def __init__(
        self, completions: Completions, endpoint: "Posting", timeout: float | None = None
    ) -> None:
        super().__init__(completions, endpoint, timeout)

    def _check_endpoint(self) -> None:
        if transmit_queue(self.endpoint) is not self.completions.queue:
            raise fabric_error(Errno.FI_EINVAL, f"{self.endpoint!r} does not report to {self.completions.queue!r}")

    write = _transmission(RmaOperations.write)
    writev = _transmission(RmaOperations.writev)
    writemsg = _transmission(RmaOperations.writemsg)
    writedata = _transmission(RmaOperations.writedata)
    inject_write = _injection(RmaOperations.inject_write)
    inject_writedata = _injection(RmaOperations.inject_writedata)
    read = _transmission(RmaOperations.read)
    readv = _transmission(RmaOperations.readv)
    readmsg = _transmission(RmaOperations.readmsg)
    atomic = _transmission(AtomicOperations.atomic)
    atomicv = _transmission(AtomicOperations.atomicv)
    atomicmsg = _transmission(AtomicOperations.atomicmsg)
    inject_atomic = _injection(AtomicOperations.inject_atomic)
    fetch_atomic = _transmission(AtomicOperations.fetch_atomic)
    fetch_atomicv = _transmission(AtomicOperations.fetch_atomicv)
    fetch_atomicmsg = _transmission(AtomicOperations.fetch_atomicmsg)
    compare_atomic = _transmission(AtomicOperations.compare_atomic)
    compare_atomicv = _transmission(AtomicOperations.compare_atomicv)
    compare_atomicmsg = _transmission(AtomicOperations.compare_atomicmsg)

    send = _transmission(MessageOperations.send)
    sendv = _transmission(MessageOperations.sendv)
    sendmsg = _transmission(MessageOperations.sendmsg)
    senddata = _transmission(MessageOperations.senddata)
    inject = _injection(MessageOperations.inject)
    injectdata = _injection(MessageOperations.injectdata)
    tsend = _transmission(MessageOperations.tsend)
    tsendv = _transmission(MessageOperations.tsendv)
    tsendmsg = _transmission(MessageOperations.tsendmsg)
    tsenddata = _transmission(MessageOperations.tsenddata)
    tinject = _injection(MessageOperations.tinject)
    tinjectdata = _injection(MessageOperations.tinjectdata)
