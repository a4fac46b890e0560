"""Connected endpoints: FI_EP_MSG. fi_cm(3), fi_endpoint(3)."""

from typing import TYPE_CHECKING, Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.connections import CONNECT_TIME, Connection, ConnectionRequest, SocketAddress
from amoeba.libfabric.objects.constants import BindFlags, Caps, EndpointOption, EpType, OpFlags
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.endpoints.shared_context import SharedTransmitContext
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EventQueue

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["ConnectedEndpoint"]


class ConnectedEndpoint(Endpoint):
    """An endpoint with one peer (FI_EP_MSG): bind a completion queue and an event queue, then connect or accept.

    Operations are those of :class:`amoeba.Endpoint`; ``dest_addr`` and ``src_addr`` are ignored. Operations
    raise FI_ENOTCONN before FI_CONNECTED, and after the end of the connection; receives can be posted as soon
    as the endpoint is enabled. The connection makes progress, and its end is noticed, while the event queue is read:

    FI_CONNECTED
        The peer can be reached. ``data``: the peer's argument of :meth:`accept`.
    FI_SHUTDOWN
        The peer has disconnected, was closed, or its process is gone. Outstanding operations still end, and
        receives can be cancelled.
    an error
        The connection failed: FI_ECONNREFUSED (``err_data``: the peer's argument of ``reject``), FI_ETIMEDOUT,
        or TCP's error; :meth:`connect` may be repeated. On the accepting side FI_ECONNABORTED: the peer has given
        up.

    ``request``: the connection request that this endpoint is to accept.
    """

    _connection: Connection
    _options = Endpoint._options | {EndpointOption.FI_OPT_CM_DATA_SIZE}

    def __init__(
        self,
        domain: "DomainBase",
        *,
        tx_size: int,
        rx_size: int,
        op_flags: OpFlags = NO_FLAGS,
        shared: bool = False,
        shared_receives: bool = False,
        caps: Caps | None = None,
        request: ConnectionRequest | None = None,
    ) -> None:
        self._eq: EventQueue | None = None
        self._request = request
        super().__init__(
            domain,
            EpType.FI_EP_MSG,
            tx_size=tx_size,
            rx_size=rx_size,
            op_flags=op_flags,
            shared=shared,
            shared_receives=shared_receives,
            caps=caps,
        )
        self._connection = Connection(self)

    def bind(
        self,
        target: CompletionQueue[Any]
        | AddressVector
        | Counter
        | SharedTransmitContext
        | SharedReceiveContext
        | EventQueue,
        flags: BindFlags = BindFlags.FI_TRANSMIT,
    ) -> None:
        """Bind as :meth:`amoeba.Endpoint.bind`, and an event queue as well, which reports the connection.

        Raises FI_EINVAL for an address vector: the peer comes with the connection.
        """
        if isinstance(target, AddressVector):
            raise fabric_error(Errno.FI_EINVAL, "a connected endpoint has one peer, and no address vector")
        if not isinstance(target, EventQueue):
            super().bind(target, flags)
            return
        self._check_open()
        target._check_open()
        if self._rings is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "bind before enable()")
        if self._eq is not None:
            raise fabric_error(Errno.FI_EINVAL, "an event queue is bound already")
        if target._parent is not self.domain._parent:
            raise fabric_error(Errno.FI_EINVAL, f"{target!r} belongs to another fabric")
        self._eq = target
        target._adopt(self)

    def enable(self) -> None:
        """Start the endpoint, so that receives can be posted; :meth:`connect` and :meth:`accept` do it if necessary.

        Without an event queue of its own, the endpoint reports to its domain's. Raises FI_ENOEQ without either, and
        the errors of :meth:`amoeba.Endpoint.enable`.
        """
        self._check_open()
        self._event_queue()
        super().enable()

    def connect(self, addr: SocketAddress, param: bytes = b"", *, timeout: float | None = CONNECT_TIME) -> None:
        """Ask the passive endpoint that listens at (host, port) for a connection: ``fi_connect``.

        ``param`` comes with its FI_CONNREQ, cut to FI_OPT_CM_DATA_SIZE. Without an answer in ``timeout`` seconds
        (None: no limit), the request fails with FI_ETIMEDOUT. A host's name is resolved at once.

        Raises FI_EISCONN if the endpoint is connected, FI_EALREADY while it connects. Raises FI_EOPBADSTATE after the
        end of a connection or with a request to accept, FI_EINVAL and FI_EADDRNOTAVAIL for an invalid TCP address.
        Raises the errors of :meth:`enable`.
        """
        self._check_open()
        self._connection.check_idle()
        if self._request is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "this endpoint was opened to accept a request")
        if self._rings is None:
            self.enable()
        self._connection.connect(addr, param, timeout)

    def accept(self, param: bytes = b"") -> None:
        """Accept the request that the endpoint was opened with: ``fi_accept``.

        ``param`` comes with the peer's FI_CONNECTED, cut to FI_OPT_CM_DATA_SIZE.

        Raises FI_EOPBADSTATE without a request; FI_EISCONN and FI_EALREADY as :meth:`connect`.
        Raises FI_EINVAL if the request has been answered or its passive endpoint closed, FI_ENOSPC if the NIC's peer
        table is full, and the errors of :meth:`enable`.
        """
        self._check_open()
        self._connection.check_idle()
        if self._request is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "open the endpoint with the info of a FI_CONNREQ to accept it")
        self._request.check()
        if self._rings is None:
            self.enable()
        self._connection.accept(self._request, param)

    def shutdown(self, *, report: bool = False) -> None:
        """Disconnect: the peer gets FI_SHUTDOWN, this side no event: ``fi_shutdown``. Operations still end.

        ``report``: this side gets FI_SHUTDOWN, too, as from libfabric's providers over TCP.

        Raises FI_ENOTCONN if it is not connected.
        """
        self._check_open()
        self._connection.destination()
        self._connection.end(report=report)

    @property
    def was_connected(self) -> bool:
        """Whether there was a connection, which has ended."""
        return self._connection.ended

    def getpeer(self) -> bytes:
        """Return the peer's address, as its :meth:`getname` returns it: ``fi_getpeer``. Raises FI_ENOTCONN."""
        self._check_open()
        return self._connection.peer

    def _event_queue(self) -> EventQueue:
        """Return the bound event queue, or else the domain's. Raises FI_ENOEQ."""
        queue = self.domain._eq if self._eq is None else self._eq
        if queue is None:
            raise fabric_error(Errno.FI_ENOEQ, "bind an event queue to the endpoint or its domain before enable()")
        return queue

    def _vector(self) -> AddressVector:
        """One of its own, for the one peer."""
        if self._av is None:
            self._av = AddressVector(self.domain)
        return self._av

    def _release(self) -> None:
        super()._release()
        # outstanding operations have ended, so the peer may learn of the end
        self._connection.end()
        if (queue := self.domain._eq if self._eq is None else self._eq) is not None:
            queue._forget(self)
        if self._av is not None:
            self._av.close()
