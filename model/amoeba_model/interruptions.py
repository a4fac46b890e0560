"""Signals' handlers wait while something is done that must not be left halfway.

Python calls the handlers of signals between two instructions of the main thread, and what a handler raises, such as
KeyboardInterrupt, leaves whatever runs there. A NIC left in the middle of a frame is broken. Blocking signals
is no help: the operating system hands them to another thread, and Python still calls the handler in the main one.
"""

import signal
import threading
import types
from _signal import getsignal as _handler_of  # type: ignore[import-not-found]
from _signal import signal as _set_handler
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["uninterrupted"]

P = ParamSpec("P")
T = TypeVar("T")

_SIGNALS = tuple(
    int(number)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGALRM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGVTALRM,
        signal.SIGPROF,
    )
)
"""Signals for which programs have handlers that raise exceptions."""
_main = threading.main_thread().ident
_get_ident = threading.get_ident

_handlers: dict[int, Callable[[int, types.FrameType | None], Any]] = {}
"""The program's own, while they wait."""
_came: list[tuple[int, types.FrameType | None]] = []
_waiting = False


def _wait(number: int, frame: types.FrameType | None) -> None:
    """Stands in for the program's handlers."""
    if _waiting:
        _came.append((number, frame))
    else:  # it came before the function was called, or after that
        _handlers[number](number, frame)


def uninterrupted(function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """Call a function; the handlers of signals that come meanwhile are called when it is over.

    Takes about a microsecond. Not for functions that wait. The result is lost if a handler raises then.
    """
    global _waiting
    if _waiting or _get_ident() != _main:
        return function(*arguments, **keywords)
    swapped: list[int] = []
    try:
        for number in _SIGNALS:
            handler = _handler_of(number)
            if handler and callable(handler) and handler is not _wait:
                _handlers[number] = handler
                swapped.append(number)
                _set_handler(number, _wait)
        _waiting = True
        return function(*arguments, **keywords)
    finally:
        _waiting = False
        _restore(swapped)


def _restore(numbers: list[int]) -> None:
    """Give signals their own handlers back, then call those whose signals have come: all, whatever they raise."""
    try:
        while numbers:
            _set_handler(numbers[-1], _handlers[numbers[-1]])
            del numbers[-1]
        while _came:
            _handlers_came()
    finally:
        if numbers or _came:
            _restore(numbers)


def _handlers_came() -> None:
    number, frame = _came.pop(0)
    _handlers[number](number, frame)
