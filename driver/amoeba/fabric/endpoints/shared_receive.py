"""Shared receive contexts: fi_srx_context of fi_endpoint(3).

Such a context is one of the NIC's, with a receive ring, unexpected slots and an event ring. The endpoints that are
bound to it have contexts of their own, whose messages meet its receives; the event says for which context a message
was, and so to whose completion queue it belongs.
"""

import contextlib
import functools
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.device import DeviceClosedError
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.fabric.address_vector import AddressVector
from amoeba.fabric.constants import FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC, Caps
from amoeba.fabric.endpoints.options import RECEIVE_OPTIONS, HasOptions
from amoeba.fabric.endpoints.receiver import MESSAGES, Receiver, identity_of
from amoeba.fabric.operations.receiving import Receiving
from amoeba.fabric.queues.completion import CompletionQueue
from amoeba.nic.event_ring import Event, EventRing
from amoeba.transport.context import start_context
from amoeba.transport.dispatch import Dispatch, take_ready
from amoeba.transport.receives import ANYBODY, Outlet, Receive, Receives
from amoeba.transport.rendezvous import Record
from amoeba.transport.requests import Arrival
from amoeba.transport.transmit_rings import DRAIN_TIME
from amoeba.transport.unexpected import empty, refuse_all

if TYPE_CHECKING:
    from amoeba.fabric.domain_base import DomainBase

__all__ = ["Share", "SharedReceiveContext"]

_CANCELLED = int(ReturnCode.CANCELLED)
_CHOICES = MESSAGES | Caps.FI_MULTI_RECV | Caps.FI_DIRECTED_RECV
"""What an endpoint may be capable of only if the context is whose receives it shares."""


_NOBODY = Outlet(
    deque(maxlen=0),
    lambda ip, context: FI_ADDR_NOTAVAIL,
    lambda record, sender, segments, done: done(_CANCELLED),
    lambda kind, status, told, times=1: None,
    selective=True,
)
"""Of what nobody is told."""


class Share:
    """What comes out of a shared receive context for one endpoint: a source of its completion queue.

    ``context`` is the endpoint's own of the NIC; ``outlet`` says what becomes of its messages; ``av`` is its address
    vector, None if it is connected.
    """

    limited = True
    """Messages stay in the event ring while too much is not read, which bounds what they can fill."""

    expectant = True
    """A peer may send at any time."""

    under_way = 0
    """This side waits for nothing here."""

    @property
    def ready(self) -> Collection[Arrival]:
        """What has come for this endpoint and was not read."""
        return self.outlet.ready

    def __init__(
        self,
        dispatch: Dispatch,
        receive_context: int,
        context: int,
        queue: CompletionQueue,
        outlet: Outlet,
        av: AddressVector | None,
    ) -> None:
        self.receive_context = receive_context
        """The NIC's context that has the receives."""
        self.context = context
        self.queue = queue
        self.av = av
        self.outlet = outlet._replace(fetch=self._fetch)
        self._read = outlet.fetch
        self._dispatch = dispatch
        self._reading: list[Callable[[int], None]] = []
        """Long messages under way, each with whom to tell of its end."""

    def announce(self) -> None:
        """Nothing: receives are announced as they are posted, or when events are looked for."""

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        """Nothing: no doorbell begins what peers do."""

    def progress(self) -> None:
        """Take events, whoever's messages they are about."""
        self._dispatch.progress()

    def poll(self, limit: int) -> list[Arrival]:
        """Take up to ``limit`` entries, oldest first, and none behind one that reports an error."""
        self.progress()
        return take_ready(self.outlet.ready, limit)

    def arm(self) -> None:
        """Ask for an interrupt at the next event, or at once if it is there already."""
        self._dispatch.arm()

    def _fetch(self, record: Record, sender: int, segments: Sequence[Segment], done: Callable[[int], None]) -> None:
        """As :meth:`amoeba.transport.rendezvous.LongReceives.fetch`; :meth:`end` ends it, if it has not."""

        def over(status: int) -> None:
            if over in self._reading:  # else it has been ended
                self._reading.remove(over)
                done(status)

        self._reading.append(over)
        self._read(record, sender, segments, over)

    def end(self) -> None:
        """Nothing is read any more. What has been received, or has failed by that, is still reported."""
        for over in list(self._reading):
            over(_CANCELLED)
        if not self.queue.closed:
            for completed in self.outlet.ready:
                self.queue._report(completed)
        self.outlet.ready.clear()


def _outlet_of(shares: dict[int, Share], event: Event) -> Outlet:
    """That of the endpoint whose message an event is about, or of the first one if it is about none."""
    share = shares.get(event.target) if event.source_ip else next(iter(shares.values()), None)
    return _NOBODY if share is None else share.outlet


class _SharedDispatch(Dispatch):
    """Takes the events of all endpoints, each of whom has ready what concerns it.

    As many entries as ``rx_size`` may wait in all queues together before peers are held back, all of them.
    """

    def __init__(self, ring: EventRing, rx_size: int, shares: dict[int, Share]) -> None:
        super().__init__(ring, lambda ip, context: FI_ADDR_NOTAVAIL, ahead=rx_size, listening=False)
        self._shares = shares

    def _unread(self) -> int:
        return sum(len(share.outlet.ready) for share in self._shares.values())


