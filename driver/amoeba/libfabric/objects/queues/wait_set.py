"""Wait sets: waiting for several queues and counters at once. fi_poll(3)."""

import select
import time
from collections.abc import Callable
from typing import Protocol
from weakref import WeakValueDictionary

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.waiting import WAIT_SLICE, close_epoll
from amoeba.libfabric.objects.checks import check_enum, check_instance, check_timeout
from amoeba.libfabric.objects.constants import WaitObj

__all__ = ["WaitSet", "by_descriptor", "wait_set_of"]

WAIT_OBJECTS = (
    WaitObj.FI_WAIT_NONE,
    WaitObj.FI_WAIT_UNSPEC,
    WaitObj.FI_WAIT_SET,
    WaitObj.FI_WAIT_FD,
    WaitObj.FI_WAIT_YIELD,
)
"""Wait objects of queues and counters."""
_SET_OBJECTS = (WaitObj.FI_WAIT_UNSPEC, WaitObj.FI_WAIT_FD, WaitObj.FI_WAIT_YIELD)
_TURN = WAIT_SLICE / 50
"""Seconds that a set of several sleeps for one of them."""


class Member(Protocol):
    """Completion queues, event queues and counters."""

    _serial: int

    @property
    def closed(self) -> bool: ...

    @property
    def deadline(self) -> float | None:
        """When on the clock of ``time.monotonic`` there may be something to be read, whatever the descriptor says."""

    def fileno(self) -> int:
        """Return a descriptor to wait for, if the set has one."""

    def _may_wait(self) -> bool:
        """Return whether nothing is there to be read."""

    def _rest(self, seconds: float) -> None:
        """Sleep until there may be an entry to read, at most the given seconds."""

    @property
    def _readable(self) -> bool:
        """Whether automatic progress has found something to be read."""


class WaitSet(FabricObject):
    """The wait object of queues and counters that were opened with FI_WAIT_SET and this set.

    ``wait_obj`` is FI_WAIT_UNSPEC, FI_WAIT_YIELD, or FI_WAIT_FD for a descriptor that combines those of all members.
    Closing the set closes the members first. Raises FI_ENOSYS for other wait objects.
    """

    def __init__(self, fabric: FabricObject, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC) -> None:
        wait_obj = check_enum(WaitObj, wait_obj, "wait_obj")
        if wait_obj not in _SET_OBJECTS:
            raise fabric_error(Errno.FI_ENOSYS, f"wait sets do not wait by {wait_obj!r}")
        self.wait_obj = wait_obj
        self._members: WeakValueDictionary[int, Member] = WeakValueDictionary()
        self._epoll: select.epoll | None = None
        super().__init__(fabric)
        if wait_obj is WaitObj.FI_WAIT_FD:
            self._epoll = select.epoll()

    def wait(self, timeout: float | None = None) -> None:
        """Return when a member has an entry to read: ``fi_wait``. A :class:`PollSet` finds the member.

        Raises FI_ETIMEDOUT after ``timeout`` seconds (None: without limit).
        """
        self._check_open()
        timeout = check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._may_wait():
            if self._auto is not None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise fabric_error(Errno.FI_ETIMEDOUT, f"nothing has come in {timeout} seconds")
                self._auto.wait_for(lambda: self._closed or self._readable, left)
                continue
            rests: list[Callable[[float], None]] = [member._rest for member in self._open_members]
            most = WAIT_SLICE if len(rests) == 1 else _TURN
            for rest in rests or [time.sleep]:
                left = most if deadline is None else min(most, deadline - time.monotonic())
                if left <= 0:
                    raise fabric_error(Errno.FI_ETIMEDOUT, f"nothing has come in {timeout} seconds")
                rest(left)

    def fileno(self) -> int:
        """Return the descriptor to wait for: FI_GETWAIT. Raises FI_ENOSYS without FI_WAIT_FD.

        Call :meth:`amoeba.Fabric.trywait` before waiting for it, of the set alone.
        """
        self._check_open()
        if self._epoll is None:
            raise fabric_error(Errno.FI_ENOSYS, "the wait set was opened without FI_WAIT_FD")
        return self._epoll.fileno()

    def _join(self, member: Member) -> None:
        """Wait for a member, too, until it is closed."""
        self._members[member._serial] = member
        if self._epoll is not None:
            self._epoll.register(member.fileno(), select.EPOLLIN)

    def _may_wait(self) -> bool:
        self._check_open()
        waiting = [member._may_wait() for member in self._open_members]  # of all: each shows what is there
        return all(waiting)

    def glance(self) -> None:
        """With manual progress, let a little time pass on simulated NICs, as reading would."""
        if self._auto is None:
            for member in self._open_members:
                member._rest(0)

    @property
    def deadline(self) -> float | None:
        """The first deadline of its members; automatic progress observes deadlines itself."""
        if self._auto is not None:
            return None
        deadlines = [member.deadline for member in self._open_members if member.deadline is not None]
        return min(deadlines, default=None)

    @property
    def _readable(self) -> bool:
        return any(member._readable for member in self._open_members)

    @property
    def _open_members(self) -> list[Member]:
        return [member for member in list(self._members.values()) if not member.closed]

    def _release(self) -> None:
        if self._epoll is not None:
            close_epoll(self._epoll)
            self._epoll = None

    def __repr__(self) -> str:
        return f"<WaitSet {'closed' if self.closed else f'of {len(self._open_members)}'}>"


def wait_set_of(
    what: str, wait_obj: WaitObj, wait_set: WaitSet | None, fabric: FabricObject | None
) -> WaitSet | None:
    """Check the wait object of a fabric's object, and return its set; None without FI_WAIT_SET.

    Raises FI_ENOSYS for an unknown wait object, FI_EINVAL without a set, or for another fabric's.
    """
    if wait_obj not in WAIT_OBJECTS:
        raise fabric_error(Errno.FI_ENOSYS, f"{what} do not wait by {wait_obj!r}")
    if wait_obj is not WaitObj.FI_WAIT_SET:
        return None
    if wait_set is None:
        raise fabric_error(Errno.FI_EINVAL, "FI_WAIT_SET needs a wait set, got None")
    check_instance("wait_set", wait_set, WaitSet)
    wait_set._check_open()
    if wait_set._parent is not fabric:
        raise fabric_error(Errno.FI_EINVAL, f"{wait_set!r} belongs to another fabric")
    return wait_set


def by_descriptor(wait_obj: WaitObj, wait_set: WaitSet | None) -> bool:
    """Return whether this wait object needs a descriptor."""
    return WaitObj.FI_WAIT_FD in (wait_obj, wait_set and wait_set.wait_obj)
