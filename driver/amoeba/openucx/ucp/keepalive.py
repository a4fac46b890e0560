"""Detection of dead peers to which nothing is sent."""

import contextlib
import math
import time
from collections.abc import Mapping

from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.addresses import Identity
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.worker_base import WorkerBase

__all__ = ["Keepalive"]


class Keepalive:
    """Asks the NICs behind endpoints with an error handler for a sign of life, every ``interval`` seconds.

    This side's NIC gives up a peer that does not answer, which fails the endpoint. While operations to a peer are
    outstanding, the NIC does that without being asked to. ``interval`` 0 or infinite disables keepalive.
    """

    def __init__(self, endpoints: Mapping[tuple[Identity, int], Endpoint], interval: float) -> None:
        self._endpoints = endpoints
        self._interval = interval if interval > 0 else math.inf
        self._next = time.monotonic() + self._interval
        self._asked: set[int] = set()
        """Lanes whose peers have not answered yet."""

    def look(self, worker: WorkerBase) -> None:
        """Ask the peers, if the interval is over."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._interval
        for endpoint in list(self._endpoints.values()):
            if endpoint.err_handler is None or endpoint.failure is not None or not endpoint.connected:
                continue
            lanes = endpoint.lanes or [endpoint.memory]
            if all(lane.idle for lane in lanes):
                opened = [lane for lane in lanes if lane.number in worker.peers.open]
                self._ask(worker, (opened or lanes)[0])
        worker.rings.announce()

    def _ask(self, worker: WorkerBase, lane: Lane) -> None:
        if lane.number in self._asked:
            return

        def answered(status: int) -> None:
            self._asked.discard(lane.number)

        # no free space in the ring or the peer table: the next time
        with contextlib.suppress(FabricError):
            lane.entry()
            worker.peers.ping(lane.number, answered, more=True)
            self._asked.add(lane.number)
