"""The transmitting half of endpoints: posting, binding, and aliases."""

from typing import TYPE_CHECKING, Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.checks import check_instance
from amoeba.libfabric.objects.constants import BindFlags, MsgOrder, OpFlags
from amoeba.libfabric.objects.operations.batches import BatchOperations
from amoeba.libfabric.objects.operations.messages import MessageOperations
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.rights import ALL_RIGHTS
from amoeba.libfabric.objects.operations.rma import RmaOperations
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter, Counters
from amoeba.transport.peers import PeerMap
from amoeba.transport.transmit_rings import TransmitRings

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = [
    "BETWEEN_KINDS",
    "DEFAULT_TX_SIZE",
    "MAX_TX_SIZE",
    "EndpointAlias",
    "Posting",
    "Transmitter",
    "has_lanes",
    "least_descriptors",
    "most_segments",
    "ring_size",
]

DEFAULT_TX_SIZE = 256
MAX_TX_SIZE = 1 << 15
"""Maximum number of outstanding descriptors."""
BETWEEN_KINDS = MsgOrder.FI_ORDER_RAS | MsgOrder.FI_ORDER_WAS | MsgOrder.FI_ORDER_SAR | MsgOrder.FI_ORDER_SAW
"""Orders between messages and other operations."""
_MIN_TX_SIZE = 16
"""Enough for an operation on four segments of everything."""


def ring_size(descriptors: int) -> int:
    """Return the ring size of an endpoint that asks for this many descriptors.

    Raises FI_EINVAL for less than one or more than :data:`MAX_TX_SIZE`.
    """
    if not 1 <= descriptors <= MAX_TX_SIZE:
        raise fabric_error(Errno.FI_EINVAL, f"tx_size must be 1 to {MAX_TX_SIZE}, got {descriptors}")
    return max(_MIN_TX_SIZE, 1 << (descriptors - 1).bit_length())


def least_descriptors(segments: int) -> int:
    """Return the descriptors that vectors of this many segments can need."""
    # n segments each of operands, compare values, results and remote memory: 4n - 3 pieces; FI_COMMIT_COMPLETE makes
    # two more, which can carry data
    return 4 * segments - 1


def has_lanes(msg_order: MsgOrder) -> bool:
    """Return whether messages may go beside RMA and atomics: these orders contain none between the two."""
    return not msg_order & BETWEEN_KINDS


def most_segments(descriptors: int) -> int:
    """Return the segments of vectors for which this many descriptors always suffice."""
    return (descriptors + 1) // 4


