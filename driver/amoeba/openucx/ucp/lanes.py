"""Lanes: what goes from an endpoint to its worker in order, each by a packet delivery context of its own.

What one lane waits for holds up no other: messages that nobody reads do not stop memory operations. All lanes of a
worker post into one ring; so none may fill it: what exceeds its share waits here, in order.
"""

import enum
from collections import deque
from collections.abc import Callable
from typing import Protocol

from amoeba.core.errors import FabricError, ResourceError, TryAgainError
from amoeba.nic.address import EndpointAddress
from amoeba.openucx.ucp.status import UcsStatus, status_of
from amoeba.openucx.ucp.worker_base import FailingEndpoint, WorkerBase
from amoeba.transport.operation import Operation

__all__ = ["Lane", "LaneKind", "Posted", "Waiting"]


class Waiting(Protocol):
    """A request, as a lane needs it that has not posted it yet."""

    def abandoned(self, status: UcsStatus) -> None:
        """It will not be posted, and has ended with this."""


class Posted(Operation):
    """An operation that a lane posts."""

    __slots__ = ()

    def abandoned(self, status: UcsStatus) -> None:
        """It will not be posted, and has ended with this."""
        raise NotImplementedError


class LaneKind(enum.IntEnum):
    """What a lane is for."""

    MEMORY = 0
    """Memory operations: put, get, atomics."""
    TAGGED = 1
    """Tagged messages."""
    MESSAGES = 2
    """Streams, active messages, and what drivers tell each other."""


class Lane:
    """One lane of an endpoint: an entry of the peer table, from its first use on.

    Operations of a lane end in the order in which they were posted. ``posted`` counts those that were asked for,
    ``done`` those that are over: a flush waits until that is as many as were posted when it was called.
    """

    __slots__ = (
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
        "waiting",
        "worker",
    )

    def __init__(
        self, worker: WorkerBase, endpoint: FailingEndpoint, kind: LaneKind, address: EndpointAddress | None
    ) -> None:
        """``address`` None: it is not known yet; everything waits until :meth:`connect`."""
        self.endpoint = endpoint
        self.worker = worker
        self.kind = kind
        self.address = address
        self.number = self.worker.number_lane(self)
        self.posted = 0
        self.done = 0
        self.rings = worker.rings
        self._open = worker.peers.open
        self.noted = 0
        """``posted`` when somebody last looked for lanes that nobody uses."""
        self.share = 0
        """Operations that it may have in the ring however full that is; messages may stay there for as long as nobody
        reads them."""
        self._plenty = 0
        self.waiting: deque[tuple[Callable[[], None], int, Waiting | None]] = deque()
        """What is to be posted, with the descriptors that it takes, and who is to hear if it cannot be."""
        self.error: UcsStatus | None = None
        """The first error of an operation of which there is no request, until a flush has told it."""
        if address is not None:
            self.connect(address)

    def connect(self, address: EndpointAddress) -> None:
        """It goes there; what waits can be posted."""
        entries = self.worker.rings.entries
        self.address = address
        self.share = entries // 2 if self.kind is LaneKind.MEMORY else entries // 16
        self._plenty = entries // 2

    @property
    def idle(self) -> bool:
        """Whether nothing is under way on it."""
        return self.done == self.posted

    @property
    def for_memory(self) -> bool:
        """Whether it is for memory operations."""
        return self.kind is LaneKind.MEMORY

    @property
    def begun(self) -> int:
        """How many of its operations have been posted into the ring."""
        return self.posted - len(self.waiting)

    def entry(self) -> int:
        """Its entry of the peer table. Raises what :meth:`PeerMap.find` raises."""
        peers = self.worker.peers
        entry = peers.open.get(self.number)
        if entry is None:
            entry = self.worker.open_lane(self)
        return entry

    def may_post(self, descriptors: int = 1) -> bool:
        """Whether something can be posted now, as nothing waits and there is room."""
        return not self.waiting and self._has_space(self.posted - self.done, descriptors) and self._may_begin()

    def entry_now(self) -> int | None:
        """Its entry of the peer table, if one descriptor may be posted now; None: it has to be :meth:`submit`\\ ted.

        Whoever posts counts it.
        """
        outstanding = self.posted - self.done
        if (
            self.waiting
            or outstanding >= (space := self.rings.space)
            or (outstanding >= self.share and space <= self._plenty)
            or (self.worker.fences is not None and not self.worker.may_begin(self))
        ):
            return None
        return self._open.get(self.number)

    def post(self, operation: Posted) -> None:
        """Post an operation of one descriptor, now or when it is its turn."""
        entry = self.entry_now()
        if entry is not None:
            operation.peer = entry
            self.rings.post(operation)
            self.posted += 1
            return

        def post_later() -> None:
            operation.peer = self.entry()
            self.rings.post(operation)

        self.submit(post_later, 1, operation)

    def _has_space(self, in_ring: int, descriptors: int) -> bool:
        """Whether so many descriptors more can be posted.

        A lane may have at most half of what the others leave, so that one whose peer is dead does not stop them; and
        more than its share only while plenty is free.
        """
        space = self.rings.space
        return in_ring < space and descriptors <= space and (in_ring < self.share or space > self._plenty)

    def submit(self, post: Callable[[], None], descriptors: int = 1, request: Waiting | None = None) -> None:
        """Call ``post``, which posts ``request`` into the ring, now or when it is this operation's turn.

        It is called once, later from progress. If it fails then, or the endpoint ends before, the request is told.
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
        """Post what waits and can be posted now; how much that was."""
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
        """An operation without a request has ended with an error."""
        if self.error is None:
            self.error = status

    def abandon(self, status: UcsStatus) -> None:
        """Nothing that waits is posted any more; its requests end with this status."""
        self.worker.held_lanes.pop(self, None)
        while self.waiting:
            _, _, request = self.waiting.popleft()
            self.done += 1
            self.refuse(request, status)

    def refuse(self, request: Waiting | None, status: UcsStatus) -> None:
        """Something that was to be posted has ended with this."""
        if request is None:
            self.failed(status)
        else:
            request.abandoned(status)
