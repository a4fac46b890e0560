"""A process that runs jobs: ``python -m amoeba_tools.spread.worker DESCRIPTOR`` of a socket to its parent.

The worker receives (function, argument) and answers (result, failure), until the parent closes the socket. The worker
has its own process group: programs that a job has started, such as a compiler, end with the worker, even if the
parent is killed.
"""

import faulthandler
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection

from amoeba_tools.spread.jobs import attempt

__all__ = ["serve"]


def serve(descriptor: int) -> None:
    """Do what comes, until nothing can come any more."""
    os.set_inheritable(descriptor, False)
    faulthandler.enable()  # what a crash says comes into its job's failure
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    with Connection(descriptor) as connection:
        while True:
            try:
                function, argument = connection.recv()
            except (EOFError, ConnectionResetError):
                return
            except Exception as error:  # what was sent cannot be imported here
                connection.send((None, f"{type(error).__name__}: {error}"))
                continue
            answer = attempt(function, argument)
            try:
                connection.send(answer)
            except BrokenPipeError:
                return
            except Exception as error:
                connection.send((None, f"its result cannot be sent: {error}"))


def _end_with(descriptor: int) -> None:
    """Wait for the other end to be closed, while a job runs, too."""
    closed = select.poll()
    closed.register(descriptor, 0)  # POLLHUP and POLLERR are always told
    closed.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
