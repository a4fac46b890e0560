"""Fences of a worker: what was posted before ends before anything begins that is posted after.

Memory operations are what a fence is about: messages wait for those before it, but nothing waits for messages, which
may lie unread for as long as their receiver likes. Within one lane everything is in order as it is, so that only
what goes another way has to be held until all before the fence has been answered: by the NIC, where no message is
under way, as it cannot tell one from a memory operation; else by the driver.
"""

from collections.abc import Iterable
from typing import Protocol

__all__ = ["FencedLane", "Fences"]


class FencedLane(Protocol):
    """A lane as fences know it: see :class:`amoeba.openucx.ucp.lanes.Lane`."""

    @property
    def posted(self) -> int: ...

    @property
    def done(self) -> int: ...

    @property
    def begun(self) -> int: ...


class _Fence:
    """One of them.

    ``pending``: how far each lane had been posted to, of lanes on which memory operations are under way.
    ``before``: the same of lanes on which something waited to be posted, which it does not concern.
    """

    __slots__ = ("before", "pending")

    def __init__(self, pending: dict[FencedLane, int], before: dict[FencedLane, int]) -> None:
        self.pending = pending
        self.before = before

    @property
    def over(self) -> bool:
        """Whether nothing that was posted before it is under way."""
        for lane, mark in list(self.pending.items()):
            if lane.done >= mark:
                del self.pending[lane]
        return not self.pending


class Fences:
    """Those of a worker behind which something may have to wait, oldest first."""

    __slots__ = ("_fences",)

    def __init__(self) -> None:
        self._fences: list[_Fence] = []

    def raise_one(self, memory: Iterable[FencedLane], held: Iterable[FencedLane]) -> bool:
        """A fence between all that was posted and all that will be; whether there is any that matters.

        ``memory``: the lanes of memory operations; ``held``: lanes on which something waits.
        """
        pending = {lane: lane.posted for lane in memory if lane.done != lane.posted}
        if pending:
            self._fences.append(_Fence(pending, {lane: lane.posted for lane in held}))
        return bool(self._fences)

    def may_begin(self, lane: FencedLane) -> bool:
        """Whether the next operation of a lane may go on."""
        while self._fences and self._fences[0].over:
            del self._fences[0]
        begun = lane.begun
        for fence in reversed(self._fences):
            if begun >= fence.before.get(lane, 0):
                # the youngest before it is about all that older ones are about
                return fence.over or fence.pending.keys() == {lane}
        return True

    def all_begun(self, held: Iterable[FencedLane]) -> bool:
        """Whether nothing waits to be posted that was there before the youngest of them. ``held``: as above."""
        return all(lane.begun >= self._fences[-1].before.get(lane, 0) for lane in held) if self._fences else True

    @property
    def over(self) -> bool:
        """Whether none holds anything."""
        while self._fences and self._fences[0].over:
            del self._fences[0]
        return not self._fences
