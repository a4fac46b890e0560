"""The receiving half of endpoints: where messages come to, and peers' operations are told."""

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.fabric.address_vector import AddressVector
from amoeba.fabric.constants import BindFlags, Caps
from amoeba.fabric.queues.completion import CompletionQueue
from amoeba.fabric.queues.counters import Counters
from amoeba.nic.address import EndpointAddress
from amoeba.nic.event_ring import MOST_EVENTS, EventRing
from amoeba.nic.nic import Nic
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.peers import PeerMap
from amoeba.transport.receives import Outlet, Receives
from amoeba.transport.rendezvous import LongReceives, LongSends
from amoeba.transport.transmit_rings import DRAIN_TIME, TransmitRings
from amoeba.transport.unexpected import refuse_all

if TYPE_CHECKING:
    from amoeba.fabric.endpoints.shared_receive import Share, SharedReceiveContext

__all__ = ["DEFAULT_RX_SIZE", "MAX_RECEIVE_SEGMENTS", "MESSAGES", "Receiver", "identity_of"]

DEFAULT_RX_SIZE = 256
MAX_RECEIVE_SEGMENTS = 16
"""Buffers of one receive: reading a long message takes a descriptor for each, and the smallest ring has 16."""
MESSAGES = Caps.FI_MSG | Caps.FI_TAGGED


def identity_of(av: AddressVector, number: int) -> tuple[int, int]:
    """What tells a peer's messages: its IPv4 address and context. Raises FI_EINVAL for an unknown number."""
    address = av._sender(number)
    return address.ip, address.resource_index


