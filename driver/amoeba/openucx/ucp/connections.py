"""Endpoints made by socket addresses: listeners of ucp.h, connection requests, and the ends of connections.

:mod:`amoeba.core.handshake` makes the connections. Here ``address`` is a worker's address. The ``data`` of a request
hold the number of the client's endpoint, and the client id, 0 for none. The server's endpoint has the same number but
for the last bit. The NICs send nothing before the other side is known to be ready. All steps run in progress.
"""

import contextlib
import errno
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

from amoeba.core.errors import FabricError
from amoeba.core.handshake import Handshake, Kind, Listening, Note, Place, Rejected, bind, reject, resolve
from amoeba.core.lines import JsonLines, stranger
from amoeba.core.waiting import Watcher
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.endpoint import NOBODY_YET, Endpoint
from amoeba.openucx.ucp.handles import ucp_conn_request_h, ucp_listener_h
from amoeba.openucx.ucp.objects import UcpObject
from amoeba.openucx.ucp.status import UcsError, UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.wireup import LINKED, Wireup
from amoeba.openucx.ucp.worker_base import WorkerBase

__all__ = ["ConnectionRequest", "Listener", "SocketWorker", "accept", "call"]

_PROTOCOL = "amoeba-ucp-2"
_CONNECT_TIME = 60.0
"""Seconds that either side waits for the other's next message."""
_BACKLOG = 128
_MAX_CALLERS = 1024
"""Maximum TCP connections that have not sent their request; beyond, the oldest is closed."""
_CONNECTION_STATUS = {
    errno.ECONNREFUSED: UcsStatus.UCS_ERR_NOT_CONNECTED,
    errno.ECONNRESET: UcsStatus.UCS_ERR_CONNECTION_RESET,
    errno.ETIMEDOUT: UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT,
}
_CLIENT = struct.Struct("<IQ")


class SocketWorker(Watcher, Protocol):
    """The parts of a worker that connections use."""

    wireup: Wireup

    @property
    def base(self) -> WorkerBase: ...

    def make_endpoint(self, remote: WorkerAddress, number: int, remote_number: int) -> Endpoint: ...


