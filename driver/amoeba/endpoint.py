"""Endpoints: what reaches the memory of peers, by the operations of :mod:`amoeba.rma` and :mod:`amoeba.atomics`."""

import contextlib
import time
from typing import TYPE_CHECKING

from amoeba_model.device import DeviceClosedError

from amoeba.address import DRAIN_TIME, AddressVector, EndpointAddress
from amoeba.atomics import AtomicOperations
from amoeba.completion import CompletionQueue
from amoeba.constants import BindFlags, EpType, Errno, OpFlags
from amoeba.counters import Counter, EndpointCounters
from amoeba.errors import fabric_error
from amoeba.events import MOST_EVENTS, EventRing
from amoeba.nic import ContextSettings
from amoeba.operations import MAX_MESSAGE, NO_FLAGS, TX_OP_FLAGS
from amoeba.peers import PeerMap
from amoeba.rings import INJECT_SIZE, ContextRings
from amoeba.rma import RmaOperations

if TYPE_CHECKING:
    from amoeba.domain import Domain

__all__ = [
    "DEFAULT_RX_SIZE",
    "DEFAULT_TX_SIZE",
    "INJECT_SIZE",
    "MAX_MESSAGE",
    "MAX_TX_SIZE",
    "Endpoint",
    "least_descriptors",
    "most_segments",
    "ring_size",
]

DEFAULT_TX_SIZE = DEFAULT_RX_SIZE = 256
MAX_TX_SIZE = 1 << 15
"""Most descriptors under way at a time."""
_MIN_TX_SIZE = 16
"""So that an operation on four segments of everything fits."""


def ring_size(descriptors: int) -> int:
    """Descriptors that the ring of an endpoint which asks for so many has room for."""
    return max(_MIN_TX_SIZE, 1 << (descriptors - 1).bit_length())


def least_descriptors(segments: int) -> int:
    """Descriptors that vectors of so many segments can need."""
    # n segments each of operands, compare values, results and remote memory: 4n - 3 pieces; data makes one more
    return 4 * segments - 2


def most_segments(descriptors: int) -> int:
    """The other way round: segments of vectors for which so many descriptors always suffice."""
    return (descriptors + 2) // 4


