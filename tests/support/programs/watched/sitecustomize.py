"""For C programs in tests: reports what may sleep for long while no other thread's call can proceed.

Python imports this module at its start, where its folder is on PYTHONPATH. A call of C's holds the lock of all calls
(``embed/fair_lock.py``). The call gives it back while it sleeps, or resolves a name, which can take as long.
"""

import ipaddress
import os
import select
import socket
import sys
import time
import traceback

LONGEST = 1.0
"""Seconds that a call may sleep under the lock: closing waits so long for peers."""
SAID = "slept under the lock"
poll, epoll, sleep = select.poll, select.epoll, time.sleep
resolvers = {name: getattr(socket, name) for name in ("getaddrinfo", "gethostbyname")}


def watch(what, seconds):
    """Report a sleep of so many seconds, None for any number, if this thread holds the lock."""
    turns = sys.modules.get("amoeba.embed.fair_lock")
    long = seconds is None or seconds < 0 or seconds > LONGEST
    if long and turns is not None and hasattr(turns, "FAIR_LOCK") and turns.FAIR_LOCK.owned:
        where = "".join(traceback.format_stack(limit=12)[:-2])
        os.write(2, f"{SAID}: {what} for {seconds} seconds\n{where}".encode())


class Watched:
    """An object of ``select`` whose sleeps are watched."""

    def __init__(self, kind, unit, *arguments):
        self.real, self.unit = kind(*arguments), unit

    def poll(self, timeout=None, *more):
        watch(type(self.real).__name__, None if timeout is None else timeout / self.unit)
        return self.real.poll(timeout, *more)

    def __getattr__(self, name):
        return getattr(self.real, name)


def watched_sleep(seconds):
    watch("time.sleep", seconds)
    sleep(seconds)


def watched_resolver(name):
    def resolve(host, *arguments, **options):
        if not is_number(host):
            watch(f"{name}({host!r})", None)
        return resolvers[name](host, *arguments, **options)

    return resolve


def is_number(host):
    """Whether a host needs no resolution."""
    try:
        return host is None or bool(ipaddress.ip_address(host))
    except ValueError:
        return False


select.poll = lambda: Watched(poll, 1000)
select.epoll = lambda *arguments: Watched(epoll, 1, *arguments)
time.sleep = watched_sleep
for each in resolvers:
    setattr(socket, each, watched_resolver(each))
