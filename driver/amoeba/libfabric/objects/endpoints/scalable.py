"""Scalable endpoints: one address, several transmit and receive contexts. fi_endpoint(3)."""

import contextlib
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from amoeba_model.device import DeviceClosedError

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.checks import check_flags, check_instance, check_number
from amoeba.libfabric.objects.constants import BindFlags, Caps, OpFlags
from amoeba.libfabric.objects.endpoints.options import RECEIVE_OPTIONS, TRANSMIT_OPTIONS, HasOptions
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.endpoints.transmit import Transmitter, ring_size
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.receiving import Receiving
from amoeba.libfabric.objects.operations.rights import rights_of
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter, Counters
from amoeba.libfabric.objects.receiver import DEFAULT_RX_SIZE, MAX_RECEIVE_SEGMENTS, Receiver
from amoeba.transport.context import Context

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["ReceiveContext", "ScalableEndpoint", "TransmitContext"]

_RECEIVED = BindFlags.FI_RECV | BindFlags.FI_REMOTE_READ | BindFlags.FI_REMOTE_WRITE
"""Events that a receive context counts."""


class ScalableEndpoint(FabricObject):
    """An endpoint with ``tx_contexts`` transmit and ``rx_contexts`` receive contexts, each a context of the NIC.

    Bind an address vector, open contexts by their index, bind queues to them and enable them. Operations are posted
    through transmit contexts. Peers reach the domain's memory, and send messages, through receive contexts: number 0,
    unless they name another one by :func:`amoeba.rx_addr`. ``caps``: whether messages are sent and received; by
    default both. ``shared_receives``: its only receive context is to be bound to a shared receive context.

    The NIC's contexts are taken at once, and lie side by side, receive contexts first. Raises FI_EINVAL for less than
    one of either, FI_ENOSPC if the NIC has fewer free ones.
    """

    def __init__(
        self,
        domain: "DomainBase",
        *,
        tx_contexts: int,
        rx_contexts: int,
        tx_size: int,
        rx_size: int,
        op_flags: OpFlags = NO_FLAGS,
        caps: Caps | None = None,
        shared_receives: bool = False,
        lanes: bool = False,
    ) -> None:
        if tx_contexts < 1 or rx_contexts < 1:
            raise fabric_error(
                Errno.FI_EINVAL, f"expected one or more contexts of either kind, got {tx_contexts} and {rx_contexts}"
            )
        domain._check_open()
        self.domain = domain
        self.tx_contexts = tx_contexts
        self.rx_contexts = rx_contexts
        self._defaults = tx_size, rx_size, op_flags
        self._caps = caps
        self._shares_receives = shared_receives
        self._lanes = lanes
        """Messages of a transmit context go beside its RMA and atomics, without an order between them."""
        self._av: AddressVector | None = None
        nic = self._nic = domain.nic
        first = nic.contexts.take_block(rx_contexts + tx_contexts)
        self._name = domain.protection.address_of(first, rx_contexts + tx_contexts)
        self._open: WeakValueDictionary[int, TransmitContext | ReceiveContext] = WeakValueDictionary()
        """Open contexts by the number of the NIC's context."""
        self._lost: set[int] = set()
        """Contexts of the NIC for which answers may still come, and which are unused until then."""
        super().__init__(domain)

    def bind(self, av: AddressVector) -> None:
        """Choose the address vector of peers: ``fi_scalable_ep_bind``. Closing the vector closes the endpoint first.

        Raises FI_EINVAL for a second or foreign one, and for objects that belong to the contexts.
        """
        self._check_open()
        if not isinstance(av, AddressVector):
            raise fabric_error(
                Errno.FI_EINVAL, f"expected an address vector: bind {av!r} to transmit or receive contexts"
            )
        av._check_open()
        av._check_made_from(self.domain)
        if self._av is not None:
            raise fabric_error(Errno.FI_EINVAL, "an address vector is bound already")
        self._av = av
        av._adopt(self)

    def tx_context(
        self, index: int, *, tx_size: int | None = None, op_flags: OpFlags | None = None
    ) -> "TransmitContext":
        """Open a transmit context; sizes and flags default to the endpoint's: ``fi_tx_context``.

        Raises FI_EINVAL for an invalid index, FI_EBUSY if that context is open, or still waits for answers.
        """
        context = self._claim(index, self.tx_contexts, self.rx_contexts)
        size, _, flags = self._defaults
        opened = TransmitContext(
            self, context, size if tx_size is None else tx_size, flags if op_flags is None else op_flags
        )
        self._open[context] = opened
        return opened

    def rx_context(
        self, index: int, *, rx_size: int | None = None, op_flags: OpFlags = NO_FLAGS
    ) -> "ReceiveContext":
        """Open a receive context; its size is the endpoint's if not given: ``fi_rx_context``.

        Raises what :meth:`tx_context` does, and FI_EBADFLAGS for ``op_flags`` that cannot be a default.
        """
        context = self._claim(index, self.rx_contexts, 0)
        opened = ReceiveContext(self, context, self._defaults[1] if rx_size is None else rx_size)
        self._open[context] = opened
        opened._take_receive_flags(op_flags)
        return opened

    def enable(self) -> None:
        """Enable opened contexts that are not enabled yet. Raises the errors of their ``enable``."""
        self._vector()
        for context in list(self._open.values()):
            if not context.enabled:
                context.enable()

    def getname(self) -> bytes:
        """Return the endpoint's address, for the address vectors of peers."""
        self._check_open()
        return self._name.pack()

    def _claim(self, index: int, count: int, offset: int) -> int:
        """Return the NIC's context of a transmit or receive context that is about to be opened."""
        self._check_open()
        index = index if type(index) is int else check_number("index", index)
        if not 0 <= index < count:
            raise fabric_error(Errno.FI_EINVAL, f"contexts have numbers from 0 to {count - 1}, got {index}")
        context = self._name.resource_index + offset + index
        self._nic.contexts.reclaim()
        if context in self._open or context in self._lost:
            raise fabric_error(Errno.FI_EBUSY, f"context {index} is in use")
        return context

    def _vector(self) -> AddressVector:
        self._check_open()
        if self._av is None:
            raise fabric_error(Errno.FI_ENOAV, "bind an address vector before enable()")
        return self._av

    def _open_context(self, number: int, entries: int, receiver: Receiver, counters: Counters) -> Context:
        """Start one of the contexts, with rings, peers, and the connection of its ``receiver``.

        Raises FI_ENOAV without an address vector, FI_ENOSPC without a peer table entry for each address.
        """
        vector = self._vector()
        context = Context(self.domain.protection, number)
        context.open_rings(entries)
        peers = context.open_peers(self._name.resource_index, lanes=self._lanes)
        try:
            vector._attach(peers)
        except BaseException:
            context.abandon()
            raise
        receiver.start(context, vector, counters)
        return context

    def _closed_context(self, context: int) -> None:
        """Forget one of the contexts, which is closed."""
        self._open.pop(context, None)

    def _close_context(self, context: Context) -> None:
        """Close one of the contexts, which is reused only when its operations have ended."""
        self._lost.add(context.number)
        self._closed_context(context.number)
        context.close(lambda: self._context_is_back(context.number))

    def _context_is_back(self, context: int) -> None:
        self._lost.discard(context)
        if self.closed:
            self._nic.contexts.release(context)

    def _release(self) -> None:
        first = self._name.resource_index
        for context in range(first, first + self.rx_contexts + self.tx_contexts):
            if context not in self._lost:
                self._nic.contexts.release(context)

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<ScalableEndpoint {self._name} of {self.tx_contexts} + {self.rx_contexts} contexts{state}>"


