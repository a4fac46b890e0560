"""The receiving half of endpoints: takes messages, and reports peers' operations."""

from typing import Any, Protocol

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.constants import BindFlags, Caps
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counters
from amoeba.nic.event_ring import MAX_EVENTS
from amoeba.nic.nic import Nic
from amoeba.transport.context import Context
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.receives import Outlet, Receives
from amoeba.transport.rendezvous import LongSends
from amoeba.transport.shared_receives import Share

__all__ = ["DEFAULT_RX_SIZE", "MAX_RECEIVE_SEGMENTS", "MESSAGES", "ReceivePool", "Receiver", "identity_of"]

DEFAULT_RX_SIZE = 256
MAX_RECEIVE_SEGMENTS = 16
"""Buffers of one receive: reading a long message takes a descriptor for each, and the smallest ring has 16."""
MESSAGES = Caps.FI_MSG | Caps.FI_TAGGED


def identity_of(av: AddressVector, number: int) -> tuple[int, int]:
    """Return a peer's identity in its messages: IPv4 address and context. Raises FI_EINVAL for an unknown number."""
    address = av._sender(number)
    return address.ip, address.resource_index


class ReceivePool(Protocol):
    """A shared receive context, as an endpoint bound to it uses it."""

    def _check_joining(self, caps: Caps | None, av: AddressVector | None) -> None:
        """Raise FI_EINVAL for an endpoint that does not suit."""

    def _join(self, context: Context, queue: CompletionQueue[Any], outlet: Outlet, av: AddressVector | None) -> Share:
        """Receive the messages for an endpoint's context, which is not enabled yet."""