class _Client(NamedTuple):
    """The ``data`` of a request."""

    number: int
    """Of the client's endpoint."""
    client_id: int
    """The client's id; 0: none."""

    def pack(self) -> bytes:
        return _CLIENT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Invert :meth:`pack`. Raises FI_ECONNREFUSED for anything else."""
        if len(data) == _CLIENT.size:
            client = cls(*_CLIENT.unpack(data))
            if client.number & ~(LINKED - 2) == LINKED:
                return client
        raise stranger(f"expected the number of an endpoint and a client id, got {data[:40].hex()}")


class _Link(Handshake):
    """The TCP connection of an endpoint."""

    def __init__(self, worker: SocketWorker, endpoint: Endpoint) -> None:
        super().__init__(_PROTOCOL)
        self._worker = worker
        self._endpoint = endpoint
        endpoint.link = self
        self._client_id = 0
        self.local_sockaddr: tuple[Any, ...] | None = None
        self.remote_sockaddr: tuple[Any, ...] | None = None

    def call(self, place: Place, client_id: int) -> None:
        """Connect to this address."""
        self._client_id = client_id
        self._call(self._worker, place, _CONNECT_TIME)

    def accept(self, lines: JsonLines) -> None:
        """Accept the request that came over ``lines``."""
        self._answer(self._worker, lines, Note(Kind.ACCEPT, self._worker.base.pack_address()), _CONNECT_TIME)
        self._note_addresses()

    def end(self) -> None:
        """Hang up. Idempotent."""
        self._hang_up()

    def _request(self) -> Note:
        self._note_addresses()
        client = _Client(self._endpoint.number, self._client_id)
        return Note(Kind.REQUEST, self._worker.base.pack_address(), client.pack())

    def _note_addresses(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):
            self.local_sockaddr = self._socket.getsockname()
            self.remote_sockaddr = self._socket.getpeername()

    def _accepted(self, note: Note) -> None:
        remote = _worker_of(note)
        worker = self._worker
        worker.base.context.adapter.reach(remote.main.mac, *remote.link)
        self._endpoint.remote = remote
        worker.wireup.register(self._endpoint)

    def _connected(self, note: Note) -> None:
        self._endpoint.connect(self._endpoint.remote)

    def _lost(self, error: OSError) -> None:
        self._hang_up()
        self._endpoint.fail(_status(error))


class ConnectionRequest(ucp_conn_request_h):
    """A client's request for a connection, until it is accepted or rejected. A dropped request is not answered."""

    def __init__(self, listener: "Listener", lines: JsonLines, note: Note, address: tuple[Any, ...]) -> None:
        self._lines: JsonLines | None = lines
        self.listener = listener
        self.context = listener.worker.base.context
        self.remote = _worker_of(note)
        self.number, self.client_id = _Client.unpack(note.data)
        self.client_address = address

    def check(self) -> None:
        """Raise INVALID_PARAM if the request was answered."""
        if self._lines is None:
            raise invalid_param("this connection request has been accepted or rejected")

    def take(self) -> JsonLines:
        """Take the TCP connection, to give the answer. Raises what :meth:`check` raises."""
        self.check()
        assert self._lines is not None
        lines, self._lines = self._lines, None
        return lines

    def reject(self) -> None:
        """Tell the client that its request is rejected."""
        reject(self.take(), _PROTOCOL)

    def __del__(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def __repr__(self) -> str:
        return f"<ConnectionRequest of {self.remote}>"


class Listener(UcpObject, ucp_listener_h):
    """Takes connection requests at a socket address; progress calls ``handler`` with each.

    Raises BUSY if the address is in use, INVALID_ADDR if this host does not have it, INVALID_PARAM for anything else.
    """

    def __init__(
        self, worker: SocketWorker, address: tuple[Any, ...], handler: Callable[[ConnectionRequest], object]
    ) -> None:
        self.worker = worker
        self._handler = handler
        place = _place_of(address, passive=True)
        try:
            listening = bind(place, _BACKLOG)
        except OSError as error:
            statuses = {errno.EADDRINUSE: UcsStatus.UCS_ERR_BUSY, errno.EADDRNOTAVAIL: UcsStatus.UCS_ERR_INVALID_ADDR}
            status = statuses.get(error.errno or 0, UcsStatus.UCS_ERR_IO_ERROR)
            raise ucs_error(status, f"cannot listen at {address}: {error}") from error
        super().__init__(worker.base)
        self.listening = Listening(
            _PROTOCOL, worker, listening, lambda callers: callers >= _MAX_CALLERS, self._requested, _CONNECT_TIME
        )

    @property
    def sockaddr(self) -> tuple[Any, ...]:
        """Address of the listener, with the port that was chosen."""
        address: tuple[Any, ...] = self.listening.address
        return address

    def _requested(self, lines: JsonLines, note: Note, address: Any) -> None:
        try:
            request = ConnectionRequest(self, lines, note, address)
        except FabricError:
            lines.close()
        else:
            self._handler(request)

    def _release(self) -> None:
        self.listening.close()

    def __repr__(self) -> str:
        return f"<Listener at {self.sockaddr}>" if not self._closed else "<Listener, closed>"


def call(worker: SocketWorker, address: tuple[Any, ...], client_id: int) -> Endpoint:
    """Make an endpoint that connects to the listener at a socket address; does not wait.

    Raises INVALID_ADDR for an unknown host.
    """
    place = _place_of(address)
    number = worker.wireup.next_link()
    endpoint = Endpoint(worker.base, NOBODY_YET, number, number | 1)
    endpoint.unasked = False
    endpoint.on_close = worker.wireup.forget
    _Link(worker, endpoint).call(place, client_id)
    return endpoint


def accept(worker: SocketWorker, request: ConnectionRequest) -> Endpoint:
    """Make the endpoint at this end of a connection request; operations wait until the client is ready.

    Raises INVALID_PARAM if the request was answered, or came to another context, ALREADY_EXISTS if the client has
    named an endpoint that is connected already.
    """
    request.check()
    if request.context is not worker.base.context:
        raise invalid_param("conn_request: expected one to a listener of the same context")
    number = request.number | 1
    if worker.wireup.knows(request.remote.identity, number):
        request.reject()
        raise ucs_error(UcsStatus.UCS_ERR_ALREADY_EXISTS, f"{request!r}: its endpoint is connected already")
    endpoint = worker.make_endpoint(request.remote, number, request.number)
    endpoint.unasked = endpoint.connected = False
    _Link(worker, endpoint).accept(request.take())
    return endpoint


def _worker_of(note: Note) -> WorkerAddress:
    """Return the address of the sender's worker. Raises FI_ECONNREFUSED if there is no such address."""
    try:
        return WorkerAddress.unpack(note.address)
    except UcsError as error:
        raise stranger(str(error)) from error


def _place_of(address: tuple[Any, ...], *, passive: bool = False) -> Place:
    """Find where to connect by TCP, or to listen. Raises INVALID_ADDR for an unknown host."""
    try:
        return resolve(*address[:2], passive=passive)
    except (OSError, UnicodeError) as error:
        raise ucs_error(UcsStatus.UCS_ERR_INVALID_ADDR, f"unknown TCP address {address!r}: {error}") from error


def _status(error: OSError) -> UcsStatus:
    """Return the status for a connection that failed with an error."""
    if isinstance(error, Rejected):
        return UcsStatus.UCS_ERR_REJECTED
    if isinstance(error, FabricError):
        return UcsStatus.UCS_ERR_CONNECTION_RESET
    return _CONNECTION_STATUS.get(error.errno or 0, UcsStatus.UCS_ERR_UNREACHABLE)
