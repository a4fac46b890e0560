"""A context of the NIC: what is posted into it, what comes out of it, and how it begins and ends.

Open the parts that the context needs, then call :meth:`Context.enable`. :meth:`Context.close` waits for outstanding
requests, notifies peers, and releases everything, at once or when late answers cannot come any more. Every part is
optional: without rings nothing can be posted, without events peers cannot notify it, without receives it gets no
messages.
"""

import functools
import time
from collections import deque
from collections.abc import Callable, Collection

from amoeba.core.errors import ResourceError
from amoeba.nic.address import EndpointAddress
from amoeba.nic.context_table import ContextSettings
from amoeba.nic.event_ring import EventRing
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.peers import PeerMap
from amoeba.transport.protection_domain import ProtectionDomain
from amoeba.transport.receives import Outlet
from amoeba.transport.rendezvous import LongReceives, LongSends
from amoeba.transport.requests import Tally
from amoeba.transport.retirement import RETIREMENT_ENTRIES, Retirement
from amoeba.transport.rings import ContextRings
from amoeba.transport.sharing import RingShare
from amoeba.transport.software_matching import BoundlessReceives
from amoeba.transport.transmit_rings import DRAIN_ROUNDS, DRAIN_TIME, TransmitRings
from amoeba.transport.unexpected import refuse_all

__all__ = ["Context", "Sharer"]

_GIVE_UP_TIME = 60.0
"""Seconds that a NIC gets to end the requests to peers that it was told to give up; it needs microseconds."""


class Sharer:
    """Receives the messages for a context that shares its receives with others."""

    receive_context: int
    """The NIC's context that has the receives."""
    closing = False
    """The context is being closed: reads of long messages that fail now were cancelled."""

    def refuse(self, deadline: float) -> bool:
        """Refuse messages for the context, as :func:`refuse_all` does."""
        raise NotImplementedError

    def leave(self) -> bool:
        """Stop receiving for the context, which has been disabled; returns whether the context may be used again."""
        raise NotImplementedError


