"""Fences of a worker: all earlier operations end before any later operation begins.

Fences concern memory operations: messages wait for earlier memory operations, but nothing waits for messages, which
may lie unread for as long as their receiver likes. Operations within one lane are in order anyway. So a fence only
holds operations that go another way until all operations before it have been answered. The NIC holds them if no
message is outstanding, because it cannot distinguish messages from memory operations; else the driver does.
"""

from collections.abc import Iterable
from typing import Protocol

__all__ = ["FencedLane", "Fences"]


class FencedLane(Protocol):
    """A lane in the eyes of fences: see :class:`amoeba.openucx.ucp.lanes.Lane`."""

    @property
    def posted(self) -> int: ...

    @property
    def done(self) -> int: ...

    @property
    def begun(self) -> int: ...


class _Fence:
    """One fence.

    ``pending``: the operations posted to each lane before the fence, for lanes with outstanding memory operations.
    ``before``: the same for lanes with waiting operations, which the fence does not concern.
    """

    __slots__ = ("before", "pending")

    def __init__(self, pending: dict[FencedLane, int], before: dict[FencedLane, int]) -> None:
        self.pending = pending
        self.before = before

    @property
    def over(self) -> bool:
        """Return whether everything before the fence has ended."""
        for lane, mark in list(self.pending.items()):
            if lane.done >= mark:
                del self.pending[lane]
        return not self.pending


class Fences:
    """The fences of a worker behind which something may have to wait, oldest first."""

    __slots__ = ("_fences",)

    def __init__(self) -> None:
        self._fences: list[_Fence] = []

    def raise_one(self, memory: Iterable[FencedLane], held: Iterable[FencedLane]) -> bool:
        """Put a fence between all earlier and all later operations; return whether any fence matters.

        ``memory``: the lanes of memory operations; ``held``: lanes with waiting operations.
        """
        pending = {lane: lane.posted for lane in memory if lane.done != lane.posted}
        if pending:
            self._fences.append(_Fence(pending, {lane: lane.posted for lane in held}))
        return bool(self._fences)

    def may_begin(self, lane: FencedLane) -> bool:
        """Return whether the next operation of a lane may go on."""
        while self._fences and self._fences[0].over:
            del self._fences[0]
        begun = lane.begun
        for fence in reversed(self._fences):
            if begun >= fence.before.get(lane, 0):
                # the youngest fence before the operation covers all older ones
                return fence.over or fence.pending.keys() == {lane}
        return True

    def all_begun(self, held: Iterable[FencedLane]) -> bool:
        """Return whether all operations that waited before the youngest fence are posted. ``held``: as above."""
        return all(lane.begun >= self._fences[-1].before.get(lane, 0) for lane in held) if self._fences else True

    @property
    def over(self) -> bool:
        """Whether no fence holds anything."""
        while self._fences and self._fences[0].over:
            del self._fences[0]
        return not self._fences