class TransmitContext(Transmitter, HasOptions):
    """Posts a scalable endpoint's operations, with a ring, a queue and counters of its own: ``fi_tx_context``.

    The operations are those of :class:`amoeba.Endpoint`. Operations of different contexts have no order.
    """

    _options = TRANSMIT_OPTIONS

    def __init__(self, endpoint: ScalableEndpoint, context: int, tx_size: int, op_flags: OpFlags) -> None:
        self.endpoint = endpoint
        self.context = context
        """The NIC's context."""
        self._opened: Context | None = None
        """The same, from :meth:`enable` on."""
        # without a queue, the context only observes that long messages are read
        self._receiver: Receiver = Receiver(DEFAULT_RX_SIZE, endpoint._caps)
        self._rights = rights_of(endpoint._caps)
        super().__init__(endpoint.domain, endpoint, tx_size=tx_size, op_flags=op_flags)

    @property
    def enabled(self) -> bool:
        return self._rings is not None

    def bind(self, target: CompletionQueue[Any] | Counter, flags: BindFlags = BindFlags.FI_TRANSMIT) -> None:
        """Bind a completion queue or a counter, as :meth:`amoeba.Endpoint.bind` does.

        Raises FI_EBADFLAGS for a queue that is not bound with FI_TRANSMIT alone (and FI_SELECTIVE_COMPLETION).
        """
        flags = check_flags(BindFlags, flags)
        self._check_bindable(target)
        check_instance("target", target, CompletionQueue, Counter)
        if isinstance(target, CompletionQueue) and (
            flags & (BindFlags.FI_TRANSMIT | BindFlags.FI_RECV) != BindFlags.FI_TRANSMIT
        ):
            raise fabric_error(Errno.FI_EBADFLAGS, f"a transmit context's queue needs FI_TRANSMIT, got {flags!r}")
        self._bind_transmit(target, flags)
        target._adopt(self)

    def _resize(self, *, tx_size: int) -> None:
        """Change the size of the ring, before the context is enabled."""
        if self.enabled:
            raise fabric_error(Errno.FI_EOPBADSTATE, "rings have their sizes from enable() on")
        self.tx_size = ring_size(tx_size)

    def enable(self) -> None:
        """Start the context. Raises FI_ENOCQ, FI_ENOAV and FI_ENOSPC as :meth:`amoeba.Endpoint.enable` does."""
        self._check_open()
        if self.enabled:
            raise fabric_error(Errno.FI_EOPBADSTATE, "the transmit context is enabled already")
        self._transmit_queue()
        context = self.endpoint._open_context(self.context, self.tx_size, self._receiver, self._counters)
        context.enable(
            read_counter=self._counters.number(Caps.FI_REMOTE_READ),
            write_counter=self._counters.number(Caps.FI_REMOTE_WRITE),
            data_by_key=True,
        )
        self._opened = context
        assert context.rings is not None
        assert context.peers is not None
        self._start(context.rings, context.peers)

    def _release(self) -> None:
        if self._opened is not None and self.endpoint._av is not None and self._stop(self.endpoint._av) is not None:
            with contextlib.suppress(DeviceClosedError):
                self.endpoint._close_context(self._opened)
                self._receiver.release()
        self.endpoint._closed_context(self.context)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "enabled" if self.enabled else "not enabled"
        return f"<TransmitContext {self.context} of {self.endpoint._name} {state}>"


