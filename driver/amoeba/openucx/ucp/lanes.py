"""Lanes: the operations from an endpoint to its worker in order, each lane by a packet delivery context of its own.

A lane that waits never blocks another: unread messages do not stop memory operations. All lanes of a worker post into
one ring, so none may fill it: operations beyond a lane's share wait here, in order.
"""

import enum
import functools
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from amoeba.core.errors import FabricError, ResourceError, TryAgainError
from amoeba.nic.address import EndpointAddress
from amoeba.openucx.ucp.status import UcsStatus, status_of
from amoeba.openucx.ucp.worker_base import FailingEndpoint, WorkerBase
from amoeba.transport.operation import Operation

__all__ = ["Lane", "LaneKind", "Posted", "Waiting"]


class Waiting(Protocol):
    """The request of an operation that waits in a lane."""

    def abandoned(self, status: UcsStatus) -> None:
        """End the request with this status: the operation will not be posted."""


class Posted(Operation):
    """An operation that a lane posts."""

    __slots__ = ()

    def abandoned(self, status: UcsStatus) -> None:
        """End the operation with this status: it will not be posted."""
        raise NotImplementedError


class LaneKind(enum.IntEnum):
    """The use of a lane."""

    MEMORY = 0
    """Memory operations: put, get, atomics."""
    TAGGED = 1
    """Tagged messages."""
    MESSAGES = 2
    """Streams, active messages, and messages between drivers."""


class Lane:
    """One lane of an endpoint: an entry of the peer table, from its first use on.

    Operations of a lane end in the order in which they were posted. ``posted`` counts the requested operations,
    ``done`` those that are over: a flush waits until ``done`` reaches the ``posted`` of its call.
    """

    __slots__ = (
        "_free",
        "_open",
        "_plenty",
        "address",
        "done",
        "endpoint",
        "error",
        "kind",
        "noted",
        "number",
        "posted",
        "rings",
        "share",
        "spare",
        "waiting",
        "worker",
    )

    def __init__(
        self, worker: WorkerBase, endpoint: FailingEndpoint, kind: LaneKind, address: EndpointAddress | None
    ) -> None:
        """Make a lane to an address. Without an address everything waits until :meth:`connect`."""
        self.endpoint = endpoint
        self.worker = worker
        self.kind = kind
        self.address = address
        self.number = self.worker.number_lane(self)
        self.posted = 0
        self.done = 0
        self.rings = worker.rings
        self._free = worker.rings.free_entries
        self._open = worker.peers.open
        self.spare: list[Any] = []
        """Number operations that are over, to be used again."""
        self.noted = 0
        """``posted`` at the latest look for idle lanes."""
        self.share = 0
        """Operations that the lane may have in a full ring; unread messages may stay there for long."""
        self._plenty = 0
        self.waiting: deque[tuple[Callable[[], None], int, Waiting | None]] = deque()
        """Calls that post waiting operations, their descriptors, and the requests to tell if posting fails."""
        self.error: UcsStatus | None = None
        """The first error of an operation without a request, until a flush has reported it."""
        if address is not None:
            self.connect(address)

    def connect(self, address: EndpointAddress) -> None:
        """Connect the lane to an address; waiting operations can be posted."""
        entries = self.worker.rings.entries
        self.address = address
        self.share = entries // 2 if self.kind is LaneKind.MEMORY else entries // 16
        self._plenty = entries // 2

    @property
    def idle(self) -> bool:
        """Whether the lane has no outstanding operation."""
        return self.done == self.posted

    @property
    def for_memory(self) -> bool:
        """Whether the lane is for memory operations."""
        return self.kind is LaneKind.MEMORY

    @property
    def begun(self) -> int:
        """Operations of the lane that have been posted into the ring."""
        return self.posted - len(self.waiting)

    def entry(self) -> int:
        """Return the lane's entry of the peer table. Raises what :meth:`PeerMap.find` raises."""
        peers = self.worker.peers
        entry = peers.open.get(self.number)
        if entry is None:
            entry = self.worker.open_lane(self)
        return entry

    def may_post(self, descriptors: int = 1) -> bool:
        """Return whether something can be posted now: nothing waits, and the ring has free space."""
        return not self.waiting and self._has_space(self.posted - self.done, descriptors) and self._may_begin()

    def entry_now(self) -> int | None:
        """Return the lane's entry of the peer table if one descriptor may be posted now.

        Return None if the operation has to go through :meth:`submit`. The caller counts what it posts.
        """
        outstanding = self.posted - self.done
        if (
            self.waiting
            or outstanding >= (space := len(self._free))
            or (outstanding >= self.share and space <= self._plenty)
            or (self.worker.fences is not None and not self.worker.may_begin(self))
        ):
            return None
        return self._open.get(self.number)

    def post(self, operation: Posted) -> None:
        """Post an operation of one descriptor, now or when it is its turn."""
        entry = self.entry_now()
        if entry is None:
            self.submit(functools.partial(self._post_to_entry, operation), 1, operation)
            return
        operation.peer = entry
        self.rings.post(operation)
        self.posted += 1

    def _post_to_entry(self, operation: Posted) -> None:
        operation.peer = self.entry()
        self.rings.post(operation)

    def _has_space(self, in_ring: int, descriptors: int) -> bool:
        """Return whether so many descriptors more can be posted.

        A lane may have at most half of what the others leave, so that a dead peer does not stop them. It may have
        more than its share only while plenty is free.
        """
        space = self.rings.space
        return in_ring < space and descriptors <= space and (in_ring < self.share or space > self._plenty)

    def submit(self, post: Callable[[], None], descriptors: int = 1, request: Waiting | None = None) -> None:
        """Call ``post``, which posts ``request`` into the ring, now or when it is this operation's turn.

        ``post`` is called once, later from progress. If it fails then, or the endpoint ends before, the request is
        told.
        """
        if self.may_post(descriptors):
            try:
                post()
                self.posted += 1
                return
            except (TryAgainError, ResourceError):
                pass  # the peer table, or the peer's entry, is not free now
        self.posted += 1
        self.waiting.append((post, descriptors, request))
        self.worker.held_lanes[self] = None

    def drain(self) -> int:
        """Post waiting operations that can be posted now; return how many."""
        count = 0
        waiting = self.waiting
        while waiting and self._may_begin():
            post, descriptors, request = waiting[0]
            if not self._has_space(self.begun - self.done, descriptors):
                break
            try:
                post()
            except (TryAgainError, ResourceError):
                break
            except FabricError as error:
                self.done += 1
                self.refuse(request, status_of(error))
            waiting.popleft()
            count += 1
        return count

    def _may_begin(self) -> bool:
        return self.worker.fences is None or self.worker.may_begin(self)

    def failed(self, status: UcsStatus) -> None:
        """Note the error of an operation without a request."""
        if self.error is None:
            self.error = status

    def abandon(self, status: UcsStatus) -> None:
        """Drop all waiting operations; their requests end with this status."""
        self.worker.held_lanes.pop(self, None)
        while self.waiting:
            _, _, request = self.waiting.popleft()
            self.done += 1
            self.refuse(request, status)

    def refuse(self, request: Waiting | None, status: UcsStatus) -> None:
        """End an operation that was to be posted with this status."""
        if request is None:
            self.failed(status)
        else:
            request.abandoned(status)
