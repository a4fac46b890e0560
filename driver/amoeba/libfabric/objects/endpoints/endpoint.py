"""Endpoints, which access peers and their memory by :mod:`amoeba.libfabric.objects.operations`."""

import contextlib
from typing import TYPE_CHECKING, Any

from amoeba_model.device import DeviceClosedError

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.checks import check_flags, check_instance
from amoeba.libfabric.objects.constants import BindFlags, Caps, EpType, OpFlags
from amoeba.libfabric.objects.endpoints.options import RECEIVE_OPTIONS, TRANSMIT_OPTIONS, HasOptions
from amoeba.libfabric.objects.endpoints.shared_context import SharedTransmitContext
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.endpoints.transmit import Transmitter, ring_size
from amoeba.libfabric.objects.operations.operations import MAX_MESSAGE, NO_FLAGS
from amoeba.libfabric.objects.operations.receiving import Receiving
from amoeba.libfabric.objects.operations.rights import rights_of
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.receiver import Receiver
from amoeba.nic.address import EndpointAddress
from amoeba.transport.context import Context
from amoeba.transport.rings import INJECT_SIZE

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["INJECT_SIZE", "MAX_MESSAGE", "Endpoint"]


class Endpoint(Receiving, Transmitter, HasOptions):
    """A connectionless endpoint. Bind a completion queue and an address vector, then enable.

    ``ep_type`` is FI_EP_RDM, or FI_EP_DGRAM: for messages of one packet, at most :attr:`max_msg_size` bytes, without
    FI_MATCH_COMPLETE, RMA and atomics. Datagrams are as reliable as others: this NIC has no unreliable delivery.

    Common arguments of the operations:

    buf, compare, result : contiguous buffer
        Operands, compare values, and memory for fetched data, used in place: buffers are kept alive, and must
        not be changed, until the operation completes. At most 8 bytes of operands are copied at once.
    iov, comparev, resultv : sequence of contiguous buffers
        Such buffers in pieces: at most :attr:`iov_limit`, or more if the ring has an entry for every stretch of
        memory that is consecutive on all sides. Empty pieces are skipped. A message has any number of pieces,
        which are copied into one; a receive 16, into which short messages are copied.
    dest_addr : int
        The peer: its number in the address vector.
    addr, key : int
        Place in the peer's memory: ``MemoryRegion.address`` (plus an offset) and ``key``, as the peer sends them.
    op, datatype
        Arrays and scalars of NumPy (those of ml_dtypes, too), :mod:`array` and :mod:`ctypes` name their datatype.
        Bytes and single numbers need it given. All buffers have the same datatype; bytes, uint8 and NumPy's void
        hold any.
    desc, compare_desc, result_desc : MemoryRegion, or a sequence of them for a sequence of buffers; optional
        The region of this domain that holds the local buffer (``desc`` of a compare_atomic: both operands and compare
        values). A buffer without one is made accessible to the NIC for the duration of the operation.
    tag, ignore : int
        64 bits that a message carries; and the bits of them that a receive ignores.
    src_addr : int
        The only sender to receive from; needs FI_DIRECTED_RECV if capabilities were chosen, and else is ignored.
    msg : RmaMsg, AtomicMsg, Msg, TaggedMsg
        All of these but results and compare values, with several segments of the peer's memory.
    context : object
        Comes back in the completion. With FI_TRIGGER a :class:`amoeba.TriggeredContext`.
    data : int
        Immediate data: 64 bits for the peer's queue. If its endpoint has none bound with FI_RECV, the operation fails
        with FI_ESHUTDOWN. The entry comes with the last piece of what the operation was cut into (of a
        compare_atomicmsg: as an RMA write of 0 bytes after it), so it may come although an earlier piece, or
        packet, has failed.
    flags : OpFlags
        FI_MORE, FI_COMPLETION, FI_INJECT (up to INJECT_SIZE bytes), FI_FENCE, FI_TRIGGER, the completion levels up
        to FI_DELIVERY_COMPLETE; where memory is changed FI_COMMIT_COMPLETE, which needs FI_REMOTE_READ at the
        region, else the operation fails with FI_EACCES; with a ``msg`` FI_REMOTE_CQ_DATA, too. With a send
        FI_MATCH_COMPLETE, with a receive FI_MORE, FI_COMPLETION, FI_TRANSMIT_COMPLETE, FI_MULTI_RECV and FI_TRIGGER.
        With an AtomicMsg FI_TAGGED: ``addr`` is then an offset in the buffer of the peer's oldest receive with the
        tag in ``key``.

    Messages are received once each, in the order sent. One longer than ``payload`` of the NIC is read by its
    receiver, and its send completes when that is done. As many receives can be posted as the NIC keeps, and as many
    messages may wait for theirs, per endpoint; then receives raise FI_EAGAIN, and senders are held back.

    However many pieces an operation has, it has one completion or one error, and is posted as a whole or not at all.

    Errors raised by all of them: FI_EOPBADSTATE before enable(), FI_EBADF after close(), FI_EAGAIN when the
    ``tx_size`` ring entries are in use or operations to a peer that was given up have not ended, FI_EINVAL for
    unsuitable buffers, lengths that differ, too many pieces, a ``desc`` of another domain or an unknown dest_addr
    (ArgumentTypeError for an object that is no buffer, region, number or enumeration of the right class),
    FI_EMSGSIZE beyond 2**30 bytes (of a message: :attr:`max_msg_size`), FI_EBADFLAGS, FI_EACCES when ``desc`` does
    not allow the use, FI_EOPNOTSUPP for an atomic that the NIC does not execute, for operations beyond the
    endpoint's capabilities, and for RMA and atomics of a datagram endpoint. An operation that raises has done
    nothing: it takes no ring entry and touches no memory.

    An error entry with FI_ECONNRESET means that the NIC has given the peer up: whether the operation was executed is
    unknown. When all operations to that peer have ended, the next one connects again.
    """

    _options = TRANSMIT_OPTIONS | RECEIVE_OPTIONS
    _lanes = False
    """Messages go beside RMA and atomics, without an order between them."""

    def __init__(
        self,
        domain: "DomainBase",
        ep_type: EpType,
        *,
        tx_size: int,
        rx_size: int,
        op_flags: OpFlags = NO_FLAGS,
        caps: Caps | None = None,
        shared: bool = False,
        shared_receives: bool = False,
        lanes: bool = False,
    ) -> None:
        self.ep_type = ep_type
        if lanes:
            self._lanes = True
        if ep_type is EpType.FI_EP_DGRAM:
            self.max_msg_size, self._max_rma_size = domain.nic.parameters.payload, -1
        self._receiver = Receiver(
            rx_size,
            caps,
            sends=ep_type is not EpType.FI_EP_DGRAM,
            connected=ep_type is EpType.FI_EP_MSG,
        )
        self._rights = rights_of(caps, datagrams=ep_type is EpType.FI_EP_DGRAM)
        self._av: AddressVector | None = None
        self._shares = shared
        self._shares_receives = shared_receives
        self._stx: SharedTransmitContext | None = None
        self._name: EndpointAddress | None = None
        self._context: Context | None = None
        """Set by :meth:`enable`."""
        super().__init__(domain, tx_size=tx_size, op_flags=op_flags)

    # Set-up

    def bind(
        self,
        target: CompletionQueue[Any] | AddressVector | Counter | SharedTransmitContext | SharedReceiveContext,
        flags: BindFlags = BindFlags.FI_TRANSMIT,
    ) -> None:
        """Bind an object that the endpoint uses; closing the object closes the endpoint first.

        A queue bound with FI_TRANSMIT reports the endpoint's operations. A queue bound with FI_RECV reports messages
        and peers' operations with immediate data; it can be the same queue. With a shared transmit context,
        operations are posted into its ring. With a shared receive context, messages match receives posted there, and
        the calls that receive raise FI_EOPNOTSUPP.

        Raises FI_EOPBADSTATE once enabled, and FI_EINVAL for a second or foreign object. Raises FI_EBADFLAGS for a
        queue without a direction, and for events that a counter cannot count. Raises FI_ENOSPC for a counter that
        cannot count peers' operations.
        """
        flags = check_flags(BindFlags, flags)
        self._check_bindable(target)
        if isinstance(target, AddressVector):
            if self._av is not None:
                raise fabric_error(Errno.FI_EINVAL, "an address vector is bound already")
            self._av = target
        elif isinstance(target, Counter):
            self._bind_transmit(target, flags)
        elif isinstance(target, SharedTransmitContext):
            if self._stx is not None:
                raise fabric_error(Errno.FI_EINVAL, "a shared transmit context is bound already")
            self._stx, self.tx_size = target, target.tx_size
        elif isinstance(target, SharedReceiveContext):
            if self._receiver.srx is not None:
                raise fabric_error(Errno.FI_EINVAL, "a shared receive context is bound already")
            self._receiver.srx = target
        else:
            check_instance("target", target, CompletionQueue)
            self._bind_queue(target, flags)
        target._adopt(self)

    def _bind_queue(self, queue: CompletionQueue[Any], flags: BindFlags) -> None:
        transmits, receives = bool(flags & BindFlags.FI_TRANSMIT), bool(flags & BindFlags.FI_RECV)
        if not (transmits or receives):
            raise fabric_error(Errno.FI_EBADFLAGS, f"a queue needs FI_TRANSMIT or FI_RECV, got {flags!r}")
        if (transmits and self._cq is not None) or (receives and self._receiver.queue is not None):
            raise fabric_error(Errno.FI_EINVAL, "a completion queue is bound already")
        if transmits:
            self._bind_transmit(queue, flags)
        if receives:
            self._receiver.bind(queue, flags)

    def _resize(self, *, tx_size: int | None = None, rx_size: int | None = None) -> None:
        """Change the sizes of the rings, before the endpoint is enabled."""
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "rings have their sizes from enable() on")
        if tx_size is not None and self._stx is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "the shared transmit context has the ring")
        if tx_size is not None:
            self.tx_size = ring_size(tx_size)
        if rx_size is not None:
            self._receiver.resize(rx_size)

    def enable(self) -> None:
        """Start the endpoint: from now on it reaches peers, and peers reach its domain's memory through it.

        Raises FI_ENOCQ or FI_ENOAV if one is not bound, and FI_ENOCQ if receives are counted without a queue that
        reports them. Raises FI_ENOSPC if the NIC has no free context or peer entry. Raises FI_EOPBADSTATE if the
        endpoint is enabled already, or was opened with FI_SHARED_CONTEXT and is not bound to such a context.

        With a shared receive context, raises FI_ENOCQ without a queue bound with FI_RECV. Raises FI_EINVAL if that
        context has fewer capabilities or its endpoints another address vector.

        Raises FI_EOPNOTSUPP if the endpoint can receive messages or knows an address, and the NIC has no initiator,
        or if it can receive messages, and the NIC has no receives.
        """
        self._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "the endpoint is enabled already")
        self._transmit_queue()
        vector = self._vector()
        self._counters.check_receiving(self._receiver.queue)
        if self._shares and self._stx is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind a shared transmit context before enable()")
        if self._shares_receives and self._receiver.srx is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind a shared receive context before enable()")
        self._receiver.check(self._nic, vector)
        context = Context(self.domain.protection)
        rings = context.open_rings(self.tx_size) if self._stx is None else self._stx._share_rings(context)
        peers = context.open_peers(lanes=self._lanes)
        try:
            vector._attach(peers)
        except BaseException:
            context.abandon()
            self._nic.contexts.release(context.number)
            raise
        self._name = context.address
        self._receiver.start(context, vector, self._counters)
        context.enable(
            read_counter=self._counters.number(Caps.FI_REMOTE_READ),
            write_counter=self._counters.number(Caps.FI_REMOTE_WRITE),
            data_by_key=self._receiver.queue is None,
        )
        self._context = context
        self._start(rings, peers)

    def getname(self) -> bytes:
        """Return the endpoint's address, for the address vectors of peers. Raises FI_EOPBADSTATE before enable()."""
        self._check_open()
        if self._name is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "an endpoint has a name once it is enabled")
        return self._name.pack()

    def _vector(self) -> AddressVector:
        """Return the address vector. Raises FI_ENOAV."""
        if self._av is None:
            raise fabric_error(Errno.FI_ENOAV, "bind an address vector before enable()")
        return self._av

    # The end

    def close(self) -> None:
        """Wait until operations are done and peers are notified (at most a second), then release all resources.

        Peers whose long messages matched no receive are notified: their sends end with FI_ECANCELED.

        Unread completions are dropped. Unfinished operations keep their context and peer entries until they end, so
        that late answers reach no other user.
        """
        super().close()

    def _release(self) -> None:
        if self._av is None or self._context is None or self._stop(self._av) is None:
            return
        self._stop_receiving()
        with contextlib.suppress(DeviceClosedError):
            self._context.close()
            self._receiver.release()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "enabled" if self._rings is not None else "not enabled"
        return f"<{type(self).__name__} {self._name or 'without name'} {state}>"
