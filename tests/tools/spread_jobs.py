"""Jobs for tests of ``amoeba_tools.spread``: functions that workers import."""

import os
import signal
import sys
import threading
import time
from pathlib import Path


def square(number):
    return number * number


def fragile(number):
    """The square; 3 and 6 end their worker, 5 and 7 raise."""
    if number == 3:
        print("about to die", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise ValueError(f"not {number}")
    if number == 6:
        os._exit(7)
    if number == 7:
        sys.exit("no more")
    return square(number)


def unsendable(number):
    return threading.Lock()


def whose(number):
    return os.getpid()


def meet(folder):
    """Wait until somebody else is here, too: two jobs at the same time."""
    mine = Path(folder) / str(os.getpid())
    mine.touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < 2:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def linger(path):
    """Start a child, say who both are, and go on for ever."""
    child = os.fork()
    if not child:
        time.sleep(1000)
    Path(path).write_text(f"{os.getpid()} {child}")
    time.sleep(1000)


def take_the_host_down_once(path):
    """End the process that has started this one, unless that was done before."""
    if Path(path).exists():
        return "done"
    Path(path).touch()
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)
    return None
