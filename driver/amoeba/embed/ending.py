"""The end of a process that C calls Python in: what is done then, and in which order.

It is done by Python's ``atexit``, to which a C program comes by C's (``start.c``): at the end of ``main`` and by
``exit``, not by ``_exit`` or a signal; then peers learn from the operating system that nobody is there any more.
"""

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

from amoeba.embed.turns import TURNS

__all__ = ["arrange_the_end", "at_end", "has_ended", "let_none_in"]

_PATIENCE = 0.5
"""Seconds that the end of a process waits for calls of other threads, which may be asleep for good."""


_functions: list[Callable[[], object]] = []
_doors: list[Callable[[], object]] = []
_ended: list[int] = []
"""The process that has ended, if this one has."""


def arrange_the_end() -> None:
    """Have Python call what is to be done: before all that is to be called so far, such as what closes devices."""
    atexit.unregister(_end)
    atexit.register(_end)


def let_none_in(shut: Callable[[], object]) -> None:
    """Call this at the end, before anything is closed: no thread of C's calls into Python any more."""
    _doors.append(shut)


def has_ended() -> bool:
    """Return whether the process ends: calls that have waited for their turn find everything closed."""
    return os.getpid() in _ended


def at_end(function: Callable[[], object]) -> None:
    """Call this when the process ends, before what was given earlier; what it raises is ignored.

    MPI finishes before all of it, as it may use what is closed here.
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
    while not (taken := TURNS.enter_now()) and time.monotonic() < deadline:
        time.sleep(0.001)
    try:
        yield
    finally:
        if taken:
            TURNS.__exit__()


def _finish_mpi() -> None:
    """Have MPI finish while Python still can be called: mpi4py does so only when Python is gone."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
