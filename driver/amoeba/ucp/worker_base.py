"""What the parts of a worker know of it; :mod:`amoeba.ucp.worker`, above them, makes them all."""

import secrets
from collections import deque
from collections.abc import Callable, Sized
from typing import Any, Protocol

from amoeba.nic.address import EndpointAddress
from amoeba.transport.context import Context as NicContext
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.peers import PeerMap
from amoeba.transport.receives import Receives
from amoeba.transport.rendezvous import LongReceives, LongSends
from amoeba.transport.transmit_rings import TransmitRings
from amoeba.ucp.context import Context
from amoeba.ucp.fences import FencedLane, Fences
from amoeba.ucp.handles import ucp_worker_h
from amoeba.ucp.inbox import Inbox
from amoeba.ucp.objects import UcpObject
from amoeba.ucp.status import UcsStatus
from amoeba.ucp.structures import ucp_worker_params_t

__all__ = ["FailingEndpoint", "Follower", "WorkerBase", "WorkerLane"]


class FailingEndpoint(Protocol):
    """Whose lanes they are."""

    failure: UcsStatus | None

    def fail(self, status: UcsStatus) -> None:
        """It cannot be used any more."""


class Follower(Protocol):
    """Who has requests that wait for something else than the NIC, and keeps what belongs to endpoints."""

    def endpoint_ended(self, endpoint: Any, status: UcsStatus) -> None:
        """An endpoint was closed (CANCELED) or has failed: what waits for it ends with ``status``. May come twice."""

    def cancel_all(self) -> None:
        """The worker is being destroyed: all its requests end with CANCELED."""


class WorkerLane(FencedLane, Protocol):
    """A lane as its worker knows it: see :class:`amoeba.ucp.lanes.Lane`."""

    error: UcsStatus | None

    @property
    def for_memory(self) -> bool: ...

    @property
    def number(self) -> int: ...

    @property
    def address(self) -> EndpointAddress: ...

    @property
    def endpoint(self) -> FailingEndpoint: ...

    @property
    def waiting(self) -> Sized: ...

    @property
    def idle(self) -> bool: ...

    def drain(self) -> int: ...

    def abandon(self) -> None: ...


class WorkerBase(UcpObject, ucp_worker_h):
    """What a worker has, without what goes on in it."""

    main: NicContext
    """For memory and tagged messages; through its ring everything is sent."""
    rings: TransmitRings
    peers: PeerMap
    """By numbers of lanes."""
    dispatch: Dispatch
    """Of ``main``'s events."""
    long_sends: LongSends
    receives: Receives
    """Of tagged messages; only with that feature."""
    messages: NicContext | None = None
    """For streams and active messages; None without those features."""
    inbox: Inbox | None = None
    """Where these land."""
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
        self.progressing = False
        """Inside :meth:`progress`, and so inside callbacks."""
        self.followers: list[Follower] = []
        """Told of ends, in this order."""
        self._next_lane = 0
        super().__init__(context)

    def progress(self) -> int:
        """Go on with everything that can go on; how much did."""
        raise NotImplementedError

    def pack_address(self) -> bytes:
        """What peers must know to reach it: a UCP_ADDRESS."""
        raise NotImplementedError

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
        begins = fences.may_begin(lane)
        if fences.over:
            self.fences = None
        return begins

    def fence(self) -> None:
        """What is posted from now on begins when all memory operations before are over."""
        fences = Fences() if self.fences is None else self.fences
        holds = fences.raise_one([lane for lane in self.lanes.values() if lane.for_memory], self.held_lanes)
        self.fences = fences if holds else None

    def open_lane(self, lane: WorkerLane) -> int:
        """The entry of a lane in the peer table, opened if it was not. Raises what :meth:`PeerMap.find` raises."""
        peers = self.peers
        if lane.number not in peers:
            peers.add(lane.number, lane.address)
        return peers.find(lane.number)

    def close_lane(self, lane: WorkerLane) -> None:
        """Close a lane when nothing is under way on it, and give its entry of the peer table back; does not wait."""

        def close() -> bool:
            if not lane.idle:
                return False
            if lane.number in self.peers:
                self.peers.forget(lane.number)
            self.lanes.pop(lane.number, None)
            return True

        if not close():
            self.waiters.append(close)