class SharedReceiveContext(Receiving, HasOptions):
    """Receives that the endpoints bound to it share; each has its own address, queue, counters and peers.

    A message for any of them meets the oldest receive that matches. Its completion comes to the queue bound with
    FI_RECV to the endpoint that it was for, which also counts it, and whose FI_SELECTIVE_COMPLETION says whether
    success is reported. What is about no message, a receive that was taken back or a search without result, is
    reported by the endpoint that was enabled first. Connectionless endpoints must all have the same address vector,
    in which ``src_addr`` is a number.

    ``rx_size``: entries that may wait in the queues of all together before peers must wait. ``caps``: which messages
    may be received, and how; None: all. The calls that receive are those of :class:`amoeba.Endpoint`; receives can
    be posted at once. Raises FI_ENOSPC if the NIC has no context left, FI_EINVAL for an ``rx_size`` that no ring has.

    When an endpoint is closed, receives that its messages have met are still reported, with FI_ECANCELED if the
    message was not there yet; its messages that met none, or were claimed, are dropped. Closing the context closes
    the endpoints first; receives that have met no message are dropped.
    """

    _options = RECEIVE_OPTIONS

    def __init__(self, domain: "DomainBase", rx_size: int, caps: Caps | None = None) -> None:
        domain._check_open()
        self._nic = domain.nic
        receiver = self._receiver = Receiver(rx_size, caps)
        # the queue of the endpoint that a message is for decides
        receiver.selective = True
        self._shares: dict[int, Share] = {}
        """By the NIC's context, in the order in which they were enabled."""
        self._context = self._nic.contexts.take()
        receiver.ring = EventRing(self._nic, self._context, rx_size)
        receiver.dispatch = self._dispatch = _SharedDispatch(receiver.ring, rx_size, self._shares)
        receiver.receives = self._receives = Receives(
            self._nic, self._context, self._dispatch, functools.partial(_outlet_of, self._shares)
        )
        start_context(domain.protection, self._context, None, receiver)
        self.domain = domain
        super().__init__(domain)

    def cancel(self, context: Any) -> None:
        """Take back the oldest receive with this ``context``: ``fi_cancel``, as :meth:`amoeba.Endpoint.cancel`.

        Raises FI_EOPBADSTATE if there is no endpoint whose queue could tell of it.
        """
        self._telling_queue()
        self._cancel_receive(context)

    def _check_receiving(self) -> None:
        self._check_open()

    def _telling_queue(self) -> CompletionQueue:
        """The queue that hears of what is about no message. Raises FI_EOPBADSTATE if there is none."""
        self._check_open()
        for share in self._shares.values():
            return share.queue
        raise fabric_error(Errno.FI_EOPBADSTATE, "enable an endpoint that is bound to it first: its queue tells")

    def _telling_queues(self) -> Sequence[CompletionQueue]:
        return [share.queue for share in self._shares.values()]

    def _sender(self, src_addr: int) -> tuple[int, int]:
        if src_addr == FI_ADDR_UNSPEC or not self._receiver.directed:
            return ANYBODY
        self._telling_queue()
        vector = self._vector()
        return ANYBODY if vector is None else identity_of(vector, src_addr)

    def _search(self, receives: Receives, receive: Receive, bits: int) -> None:
        self._telling_queue()
        super()._search(receives, receive, bits)

    def _vector(self) -> AddressVector | None:
        """The address vector of connectionless endpoints, None without any."""
        return next((share.av for share in self._shares.values() if share.av is not None), None)

    def _resize(self, *, rx_size: int) -> None:
        raise fabric_error(Errno.FI_EOPBADSTATE, f"the event ring has its size, {self.rx_size} and not {rx_size}")

    # The endpoints

    def _check_joining(self, caps: Caps | None, av: AddressVector | None) -> None:
        """Raise FI_EINVAL for an endpoint with more capabilities than the context, or another address vector."""
        own, vector = self._receiver.caps, self._vector()
        if own is not None and caps is not None and caps & _CHOICES & ~own:
            raise fabric_error(
                Errno.FI_EINVAL, f"{self!r} has {own & _CHOICES!r}, which an endpoint with {caps!r} exceeds"
            )
        if av is not None and vector not in (None, av):
            raise fabric_error(
                Errno.FI_EINVAL, f"connectionless endpoints share receives with one address vector, {vector!r}"
            )

    def _join(
        self, context: int, queue: CompletionQueue, outlet: Outlet, av: AddressVector | None, events: Dispatch
    ) -> Share:
        """Receive the messages for an endpoint's context, which is not enabled yet.

        While its own ``events`` are looked for, they are, too.
        """
        share = Share(self._dispatch, self._context, context, queue, outlet, av)
        self._shares[context] = share
        queue._attach(share)
        events.helpers.append(self._dispatch.progress)
        return share

    def _refuse(self, share: Share, deadline: float) -> bool:
        """:func:`refuse_all` messages for an endpoint, whose context is still enabled."""
        return refuse_all(self._receives, self._dispatch, deadline, share.context)

    def _leave(self, share: Share) -> bool:
        """Receive for an endpoint no more: its context has been disabled.

        False: its messages could not be taken out of the list in time, so the context must not be used again.
        """
        emptied = empty(self._receives, self._dispatch, time.monotonic() + DRAIN_TIME, share.context)
        share.end()
        del self._shares[share.context]
        self._receives.give_up_claims(share.context)
        return emptied

    def _release(self) -> None:
        self._stop_receiving()
        with contextlib.suppress(DeviceClosedError):
            self._nic.contexts.disable(self._context)
            self._nic.contexts.give_back(self._context)
            self._receiver.release()

    def __repr__(self) -> str:
        state = f"of {len(self._shares)} endpoints, {self._receives.posted} receives posted"
        return f"<SharedReceiveContext {self._context} {'closed' if self.closed else state}>"