class ReceiveContext(Receiving, HasOptions):
    """Lets peers reach the memory of a scalable endpoint's domain, and receives their messages: ``fi_rx_context``.

    A queue is bound if there are messages, or peers send immediate data. The calls that receive are those of
    :class:`amoeba.Endpoint`.
    """

    _options = RECEIVE_OPTIONS

    def __init__(self, endpoint: ScalableEndpoint, context: int, rx_size: int) -> None:
        self.endpoint = endpoint
        self.domain = endpoint.domain
        self.context = context
        """The NIC's context."""
        self.enabled = False
        self._nic = endpoint.domain.nic
        self._receiver = Receiver(rx_size, endpoint._caps, sends=False)
        self._counters = Counters()
        self._opened: Context | None = None
        """The NIC's context, from :meth:`enable` on; if there are messages, with rings that only the driver
        posts into, to read long messages."""
        super().__init__(endpoint)

    def bind(
        self, target: CompletionQueue[Any] | Counter | SharedReceiveContext, flags: BindFlags = BindFlags.FI_RECV
    ) -> None:
        """Bind a queue or counter that reports messages and peers' operations; closing it closes the context first.

        A counter counts receives with FI_RECV. With FI_REMOTE_READ and FI_REMOTE_WRITE it counts peers' accesses to
        memory through this context. With a shared receive context, messages match receives posted there, and the
        calls that receive raise FI_EOPNOTSUPP: a shared context replaces several receive contexts.

        Raises FI_EOPBADSTATE once enabled, and FI_EINVAL for a second or foreign object. Raises FI_EBADFLAGS for a
        queue that is not bound with FI_RECV alone (and FI_SELECTIVE_COMPLETION), and for events that the counter
        cannot count. Raises FI_ENOSPC for a counter that cannot count peers' operations, and FI_EINVAL for a shared
        receive context if the endpoint has several of its own.
        """
        self._check_open()
        flags = check_flags(BindFlags, flags)
        check_instance("target", target, CompletionQueue, Counter, SharedReceiveContext)
        target._check_open()
        if self.enabled:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind before enable()")
        target._check_made_from(self.endpoint.domain)
        if isinstance(target, Counter):
            if flags & ~_RECEIVED:
                raise fabric_error(Errno.FI_EBADFLAGS, f"a receive context counts {_RECEIVED!r}, got {flags!r}")
            self._counters.bind(target, flags)
        elif isinstance(target, SharedReceiveContext):
            self._share_receives(target)
        else:
            self._bind_queue(target, flags)
        target._adopt(self)

    def _share_receives(self, shared: SharedReceiveContext) -> None:
        if self.endpoint.rx_contexts > 1:
            raise fabric_error(
                Errno.FI_EINVAL,
                f"receives are shared instead of several receive contexts, this one has {self.endpoint.rx_contexts}",
            )
        if self._receiver.srx is not None:
            raise fabric_error(Errno.FI_EINVAL, "a shared receive context is bound already")
        self._receiver.srx = shared

    def _bind_queue(self, queue: CompletionQueue[Any], flags: BindFlags) -> None:
        if flags & ~BindFlags.FI_SELECTIVE_COMPLETION != BindFlags.FI_RECV:
            raise fabric_error(Errno.FI_EBADFLAGS, f"a receive context's queue needs FI_RECV, got {flags!r}")
        if self._receiver.queue is not None:
            raise fabric_error(Errno.FI_EINVAL, "a completion queue is bound already")
        self._receiver.bind(queue, flags)

    def _resize(self, *, rx_size: int) -> None:
        """Change the size of the ring, before the context is enabled."""
        if self.enabled:
            raise fabric_error(Errno.FI_EOPBADSTATE, "rings have their sizes from enable() on")
        self._receiver.resize(rx_size)

    def enable(self) -> None:
        """Let peers in. Raises FI_ENOAV if the endpoint has no address vector, FI_EOPBADSTATE for a second time.

        Raises FI_ENOCQ if receives are counted without a queue that reports their errors. If messages can be
        received, it takes a peer table entry for each address: FI_ENOSPC if there are not as many. With a shared
        receive context it raises what :meth:`amoeba.Endpoint.enable` does.
        """
        self._check_open()
        if self.enabled:
            raise fabric_error(Errno.FI_EOPBADSTATE, "the receive context is enabled already")
        vector = self.endpoint._vector()
        queue = self._receiver.queue
        self._counters.check_receiving(queue)
        if self.endpoint._shares_receives and self._receiver.srx is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind a shared receive context before enable()")
        self._receiver.check(self._nic, vector)
        if self._receiver.takes_messages:
            assert queue is not None  # there are messages
            context = self.endpoint._open_context(
                self.context, MAX_RECEIVE_SEGMENTS, self._receiver, self._counters
            )
            assert context.rings is not None
            queue._attach(context.rings)
        else:
            context = Context(self.domain.protection, self.context)
            self._receiver.start_listening(context, vector)
        self._counters.start_receiving(queue)
        context.enable(
            read_counter=self._counters.number(Caps.FI_REMOTE_READ),
            write_counter=self._counters.number(Caps.FI_REMOTE_WRITE),
            data_by_key=queue is None,
        )
        self._opened = context
        self.enabled = True

    def cancel(self, context: Any) -> None:
        """Take back the oldest receive with this ``context``: ``fi_cancel``, as :meth:`amoeba.Endpoint.cancel`."""
        self._check_receiving()
        self._cancel_receive(context)

    def _check_receiving(self) -> None:
        self._check_open()
        if not self.enabled:
            raise fabric_error(Errno.FI_EOPBADSTATE, "enable() the receive context first")

    def _release(self) -> None:
        if self._opened is not None:
            self._stop_receiving()
            rings, peers = self._opened.rings, self._opened.peers
            vector, queue = self.endpoint._av, self._receiver.queue
            if rings is not None and peers is not None and vector is not None and queue is not None:
                vector._detach(peers)
                queue._detach(rings)
            with contextlib.suppress(DeviceClosedError):
                self.endpoint._close_context(self._opened)
                self._receiver.release()
        self.endpoint._closed_context(self.context)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "enabled" if self.enabled else "not enabled"
        return f"<ReceiveContext {self.context} of {self.endpoint._name} {state}>"
