"""What the parts of a worker know of it; :mod:`amoeba.openucx.ucp.worker`, above them, makes them all."""

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
"""Descriptors."""


class FailingEndpoint(Protocol):
    """Whose lanes they are."""

    failure: UcsStatus | None
    """Why it cannot be used any more."""
    ended: bool
    """It is closed, and nothing of it is waited for."""

    def fail(self, status: UcsStatus) -> None:
        """It cannot be used any more."""


class Follower(Protocol):
    """Who has requests that wait for something else than the NIC, and keeps what belongs to endpoints."""

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """An endpoint was closed (CANCELED) or has failed: what waits for it ends with ``status``. May come twice."""

    def cancel_all(self) -> None:
        """The worker is being destroyed: all its requests end with CANCELED."""


class RequestMemory:
    """What C has ahead of a request for the application: ``area``, as many bytes as it asked for in ucp_init.

    Where there is any, the application knows its requests by this. It is used again and again.
    """

    __slots__ = ("_pool", "area", "request")

    def __init__(self, size: int, pool: "RequestPool | None" = None) -> None:
        self.area: Any = bytearray(size)
        """A face of this API may have something else here by which it knows the request."""
        self._pool = pool
        self.request: Any = None
        """The latest operation that it was used for."""

    @property
    def done(self) -> bool:
        """Whether the operation is over."""
        return self.request is None or bool(self.request.done)

    @property
    def code(self) -> UcsStatus:
        """Its status, UCS_INPROGRESS until it is over."""
        return UcsStatus.UCS_OK if self.request is None else self.request.code

    def let_go(self, request: Any) -> None:
        """An operation needs it no more."""
        if self._pool is not None and self.request is request:
            self.request = None
            self._pool.spare.append(self)


class RequestPool:
    """The request memory of a worker: each is prepared once, and given up with the worker."""

    def __init__(self, size: int, init: Callable[[Any], None] | None, cleanup: Callable[[Any], None] | None) -> None:
        self.spare: list[RequestMemory] = []
        self._size = size
        self._init = init
        self._cleanup = cleanup
        self._every: list[RequestMemory] = []

    def new(self, *, own: bool = False) -> RequestMemory:
        """Memory that was prepared. ``own``: it is the application's, for as long as it likes."""
        memory = RequestMemory(self._size, None if own else self)
        if self._init is not None:
            self._init(memory)
        self._every.append(memory)
        return memory

    def take(self, request: Any) -> RequestMemory:
        """Memory for a request."""
        memory = self.spare.pop() if self.spare else self.new()
        memory.request = request
        return memory

    def clean(self) -> None:
        """Give all of it up."""
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
    """What a worker has, without what goes on in it."""

    main: NicContext
    """For memory and tagged messages; through its ring everything is sent."""
    rings: TransmitRings
    peers: PeerMap
    """By numbers of lanes."""
    idle_lanes: IdleLanes
    """Which of the lanes have an entry of the peer table."""
    dispatch: Dispatch
    """Of ``main``'s events."""
    long_sends: LongSends
    receives: BoundlessReceives
    """Of tagged messages; only with that feature."""
    messages: NicContext | None = None
    """For streams and active messages; None without those features."""
    inbox: Inbox | None = None
    """Where these land."""
    tags: Any = None
    """Its :class:`amoeba.openucx.ucp.tags.Tags`; None without that feature."""
    long_receives: LongReceives
    """Reads those that are too long for that; only with those features."""

    def __init__(self, context: Context, params: ucp_worker_params_t) -> None:
        self.context = context
        self.nic = context.nic
        self.params = params
        self.uid = secrets.randbits(64)
        self.lanes: dict[int, WorkerLane] = {}
        """By number; of closed endpoints, too, while something is under way."""
        self.held_lanes: dict[WorkerLane, None] = {}
        """On which something waits to be posted."""
        self.waiters: list[Callable[[], bool]] = []
        """Called in progress until they say that they are done: flushes, closings."""
        self.soon: deque[Callable[[], Any]] = deque()
        """Called once by the next progress."""
        self.fences: Fences | None = None
        """Those that hold something; None, so that looking costs nothing, where there are none."""
        self.progressing = 0
        """The thread inside :meth:`progress`, and so inside callbacks, by its number."""
        self.followers: dict[Follower, None] = {}
        """Told of ends, in this order."""
        self.ending = False
        """It is being destroyed."""
        self.closing: dict[Any, Any] = {}
        """Endpoints that are closed when all is over, with the request of the closing."""
        given = context.params
        self.request_pool: RequestPool | None = None
        """Memory for requests, if the application wants any in them."""
        if given.request_size or given.request_init is not None or given.request_cleanup is not None:
            self.request_pool = RequestPool(given.request_size or 0, given.request_init, given.request_cleanup)
        self._next_lane = 0
        super().__init__(context)

    def progress(self) -> int:
        """Go on with everything that can go on; how much did."""
        raise NotImplementedError

    def pack_address(self) -> bytes:
        """What peers must know to reach it: a UCP_ADDRESS."""
        raise NotImplementedError

    def requests_to(self, number: int) -> list[Operation]:
        """Requests to the peer of the lane with this number of which nobody has heard the end."""
        raise NotImplementedError

    def settle(self, numbers: list[int]) -> None:
        """Wait until the NIC has ended everything on lanes with these numbers, which it was told to give up."""
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
        """A number for a lane, by which it is known from now on."""
        number = self._next_lane
        self._next_lane += 1
        self.lanes[number] = lane
        return number

    def may_begin(self, lane: WorkerLane) -> bool:
        """Whether the next operation of a lane may go on now, as far as fences are concerned."""
        fences = self.fences
        if fences is None:
            return True
        begins = fences.may_begin(lane) or self._fenced_by_nic(fences)
        if fences.over:
            self.fences = None
        return begins

    def _fenced_by_nic(self, fences: Fences) -> bool:
        """Post a fence of the NIC's in place of the driver's, if all that it would wait for are memory operations;
        whether it has been."""
        if self.rings.space < _FENCE_AND_MORE or not fences.all_begun(self.held_lanes):
            return False
        if any(lane.begun != lane.done for lane in self.lanes.values() if not lane.for_memory):
            return False
        self.rings.post_fence(lambda status: None, more=True)
        self.fences = None
        return True

    def fence(self) -> None:
        """What is posted from now on begins when all memory operations before are over."""
        fences = Fences() if self.fences is None else self.fences
        holds = fences.raise_one([lane for lane in self.lanes.values() if lane.for_memory], self.held_lanes)
        self.fences = fences if holds else None

    def open_lane(self, lane: WorkerLane) -> int:
        """The entry of a lane in the peer table, opened if it was not. Raises what :meth:`PeerMap.find` raises."""
        if lane.number not in self.peers:
            self.idle_lanes.open(lane)
        return self.peers.find(lane.number)

    def close_lane(self, lane: WorkerLane) -> None:
        """Close a lane when nothing is under way on it, and give its entry of the peer table back; does not wait."""

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
