"""The worker as its parts know it; :mod:`amoeba.openucx.ucp.worker`, above them, makes them all."""

import secrets
import time
from collections import deque
from collections.abc import Callable, Sized
from typing import Any, Protocol

from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.fences import FencedLane, Fences
from amoeba.openucx.ucp.handles import ucp_worker_h
from amoeba.openucx.ucp.idle_lanes import IdleLanes, OpenLane
from amoeba.openucx.ucp.inbox import Inbox
from amoeba.openucx.ucp.objects import UcpObject
from amoeba.openucx.ucp.status import UcsStatus
from amoeba.openucx.ucp.structures import ucp_worker_params_t
from amoeba.transport.context import Context as NicContext
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.operation import Operation
from amoeba.transport.peers import PeerMap
from amoeba.transport.rendezvous import LongReceives, LongSends
from amoeba.transport.software_matching import BoundlessReceives
from amoeba.transport.transmit_rings import DRAIN_ROUNDS, DRAIN_TIME, TransmitRings

__all__ = ["FailingEndpoint", "Follower", "RequestMemory", "RequestPool", "WorkerBase", "WorkerLane"]

_FENCE_AND_MORE = 2
"""Descriptors of a fence and an operation behind it."""


class FailingEndpoint(Protocol):
    """The owner of lanes."""

    failure: UcsStatus | None
    """The error that ended the endpoint."""
    ended: bool
    """The endpoint is closed, and nothing waits for it."""

    def fail(self, status: UcsStatus) -> None:
        """Fail the endpoint: it cannot be used any more."""


class Follower(Protocol):
    """Has requests that wait for something else than the NIC, or keeps parts of endpoints."""

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """End requests of an endpoint that was closed (CANCELED) or has failed with ``status``. May come twice."""

    def cancel_all(self) -> None:
        """End all requests with CANCELED: the worker is being destroyed."""


class RequestMemory:
    """The application's part of a request, which in C lies before it: ``area``, of ucp_init's ``request_size`` bytes.

    If it exists, it is the application's handle of the request. It serves many requests, one after the other.
    """

    __slots__ = ("_pool", "area", "request")

    def __init__(self, size: int, pool: "RequestPool | None" = None) -> None:
        self.area: Any = bytearray(size)
        """A face of this API may store another handle of the request here."""
        self._pool = pool
        self.request: Any = None
        """The latest operation with this memory."""

    @property
    def done(self) -> bool:
        """Whether the operation is over."""
        return self.request is None or bool(self.request.done)

    @property
    def code(self) -> UcsStatus:
        """Status of the operation, UCS_INPROGRESS until it is over."""
        return UcsStatus.UCS_OK if self.request is None else self.request.code

    def let_go(self, request: Any) -> None:
        """Return the memory to the pool after an operation."""
        if self._pool is not None and self.request is request:
            self.request = None
            self._pool.spare.append(self)


class RequestPool:
    """The request memory of a worker: each is prepared once, and cleaned up with the worker."""

    def __init__(self, size: int, init: Callable[[Any], None] | None, cleanup: Callable[[Any], None] | None) -> None:
        self.spare: list[RequestMemory] = []
        self._size = size
        self._init = init
        self._cleanup = cleanup
        self._every: list[RequestMemory] = []

    def new(self, *, own: bool = False) -> RequestMemory:
        """Make and prepare memory. ``own``: the application keeps it for as long as it likes."""
        memory = RequestMemory(self._size, None if own else self)
        if self._init is not None:
            self._init(memory)
        self._every.append(memory)
        return memory

    def take(self, request: Any) -> RequestMemory:
        """Take memory for a request."""
        memory = self.spare.pop() if self.spare else self.new()
        memory.request = request
        return memory

    def clean(self) -> None:
        """Clean up all memory."""
        every, self._every = self._every, []
        self.spare.clear()
        if self._cleanup is not None:
            for memory in every:
                self._cleanup(memory)


class WorkerLane(OpenLane, FencedLane, Protocol):
    """A lane as its worker knows it: see :class:`amoeba.openucx.ucp.lanes.Lane`."""

    error: UcsStatus | None

    @property
    def for_memory(self) -> bool: ...

    @property
    def endpoint(self) -> FailingEndpoint: ...

    @property
    def waiting(self) -> Sized: ...

    def drain(self) -> int: ...

    def abandon(self, status: UcsStatus) -> None: ...


