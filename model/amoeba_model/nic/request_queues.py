"""RequestQueues: checked requests of one context that wait for their turn, apart for each peer."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode

__all__ = ["Queued", "RequestQueues"]

_NOP = DescriptorOpcode.NOP.value
_FENCE = DescriptorFlags.FENCE.value
_FENCE_ALL = DescriptorFlags.FENCE_ALL.value
_NO_PEER = -1
"""The queue of NOPs that are about no peer."""


class Queued(Protocol):
    """The fields of a request that choose its queue."""

    opcode: int
    flags: int
    peer: int


R = TypeVar("R", bound=Queued)


class RequestQueues(Generic[R]):
    """A queue for each peer entry, and one for NOPs that are about none; what is behind a FENCE_ALL stands apart."""

    __slots__ = ("_behind", "_queues", "turns")

    def __init__(self) -> None:
        self.turns: deque[deque[R]] = deque()
        """Queues that are not empty; whose turn is next comes first."""
        self._queues: dict[int, deque[R]] = {}
        self._behind: deque[R] = deque()
        """From the oldest FENCE_ALL that has not been released, in the order of the ring."""

    def __bool__(self) -> bool:
        return bool(self.turns or self._behind)

    def clear(self) -> None:
        self.turns.clear()
        self._queues.clear()
        self._behind.clear()

    def push(self, request: R) -> None:
        """Queue a request, the youngest of its context."""
        if self._behind or request.flags & _FENCE_ALL:
            self._behind.append(request)
        else:
            self._queue(request)

    def is_fenced(self) -> bool:
        """Whether all before the oldest FENCE_ALL have left; if that is answered, it may go."""
        return bool(self._behind) and not self.turns

    def release(self) -> None:
        """Release the oldest FENCE_ALL, and all behind it up to the next one; only where it ``is_fenced``."""
        behind = self._behind
        self._queue(behind.popleft())
        while behind and not behind[0].flags & _FENCE_ALL:
            self._queue(behind.popleft())

    def leave(self) -> None:
        """Remove the first request of the queue that had the last turn."""
        queue = self.turns[-1]
        queue.popleft()
        if not queue:
            self.turns.pop()

    def _queue(self, request: R) -> None:
        number = _NO_PEER if request.opcode == _NOP and not request.flags & _FENCE else request.peer
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = deque()
        if not queue:
            self.turns.append(queue)
        queue.append(request)
