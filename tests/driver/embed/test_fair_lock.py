"""The lock of all calls of C's: tests of programs notice who sleeps under it."""

import os
import subprocess
import sys

from tests.support.programs.fixtures import watched

PROGRAM = """
import functools, os, select, socket
from amoeba.embed.fair_lock import FAIR_LOCK, without_fair_lock
ready, write = os.pipe()
os.write(write, b"x")
poll = select.poll()
poll.register(ready)
def sleeps(seconds):
    return poll.poll(seconds)
sleeps(None)
with FAIR_LOCK:
    sleeps(1000)
    without_fair_lock(functools.partial(sleeps, None))
    socket.getaddrinfo("127.0.0.1", 1)
    {under_the_lock}
"""


def said_by(under_the_lock):
    """Return what a program says that does this under the lock."""
    environment = watched({**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    code = PROGRAM.format(under_the_lock=under_the_lock)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    return [line for line in done.stderr.splitlines() if "slept under the lock" in line]


def test_short_sleeps_and_sleeps_without_the_lock_are_nobody_s_business():
    assert said_by("pass") == []


def test_sleeps_under_the_lock_and_the_resolution_of_names_are_noticed():
    assert said_by("sleeps(None)") == ["slept under the lock: poll for None seconds"]
    assert said_by("sleeps(1001)") == ["slept under the lock: poll for 1.001 seconds"]
    assert said_by("socket.getaddrinfo('localhost', 1)") == [
        "slept under the lock: getaddrinfo('localhost') for None seconds"
    ]