class Context:
    """A context of a protection domain's NIC.

    ``number``: a context that was taken before; None takes a free one. Raises FI_ENOSPC if no context is free.
    """

    def __init__(self, domain: ProtectionDomain, number: int | None = None) -> None:
        self.domain = domain
        self.nic = domain.nic
        self.number = domain.nic.contexts.take() if number is None else number
        self.rings: TransmitRings | None = None
        self.own_rings: ContextRings | None = None
        """The same, if nobody shares them."""
        self.events: EventRing | None = None
        self.dispatch: Dispatch | None = None
        self.receives: BoundlessReceives | None = None
        self.long_sends: LongSends | None = None
        self._long_receives: LongReceives | None = None
        self.peers: PeerMap | None = None
        self.sharer: Sharer | None = None
        """The receiver of its messages, if the context has no receives of its own."""

    @property
    def address(self) -> EndpointAddress:
        """The address by which peers reach the context."""
        return self.domain.address_of(self.number)

    # What it has

    def open_rings(self, entries: int) -> ContextRings:
        """Let requests be posted, with up to ``entries`` outstanding descriptors, a power of two."""
        self.rings = self.own_rings = ContextRings(self.nic, self.number, entries)
        return self.own_rings

    def share_rings(self, other: "Context") -> RingShare:
        """Let requests be posted through the rings of another context, which others share, too."""
        assert other.own_rings is not None  # it has been opened for that
        self.rings = share = RingShare(other.own_rings)
        return share

    def open_peers(self, initiator: int | None = None, *, lanes: bool = False) -> PeerMap:
        """Let requests go somewhere. ``initiator``: the context by which peers know this one, if it is another.

        ``lanes``: messages and other operations go beside each other, as :class:`PeerMap` says.
        """
        assert self.rings is not None  # there is something to post through
        self.peers = PeerMap(self.rings, self.number if initiator is None else initiator, lanes=lanes)
        return self.peers

    def open_events(
        self,
        entries: int,
        number_of: Callable[[int, int], int],
        *,
        listening: bool,
        dispatch: Callable[[EventRing], Dispatch] | None = None,
    ) -> Dispatch:
        """Receive events of peers' operations; ``entries`` unread events may wait before peers are held back.

        ``number_of`` and ``listening`` are those of a :class:`Dispatch`; ``dispatch`` makes another than that.
        """
        self.events = EventRing(self.nic, self.number, entries)
        if dispatch is None:
            self.dispatch = Dispatch(self.events, number_of, ahead=entries, listening=listening)
        else:
            self.dispatch = dispatch(self.events)
        if self.rings is not None and listening:
            self.rings.companion = self.dispatch
        return self.dispatch

    def open_long_sends(self, on_read: Callable[[], None]) -> LongSends:
        """Let messages be sent that their receivers read; ``on_read`` as :class:`LongSends` says."""
        assert self.rings is not None  # there is something to post through
        assert self.dispatch is not None  # and to be notified of the end
        self.long_sends = LongSends(self.nic, self.domain.number, self.address, self.rings, self.dispatch, on_read)
        self.long_sends.receives = self._long_receives
        if self.rings.companion is None:  # nobody listens: there are no events but those of long messages
            self.rings.companion = self.long_sends
        return self.long_sends

    def outlet(self, tally: Tally | None, *, selective: bool, ready: bool = True) -> Outlet:
        """Make the outlet for this context's messages, which are ready where its events are.

        Without ``ready``, messages are ready in a queue of their own. Long messages are read through the context's
        rings.
        """
        assert self.rings is not None
        assert self.peers is not None
        assert self.dispatch is not None
        long = LongReceives(self.rings, self.peers, self.dispatch)
        self._long_receives = long
        if self.long_sends is not None:
            self.long_sends.receives = long
        return Outlet(
            self.dispatch.ready if ready else deque(), self.dispatch.number_of, long.fetch, tally, selective
        )

    def open_receives(self, outlet: Outlet, *, counter: int = 0) -> BoundlessReceives:
        """Receive messages. ``counter``: the event counter by which the NIC counts them."""
        return self.open_receives_for(lambda event: outlet, counter=counter, tally=outlet.tally)

    def open_receives_for(
        self,
        outlet_of: "Callable[..., Outlet]",
        *,
        counter: int = 0,
        tally: Tally | None = None,
    ) -> BoundlessReceives:
        """Receive messages on behalf of several contexts: ``outlet_of`` returns the outlet for a message's event."""
        assert self.dispatch is not None
        self.receives = receives = BoundlessReceives(
            self.nic, self.number, self.dispatch, outlet_of, counter=counter, tally=tally
        )
        return receives

    # Its life

    def enable(
        self,
        *,
        read_counter: int = 0,
        write_counter: int = 0,
        data_by_key: bool = False,
        announce: bool | None = None,
    ) -> None:
        """Start it: from now on it reaches peers, and peers reach it. The counters count what these do.

        ``data_by_key``: immediate data comes only with reads by keys that allow it. ``announce``: a message that
        meets no receive writes an event ARRIVED, without which nothing can be taken over; None: it does if there are
        receives.
        """
        rings, events, receives = self.own_rings, self.events, self.receives
        self.nic.contexts.enable(
            self.number,
            ContextSettings(
                transmit_base=0 if rings is None else rings.transmit_base,
                transmit_size=0 if rings is None else rings.size_log2,
                completion_base=0 if rings is None else rings.completion_base,
                completion_size=0 if rings is None else rings.size_log2,
                domain=self.domain.number,
                job_id=self.domain.job_id,
                pid_on_fep=self.domain.pid_on_fep,
                relative=self.domain.relative,
                cswap_by_bits=self.domain.cswap_by_bits,
                event_base=0 if events is None else events.base,
                event_size=0 if events is None else events.size_log2,
                receive_base=0 if receives is None else receives.base,
                receive_size=0 if receives is None else receives.size_log2,
                unexpected_base=0 if receives is None else receives.unexpected_base,
                receive_context=None if self.sharer is None else self.sharer.receive_context,
                read_counter=read_counter,
                write_counter=write_counter,
                data_by_key=data_by_key,
                announce=receives is not None if announce is None else announce,
            ),
        )

    def abandon(self) -> None:
        """Withdraw what has been opened, without waiting: it was not enabled, or has been disabled."""
        self._release()

    def close(self, back: Callable[[], None] | None = None) -> None:
        """Wait until requests are done and peers are notified, and release everything.

        The wait takes :data:`DRAIN_TIME` or :data:`DRAIN_ROUNDS` at most. Then the NIC gives up the peers of requests
        that use buffers, and these requests end. The messages that the NIC is receiving end, too. Afterwards the NIC
        touches no buffer. Senders of long messages that met no receive are notified that nobody will read their
        messages. ``back`` is called when the NIC's context can be used again, perhaps long afterwards; without
        ``back``, the context is released then.

        Raises as :meth:`Nic.drain`, or what a signal's handler raises. Then all that the NIC may still use stays
        until a later ``nic.contexts.reclaim()`` finds that it does not.
        """
        if back is None:
            nic, number = self.nic, self.number

            def back() -> None:
                nic.contexts.release(number)

        self._refuse()
        self.nic.contexts.disable(self.number)
        try:
            self.nic.drain()
        except BaseException:
            self.nic.contexts.retired.append(functools.partial(self._ends_later, back))
            raise
        self._end(back)

    def _ends_later(self, back: Callable[[], None]) -> bool:
        """Release everything if the NIC uses it no more; return whether it is so."""
        if not self.nic.drained:
            return False
        self._end(back)
        return True

    def _end(self, back: Callable[[], None]) -> None:
        """Release everything of a context that was disabled, and has no messages in hand."""
        left = self.sharer is None or self.sharer.leave()
        rings, peers = self.own_rings, self.peers
        idle = rings is None or not rings.outstanding or self.nic.lost
        if left and not idle and rings is not None and peers is not None:
            self.rings = None  # of requests that have not ended, the NIC may still write completions
            self._release()
            rings.companion = None
            self._retire(rings, peers.abandon(), back)
            return
        self._release()
        if left and idle:  # else messages for it lie where they cannot be taken out: it must not be used again
            back()

    def _retire(self, rings: ContextRings, peers: Collection[int], back: Callable[[], None]) -> None:
        """Release ``rings`` and call ``back`` when the NIC's context, which was disabled, can be used again.

        A later ``nic.contexts.reclaim()`` makes that call. If the NIC has no free protection domain for the
        retirement, the context is not used again.
        """
        try:
            domain = ProtectionDomain(self.nic, job_id=0, pid_on_fep=0)
        except ResourceError:
            rings.release()
            return
        again = Context(domain, self.number)
        closing = again.open_rings(RETIREMENT_ENTRIES)
        again.enable()

        def over() -> None:
            self.nic.contexts.disable(self.number)
            rings.release()
            again.abandon()
            domain.release()
            back()

        self.nic.contexts.retired.append(Retirement(closing, peers, over).is_over)

    def _refuse(self) -> None:
        """Drain the context; messages that come meanwhile are refused, too."""
        deadline = time.monotonic() + DRAIN_TIME
        self._refuse_messages(deadline)
        self._drain()
        while self._refuse_messages(deadline):
            self._drain()

    def _refuse_messages(self, deadline: float) -> bool:
        """Refuse messages that met no receive; returns whether a sender was notified, and time is left."""
        if self.sharer is not None:
            return self.sharer.refuse(deadline)
        if self.receives is None or self.dispatch is None or self.rings is None:
            return False
        return refuse_all(self.receives, self.dispatch, deadline)

    def _drain(self) -> None:
        rings = self.rings
        if rings is None:
            return
        deadline = time.monotonic() + DRAIN_TIME
        # messages that nobody reads take half of it
        rings.wait_until(lambda: not (rings.outstanding or rings.held), deadline - DRAIN_TIME / 2)
        if not rings.wait_until(lambda: not rings.outstanding, deadline, DRAIN_ROUNDS):
            self._end_holding(rings)
        if not rings.outstanding and self.peers is not None:
            self.peers.clear(deadline)

    def _end_holding(self, rings: TransmitRings) -> None:
        """Let the NIC give up the peers of requests that use buffers, and wait for the ends of these requests.

        No counter counts them.
        """
        rings.tally = None
        if self.sharer is not None:
            self.sharer.closing = True
        self.nic.event_counters.dismiss(self.number)
        for entry in rings.holding():
            self.nic.peers.fail(entry)
        rings.wait_until(lambda: not rings.holding(), time.monotonic() + _GIVE_UP_TIME)

    def _release(self) -> None:
        """Withdraw the NIC's access to rings and buffers."""
        for part in (self.rings, self.long_sends, self.receives, self.dispatch, self.events):
            if part is not None:
                part.release()
        if self.rings is not None:
            self.rings.companion = None
        self.long_sends = self._long_receives = self.receives = self.events = self.dispatch = None


