"""Rings of one context of the NIC that several endpoints post into."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from amoeba_model.interruptions import uninterrupted

from amoeba.transport.batches import Batch
from amoeba.transport.operation import Operation
from amoeba.transport.requests import Piece
from amoeba.transport.rings import ContextRings
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["RingShare"]


class RingShare(TransmitRings):
    """One endpoint's share of rings that others post into, too.

    Shares take ring entries first come, first served. Any share may take a completion out of the ring. The completion
    goes to the share that posted the operation. Each share counts its own completions, and the NIC counts none.
    """

    def __init__(self, rings: ContextRings) -> None:
        super().__init__(rings.nic, rings.context, rings.entries)
        self._ring = rings
        self.batches = rings.batches
        self.free_entries = rings.free_entries
        self.close_requests = rings.close_requests
        self._outstanding = 0
        self._by_peer: Counter[int] = Counter()
        self._released = False
        self._unannounced = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def outstanding(self) -> int:
        return self._outstanding

    def busy_with(self, peer: int, besides: int = 0) -> bool:
        return self._by_peer[peer] > besides or peer in self.held.values()

    def holding(self) -> set[int]:
        """Return the entries of all requests: a closed share does not learn when its requests end."""
        return {peer for peer, count in self._by_peer.items() if count and peer < self.nic.parameters.peers}

    def requests_to(self, number: int) -> list[Operation]:
        own = [request for request in self._ring.requests_to(number) if request.owner is self]
        return own + [request for request in self._backlog if request.dest_addr == number]

    def check_space(self, descriptors: int = 1) -> None:
        self.absorb()
        self._ring.check_space(descriptors)

    def has_space(self, descriptors: int = 1) -> bool:
        return self._ring.has_space(descriptors)

    def bounce(self, views: Sequence[memoryview], offset: int = 0) -> int:
        return self._ring.bounce(views, offset)

    def post(self, operation: Operation) -> None:
        if not self._ring.has_space():
            self.absorb()
        uninterrupted(self._post_counted, operation, self._ring.post, operation)
        self._posted(operation.more)

    def post_chain(self, operation: Operation, pieces: Sequence[Piece]) -> None:
        if not self._ring.has_space(len(pieces)):
            self.absorb()
        uninterrupted(self._post_counted, operation, self._ring.post_chain, operation, pieces)
        self._posted(operation.more)

    def _post_counted(self, operation: Operation, post: Callable[..., None], *arguments: Any) -> None:
        """Post by the ring, without its doorbell; what has been posted is counted, and known to be announced."""
        operation.owner = self
        more, operation.more = operation.more, True
        try:
            post(*arguments)
        finally:
            operation.more = more
        self.count(operation.peer)
        self._unannounced = True

    def post_batch(self, batch: Batch, more: int, wait: bool, reachable: Callable[[], bool]) -> None:
        self.absorb()
        batch.owner = self
        super().post_batch(batch, more, wait, reachable)

    def _batch_posted(self, more: int) -> None:
        self._posted(more)

    def count(self, peer: int, by: int = 1) -> None:
        """Count ``by`` more outstanding requests, or stretches of batches, to this entry of the peer table."""
        self._outstanding += by
        self._by_peer[peer] += by

    def _posted(self, more: int) -> None:
        self._unannounced = True
        if not more:
            self.announce()
        else:
            self.nic.kick()

    def count_by(self, kind: int, counter: int) -> None:
        """Nothing: requests of others have other counters."""

    def announce(self) -> None:
        if self._unannounced:
            self._ring.announce()
            self._unannounced = False  # only now: whoever was interrupted before announces again
            for listener in self._listeners:
                listener()

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def absorb(self) -> int:
        """Take completions out of the ring, and give each share its own; returns how many there were."""
        return uninterrupted(self._absorb)

    def _absorb(self) -> int:
        count = 0
        taken: list[Operation] = []
        while True:
            self._ring.poll(self.entries, taken)
            if not taken:
                return count
            count += len(taken)
            for request in taken:
                assert isinstance(request.owner, RingShare)
                request.owner._receive(request)
            taken.clear()

    def _receive(self, request: Operation) -> None:
        if request.peer >= 0:  # of a batch its stretches have been counted
            self.count(request.peer, -1)
        if self._released:
            return
        if self.tally is not None and request.counted:
            self.tally(request.kind, request.status, None)
        self._backlog.append(request)

    def _arm_ring(self) -> None:
        self._ring.arm()

    def release(self) -> None:
        """Drop what has not been read, and what is still to come; the ring keeps the buffers of that alive."""
        self._released = True
        self.tally = None
        self._backlog.clear()
