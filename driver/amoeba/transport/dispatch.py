"""Dispatch of events: to the completion queue, or to the part of the driver that caused them."""

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from amoeba_model.descriptors import EventKind
from amoeba_model.interruptions import uninterrupted
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.event_ring import Event, EventRing
from amoeba.transport.requests import DATA, Arrival, Kind

__all__ = ["Dispatch", "take_ready"]

_OK = int(ReturnCode.OK)


_KINDS = {
    int(EventKind.REMOTE_WRITE): Kind.REMOTE_WRITE | DATA,
    int(EventKind.REMOTE_READ): Kind.REMOTE_READ | DATA,
    int(EventKind.REMOTE_ATOMIC): Kind.REMOTE_ATOMIC | DATA,
}
"""Of a peer's operation with immediate data, by the event's kind."""


def take_ready(ready: deque[Arrival], limit: int, into: list[Any]) -> None:
    """Move up to ``limit`` of the oldest out of ``ready``, and none behind one that reports an error."""
    while ready and limit:
        oldest = ready[0]
        # no call between these, so that a signal's handler finds it in one place
        into += (oldest,)
        del ready[0]
        limit -= 1
        if oldest.status != _OK:
            break


class Dispatch:
    """Takes the events of one context, and has ready what the completion queue shall say of them.

    ``number_of`` tells the number in the address vector of a peer by its IPv4 address and context; ``ahead`` is how
    many entries may be ready for a queue that is not read, before events stay in their ring and hold peers back;
    ``listening``: a queue is there that will be read.
    """

    def __init__(self, ring: EventRing, number_of: Callable[[int, int], int], *, ahead: int, listening: bool) -> None:
        self.ring = ring
        self.number_of = number_of
        self.ready: deque[Arrival] = deque()
        """For the completion queue, which :meth:`poll` tells."""
        self.handlers: dict[int, Callable[[Event], None]] = {}
        """By the event's kind; they come before the completion queue."""
        self.helpers: list[Callable[[], None]] = []
        """Functions that make further completions ready when they are called."""
        self._ahead = ahead
        self._listening = listening

    limited = True
    """Peers that have more to say wait while too much is not read, which bounds the memory that they can fill."""

    outstanding = 0
    """This side waits for nothing here."""

    @property
    def expectant(self) -> bool:
        """Always: a peer may tell something at any time."""
        return True

    @property
    def waiting(self) -> int:
        """Entries and events that have come and were not read."""
        return self._unread() + self.ring.waiting

    def announce(self) -> None:
        """Nothing: what this side asks for, it announces at once."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Nothing: no doorbell begins what peers do."""

    def poll(self, limit: int, into: list[Any]) -> None:
        """Move up to ``limit`` entries to ``into``, oldest first, and none behind one that reports an error."""
        self._work(limit)
        take_ready(self.ready, limit, into)

    def progress(self) -> None:
        """Take events also if nobody reads the queue, as long as not too much is ready for it."""
        self._work(self._ahead)

    def take_all(self) -> None:
        """Take what has come, however much is ready and not read."""
        self._work(sys.maxsize)

    def _work(self, enough: int) -> None:
        for helper in self.helpers:
            helper()
        if self.ring.has_event:
            uninterrupted(self._handle, enough)
        self.ring.acknowledge()

    def _handle(self, enough: int) -> None:
        unread, take, handler_of, tell = self._unread, self.ring.take, self.handlers.get, self.tell
        while unread() < enough and (event := take()) is not None:
            handler_of(event.kind, tell)(event)

    def _unread(self) -> int:
        """Entries that are ready."""
        return len(self.ready)

    def tell(self, event: Event) -> None:
        """Tell the completion queue of a peer's operation with immediate data. Raises FI_EIO for other events."""
        kind = _KINDS.get(event.kind)
        if kind is None:
            raise fabric_error(Errno.FI_EIO, f"the NIC wrote an event of kind {event.kind:#x}, which nobody expects")
        if self._listening:
            source = self.number_of(event.source_ip, event.source_context)
            self.ready.append(Arrival(None, kind, event.length, event.status, event.data, source))

    def release(self) -> None:
        """Forget whom to tell; the ring is not read any more."""
        self.handlers.clear()
        self.helpers.clear()

    def arm(self) -> None:
        """Ask for an interrupt at the next event, or at once if it is there already."""
        self.ring.arm()
