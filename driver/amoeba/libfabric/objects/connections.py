"""Connections: requests, and an endpoint's end of its connection. fi_cm(3).

:mod:`amoeba.core.handshake` makes them. Here ``address`` is an endpoint's, as :meth:`EndpointAddress.pack` makes it,
and ``data`` is the ``param`` of fi_connect, fi_accept and fi_reject.
"""

import contextlib
import errno
import weakref
from typing import Protocol, cast

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.handshake import Handshake, Kind, Note, Place, Rejected, State, resolve
from amoeba.core.lifetime import FabricObject
from amoeba.core.lines import JsonLines, stranger
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.constants import EqEvent
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.nic.address import EndpointAddress

__all__ = [
    "CM_DATA_SIZE",
    "CONNECT_TIME",
    "PROTOCOL",
    "Connectable",
    "Connection",
    "ConnectionRequest",
    "SocketAddress",
    "cut",
    "peer_of",
    "place_of",
]

PROTOCOL = "amoeba-connection-1"
"""Names the lines of libfabric's connections."""
CM_DATA_SIZE = 1024
"""Most bytes of ``param`` that reach the other side: FI_OPT_CM_DATA_SIZE."""
CONNECT_TIME = 60.0
"""Seconds that either side waits for the other's next line if nothing else is said."""

SocketAddress = tuple[str, int]
"""(host, port) of TCP: where a passive endpoint listens."""


class ConnectionRequest:
    """``fi_connreq_t``: an endpoint that wants to be connected, until it is accepted or rejected.

    ``handle`` of the Info in a FI_CONNREQ.
    """

    def __init__(self, waiting: "set[ConnectionRequest]", lines: JsonLines, peer: bytes) -> None:
        self._waiting = waiting
        """Unanswered requests of its passive endpoint, among them this one."""
        self._lines = lines
        self.peer = peer
        """Its address."""

    def check(self) -> None:
        """Raise FI_EINVAL if it has been answered, or its passive endpoint was closed."""
        if self not in self._waiting:
            raise fabric_error(Errno.FI_EINVAL, "this connection request was answered, or its endpoint is closed")

    def take(self) -> JsonLines:
        """Return the TCP connection, to give the answer. Raises what :meth:`check` raises."""
        self.check()
        self._waiting.discard(self)
        return self._lines

    def __repr__(self) -> str:
        return f"<ConnectionRequest of {EndpointAddress.unpack(self.peer)}>"


class Connectable(Protocol):
    """The interface that a connection needs of its endpoint, which is a FabricObject."""

    def getname(self) -> bytes:
        """Its address. It is enabled when this is asked for."""

    def _event_queue(self) -> EventQueue:
        """Where its connection is reported."""

    def _vector(self) -> AddressVector:
        """Where its one peer gets a number."""


_REFUSALS = {State.CONNECTED: Errno.FI_EISCONN, State.ENDED: Errno.FI_EOPBADSTATE}
"""Why no new connection is begun; otherwise FI_EALREADY."""


