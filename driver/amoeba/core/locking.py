"""Calls of several threads, one at a time: classes whose public methods hold the lock of progress."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from amoeba.core.guard import Guard

__all__ = ["Attended", "Awaited", "Closable", "Lockable", "Locker", "guarded"]


class Closable(Protocol):
    """An object that is closed once no one refers to it."""

    def close(self) -> None: ...


class Attended(Protocol):
    """An object that automatic progress works for, until nothing else refers to the object."""

    @property
    def closed(self) -> bool: ...

    def _attend(self) -> bool:
        """Do the work that is possible now; returns whether a NIC still works on something."""

    def _arm(self) -> bool | None:
        """Ask NICs for an interrupt when there is work to do. False: some of the work causes no interrupt."""


class Awaited(Attended, Protocol):
    """An object that proceeds when a descriptor is ready."""

    def _awaits(self) -> tuple[int, float | None] | None:
        """Return the descriptor, and the ``time.monotonic`` time to proceed even so; None to wait for nothing."""


class Locker(Protocol):
    """The maker of automatic progress, which holds the lock meanwhile: ``transport/progress``.

    ``with`` holds the lock, and raises the error that has ended the progress.
    """

    @property
    def guard(self) -> Guard:
        """The lock alone, whatever has gone wrong."""

    @property
    def rounds(self) -> int:
        """Number of short waits so far."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Raise the error that has ended the progress."""

    def attend(self, attended: Attended) -> None:
        """Work for this object in every round."""

    def watch(self, awaited: Awaited) -> None:
        """Work for this object in every round, and when its descriptor is ready."""

    def wake(self) -> None:
        """Wake the progress: there is work to do."""

    def wait_for(self, ready: Callable[[], object], timeout: float | None) -> None:
        """Sleep until the condition is true, at most ``timeout`` seconds, without the lock, which is held."""

    def call_when(self, ready: Callable[[], object], call: Callable[[], object]) -> Callable[[], None]:
        """Have ``call`` called once, as soon as the condition is true; returns a function that cancels the call."""

    def advance(self) -> None:
        """Let a little time pass for a call that waits."""

    def close_later(self, abandoned: Closable) -> None:
        """Close an object without references, without waiting for the lock here."""

    def stop(self) -> None:
        """End the progress."""


class Lockable(Protocol):
    """An object whose class :func:`guarded` accepts."""

    _auto: Any
    _given: Any
    """Input of :meth:`_take_back`, kept until the call is over; None after a call that cannot be undone."""

    def _take_back(self, result: object) -> None:
        """Undo a call whose result an interruption kept from the caller."""


T = TypeVar("T", bound=Lockable)
_ALWAYS_FREE = ("closed", "forked")
"""Members that need no lock."""
_EVEN_AFTER_FAILURES = ("close",)


def _in_turn(function: Callable[..., Any], *, even_after_failures: bool) -> Callable[..., Any]:
    """Wrap a method so that the call holds the lock, and, if so asked, works even after progress has failed."""

    @functools.wraps(function)
    def called(self: Lockable, /, *args: Any, **kwargs: Any) -> Any:
        auto = self._auto
        assert auto is not None
        guard = auto.guard
        depth = guard.depth
        finished = False
        try:
            with guard if even_after_failures else auto:
                result = function(self, *args, **kwargs)
                finished = True
        except BaseException:
            guard.recover(depth)
            if finished:  # a signal handler interrupted the return, and the result is lost
                with guard:
                    self._take_back(result)
            raise
        if self._given is not None:
            self._given = None
        return result

    return called


_guarded: dict[type, type] = {}
"""Guarded classes by the class that they mimic."""


def guarded(cls: type[T]) -> type[T]:
    """Return a class like this one whose public methods and properties hold the lock of its fabric.

    Coroutines do not hold the lock: they wait.
    """
    if cls not in _guarded:
        _guarded[cls] = type(cls.__name__, (cls,), dict(_guarded_members(cls)))
    return _guarded[cls]


def _guarded_members(cls: type) -> Iterator[tuple[str, Any]]:
    for name in ("__doc__", "__module__", "__qualname__"):
        yield name, getattr(cls, name)
    for name, member in inspect.getmembers_static(cls):
        if name.startswith("_") or name in _ALWAYS_FREE:
            continue
        guard = functools.partial(_in_turn, even_after_failures=name in _EVEN_AFTER_FAILURES)
        if isinstance(member, types.FunctionType) and not inspect.iscoroutinefunction(member):
            yield name, guard(member)
        elif isinstance(member, property):
            reads, writes = (each and guard(each) for each in (member.fget, member.fset))
            yield name, property(reads, writes, None, member.__doc__)