class Posting(RmaOperations, BatchOperations, MessageOperations):
    """An object through which operations are posted: an endpoint, or an alias of one."""

    def __init__(
        self, domain: "DomainBase", parent: FabricObject | None = None, *, tx_size: int, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        self.tx_size: int = tx_size
        """Maximum number of outstanding descriptors."""
        super().__init__(domain, parent, op_flags=op_flags)

    @property
    def iov_limit(self) -> int:
        """Segments of one vector that every operation may have; also ``rma_iov_limit``."""
        return most_segments(self.tx_size)

    rma_iov_limit = iov_limit

    @property
    def tx_size_left(self) -> int:
        """Descriptors that can be posted now, one or more for each operation: ``fi_tx_size_left``.

        Raises FI_EOPBADSTATE before the endpoint is enabled.
        """
        rings = self._rings or self._not_enabled()
        return rings.space

    def cancel(self, context: Any) -> None:
        """Cancel an operation that still waits for its counter, or the oldest receive: ``fi_cancel``.

        ``context`` is that of its call. The operation ends with FI_ECANCELED, unless a receive has ended already
        with an unread entry. Raises FI_ENOENT without such an operation: others cannot be cancelled.
        """
        rings = self._rings or self._not_enabled()
        if not self.domain._deferrals.cancel(context, rings):
            self._cancel_receive(context)

    def alias(self, op_flags: OpFlags = NO_FLAGS) -> "EndpointAlias":
        """Make an alias of the endpoint with other :attr:`op_flags`: ``fi_ep_alias``. See :class:`EndpointAlias`."""
        return EndpointAlias(self, op_flags)


class EndpointAlias(Posting):
    """Another way to post operations through an endpoint, with ``op_flags`` of its own.

    An alias shares ring, peers, queues and counters. Closing the endpoint closes its aliases.
    Raises FI_EOPBADSTATE if the endpoint is not enabled, FI_EBADFLAGS for flags that cannot be a default.
    """

    def __init__(self, original: Posting, op_flags: OpFlags = NO_FLAGS) -> None:
        rings = original._rings or original._not_enabled()
        self.original = original
        """The original endpoint."""
        super().__init__(original.domain, original, tx_size=original.tx_size, op_flags=op_flags)
        self._cq = original._cq
        self._use_queue(original._selective_queue)
        self._rings, self._peer_map, self._open_peers = rings, original._peer_map, original._open_peers
        self._open_for_messages = original._open_for_messages
        self._receiver = original._receiver
        self._rights = original._rights
        self.max_msg_size, self._max_rma_size = original.max_msg_size, original._max_rma_size
        self._connection = original._connection
        self._near = original._near

    @property
    def rx_size_left(self) -> int:
        """The endpoint's: ``fi_rx_size_left``. Raises FI_EOPNOTSUPP for an alias of an object that only transmits."""
        self._check_open()
        if self._receiver is None:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"nothing is received by {self.original!r}")
        return self._receiver.size_left

    def _release(self) -> None:
        self._rings, self._near = None, {}

    def __repr__(self) -> str:
        return f"<EndpointAlias of {self.original!r}{' closed' if self.closed else ''}>"


class Transmitter(Posting):
    """Posts operations through rings of its own: a completion queue is bound to it, and counters may be.

    Raises FI_EINVAL for a ``tx_size`` that no ring has.
    """

    def __init__(
        self, domain: "DomainBase", parent: FabricObject | None = None, *, tx_size: int, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        self._counters = Counters()
        super().__init__(domain, parent, tx_size=ring_size(tx_size), op_flags=op_flags)

    def _check_bindable(self, target: FabricObject) -> None:
        """Raise FI_EOPBADSTATE once enabled, FI_EBADF for a closed object, FI_EINVAL for another domain's."""
        self._check_open()
        check_instance("target", target, FabricObject)
        target._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind before enable()")
        target._check_made_from(self.domain)

    def _bind_transmit(self, target: CompletionQueue[Any] | Counter, flags: BindFlags) -> None:
        """Report operations to ``target``. Raises FI_EINVAL if another object has that task already."""
        if isinstance(target, Counter):
            self._counters.bind(target, flags)
            return
        if self._cq is not None:
            raise fabric_error(Errno.FI_EINVAL, "a completion queue is bound already")
        self._cq = target
        self._use_queue(bool(flags & BindFlags.FI_SELECTIVE_COMPLETION))

    def _transmit_queue(self) -> CompletionQueue[Any]:
        """Return the bound completion queue. Raises FI_ENOCQ."""
        if self._cq is None:
            raise fabric_error(Errno.FI_ENOCQ, "bind a completion queue with FI_TRANSMIT before enable()")
        return self._cq

    def _start(self, rings: TransmitRings, peers: PeerMap) -> None:
        """Post through these rings, of a context that has been started, to these peers."""
        queue = self._transmit_queue()
        queue._attach(rings)
        self._counters.start(rings, queue, None if self._receiver is None else self._receiver.queue)
        self._peer_map, self._open_peers, self._rings = peers, peers.open, rings
        self._open_for_messages = peers.open_for_messages
        if self._connection is None and self._rights == ALL_RIGHTS:
            self._near = peers.open

    def _stop(self, av: AddressVector) -> TransmitRings | None:
        """Stop reports; return the rings, None before the start."""
        rings, self._rings, self._near = self._rings, None, {}
        if rings is not None:
            assert self._peer_map is not None
            self.domain._deferrals.leave(rings)
            self._transmit_queue()._detach(rings)
            av._detach(self._peer_map)
        return rings
