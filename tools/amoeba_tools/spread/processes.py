"""Jobs in processes of this machine.

The standard library's pools lose all jobs when a worker dies, and do not report which job the worker had. They also
import the program's main module again: a program without ``if __name__ == "__main__"`` starts itself over and over.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

from amoeba_tools.spread.jobs import Ending, Job

__all__ = ["Processes", "Worker"]

_SHOWN = 2000
"""Characters of what a worker has printed that are shown when it dies."""
_DYING = 5.0
"""Seconds that a process may take to end."""


class Processes:
    """Workers on this machine, each of which does one job at a time. One that dies is replaced.

    Raises FI_EINVAL for less than one.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise fabric_error(Errno.FI_EINVAL, f"expected one process or more, got {workers}")
        self.workers = workers

    @property
    def name(self) -> str:
        return f"{self.workers} processes"

    def run(self, function: Callable[[Any], Any], jobs: Sequence[Job]) -> Generator[Ending]:
        """Yield the endings as they come. Workers live until the last ending."""
        waiting = deque(enumerate(jobs))
        idle: list[Worker] = []
        busy: dict[Worker, tuple[int, Job]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.workers:
                    worker = idle.pop() if idle else Worker()
                    index, job = waiting.popleft()
                    if worker.tell(function, job.argument):
                        busy[worker] = index, job
                    else:  # it has died since it did its last job
                        worker.end()
                        waiting.appendleft((index, job))
                for worker in _of_whom_something_is_heard(busy):
                    index, job = busy.pop(worker)
                    answer = worker.answer()
                    if answer is None:
                        yield Ending(index, job.name, failure=worker.end())
                    else:
                        idle.append(worker)
                        yield Ending(index, job.name, *answer)
        finally:
            for worker in [*idle, *busy]:
                worker.end()


def _of_whom_something_is_heard(busy: "dict[Worker, tuple[int, Job]]") -> "list[Worker]":
    """Workers that have answered or died."""
    ready = wait([source for worker in busy for source in (worker.connection, worker.death)])
    return [worker for worker in busy if worker.connection in ready or worker.death in ready]


class Worker:
    """A process of :mod:`amoeba_tools.spread.worker`."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed in end()
            path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "amoeba_tools.spread.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for who waits for it; and what it starts ends with it
            )
        self.connection = Connection(ours.detach())
        self.death = os.pidfd_open(self._process.pid)

    def tell(self, function: Callable[[Any], Any], argument: Any) -> bool:
        """Give it a job; False if it is not there any more."""
        try:
            self.connection.send((function, argument))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def answer(self) -> tuple[Any, str] | None:
        """Wait for what comes of its job; None if it has died."""
        wait([self.connection, self.death])
        try:
            if self.connection.poll():
                result, failure = self.connection.recv()
                return result, failure
        except (EOFError, ConnectionResetError):
            pass
        wait([self.death], _DYING)  # its socket is closed before it has ended
        return None

    def end(self) -> str:
        """End it, and what it has started. How it ended, and what it had said."""
        with contextlib.suppress(ProcessLookupError):  # before it is waited for: until then its number is its own
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        os.close(self.death)
        self.connection.close()
        with self._output as output:
            output.seek(max(output.seek(0, os.SEEK_END) - _SHOWN, 0))
            said = output.read().decode(errors="replace").strip()
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
        return f"its worker {how}{': ' + said if said else ''}"
