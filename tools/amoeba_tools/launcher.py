"""Starting programs of others with an environment, and ending with them."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

__all__ = ["CANNOT_START", "NOT_FOUND", "launch"]

NOT_FOUND = 127
"""Exit status of a command that there is none of, as shells have it."""
CANNOT_START = 126
"""Of one that is no program, or may not be started."""
_PATIENCE = 5.0
"""Seconds for the others to end by themselves when one has failed, and again after each signal."""
_LOOK = 0.05
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals for all of them. Ctrl-C reaches them from the terminal."""


def launch(command: Sequence[str], environment: Mapping[str, str], count: int = 1) -> int:
    """Run a program, or ``count`` of them at once, and wait for their ends.

    Each gets ``environment`` besides this process' own, and its number from 0 on as AMOEBA_RANK. When one fails, the
    others are given some seconds, and then ended; nothing is ended that was not started here.

    Returns
    -------
    int
        The exit status of the first that failed, 128 and the signal's number if one killed it; 0 if none did.
        :data:`NOT_FOUND` and :data:`CANNOT_START` if there is no such program.
    """
    started: list[subprocess.Popen[bytes]] = []
    with _forwarding(started):
        try:
            for number in range(count):
                own = {**os.environ, **environment, "AMOEBA_RANK": str(number)}
                started.append(subprocess.Popen(command, env=own))
        except OSError as error:
            _end(started)
            return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_START
        except BaseException:
            _end(started)
            raise
        return _wait(started)


@contextlib.contextmanager
def _forwarding(started: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Hand signals on; and do not end by Ctrl-C before they have."""

    def forward(number: int, frame: FrameType | None) -> None:
        for each in started:
            if each.poll() is None:
                each.send_signal(number)

    def stay(number: int, frame: FrameType | None) -> None:
        """They have got it, too, and decide."""

    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        yield
        return
    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, stay)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(started: Sequence[subprocess.Popen[bytes]]) -> int:
    failed = 0
    deadline = None
    running = list(started)
    while running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running[0].wait(None if len(started) == 1 else _LOOK)
        for each in running:
            status = each.poll()
            if status and not failed:
                failed = status if status > 0 else 128 - status
                deadline = time.monotonic() + _PATIENCE
        running = [each for each in running if each.poll() is None]
        if deadline is not None and running and time.monotonic() > deadline:
            _end(running)
    return failed


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """By SIGTERM, and those that do not heed it by SIGKILL."""
    for each in running:
        each.terminate()
    deadline = time.monotonic() + _PATIENCE
    for each in running:
        try:
            each.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