class Connection(Handshake):
    """An endpoint's end of its connection, which goes on while the endpoint's event queue is read."""

    def __init__(self, endpoint: Connectable) -> None:
        super().__init__(PROTOCOL)
        self._owner = weakref.ref(endpoint)
        self._queue: EventQueue | None = None
        """That of the endpoint, from the first attempt on."""
        self._param = b""
        self._peer = b""
        self._number = 0
        """Of the peer in the endpoint's address vector."""

    @property
    def peer(self) -> bytes:
        """The other endpoint's address. Raises FI_ENOTCONN before it is connected, and afterwards."""
        self.destination()
        return self._peer

    @property
    def ended(self) -> bool:
        """There was one."""
        return self._state is State.ENDED

    def destination(self) -> int:
        """Return the peer's number, for an operation that is about to be posted.

        Raises FI_ENOTCONN if the endpoint is not connected.
        """
        if self._state is not State.CONNECTED:
            raise fabric_error(Errno.FI_ENOTCONN, f"the endpoint is {self._state.value}")
        return self._number

    def check_receiving(self) -> None:
        """Raise FI_ENOTCONN if the connection has ended; receives can be posted before the endpoint is connected."""
        if self._state is State.ENDED:
            raise fabric_error(Errno.FI_ENOTCONN, f"the endpoint is {self._state.value}")

    def check_idle(self) -> None:
        """Raise FI_EISCONN, FI_EALREADY or FI_EOPBADSTATE if this is no time to begin a connection."""
        if self._state is not State.IDLE:
            raise fabric_error(
                _REFUSALS.get(self._state, Errno.FI_EALREADY), f"the endpoint is {self._state.value} already"
            )

    def connect(self, address: SocketAddress, param: bytes, timeout: float | None) -> None:
        """Begin to call the passive endpoint there. Raises FI_EADDRNOTAVAIL for what is no TCP address."""
        self.check_idle()
        place = place_of(address)
        queue = self._queue = self._endpoint._event_queue()
        with queue._changed:
            self._param = bytes(param)
            self._call(queue, place, timeout)

    def accept(self, request: ConnectionRequest, param: bytes) -> None:
        """Answer a request. Raises FI_ENOSPC if the NIC has no peer table entry left; then it waits as before."""
        queue = self._queue = self._endpoint._event_queue()
        with queue._changed:
            self._insert(request.peer)
            answer = Note(Kind.ACCEPT, self._endpoint.getname(), cut(param))
            self._answer(queue, request.take(), answer, CONNECT_TIME)

    def end(self, *, report: bool = False) -> None:
        """Hang up: the other side is told, and with ``report`` this one."""
        with contextlib.nullcontext() if self._queue is None else self._queue._changed:
            self._state = State.ENDED
            self._hang_up()
            if report:
                self._report(EqEvent.FI_SHUTDOWN)

    # Steps of the handshake

    def _request(self) -> Note:
        return Note(Kind.REQUEST, self._endpoint.getname(), cut(self._param))

    def _accepted(self, note: Note) -> None:
        self._insert(peer_of(note))

    def _connected(self, note: Note) -> None:
        self._report(EqEvent.FI_CONNECTED, note.data)

    def _lost(self, error: OSError) -> None:
        if self._state is State.CONNECTED:
            self.end(report=True)
            return
        err = _known(error, answering=self._state is State.ANSWERING)
        # where none has been agreed upon, another can be begun
        self._state = State.ENDED if self._peer else State.IDLE
        self._hang_up()
        assert self._queue is not None
        self._queue._report_error(self._reported, None, 0, err, error.data if isinstance(error, Rejected) else b"")

    def _insert(self, peer: bytes) -> None:
        vector = self._endpoint._vector()
        self._number, self._peer = vector.insert(peer), peer

    def _report(self, event: EqEvent, param: bytes = b"") -> None:
        assert self._queue is not None
        self._queue._report_connection(event, self._reported, None, param)

    @property
    def _endpoint(self) -> Connectable:
        endpoint = self._owner()
        assert endpoint is not None  # it ends its connection when it goes
        return endpoint

    @property
    def _reported(self) -> FabricObject:
        """The endpoint, as the object that something has happened to."""
        return cast(FabricObject, self._endpoint)


def cut(param: bytes) -> bytes:
    """Return as much of ``param`` as reaches the other application: fi_cm(3) asks to cut off the rest."""
    return bytes(param[:CM_DATA_SIZE])


def peer_of(note: Note) -> bytes:
    """Return the address of the sender's endpoint. Raises FI_ECONNREFUSED if there is no such address."""
    try:
        EndpointAddress.unpack(note.address)
    except FabricError as error:
        raise stranger(error.strerror or "") from None
    return note.address


def place_of(address: SocketAddress, *, passive: bool = False) -> Place:
    """Find where to connect to (host, port) by TCP, or to listen.

    Raises FI_EINVAL for what is no such pair, FI_EADDRNOTAVAIL for an unknown host.
    """
    try:
        host, port = address
        return resolve(host, int(port), passive=passive)
    except (TypeError, ValueError):
        raise fabric_error(Errno.FI_EINVAL, f"expected (host, port), got {address!r}") from None
    except (OSError, OverflowError) as error:
        raise fabric_error(Errno.FI_EADDRNOTAVAIL, f"there is no TCP address {address!r}: {error}") from None


def _known(error: OSError, *, answering: bool) -> Errno:
    """Return libfabric's error number for the end of an attempt. ``answering``: by the side that accepts."""
    number = error.errno or errno.EHOSTUNREACH
    if number in (errno.ECONNRESET, errno.ECONNABORTED) and not answering:
        return Errno.FI_ECONNREFUSED  # the listener has closed without an answer
    try:
        return Errno(number)
    except ValueError:
        return Errno.FI_EHOSTUNREACH
