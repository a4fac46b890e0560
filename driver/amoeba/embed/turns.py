"""Calls of several threads, one at a time, whichever library of the process they come through."""

import functools
import os
import time
from collections.abc import Callable
from typing import TypeVar

from amoeba.core.guard import Guard

__all__ = ["TURNS", "out_of_turn", "wait_until"]

T = TypeVar("T")

TURNS = Guard()
"""Held while Python does what C has called. A callback of C's may call again in its thread."""


def wait_until(
    ready: Callable[[], object], rest: Callable[[float | None], object], timeout: float | None = None
) -> bool:
    """Wait in a call of C's, and let other threads' calls have their turns; whether it was ready in time.

    Parameters
    ----------
    ready : callable
        Asked under the lock, between two rests; lets a little time pass, and does what can be done without waiting:
        most often it reads a queue.
    rest : callable
        Sleeps, without the lock, until something may have happened, for the seconds it is given at most, and does
        nothing else: :meth:`amoeba.embed.process_nic.ProcessNic.rest`.
    timeout : float, optional
        Seconds; 0 only asks.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not ready():
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        out_of_turn(functools.partial(rest, left))
    return True


def out_of_turn(function: Callable[[], T]) -> T:
    """Call this while other threads have their turns: what sleeps, or is safe for threads by itself.

    Objects of a fabric with automatic progress are: ``out_of_turn(lambda: queue.sread(timeout=1.0))``.
    """
    if not TURNS.owned:
        return function()
    results: list[T] = []
    TURNS.without(lambda: results.append(function()))
    return results[0]


def _after_fork_in_child() -> None:
    TURNS.forked()
    TURNS.__exit__()


os.register_at_fork(
    before=TURNS.__enter__,  # so that no thread is in a call that the child has not
    after_in_parent=TURNS.__exit__,
    after_in_child=_after_fork_in_child,
)
