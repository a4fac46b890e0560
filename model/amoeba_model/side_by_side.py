"""NICs that run at the same time, each in a thread of its own, with the results of one after the other."""

import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Sequence

from amoeba_model.grants import MemoryGrants

__all__ = ["Crew", "Meetings", "helping_threads", "processors"]

_Task = Callable[[], None]
_Outcome = BaseException | None


def processors() -> int:
    """How many of them this process may use."""
    return len(os.sched_getaffinity(0))


_helpers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def helping_threads() -> int:
    """Threads of this process that do nothing of their own accord: they only run NICs for those who step networks."""
    return sum(thread.is_alive() for thread in list(_helpers))


def _work(tasks: "queue.SimpleQueue[_Task | None]", outcomes: "queue.SimpleQueue[_Outcome]") -> None:
    while (task := tasks.get()) is not None:
        try:
            task()
        except BaseException as error:
            outcomes.put(error)
        else:
            outcomes.put(None)
        del task  # it holds a NIC, which would live until the next one comes


class Crew:
    """Threads that wait for something to do, and end with what they belong to.

    They are the process' own: a child that was forked makes new ones. While the interpreter ends, they stand still
    for good, and what is closed then does all by itself.
    """

    def __init__(self) -> None:
        self._queues: list[tuple[queue.SimpleQueue[_Task | None], queue.SimpleQueue[_Outcome]]] = []
        self._process = os.getpid()

    def run(self, tasks: Sequence[_Task]) -> None:
        """Do all of them, the first in the calling thread. Raises what the first of those that failed raised."""
        if self._process != os.getpid():
            self._queues, self._process = [], os.getpid()
        if sys.is_finalizing():
            for task in tasks:
                task()
            return
        while len(self._queues) < len(tasks) - 1:
            self._hire()
        busy = self._queues[: len(tasks) - 1]
        for (todo, _), task in zip(busy, tasks[1:], strict=True):
            todo.put(task)
        outcomes: list[_Outcome] = [None]
        try:
            tasks[0]()
        except BaseException as error:
            outcomes = [error]
        outcomes += [done.get() for _, done in busy]
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _hire(self) -> None:
        todo: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        thread = threading.Thread(target=_work, args=(todo, outcomes), name="amoeba-nic", daemon=True)
        _helpers.add(thread)
        thread.start()
        # Not at exit: there are networks that step later still, as what is open then is closed.
        weakref.finalize(self, todo.put, None).atexit = False
        self._queues.append((todo, outcomes))


class Meetings:
    """Whether NICs could meet in host memory: one may write what another may access.

    Then the one that comes first in a step decides, and so they must not run at the same time. Each new grant is
    looked at once, in O(log n).
    """

    def __init__(self, grants: Sequence[MemoryGrants]) -> None:
        self._grants = list(grants)
        self._found: list[tuple[int, int]] = []
        """Bytes that NICs had in common when it was looked at last."""
        for each in self._grants:
            each.watch()

    def of(self, grants: Sequence[MemoryGrants]) -> bool:
        """Whether these are the grants that are watched."""
        return len(grants) == len(self._grants) and all(
            one is other for one, other in zip(grants, self._grants, strict=True)
        )

    def possible(self) -> bool:
        """Whether NICs could meet with the present grants: True for any NIC whose grants translate addresses."""
        for each in self._grants:
            for start, end in each.news():
                if self._shared(start, end):
                    self._found.append((start, end))
        if self._found:
            self._found = [bounds for bounds in self._found if self._shared(*bounds)]
        return bool(self._found) or any(each.translates for each in self._grants)

    def _shared(self, start: int, end: int) -> bool:
        return any(
            other.touches(*part)
            for each in self._grants
            for part in each.written(start, end)
            for other in self._grants
            if other is not each
        )