class Receiver:
    """Reports messages and peers' operations with immediate data to a completion queue, if one is bound.

    ``rx_size``: entries that may wait to be read before peers must wait. Raises FI_EINVAL beyond the size of a ring.
    ``caps``: the capabilities of the endpoint; None: all for which queues are bound. ``sends``: messages can
    be sent that their receivers read. ``connected``: there is one peer, so receives need not name any.
    """

    def __init__(
        self, rx_size: int, caps: Caps | None = None, *, sends: bool = True, connected: bool = False
    ) -> None:
        self.resize(rx_size)
        self.caps = caps
        self._sends = sends
        self._connected = connected
        self.srx: ReceivePool | None = None
        """The shared context whose receives messages match, if any; bound before :meth:`start`."""
        self.share: Share | None = None
        """The shared context's part for this endpoint, from :meth:`start` to :meth:`release`."""
        self.queue: CompletionQueue[Any] | None = None
        """Bound before :meth:`start`."""
        self.selective = False
        """The queue reports successful receives only with FI_COMPLETION."""
        self.min_multi_recv: int = 0
        """The NIC releases a buffer of FI_MULTI_RECV with less free space: FI_OPT_MIN_MULTI_RECV."""
        self.dispatch: Dispatch | None = None
        """Set from :meth:`start` to :meth:`release`, if there are events to report."""
        self.receives: Receives | None = None
        """Set from :meth:`start` to :meth:`release`, if there is a queue and messages can be received."""
        self.long_sends: LongSends | None = None
        """Set from :meth:`start` to :meth:`release`, if messages can be sent that their receivers read."""
        self._av: AddressVector | None = None

    def resize(self, rx_size: int) -> None:
        """Choose another ``rx_size``, before :meth:`start`."""
        if not 1 <= rx_size <= MAX_EVENTS:
            raise fabric_error(Errno.FI_EINVAL, f"rx_size must be 1 to {MAX_EVENTS}, got {rx_size}")
        self.rx_size = rx_size

    def set_min_multi_recv(self, size: int) -> None:
        """Change FI_OPT_MIN_MULTI_RECV for receives posted from now on. Raises FI_EINVAL if no buffer is so long."""
        if not 0 <= size < 1 << 32:
            raise fabric_error(Errno.FI_EINVAL, f"FI_OPT_MIN_MULTI_RECV has 32 bits, got {size}")
        self.min_multi_recv = size

    @property
    def directed(self) -> bool:
        """Whether receives use ``src_addr``."""
        return self.caps is None or Caps.FI_DIRECTED_RECV in self.caps

    @property
    def multi(self) -> bool:
        """Whether receives may have FI_MULTI_RECV."""
        return self.caps is None or Caps.FI_MULTI_RECV in self.caps

    @property
    def takes_messages(self) -> bool:
        """Whether messages can be received: a queue is bound for them, and ``caps`` allow them."""
        return self.queue is not None and (
            self.caps is None or (bool(self.caps & MESSAGES) and Caps.FI_RECV in self.caps)
        )

    @property
    def _sends_long(self) -> bool:
        """Whether messages can be sent that their receivers read, which cause events."""
        return self._sends and (self.caps is None or (bool(self.caps & MESSAGES) and Caps.FI_SEND in self.caps))

    def identity_of(self, number: int) -> tuple[int, int]:
        """Return :func:`identity_of` a peer of this endpoint."""
        assert self._av is not None  # the endpoint is enabled
        return identity_of(self._av, number)

    def check(self, nic: Nic, av: AddressVector) -> None:
        """Raise FI_EOPNOTSUPP if the NIC receives no messages. It reads long ones, for which it needs an initiator.

        Raises FI_ENOCQ or FI_EINVAL if the shared receive context that is bound does not suit.
        """
        if self.takes_messages:
            nic.peers.require_initiator()
            nic.require_messages()
        if self.srx is None:
            return
        if self.queue is None:
            raise fabric_error(Errno.FI_ENOCQ, "bind a completion queue with FI_RECV, too: shared receives have none")
        self.srx._check_joining(self.caps, None if self._connected else av)

    def bind(self, queue: CompletionQueue[Any], flags: BindFlags) -> None:
        """Report to a queue."""
        self.queue = queue
        self.selective = bool(flags & BindFlags.FI_SELECTIVE_COMPLETION)

    def start_listening(self, context: Context, av: AddressVector) -> None:
        """Give events to a context that is to be enabled and only reports peers' operations."""
        if self.queue is not None and context.nic.parameters.event_rings:
            self._listen(context, av)

    def start(self, context: Context, av: AddressVector, counters: Counters) -> None:
        """Give a context that is to be enabled its receiving parts, as far as their results are reported.

        The context has rings, to post through and to read long messages, and peers. A NIC without event rings
        reports nothing: it has no initiator and no messages, and refuses immediate data.
        """
        self._av = av
        if (self.queue is None and not self._sends_long) or not context.nic.parameters.event_rings:
            return
        self._listen(context, av)
        if self._sends_long:
            self.long_sends = context.open_long_sends(counters.uncount_read)
        if self.takes_messages:
            self._start_receiving(context, av, counters)

    def _start_receiving(self, context: Context, av: AddressVector, counters: Counters) -> None:
        """Receive messages, by a ring of its own or from the shared one."""
        if self.srx is None:
            outlet = context.outlet(counters.tally, selective=True)
            self.receives = context.open_receives(outlet, counter=counters.number(Caps.FI_RECV))
            return
        assert self.queue is not None  # there are messages
        outlet = context.outlet(counters.tally, selective=self.selective, ready=False)
        self.share = self.srx._join(context, self.queue, outlet, None if self._connected else av)

    def _listen(self, context: Context, av: AddressVector) -> None:
        """Give the context events, and report them to the queue."""
        self.dispatch = context.open_events(self.rx_size, av._number_of, listening=self.queue is not None)
        if self.queue is not None:
            self.queue._attach(self.dispatch)

    @property
    def size_left(self) -> int:
        """Return the receives that can be posted, and entries that may come, within ``rx_size`` of either."""
        waiting = 0 if self.dispatch is None else self.dispatch.waiting
        return max(0, self.rx_size - max(waiting, 0 if self.receives is None else self.receives.posted))

    def stop(self) -> None:
        """Stop all reports."""
        if self.queue is not None and self.dispatch is not None:
            self.queue._detach(self.dispatch)
        if self.queue is not None and self.share is not None:
            self.queue._detach(self.share)

    def release(self) -> None:
        """Forget the parts of a closed context."""
        self.long_sends = self.receives = self.dispatch = self.share = None
