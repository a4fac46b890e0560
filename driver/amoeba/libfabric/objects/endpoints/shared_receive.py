"""Shared receive contexts: fi_srx_context of fi_endpoint(3).

Such a context is one of the NIC's, with a receive ring, unexpected slots and an event ring. The endpoints that are
bound to it have contexts of their own, whose messages match its receives. The event names the context of a message,
and so the completion queue.
"""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amoeba_model.device import DeviceClosedError

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, Caps
from amoeba.libfabric.objects.endpoints.options import RECEIVE_OPTIONS, HasOptions
from amoeba.libfabric.objects.operations.receiving import Receiving
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.receiver import MESSAGES, Receiver, identity_of
from amoeba.transport.context import Context
from amoeba.transport.receives import ANYBODY, Outlet, Receive, Receives
from amoeba.transport.requests import Arrival
from amoeba.transport.shared_receives import Share, SharedReceives

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["SharedReceiveContext"]

_CHOICES = MESSAGES | Caps.FI_MULTI_RECV | Caps.FI_DIRECTED_RECV
"""Capabilities that an endpoint may have only if the shared context has them."""


class SharedReceiveContext(Receiving, HasOptions):
    """Receives that the endpoints bound to it share; each has its own address, queue, counters and peers.

    A message for any of them matches the oldest suitable receive. Its completion comes to the queue bound with
    FI_RECV to the endpoint that the message was for. That endpoint also counts it, and its FI_SELECTIVE_COMPLETION
    decides whether success is reported. The endpoint that was enabled first reports completions without a message: a
    cancelled receive, or a search without result. Connectionless endpoints must all have the same address vector,
    in which ``src_addr`` is a number.

    ``rx_size``: entries that may wait in the queues of all together before peers must wait. ``caps``: messages that
    may be received, and how; None: all. The calls that receive are those of :class:`amoeba.Endpoint`; receives can
    be posted at once. Raises FI_ENOSPC if the NIC has no free context, FI_EINVAL for an impossible ``rx_size``.

    When an endpoint is closed, receives that its messages have matched are still reported, with FI_ECANCELED if the
    message was not there yet. Its messages that matched none, or were claimed, are dropped. Closing the context
    closes the endpoints first; receives without a message are dropped.
    """

    _options = RECEIVE_OPTIONS

    def __init__(self, domain: "DomainBase", rx_size: int, caps: Caps | None = None) -> None:
        domain._check_open()
        self._nic = domain.nic
        receiver = self._receiver = Receiver(rx_size, caps)
        # the queue of the endpoint that a message is for decides
        receiver.selective = True
        self._shared = SharedReceives(domain.protection, rx_size)
        self._members: dict[int, tuple[CompletionQueue[Any], AddressVector | None]] = {}
        """Queue and vector of an endpoint by the NIC's context; the vector is None if the endpoint is connected."""
        receiver.dispatch, receiver.receives = self._shared.dispatch, self._shared.receives
        self.domain = domain
        super().__init__(domain)

    def cancel(self, context: Any) -> None:
        """Cancel the oldest receive with this ``context``: ``fi_cancel``, as :meth:`amoeba.Endpoint.cancel`.

        Raises FI_EOPBADSTATE without an endpoint whose queue could report it.
        """
        self._telling_queue()
        self._cancel_receive(context)

    def _check_receiving(self) -> None:
        self._check_open()

    def _telling_queue(self) -> CompletionQueue[Any]:
        """Return the queue for completions without a message. Raises FI_EOPBADSTATE without an enabled endpoint."""
        self._check_open()
        for queue, _ in self._enabled():
            return queue
        raise fabric_error(Errno.FI_EOPBADSTATE, "enable an endpoint that is bound to it first: its queue tells")

    def _telling_queues(self) -> Sequence[CompletionQueue[Any]]:
        return [queue for queue, _ in self._enabled()]

    def _enabled(self) -> list[tuple[CompletionQueue[Any], AddressVector | None]]:
        """Yield queue and vector of every endpoint, in the order in which they were enabled."""
        return [self._members[context] for context in self._shared.shares]

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
        """Return the address vector of connectionless endpoints, None without any."""
        return next((av for _, av in self._enabled() if av is not None), None)

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

    def _join(self, context: Context, queue: CompletionQueue[Any], outlet: Outlet, av: AddressVector | None) -> Share:
        """Receive the messages for an endpoint's context, which is not enabled yet."""

        def left(arrival: Arrival) -> None:
            if not queue.closed:
                queue._report(arrival)

        self._members[context.number] = queue, av
        share = self._shared.join(context, outlet, left)
        queue._attach(share)
        return share

    def _release(self) -> None:
        self._stop_receiving()
        with contextlib.suppress(DeviceClosedError):
            self._shared.close()
            self._receiver.release()

    def __repr__(self) -> str:
        state = f"of {len(self._shared.shares)} endpoints, {self._shared.receives.posted} receives posted"
        return f"<SharedReceiveContext {self._shared.context.number} {'closed' if self.closed else state}>"
