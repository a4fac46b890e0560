"""Poll sets: the ready ones among several queues and counters. fi_poll(3)."""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.checks import check_instance, check_number
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.owner import QueueOwner

__all__ = ["PollSet"]


class PollSet(FabricObject):
    """Completion queues and counters of a domain that are polled together, as ``fi_poll_open`` makes it.

    Closed members leave the set by themselves; closing the set closes no member.
    """

    def __init__(self, domain: QueueOwner) -> None:
        self._device = domain.nic.device
        self._queues: list[CompletionQueue[Any]] = []
        self._counters: dict[Counter, tuple[int, int]] = {}
        """Members with the values that were last seen."""
        super().__init__(domain)

    def add(self, member: CompletionQueue[Any] | Counter) -> None:
        """Add a member: ``fi_poll_add``. Raises FI_EINVAL for another domain's, FI_EALREADY if it is in the set."""
        self._check_open()
        check_instance("member", member, CompletionQueue, Counter)
        member._check_open()
        member._check_made_from(self._parent)
        if member in self._queues or member in self._counters:
            raise fabric_error(Errno.FI_EALREADY, f"{member!r} is in the poll set")
        if isinstance(member, Counter):
            self._counters[member] = member._sums
        else:
            self._queues.append(member)

    def remove(self, member: CompletionQueue[Any] | Counter) -> None:
        """Remove a member: ``fi_poll_del``. Raises FI_EINVAL if it is not in the set."""
        self._check_open()
        if isinstance(member, CompletionQueue) and member in self._queues:
            self._queues.remove(member)
        elif isinstance(member, Counter) and member in self._counters:
            del self._counters[member]
        else:
            raise fabric_error(Errno.FI_EINVAL, f"{member!r} is not in the poll set")

    def poll(self, count: int | None = None) -> list[CompletionQueue[Any] | Counter]:
        """Make progress, and return up to ``count`` members with entries to read: ``fi_poll``.

        Queues with an entry or an error; counters whose values have changed since they were in the answer last.
        """
        self._check_open()
        count = None if count is None else check_number("count", count)
        ready = self._ready(count)
        if not ready and self._auto is None:
            self._device.advance()
            ready = self._ready(count)
        return ready

    def _ready(self, count: int | None) -> list[CompletionQueue[Any] | Counter]:
        self._queues = [queue for queue in self._queues if not queue.closed]
        self._counters = {counter: seen for counter, seen in self._counters.items() if not counter.closed}
        ready: list[CompletionQueue[Any] | Counter] = [queue for queue in self._queues if not queue._may_wait()]
        for counter in self._counters:
            counter._collect()
        ready += [counter for counter, seen in self._counters.items() if counter._sums != seen]
        told = ready[:count]
        for member in told:
            if isinstance(member, Counter):
                self._counters[member] = member._sums
        return told

    def _release(self) -> None:
        self._queues.clear()
        self._counters.clear()

    def __repr__(self) -> str:
        if self.closed:
            return "<PollSet closed>"
        return f"<PollSet of {len(self._queues)} queues, {len(self._counters)} counters>"
