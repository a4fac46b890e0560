"""Waiting for the end of a caller's own operations, whatever else completes meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, FabricError, TryAgainError, fabric_error, type_error
from amoeba.core.waiting import WAIT_SLICE
from amoeba.libfabric.objects.checks import check_number, check_timeout
from amoeba.transport.requests import Completion

__all__ = ["Gathering"]

_OK = int(ReturnCode.OK)
E = TypeVar("E")


class _Token:
    """The context by which a call recognizes its operation."""


class Gathering(Generic[E]):
    """Calls of a completion queue that wait for a given number of operations. ``E`` are its entries."""

    _entry: Callable[[Completion], Any]
    _collected: deque[Completion]
    _errors: deque[Completion]
    _in_hand: list[Completion]

    def _check_waiting(self) -> None:
        raise NotImplementedError

    def _wait(self, count: int, timeout: float | None, cond: int | None) -> list[Completion]:
        """Wait for up to ``count`` completions, left in hand; none after the timeout. Raises FI_EAVAIL for errors."""
        raise NotImplementedError

    def _put_back(self, count: int = 0) -> None:
        raise NotImplementedError

    def _show(self) -> None:
        raise NotImplementedError

    def _failure(self, completed: Completion) -> FabricError:
        """Return the error of a failed operation."""
        raise NotImplementedError

    def wait_for(self, count: int, timeout: float | None = None) -> list[E]:
        """Wait until ``count`` operations are over, take their entries, and return them in the order of the queue.

        Raises the error of the first that failed, once all are over; then all entries are taken. Raises FI_ETIMEDOUT
        after ``timeout`` seconds (None: no limit), FI_EINVAL for a negative ``count``, and the errors of
        :meth:`CompletionQueue.sread`. Then all entries are left in the queue.
        """
        count, timeout = check_number("count", count), check_timeout(timeout)
        self._check_waiting()
        return self._entries_of(self._gather(count, lambda completed: True, timeout, []))

    def post_and_wait(
        self, call: Callable[..., object], *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> E:
        """Post an operation, and wait until it is over: ``queue.post_and_wait(endpoint.write, data, peer, at, key)``.

        ``call`` is a method that posts one operation, of an endpoint that completes to this queue; the arguments are
        its own, without ``context``. If the ring is full, the operation is posted as soon as there is free space.
        Returns the operation's entry, whose context is None; other entries stay in the queue, in their order. The
        operation must write an entry: with FI_SELECTIVE_COMPLETION, pass ``flags=OpFlags.FI_COMPLETION``.

        Raises the errors of ``call``, and the operation's own error. Raises FI_ETIMEDOUT after ``timeout`` seconds
        (None: no limit): the operation is still outstanding, and its entry will come to the queue. Raises FI_EINVAL
        for a ``context``, ArgumentTypeError for an object that cannot be called, and the errors of
        :meth:`CompletionQueue.sread`.
        """
        timeout = check_timeout(timeout)
        if not callable(call):
            raise type_error("call", "a method that posts an operation, as endpoint.write", call)
        if "context" in kwargs:
            raise fabric_error(Errno.FI_EINVAL, "context: expected none, as the operation is waited for here")
        self._check_waiting()
        deadline = None if timeout is None else time.monotonic() + timeout
        token, taken = _Token(), list[Completion]()
        while True:
            try:
                call(*args, context=token, **kwargs)
                break
            except TryAgainError:
                if deadline is not None and time.monotonic() >= deadline:
                    self._leave(taken)
                    raise
            except BaseException:
                self._leave(taken)
                raise
            taken += self._next(1, WAIT_SLICE, taken)
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        (completed,) = self._gather(1, lambda completed: completed.context is token, left, taken)
        completed.context = None
        (entry,) = self._entries_of([completed])
        return entry

    def _gather(
        self,
        count: int,
        wanted: Callable[[Completion], bool],
        timeout: float | None,
        taken: list[Completion],
    ) -> list[Completion]:
        """Take the next ``count`` wanted completions; leave all others, and ``taken``, in the queue."""
        deadline = None if timeout is None else time.monotonic() + timeout
        ours: list[Completion] = []
        while len(ours) < count:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            found = self._next(count - len(ours), left, taken)
            if not found:
                self._leave(taken)
                raise fabric_error(
                    Errno.FI_ETIMEDOUT, f"expected {count} operations to end in {timeout:g} s, {len(ours)} did"
                )
            taken += found
            ours += filter(wanted, found)
        chosen = {id(completed) for completed in ours}
        self._leave(completed for completed in taken if id(completed) not in chosen)
        return ours

    def _next(self, count: int, timeout: float | None, taken: list[Completion]) -> list[Completion]:
        """Return up to ``count`` completions, or one that failed; none after the timeout.

        An interruption leaves ``taken`` in the queue.
        """
        try:
            found = list(self._wait(count, timeout, None))
            self._in_hand = []
            return found
        except ErrorAvailableError:
            return [self._errors.popleft()]
        except BaseException:
            self._leave(taken)
            raise

    def _leave(self, completions: Iterable[Completion]) -> None:
        """Have the next call read these first."""
        self._put_back()
        self._collected.extendleft(reversed(list(completions)))
        self._show()

    def _entries_of(self, ended: list[Completion]) -> list[E]:
        """Return the entries of completions; raise the first one's error if some have failed."""
        for completed in ended:
            if completed.status != _OK:
                raise self._failure(completed)
        return [self._entry(completed) for completed in ended]
