"""The fair lock of calls of several threads: one at a time, through any library of the process."""

import functools
import os
import time
from collections.abc import Callable
from typing import TypeVar

from amoeba.core.guard import Guard

__all__ = ["FAIR_LOCK", "wait_until", "without_fair_lock"]

T = TypeVar("T")

FAIR_LOCK = Guard()
"""Held while Python executes a call of C's. A C callback may call again in its thread."""


def wait_until(
    ready: Callable[[], object], rest: Callable[[float | None], object], timeout: float | None = None
) -> bool:
    """Wait in a call of C's while other threads' calls proceed; returns whether ``ready`` was true in time.

    Parameters
    ----------
    ready : callable
        Called under the lock, between two rests. Lets a little time pass, and does the work that needs no waiting;
        most often it reads a queue.
    rest : callable
        Sleeps without the lock until there may be work, at most the given seconds, and does nothing else:
        :meth:`amoeba.embed.process_nic.ProcessNic.rest`.
    timeout : float, optional
        Seconds; 0 only asks.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not ready():
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        without_fair_lock(functools.partial(rest, left))
    return True


def without_fair_lock(function: Callable[[], T]) -> T:
    """Call a function while other threads' calls proceed: one that sleeps, or is safe for threads by itself.

    Objects of a fabric with automatic progress are safe: ``without_fair_lock(lambda: queue.sread(timeout=1.0))``.
    """
    if not FAIR_LOCK.owned:
        return function()
    results: list[T] = []
    FAIR_LOCK.without(lambda: results.append(function()))
    return results[0]


def _after_fork_in_child() -> None:
    FAIR_LOCK.forked()
    FAIR_LOCK.__exit__()


os.register_at_fork(
    before=FAIR_LOCK.__enter__,  # so that no other thread is in a call, which the child would not have
    after_in_parent=FAIR_LOCK.__exit__,
    after_in_child=_after_fork_in_child,
)
