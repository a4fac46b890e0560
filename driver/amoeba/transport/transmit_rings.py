"""Posting through rings: a context's own (:mod:`amoeba.transport.rings`) or a share (``sharing``)."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence, Sized
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.interruptions import uninterrupted

from amoeba.nic.nic import Nic
from amoeba.transport.batches import Batch, Batches
from amoeba.transport.close_requests import CloseRequests
from amoeba.transport.operation import Operation, engine_operation, take_reported
from amoeba.transport.requests import NOBODY, Companion, Piece, Tally

__all__ = ["DRAIN_ROUNDS", "DRAIN_TIME", "TransmitRings"]

_FENCE = int(DescriptorFlags.FENCE)
_FENCE_ALL = int(DescriptorFlags.FENCE_ALL)
_CLOSE, _NOP, _PING = int(DescriptorOpcode.CLOSE), int(DescriptorOpcode.NOP), int(DescriptorOpcode.PING)
DRAIN_TIME = 1.0
"""Seconds of host time that closing a context, and removing peers, waits for others."""
DRAIN_ROUNDS = 100
"""Network latencies that closing waits at least: in a second a simulated NIC on a busy machine may do very little."""


class TransmitRings(ABC):
    """The way into a transmit ring, and the completions that have come back.

    ``context``: the NIC's context that the ring belongs to. ``entries``: the ring's maximum of outstanding
    descriptors.
    """

    batches: Batches
    """The batches of the ring that is posted into."""
    free_entries: Sized
    """The free entries of that ring, for callers to whom the call of :attr:`room` costs too much."""
    limited = False
    """All completions can be taken at once, however many, as they are of own operations."""
    ready: Collection[Operation] = ()
    """Nothing: completions are not kept for a reader."""

    def __init__(self, nic: Nic, context: int, entries: int) -> None:
        self.nic = nic
        self.context = context
        self.entries = entries
        self._backlog: list[Operation] = []
        """Requests taken out of the ring, or ended without it; :meth:`poll` returns them."""
        self.peer_failed: Callable[[int], None] = lambda dest_addr: None
        """Told of every operation that ended because its peer was given up."""
        self.tally: Tally | None = None
        """Counts all completions as they are taken from the ring."""
        self.held: dict[int, int] = {}
        """Peer table entries of requests that the NIC has done, but the peer has not, by any key."""
        self.companion: Companion | None = None
        self.close_requests = CloseRequests(nic.peers)

    @property
    @abstractmethod
    def outstanding(self) -> int:
        """Requests posted whose completion has not been taken."""

    @property
    def space(self) -> int:
        """Descriptors that can be posted now."""
        return len(self.free_entries)

    @property
    def expectant(self) -> bool:
        """Whether :meth:`poll` has something to take, or will have."""
        return bool(self._backlog or self.held) or self.outstanding > 0

    @abstractmethod
    def busy_with(self, peer: int, besides: int = 0) -> bool:
        """Return whether more than so many requests to a peer table entry are outstanding, or any are held."""

    @abstractmethod
    def holding(self) -> set[int]:
        """Return the peer table entries of requests that must end before :meth:`release`: the NIC uses buffers."""

    @abstractmethod
    def requests_to(self, number: int) -> list[Operation]:
        """Return requests to the peer with this ``dest_addr`` that :meth:`poll` has not returned, oldest first."""

    # Posting

    @abstractmethod
    def check_space(self, descriptors: int = 1) -> None:
        """Raise FI_EAGAIN if a request of so many descriptors cannot be posted."""

    @abstractmethod
    def has_space(self, descriptors: int = 1) -> bool:
        """Whether so many descriptors can be posted."""

    @abstractmethod
    def bounce(self, views: Sequence[memoryview], offset: int = 0) -> int:
        """Copy operands of the next request to where they stay until it completes; returns their address.

        ``offset``: INJECT_SIZE for compare values. The caller has seen to it that at most INJECT_SIZE bytes come.
        """

    @abstractmethod
    def post(self, operation: Operation) -> None:
        """Write the one descriptor of an operation and, unless ``more`` follow at once, ring the doorbell.

        Device access that the operation asks for is granted first. Raises FI_EAGAIN if the ring is full; then, and
        whatever else is raised, nothing is posted and nothing granted.
        """

    @abstractmethod
    def post_chain(self, operation: Operation, pieces: Sequence[Piece]) -> None:
        """Write the descriptors of one operation, tied together, as :meth:`post` does one.

        ``pieces`` say what each descriptor has; peer, op and datatype are the operation's.

        Raises FI_EINVAL, too, if there are more pieces than the ring has entries.
        """

    def post_batch(self, batch: Batch, more: int, wait: bool, reachable: Callable[[], bool]) -> None:
        """Post as many requests of a batch as ring entries are free; with ``wait`` all, unless its peers are lost.

        While it waits, time passes, and requests that complete are kept for :meth:`poll`. Raises what a grant raises,
        and then nothing is posted.
        """
        batches = self.batches
        try:
            uninterrupted(batches.begin, batch)
            while True:
                while batch.posted < batch.count and self.space:
                    uninterrupted(batches.post, batch)
                self._batch_posted(more)
                if batch.posted == batch.count or not wait:
                    break
                least = min(batches.least_space, batch.count - batch.posted)
                self.wait_until(lambda: self.space >= least, math.inf)  # noqa: B023
                if not reachable():
                    break
        finally:
            uninterrupted(self._finish_batch, batch)

    def _finish_batch(self, batch: Batch) -> None:
        if self.batches.finish_posting(batch):
            self._backlog.append(batch)

    @abstractmethod
    def _batch_posted(self, more: int) -> None:
        """Ring the doorbell for a part of a batch, unless ``more`` follow at once."""

    def post_close(self, peer: int, done: Callable[[int], None]) -> None:
        """Close the delivery context of a peer entry, in order; ``done`` is called when it is, or cannot be."""
        self.post(engine_operation(done, opcode=_CLOSE, peer=peer, more=True))

    def post_fence(self, done: Callable[[int], None], peer: int | None = None, *, more: int = False) -> None:
        """Call ``done`` when all earlier requests of the NIC's context to a peer entry are answered. Sends nothing.

        Without ``peer``, the fence covers all peers. ``done`` is called behind the ends of these requests, also if
        they fail. The fence takes a descriptor like any request, raises FI_EAGAIN as :meth:`post` does, and needs the
        doorbell unless ``more`` follow. It also waits for requests that others posted through the same ring, but not
        for messages that a peer still has to read (:attr:`held`). ``done`` gets OK, or LOCAL_BAD_PEER of an entry
        that is not the context's.
        """
        flags, entry = (_FENCE_ALL, self.nic.parameters.peers) if peer is None else (_FENCE, peer)
        self.post(engine_operation(done, opcode=_NOP, flags=flags, peer=entry, more=more))

    def post_ping(
        self, peer: int, done: Callable[[int], None], dest_addr: int = NOBODY, *, more: int = False
    ) -> None:
        """Ask the NIC behind a peer entry for an answer, behind what was posted to it before; touches no memory.

        ``done`` is called with OK when the answer has come, or with LOCAL_PDC_FAILED when the NIC has given the peer
        up. Then :attr:`peer_failed` is called as well if ``dest_addr`` is the peer's number. The answer of a NIC says
        nothing of the peer's context. Raises FI_EAGAIN as :meth:`post` does.
        """
        self.post(engine_operation(done, opcode=_PING, peer=peer, dest_addr=dest_addr, more=more))

    @abstractmethod
    def count_by(self, kind: int, counter: int) -> None:
        """Let an event counter of the NIC count requests of a kind, if nobody else shares the ring."""

    @abstractmethod
    def announce(self) -> None:
        """Ring the doorbell for descriptors that wait for it."""

    @abstractmethod
    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever descriptors have been announced."""

    # What comes back

    def poll(self, limit: int, into: list[Any]) -> None:
        """Move up to ``limit`` completions to ``into``, oldest first, and none behind one that reports an error.

        Their buffers and ring entries are free again. An interruption of this call loses no completion.
        """
        self.progress()
        self.absorb()
        take_reported(self._backlog, limit, into)

    def progress(self) -> None:
        """Let the companion do what can be done now."""
        if self.companion is not None:
            self.companion.progress()

    @abstractmethod
    def absorb(self) -> int:
        """Take completed requests out of the ring, and keep them for :meth:`poll`; returns how many there were."""

    def finish(self, request: Operation, status: int) -> None:
        """End a request that the NIC alone cannot end: it is counted, and :meth:`poll` returns it."""
        request.status = status
        if request.ended is not None:
            request.ended(status)
        if self.tally is not None and request.counted:
            self.tally(request.kind, status, None)
        self._backlog.append(request)

    def wait_until(self, finished: Callable[[], bool], deadline: float, rounds: int = 0) -> bool:
        """Let time pass until completions make ``finished`` true; returns whether it was so by ``deadline``.

        ``deadline`` is of :func:`time.monotonic`, but the NIC also gets so many ``rounds``, network latencies of a
        simulated NIC. Requests that complete meanwhile are kept for :meth:`poll`.
        """
        self.announce()
        while not finished():
            if rounds <= 0 and time.monotonic() >= deadline:
                return False
            taken = self.absorb()
            self.progress()
            if not taken:
                self.nic.advance()
                rounds -= 1
        return True

    def arm(self) -> None:
        """Ask for an interrupt at the next completion, or at once if it is there already."""
        self._arm_ring()
        if self.held and self.companion is not None:
            self.companion.arm()

    @abstractmethod
    def _arm_ring(self) -> None:
        """Ask for an interrupt at the next completion of the ring alone."""

    @abstractmethod
    def release(self) -> None:
        """Release the resources that this alone uses; outstanding requests are no longer reported.

        No request may be :meth:`holding` anything.
        """