class Receiver:
    """Tells a completion queue, if one is bound, of messages and of peers' operations with immediate data.

    ``rx_size``: entries that may wait to be read before peers must wait. Raises FI_EINVAL if no ring has so many.
    ``caps``: what the endpoint is to be capable of; None: of all for which queues are bound. ``sends``: messages can
    be sent that their receivers read. ``connected``: there is one peer, so receives need not name any.
    """

    def __init__(
        self, rx_size: int, caps: Caps | None = None, *, sends: bool = True, connected: bool = False
    ) -> None:
        self.resize(rx_size)
        self.caps = caps
        self._sends = sends
        self._connected = connected
        self.srx: SharedReceiveContext | None = None
        """Whose receives messages meet, if not its own; bound before :meth:`start`."""
        self.share: Share | None = None
        """What that has for this endpoint, from :meth:`start` to :meth:`release`."""
        self.queue: CompletionQueue | None = None
        """Bound before :meth:`start`."""
        self.selective = False
        """The queue hears of successful receives only where FI_COMPLETION asks for it."""
        self.min_multi_recv: int = 0
        """A buffer of FI_MULTI_RECV with less room than this is given back: FI_OPT_MIN_MULTI_RECV."""
        self.ring: EventRing | None = None
        """From :meth:`start` to :meth:`release`, if there is something to hear of."""
        self.dispatch: Dispatch | None = None
        """Likewise."""
        self.receives: Receives | None = None
        """From :meth:`start` to :meth:`release`, if there is a queue and messages can be received."""
        self.long_sends: LongSends | None = None
        """From :meth:`start` to :meth:`release`, if messages can be sent that their receivers read."""
        self._av: AddressVector | None = None
        self._rings: TransmitRings | None = None

    def resize(self, rx_size: int) -> None:
        """Choose another ``rx_size``, before :meth:`start`."""
        if not 1 <= rx_size <= MOST_EVENTS:
            raise fabric_error(Errno.FI_EINVAL, f"rx_size must be 1 to {MOST_EVENTS}, got {rx_size}")
        self.rx_size = rx_size

    def set_min_multi_recv(self, size: int) -> None:
        """Change FI_OPT_MIN_MULTI_RECV for receives posted from now on. Raises FI_EINVAL if no buffer is so long."""
        if not 0 <= size < 1 << 32:
            raise fabric_error(Errno.FI_EINVAL, f"FI_OPT_MIN_MULTI_RECV has 32 bits, got {size}")
        self.min_multi_recv = size

    @property
    def directed(self) -> bool:
        """Receives heed ``src_addr``."""
        return self.caps is None or Caps.FI_DIRECTED_RECV in self.caps

    @property
    def multi(self) -> bool:
        """Receives may have FI_MULTI_RECV."""
        return self.caps is None or Caps.FI_MULTI_RECV in self.caps

    @property
    def takes_messages(self) -> bool:
        """Messages can be received: there is a queue for them, and nobody has chosen otherwise."""
        return self.queue is not None and (
            self.caps is None or (bool(self.caps & MESSAGES) and Caps.FI_RECV in self.caps)
        )

    @property
    def _sends_long(self) -> bool:
        """Messages can be sent that their receivers read, of which they tell by events."""
        return self._sends and (self.caps is None or (bool(self.caps & MESSAGES) and Caps.FI_SEND in self.caps))

    @property
    def receive_context(self) -> int | None:
        """The NIC's context whose receives messages meet; None: its own."""
        return None if self.share is None else self.share.receive_context

    def identity_of(self, number: int) -> tuple[int, int]:
        """:func:`identity_of` a peer of this endpoint."""
        assert self._av is not None  # the endpoint is enabled
        return identity_of(self._av, number)

    def check_sharing(self, av: AddressVector) -> None:
        """Raise FI_ENOCQ or FI_EINVAL if the shared receive context that is bound does not suit."""
        if self.srx is None:
            return
        if self.queue is None:
            raise fabric_error(Errno.FI_ENOCQ, "bind a completion queue with FI_RECV, too: shared receives have none")
        self.srx._check_joining(self.caps, None if self._connected else av)

    def bind(self, queue: CompletionQueue, flags: BindFlags) -> None:
        """Report to this queue."""
        self.queue = queue
        self.selective = bool(flags & BindFlags.FI_SELECTIVE_COMPLETION)

    def start_listening(self, nic: Nic, context: int, av: AddressVector) -> None:
        """Make the event ring with which a context is to be started that only hears of peers' operations."""
        if self.queue is not None:
            self._make_ring(nic, context, av)

    def start(
        self,
        nic: Nic,
        domain: int,
        home: EndpointAddress,
        av: AddressVector,
        rings: TransmitRings,
        peers: PeerMap,
        counters: Counters,
    ) -> None:
        """Make the rings with which the NIC's context is to be started, as far as there is somebody to use them.

        ``domain`` is the number of the protection domain, ``home`` the address of the context; operations are posted
        through ``rings``, which may be another one's, to ``peers``.
        """
        self._av = av
        if self.queue is None and not self._sends_long:
            return
        context = home.resource_index
        dispatch = self._make_ring(nic, context, av)
        if self._sends_long:
            self.long_sends = LongSends(nic, domain, home, rings, dispatch, counters.uncount_read)
        # without a queue, there are no events but those of long messages
        self._rings = rings
        rings.companion = self.long_sends if self.queue is None else dispatch
        if self.takes_messages:
            self._start_receiving(nic, context, av, LongReceives(rings, peers, dispatch), dispatch, counters)

    def _start_receiving(
        self,
        nic: Nic,
        context: int,
        av: AddressVector,
        long: LongReceives,
        dispatch: Dispatch,
        counters: Counters,
    ) -> None:
        """Receive messages, by a ring of its own or from the shared one."""
        outlet = Outlet(dispatch.ready, dispatch.number_of, long.fetch, counters.count, selective=True)
        if self.srx is None:
            number = counters.number(Caps.FI_RECV)
            self.receives = Receives(
                nic, context, dispatch, lambda event: outlet, counter=number, tally=counters.count
            )
            return
        assert self.queue is not None  # there are messages
        outlet = outlet._replace(ready=deque(), selective=self.selective)
        self.share = self.srx._join(context, self.queue, outlet, None if self._connected else av, dispatch)

    def _make_ring(self, nic: Nic, context: int, av: AddressVector) -> Dispatch:
        """Make the event ring, and let the queue hear of its events."""
        self.ring = EventRing(nic, context, self.rx_size)
        self.dispatch = Dispatch(self.ring, av._number_of, ahead=self.rx_size, listening=self.queue is not None)
        if self.queue is not None:
            self.queue._attach(self.dispatch)
        return self.dispatch

    @property
    def size_left(self) -> int:
        """Entries that may come before peers must wait, and no more than receives that can be posted."""
        room = max(0, self.rx_size - (0 if self.dispatch is None else self.dispatch.waiting))
        return room if self.receives is None else min(room, self.receives.left)

    def stop(self) -> None:
        """Report nothing any more."""
        if self.queue is not None and self.dispatch is not None:
            self.queue._detach(self.dispatch)
        if self.share is not None:
            self.share.queue._detach(self.share)

    def refuse(self, drain: Callable[[], object]) -> None:
        """Tell senders of long messages that met no receive that nobody will read them, and let ``drain`` wait for
        that and what else is under way. What comes meanwhile is refused, too; the NIC's context is stopped next."""
        deadline = time.monotonic() + DRAIN_TIME
        self._refuse(deadline)
        drain()
        while self._refuse(deadline):
            drain()

    def _refuse(self, deadline: float) -> bool:
        if self.share is not None and self.srx is not None:
            return self.srx._refuse(self.share, deadline)
        if self.receives is None or self.dispatch is None:
            return False
        return refuse_all(self.receives, self.dispatch, deadline)

    def leave(self) -> bool:
        """Receive nothing any more: the NIC's context has been stopped. Whether it may be used again."""
        share, self.share = self.share, None
        return share is None or self.srx is None or self.srx._leave(share)

    def release(self) -> None:
        """Withdraw the NIC's access to the rings; its context has been stopped."""
        for part in (self.long_sends, self.receives, self.dispatch, self.ring):
            if part is not None:
                part.release()
        if self._rings is not None:
            self._rings.companion = None
        self.long_sends = self.receives = self.ring = self.dispatch = None