class Endpoint(RmaOperations, AtomicOperations):
    """A reliable connectionless endpoint (FI_EP_RDM). Bind a completion queue and an address vector, then enable.

    Common arguments of the operations:

    buf, compare, result : contiguous buffer
        Operands, compare values, and the place for fetched data, used in place: they are kept alive, and must
        not be changed, until the operation completes. At most 8 bytes of operands are copied at once.
    iov, comparev, resultv : sequence of contiguous buffers
        The same in pieces, of which there may be as many as :attr:`iov_limit`, and more as long as the ring has an
        entry for every stretch of memory that is consecutive on all sides. One of 0 bytes is skipped.
    dest_addr : int
        The peer: its number in the address vector.
    addr, key : int
        Where in the peer's memory: ``MemoryRegion.address`` (plus an offset) and ``key``, as the peer tells.
    op, datatype
        NumPy arrays say their datatype; for other buffers it must be given.
    desc, compare_desc, result_desc : MemoryRegion, or a sequence of them for a sequence of buffers; optional
        The region that holds the local buffer (``desc`` of a compare_atomic: both operands and compare values). A
        buffer without one is made accessible to the NIC for the duration of the operation.
    msg : RmaMsg, AtomicMsg
        All of these but results and compare values, with several segments of the peer's memory.
    context : object
        Comes back in the completion.
    data : int
        Immediate data: 64 bits for the peer's queue. If its endpoint has none bound with FI_RECV, the operation fails
        with FI_ESHUTDOWN. The entry comes with the last piece of what the operation was cut into (of a
        compare_atomicmsg: as an RMA write of 0 bytes after it), so it may come although an earlier piece has failed.
    flags : OpFlags
        FI_MORE, FI_COMPLETION, FI_INJECT (up to INJECT_SIZE bytes), FI_FENCE, the completion levels up to
        FI_DELIVERY_COMPLETE; with a ``msg`` FI_REMOTE_CQ_DATA, too.

    However many pieces an operation has, it has one completion or one error, and is posted as a whole or not at all.

    Errors raised by all of them: FI_EOPBADSTATE before enable(), FI_EBADF after close(), FI_EAGAIN when the
    ``tx_size`` ring entries are in use or operations to a peer that was given up have not ended, FI_EINVAL for
    unsuitable buffers, lengths that differ, too many pieces or an unknown dest_addr, FI_EMSGSIZE beyond 2**30 bytes,
    FI_EBADFLAGS, FI_EACCES when ``desc`` does not allow the use, FI_EOPNOTSUPP for an atomic that the NIC does not
    execute.

    An error entry with FI_ECONNRESET says that the NIC has given the peer up: whether the operation was executed is
    not known. When all operations to that peer have ended, the next one tries anew.
    """

    def __init__(
        self, domain: "Domain", ep_type: EpType, *, tx_size: int, rx_size: int, op_flags: OpFlags = NO_FLAGS
    ) -> None:
        if ep_type is not EpType.FI_EP_RDM:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"this NIC has endpoints of type FI_EP_RDM, not {ep_type!r}")
        if not 1 <= tx_size <= MAX_TX_SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"tx_size must be 1 to {MAX_TX_SIZE}, got {tx_size}")
        if not 1 <= rx_size <= MOST_EVENTS:
            raise fabric_error(Errno.FI_EINVAL, f"rx_size must be 1 to {MOST_EVENTS}, got {rx_size}")
        if int(op_flags) & ~int(TX_OP_FLAGS):
            raise fabric_error(Errno.FI_EBADFLAGS, f"op_flags can have {TX_OP_FLAGS!r}, got {op_flags!r}")
        self.tx_size = ring_size(tx_size)
        self.rx_size = rx_size
        self._cq: CompletionQueue | None = None
        self._receive_cq: CompletionQueue | None = None
        self._av: AddressVector | None = None
        self._events: EventRing | None = None
        self._counters = EndpointCounters()
        self._reports = bool(op_flags & OpFlags.FI_COMPLETION)
        self._name: EndpointAddress | None = None
        super().__init__(domain)

    @property
    def iov_limit(self) -> int:
        """Segments of one vector that every operation may have; also ``rma_iov_limit``."""
        return most_segments(self.tx_size)

    rma_iov_limit = iov_limit

    # Set-up

    def bind(
        self, target: CompletionQueue | AddressVector | Counter, flags: BindFlags = BindFlags.FI_TRANSMIT
    ) -> None:
        """Associate a completion queue, an address vector or a counter; closing that closes the endpoint first.

        A queue bound with FI_TRANSMIT tells what became of the endpoint's operations, one bound with FI_RECV of
        peers' operations with immediate data; it can be the same one.

        Raises FI_EOPBADSTATE once enabled, FI_EINVAL for a second or foreign one, FI_EBADFLAGS for a queue
        that is bound to neither direction, FI_EOPNOTSUPP for what a counter cannot count.
        """
        self._check_open()
        target._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind before enable()")
        if target._parent is not self.domain:
            raise fabric_error(Errno.FI_EINVAL, f"{target!r} belongs to another domain")
        if isinstance(target, AddressVector):
            if self._av is not None:
                raise fabric_error(Errno.FI_EINVAL, "an address vector is bound already")
            self._av = target
        elif isinstance(target, Counter):
            self._counters.bind(target, flags)
        else:
            if not flags & (BindFlags.FI_TRANSMIT | BindFlags.FI_RECV):
                raise fabric_error(Errno.FI_EBADFLAGS, f"a queue needs FI_TRANSMIT or FI_RECV, got {flags!r}")
            transmits, receives = bool(flags & BindFlags.FI_TRANSMIT), bool(flags & BindFlags.FI_RECV)
            if (transmits and self._cq is not None) or (receives and self._receive_cq is not None):
                raise fabric_error(Errno.FI_EINVAL, "a completion queue is bound already")
            if transmits:
                self._cq = target
                self._selective = bool(flags & BindFlags.FI_SELECTIVE_COMPLETION) and not self._reports
            if receives:
                self._receive_cq = target
        target._adopt(self)

    def enable(self) -> None:
        """Start the endpoint: from now on it reaches peers, and peers reach its domain's memory through it.

        Raises FI_ENOCQ or FI_ENOAV if one is not bound, FI_ENOSPC if the NIC has no context or peer entry left,
        FI_EOPBADSTATE if it is enabled already.
        """
        self._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "the endpoint is enabled already")
        if self._cq is None:
            raise fabric_error(Errno.FI_ENOCQ, "bind a completion queue with FI_TRANSMIT before enable()")
        if self._av is None:
            raise fabric_error(Errno.FI_ENOAV, "bind an address vector before enable()")
        nic, domain = self._nic, self.domain
        context = nic.take_context()
        rings = ContextRings(nic, context, self.tx_size)
        peers = PeerMap(rings)
        try:
            self._av._attach(peers)
        except BaseException:
            rings.release()
            nic.return_context(context)
            raise
        if self._receive_cq is not None:
            self._events = EventRing(nic, context, self.rx_size, self._av._number_of)
            self._receive_cq._attach(self._events)
        nic.enable_context(
            context,
            ContextSettings(
                transmit_base=rings.transmit_base,
                transmit_size=rings.size_log2,
                completion_base=rings.completion_base,
                completion_size=rings.size_log2,
                domain=domain.number,
                job_id=domain.job_id,
                pid_on_fep=domain.pid_on_fep,
                cswap_by_bits=domain.cswap_by_bits,
                event_base=0 if self._events is None else self._events.base,
                event_size=0 if self._events is None else self._events.size_log2,
            ),
        )
        self._name = EndpointAddress(nic.mac, nic.ip, domain.job_id, domain.pid_on_fep, context)
        self._cq._attach(rings)
        self._counters.start(rings, self._cq)
        self._peer_map, self._open_peers, self._rings = peers, peers.open, rings

    def getname(self) -> bytes:
        """The endpoint's address, for the address vectors of peers. Raises FI_EOPBADSTATE before enable()."""
        self._check_open()
        if self._name is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "an endpoint has a name once it is enabled")
        return self._name.pack()

    # The end

    def close(self) -> None:
        """Wait until operations are done and peers have been told (at most a second), then give everything back.

        Completions that have not been read are dropped. If operations never finish, their context and peer
        entries are not used again, so that late answers meet nobody.
        """
        super().close()

    def _release(self) -> None:
        rings, self._rings = self._rings, None
        if rings is None:
            return
        assert self._cq is not None
        assert self._av is not None
        assert self._peer_map is not None
        self._cq._detach(rings)
        if self._receive_cq is not None and self._events is not None:
            self._receive_cq._detach(self._events)
        self._av._detach(self._peer_map)
        with contextlib.suppress(DeviceClosedError):
            self._give_back(rings, self._peer_map)

    def _give_back(self, rings: ContextRings, peers: PeerMap) -> None:
        deadline = time.monotonic() + DRAIN_TIME
        if rings.wait_until(lambda: not rings.under_way, deadline):
            peers.clear(deadline)
        self._nic.disable_context(rings.context)
        if not rings.under_way:
            self._nic.return_context(rings.context)
        rings.release()
        if self._events is not None:
            self._events.release()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "enabled" if self._rings is not None else "not enabled"
        return f"<Endpoint {self._name or 'without name'} {state}>"
