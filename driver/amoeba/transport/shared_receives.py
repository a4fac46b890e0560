"""Receives that several contexts share.

One context of the NIC has the receive ring, the unexpected slots and the event ring. Messages for the other contexts
meet its receives. An event says which context its message is for.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment
from amoeba.nic.event_ring import Event, EventRing
from amoeba.transport.context import Context, Sharer
from amoeba.transport.dispatch import Dispatch, take_ready
from amoeba.transport.protection_domain import ProtectionDomain
from amoeba.transport.receives import Outlet
from amoeba.transport.rendezvous import Record
from amoeba.transport.requests import NO_SOURCE, Arrival
from amoeba.transport.transmit_rings import DRAIN_TIME
from amoeba.transport.unexpected import empty, refuse_all

__all__ = ["Share", "SharedReceives"]

_OK, _CANCELLED = int(ReturnCode.OK), int(ReturnCode.CANCELLED)
_NOBODY = Outlet(
    deque(maxlen=0),
    lambda ip, context: NO_SOURCE,
    lambda record, sender, segments, done: done(_CANCELLED),
    None,
    selective=True,
)
"""The outlet of messages that are not reported."""


class Share(Sharer):
    """The completions of shared receives for one context.

    ``outlet`` is the destination of its messages. At the end, ``left`` is called with each entry that was not read.
    """

    limited = True
    """Messages stay in the event ring while too much is not read, which bounds what they can fill."""

    expectant = True
    """A peer may send at any time."""

    outstanding = 0
    """This side waits for nothing here."""

    def __init__(
        self, shared: "SharedReceives", context: Context, outlet: Outlet, left: Callable[[Arrival], None]
    ) -> None:
        self._shared = shared
        self.receive_context = shared.context.number
        self.context = context
        self.outlet = outlet._replace(fetch=self._fetch)
        self._left = left
        self._read = outlet.fetch
        self._reading: list[Callable[[int], None]] = []
        """A function for each long message that is being read, to call with the status of the read's end."""

    @property
    def ready(self) -> Collection[Arrival]:
        """Entries that have come and were not read."""
        return self.outlet.ready

    def announce(self) -> None:
        """Nothing: receives are announced as they are posted, or when events are looked for."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Nothing: no doorbell begins what peers do."""

    def progress(self) -> None:
        """Take the events of all contexts that share the receives."""
        self._shared.dispatch.progress()

    def poll(self, limit: int, into: list[Any]) -> None:
        """Move up to ``limit`` entries to ``into``, oldest first, and none behind one that reports an error."""
        self.progress()
        take_ready(self.outlet.ready, limit, into)

    def arm(self) -> None:
        """Ask for an interrupt at the next event, or at once if it is there already."""
        self._shared.dispatch.arm()

    def refuse(self, deadline: float) -> bool:
        return refuse_all(self._shared.receives, self._shared.dispatch, deadline, self.context.number)

    def leave(self) -> bool:
        """Leave the shared receives; False: its messages could not be taken out of the NIC's list in time."""
        shared, number = self._shared, self.context.number
        emptied = empty(shared.receives, shared.dispatch, time.monotonic() + DRAIN_TIME, number)
        for over in list(self._reading):
            over(_CANCELLED)
        for arrival in self.outlet.ready:
            self._left(arrival)
        self.outlet.ready.clear()
        del shared.shares[number]
        shared.receives.give_up_claims(number)
        return emptied

    def _fetch(self, record: Record, sender: int, segments: Sequence[Segment], done: Callable[[int], None]) -> None:
        """Read a long message, as :meth:`LongReceives.fetch`; :meth:`leave` ends a read that has not ended before."""

        def over(status: int) -> None:
            if over in self._reading:  # else it has been ended
                self._reading.remove(over)
                done(_CANCELLED if self.closing and status != _OK else status)

        self._reading.append(over)
        self._read(record, sender, segments, over)


class _SharedDispatch(Dispatch):
    """Takes the events of all contexts, each of which has ready what concerns it.

    All contexts together may have as many unread entries as the event ring has before peers are held back.
    """

    def __init__(self, ring: EventRing, entries: int, shares: dict[int, Share]) -> None:
        super().__init__(ring, lambda ip, context: NO_SOURCE, ahead=entries, listening=False)
        self._shares = shares

    def _unread(self) -> int:
        return sum(len(share.outlet.ready) for share in self._shares.values())


class SharedReceives:
    """Receives in a context of their own; ``entries`` that nobody has read may wait before peers are held back.

    Raises FI_ENOSPC if the NIC has no context left, FI_EOPNOTSUPP if it has no initiator or no receives.
    """

    def __init__(self, domain: ProtectionDomain, entries: int) -> None:
        domain.nic.peers.require_initiator()
        domain.nic.require_messages()
        self.shares: dict[int, Share] = {}
        """By number of the context that they are for, in the order in which these joined."""
        self.context = context = Context(domain, domain.nic.contexts.take_last())
        self.dispatch = context.open_events(
            entries,
            lambda ip, context: NO_SOURCE,
            listening=False,
            dispatch=lambda ring: _SharedDispatch(ring, entries, self.shares),
        )
        self.receives = context.open_receives_for(self.outlet_of)
        context.enable(data_by_key=True)

    def join(self, context: Context, outlet: Outlet, left: Callable[[Arrival], None]) -> Share:
        """Receive the messages for a context that is not enabled yet; its events are looked for together with these.

        See :class:`Share`.
        """
        assert context.dispatch is not None  # it is notified of long messages, at least
        share = self.shares[context.number] = context.sharer = Share(self, context, outlet, left)
        context.dispatch.helpers.append(self.dispatch.progress)
        return share

    def outlet_of(self, event: Event) -> Outlet:
        """Return the outlet of the context whose message an event is about, or the first outlet without a message."""
        share = self.shares.get(event.target) if event.source_ip else next(iter(self.shares.values()), None)
        return _NOBODY if share is None else share.outlet

    def close(self) -> None:
        """Receive nothing any more; those that shared it are closed."""
        self.context.close()
