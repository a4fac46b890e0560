"""The end of a process that C calls Python in: the last steps, and their order.

Python's ``atexit`` performs the steps. A C program reaches ``atexit`` by C's own (``start.c``): at the end of
``main`` and by ``exit``, not by ``_exit`` or a signal. After those, peers learn from the operating system that the
process is gone.
"""

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

from amoeba.embed.fair_lock import FAIR_LOCK

__all__ = ["arrange_the_end", "at_end", "has_ended", "let_none_in"]

_PATIENCE = 0.5
"""Seconds that the end of a process waits for calls of other threads, which may sleep forever."""


_functions: list[Callable[[], object]] = []
_doors: list[Callable[[], object]] = []
_ended: list[int] = []
"""The process, once it has ended."""


def arrange_the_end() -> None:
    """Register the last steps with Python: before all registered so far, such as the closing of devices."""
    atexit.unregister(_end)
    atexit.register(_end)


def let_none_in(shut: Callable[[], object]) -> None:
    """Call this at the end, before anything is closed: no C thread calls into Python any more."""
    _doors.append(shut)


def has_ended() -> bool:
    """Return whether the process ends: calls that have waited for the lock find everything closed."""
    return os.getpid() in _ended


def at_end(function: Callable[[], object]) -> None:
    """Call this function when the process ends, before functions given earlier; its exceptions are ignored.

    MPI finishes before all of them, as MPI may use objects that are closed here.
    """
    _functions.append(function)
    arrange_the_end()


def _end() -> None:
    try:
        _finish_mpi()
    finally:
        _ended[:] = [os.getpid()]
        for shut in _doors:
            shut()
        while _functions:
            _call(_functions.pop())


def _call(function: Callable[[], object]) -> None:
    with _turn(), contextlib.suppress(Exception):
        function()


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    deadline = time.monotonic() + _PATIENCE
    while not (taken := FAIR_LOCK.enter_now()) and time.monotonic() < deadline:
        time.sleep(0.001)
    try:
        yield
    finally:
        if taken:
            FAIR_LOCK.__exit__()


def _finish_mpi() -> None:
    """Have MPI finish while Python still runs: mpi4py would do so only when Python is gone."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