class WorkerBase(UcpObject, ucp_worker_h):
    """The data of a worker, without its activities."""

    main: NicContext
    """Context for memory and tagged messages; through its ring everything is sent."""
    rings: TransmitRings
    peers: PeerMap
    """Peers by numbers of lanes."""
    idle_lanes: IdleLanes
    """Tracks which lanes have an entry of the peer table."""
    dispatch: Dispatch
    """Dispatch of ``main``'s events."""
    long_sends: LongSends
    receives: BoundlessReceives
    """Receives of tagged messages; only with that feature."""
    messages: NicContext | None = None
    """Context for streams and active messages; None without those features."""
    inbox: Inbox | None = None
    """Their place of arrival."""
    tags: Any = None
    """Its :class:`amoeba.openucx.ucp.tags.Tags`; None without that feature."""
    long_receives: LongReceives
    """Reads of messages that do not fit there; only with those features."""

    def __init__(self, context: Context, params: ucp_worker_params_t) -> None:
        self.context = context
        self.nic = context.nic
        self.params = params
        self.uid = secrets.randbits(64)
        self.lanes: dict[int, WorkerLane] = {}
        """Lanes by number; of closed endpoints, too, while operations are outstanding."""
        self.held_lanes: dict[WorkerLane, None] = {}
        """Lanes with waiting operations."""
        self.waiters: list[Callable[[], bool]] = []
        """Called in progress until they say that they are done: flushes, closings."""
        self.soon: deque[Callable[[], Any]] = deque()
        """Called once by the next progress."""
        self.fences: Fences | None = None
        """Fences that hold something; None if there is nothing to look at."""
        self.progressing = 0
        """Number of the thread inside :meth:`progress`, and so inside callbacks."""
        self.followers: dict[Follower, None] = {}
        """Told of ends, in this order."""
        self.ending = False
        """The worker is being destroyed."""
        self.closing: dict[Any, Any] = {}
        """Endpoints to close when all their operations are over, with the request of the closing."""
        given = context.params
        self.request_pool: RequestPool | None = None
        """Memory for requests, if the application wants any in them."""
        if given.request_size or given.request_init is not None or given.request_cleanup is not None:
            self.request_pool = RequestPool(given.request_size or 0, given.request_init, given.request_cleanup)
        self._next_lane = 0
        super().__init__(context)

    def progress(self) -> int:
        """Go on with everything that can go on; return how much did."""
        raise NotImplementedError

    def pack_address(self) -> bytes:
        """Pack the address by which peers reach the worker: a UCP_ADDRESS."""
        raise NotImplementedError

    def requests_to(self, number: int) -> list[Operation]:
        """Return requests to the peer of the lane with this number whose end has not been reported."""
        raise NotImplementedError

    def settle(self, numbers: list[int]) -> None:
        """Wait until the NIC has ended everything on these lanes, which it was told to give up."""
        peers = self.peers
        watched = [number for number in numbers if number in peers]
        left = -1
        while watched and self.rings.outstanding != left:  # a full ring may take longer than one wait
            left = self.rings.outstanding
            deadline = time.monotonic() + DRAIN_TIME
            if self.rings.wait_until(lambda: not any(map(peers.busy, watched)), deadline, DRAIN_ROUNDS):
                break

    # Lanes

    def number_lane(self, lane: WorkerLane) -> int:
        """Return a number for a lane, by which it is known from now on."""
        number = self._next_lane
        self._next_lane += 1
        self.lanes[number] = lane
        return number

    def may_begin(self, lane: WorkerLane) -> bool:
        """Return whether fences let the next operation of a lane go on now."""
        fences = self.fences
        if fences is None:
            return True
        begins = fences.may_begin(lane) or self._fenced_by_nic(fences)
        if fences.over:
            self.fences = None
        return begins

    def _fenced_by_nic(self, fences: Fences) -> bool:
        """Let the NIC fence in the driver's place if only memory operations are to be waited for; return whether."""
        if self.rings.space < _FENCE_AND_MORE or not fences.all_begun(self.held_lanes):
            return False
        if any(lane.begun != lane.done for lane in self.lanes.values() if not lane.for_memory):
            return False
        self.rings.post_fence(lambda status: None, more=True)
        self.fences = None
        return True

    def fence(self) -> None:
        """Let later operations begin when all earlier memory operations are over."""
        fences = Fences() if self.fences is None else self.fences
        holds = fences.raise_one([lane for lane in self.lanes.values() if lane.for_memory], self.held_lanes)
        self.fences = fences if holds else None

    def open_lane(self, lane: WorkerLane) -> int:
        """Return the peer table entry of a lane, opened if need be. Raises what :meth:`PeerMap.find` raises."""
        if lane.number not in self.peers:
            self.idle_lanes.open(lane)
        return self.peers.find(lane.number)

    def close_lane(self, lane: WorkerLane) -> None:
        """Close a lane, and release its peer table entry, when no operation is outstanding; does not wait."""

        def close() -> bool:
            if lane.number not in self.lanes:
                return True
            if not lane.idle:
                return False
            self.idle_lanes.close(lane)
            self.lanes.pop(lane.number, None)
            return True

        if not close():
            self.waiters.append(close)
