"""Calls of the program's functions, and which threads have their turns meanwhile."""

import functools
import threading
from collections.abc import Callable
from typing import Any

from amoeba.embed import without_fair_lock
from amoeba.openucx.ucp.worker_base import WorkerBase

__all__ = ["call_aside", "caller", "elsewhere"]


def caller(is_deputy: Callable[[], int]) -> Callable[..., Any]:
    """Return what calls the program's functions for requests and messages: ``call(function, *arguments)``.

    A deputy (``embed/deputy.c``) lets other threads have their turns meanwhile. The function may wait for the thread
    whose call the deputy makes: that thread goes on, and calls again.
    """

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return call_aside(function, *arguments) if is_deputy() else function(*arguments)

    return call


def call_aside(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the program's that may wait for another thread, which has its turns meanwhile."""
    return without_fair_lock(functools.partial(function, *arguments))


def elsewhere(worker: WorkerBase) -> bool:
    """Whether another thread is inside a callback of this worker's progress."""
    return worker.progressing not in (0, threading.get_ident())
