"""Start other programs with an environment, and exit with their status."""

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
"""Exit status for a command that does not exist, as in shells."""
CANNOT_START = 126
"""Exit status for a command that is no program or may not be started."""
_PATIENCE = 5.0
"""Seconds for the others to end by themselves when one has failed, and again after each signal."""
_LOOK = 0.05
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that all processes get. Ctrl-C reaches them from the terminal."""


def launch(command: Sequence[str], environment: Mapping[str, str], count: int = 1) -> int:
    """Run a program, or ``count`` processes of it at once, and wait for their ends.

    Each process gets ``environment`` besides this process' own, and its number from 0 on as AMOEBA_RANK. When one
    process fails, the others have some seconds to end before they are killed. Only started processes are killed.

    Returns
    -------
    int
        Exit status of the first process that failed, or 128 plus the number of the signal that killed the process; 0
        if all succeeded. :data:`NOT_FOUND` or :data:`CANNOT_START` if the program cannot start.
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
    """Forward signals to the processes, and survive Ctrl-C until they have ended."""

    def forward(number: int, frame: FrameType | None) -> None:
        for each in started:
            if each.poll() is None:
                each.send_signal(number)

    def stay(number: int, frame: FrameType | None) -> None:
        """Leave Ctrl-C to the processes, which receive it, too."""

    if threading.current_thread() is not threading.main_thread():  # which alone is notified of signals
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
    """End processes by SIGTERM, and those that ignore SIGTERM by SIGKILL."""
    for each in running:
        each.terminate()
    deadline = time.monotonic() + _PATIENCE
    for each in running:
        try:
            each.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
