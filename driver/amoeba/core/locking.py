"""Calls of several threads, one at a time: a class whose public methods hold the lock of progress meanwhile."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from amoeba.core.guard import Guard

__all__ = ["Attended", "Awaited", "Closable", "Lockable", "Locker", "guarded"]


class Closable(Protocol):
    """What is closed when nobody knows it any more."""

    def close(self) -> None: ...


class Attended(Protocol):
    """What automatic progress does something for. It is forgotten when nobody else knows it any more."""

    @property
    def closed(self) -> bool: ...

    def _attend(self) -> bool:
        """Go on with what can be done now; whether a NIC still works on something."""

    def _arm(self) -> bool | None:
        """Ask NICs for an interrupt when there is something to go on with. False: not all of it causes any."""


class Awaited(Attended, Protocol):
    """What goes on when a descriptor is ready."""

    def _awaits(self) -> tuple[int, float | None] | None:
        """The descriptor, and when on the clock of ``time.monotonic`` it goes on even so; None if for nothing."""


class Locker(Protocol):
    """Who makes progress by itself, and holds the lock meanwhile: ``transport/progress``.

    Held by ``with``, which raises what has ended the progress.
    """

    @property
    def guard(self) -> Guard:
        """The lock alone, whatever has gone wrong."""

    @property
    def rounds(self) -> int:
        """How often a little time has passed."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Raise what has ended the progress."""

    def attend(self, attended: Attended) -> None:
        """Do something for this in every round."""

    def watch(self, awaited: Awaited) -> None:
        """The same, and when its descriptor is ready."""

    def wake(self) -> None:
        """There is something to do."""

    def wait_for(self, ready: Callable[[], object], timeout: float | None) -> None:
        """Sleep until something is so, at most ``timeout`` seconds, without the lock, which is held."""

    def call_when(self, ready: Callable[[], object], call: Callable[[], object]) -> Callable[[], None]:
        """Have ``call`` called, once, as soon as something is so; returns what makes it forgotten."""

    def advance(self) -> None:
        """Let a little time pass for a call that waits for something."""

    def close_later(self, abandoned: Closable) -> None:
        """Close what nobody knows any more, without waiting for the lock here."""

    def stop(self) -> None:
        """End the progress."""


class Lockable(Protocol):
    """What :func:`guarded` takes."""

    _auto: Any
    _given: Any
    """What :meth:`_take_back` needs, None after a call that it cannot undo; kept until the call is over."""

    def _take_back(self, result: object) -> None:
        """A call has returned this, but an interruption kept it from whoever made the call."""


T = TypeVar("T", bound=Lockable)
_ALWAYS_FREE = ("closed", "forked")
"""What asks nothing of anybody."""
_EVEN_AFTER_FAILURES = ("close",)


def _in_turn(function: Callable[..., Any], *, even_after_failures: bool) -> Callable[..., Any]:
    """A method that holds the lock, and works or does not when progress has failed."""

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
            if finished:  # a signal's handler has come between, and nobody gets the result
                with guard:
                    self._take_back(result)
            raise
        if self._given is not None:
            self._given = None
        return result

    return called


_guarded: dict[type, type] = {}
"""By the class that they are like."""


def guarded(cls: type[T]) -> type[T]:
    """A class like this one, of which every public method and property holds the lock of its fabric meanwhile.

    Coroutines do not: they wait.
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
