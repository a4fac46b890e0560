"""Endpoints made by socket addresses: what their two ends tell each other over TCP (listeners of ucp.h).

The NICs have no part in it. Each side says, in lines of JSON, how the other's NIC reaches its worker::

    connects                                         listens
        request: address, number, client id    ->
                                               <-    accept: address     or    reject
        ready                                  ->

``number``: of the client's endpoint; the server's has the same one but for the last bit. Nothing is sent by the NICs
before the other side is known to be ready. After that the TCP connection is silent, and its end is the end of the
other endpoint, or of its process. All goes on in progress, nothing waits. What the other side says of its NIC is
believed: connect over a network whose hosts you trust.
"""

import contextlib
import enum
import errno
import os
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

from amoeba.core.errors import FabricError
from amoeba.core.lines import JsonLines
from amoeba.core.waiting import Source
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.endpoint import NOBODY_YET, Endpoint
from amoeba.openucx.ucp.handles import ucp_conn_request_h, ucp_listener_h
from amoeba.openucx.ucp.objects import UcpObject
from amoeba.openucx.ucp.status import UcsError, UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.wireup import LINKED, Wireup
from amoeba.openucx.ucp.worker_base import WorkerBase

__all__ = ["ConnectionRequest", "Listener", "SocketWorker", "accept", "call"]

_PROTOCOL = "amoeba-ucp-1"
_CONNECT_TIME = 60.0
"""Seconds that either side waits for the other's next word."""
_BACKLOG = 128
_MOST_CALLERS = 1024
"""TCP connections that have not said yet what they want; the oldest makes room for more."""
_CONNECTION_STATUS = {
    errno.ECONNREFUSED: UcsStatus.UCS_ERR_NOT_CONNECTED,
    errno.ECONNRESET: UcsStatus.UCS_ERR_CONNECTION_RESET,
    errno.ETIMEDOUT: UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT,
}


class SocketWorker(Protocol):
    """What this needs of a worker."""

    wireup: Wireup

    @property
    def base(self) -> WorkerBase: ...

    def add_source(self, source: Source, *, writing: bool = False) -> None: ...

    def remove_source(self, source: Source) -> None: ...

    def make_endpoint(self, remote: WorkerAddress, number: int, remote_number: int) -> Endpoint: ...


class _Kind(enum.StrEnum):
    """What one side tells the other."""

    REQUEST = "request"
    ACCEPT = "accept"
    REJECT = "reject"
    READY = "ready"


class _Note(NamedTuple):
    """One line of the exchange."""

    kind: _Kind
    address: bytes = b""
    """The sender's worker; of a request and its acceptance."""
    number: int = 0
    """Of a request: the client's endpoint."""
    client_id: int = 0
    """Of a request: what the client's worker wants to be known by; 0: nothing."""

    def send(self, lines: JsonLines) -> None:
        """Raises FI_ECONNABORTED if nobody is there any more."""
        lines.send([_PROTOCOL, self.kind, self.address.hex(), self.number, self.client_id])

    @classmethod
    def receive(cls, lines: JsonLines) -> Self:
        """The note that has come. Raises ValueError if it is none."""
        value: Any = lines.receive(0)
        try:
            protocol, kind, address, number, client_id = value
            note = cls(_Kind(kind), bytes.fromhex(address), number, client_id)
        except (TypeError, ValueError):
            raise ValueError(f"expected a note of {_PROTOCOL}, got {str(value)[:80]}") from None
        numbers = type(number) is int and type(client_id) is int and 0 <= client_id < 1 << 64
        if protocol != _PROTOCOL or not numbers or (note.kind is _Kind.REQUEST and number & ~(LINKED - 2) != LINKED):
            raise ValueError(f"expected a note of {_PROTOCOL}, got {str(value)[:80]}")
        return note


class _Line:
    """One TCP connection that progress lets go on."""

    def __init__(self, worker: SocketWorker, connected: socket.socket) -> None:
        self._worker = worker
        self._socket = connected
        self._lines: JsonLines | None = None
        self._watched = False
        self.deadline: float | None = time.monotonic() + _CONNECT_TIME

    def fileno(self) -> int:
        return self._socket.fileno()

    def _watch(self, *, writing: bool = False) -> None:
        self._unwatch()
        self._worker.add_source(self, writing=writing)
        self._watched = True

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._worker.remove_source(self)

    def end(self) -> None:
        """Hang up. Idempotent."""
        self._unwatch()
        self._socket.close()

    def go_on(self) -> None:
        """Take what has come."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            self._lost(UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT)
            return
        try:
            if self._lines is None:
                self._connected()
            elif self._lines.check():
                self._heard(_Note.receive(self._lines))
        except OSError as error:
            known = UcsStatus.UCS_ERR_CONNECTION_RESET if isinstance(error, FabricError) else _status(error)
            self._lost(known)
        except ValueError:
            self._lost(UcsStatus.UCS_ERR_CONNECTION_RESET)

    def _connected(self) -> None:
        """There is a TCP connection."""
        raise NotImplementedError

    def _heard(self, note: _Note) -> None:
        """Raises ValueError for a note that makes no sense now."""
        raise NotImplementedError

    def _lost(self, status: UcsStatus) -> None:
        """Nothing more will be heard."""
        raise NotImplementedError


class _Link(_Line):
    """The TCP connection of an endpoint."""

    def __init__(self, worker: SocketWorker, endpoint: Endpoint, connected: socket.socket) -> None:
        super().__init__(worker, connected)
        self._endpoint = endpoint
        endpoint.link = self
        self.local_sockaddr: tuple[Any, ...] | None = None
        self.remote_sockaddr: tuple[Any, ...] | None = None

    def _note_addresses(self) -> None:
        with contextlib.suppress(OSError):
            self.local_sockaddr = self._socket.getsockname()
            self.remote_sockaddr = self._socket.getpeername()

    def _established(self, remote: WorkerAddress) -> None:
        self.deadline = None
        self._endpoint.connect(remote)

    def _lost(self, status: UcsStatus) -> None:
        self.end()
        self._endpoint.fail(status)


class _ClientLink(_Link):
    """The end that connects."""

    _client_id = 0

    def begin(self, address: Any, client_id: int) -> None:
        """Connect to this address."""
        self._client_id = client_id
        self._socket.setblocking(False)
        code = self._socket.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self._lost(_status(OSError(code, os.strerror(code))))
            return
        self._watch(writing=True)

    def _connected(self) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self._socket.setblocking(True)
        self._lines = JsonLines(self._socket)
        self._note_addresses()
        self._watch()
        address = self._worker.base.pack_address()
        _Note(_Kind.REQUEST, address, self._endpoint.number, self._client_id).send(self._lines)

    def _heard(self, note: _Note) -> None:
        if self.deadline is None:
            raise ValueError("nothing more was to be said")
        if note.kind is _Kind.REJECT:
            self._lost(UcsStatus.UCS_ERR_REJECTED)
            return
        if note.kind is not _Kind.ACCEPT:
            raise ValueError(f"expected accept or reject, got {note.kind}")
        try:
            remote = WorkerAddress.unpack(note.address)
        except UcsError as error:
            raise ValueError(str(error)) from error
        assert self._lines is not None
        worker = self._worker
        worker.base.context.adapter.reach(remote.main.mac, *remote.link)
        self._endpoint.remote = remote
        worker.wireup.register(self._endpoint)
        _Note(_Kind.READY).send(self._lines)
        self._established(remote)


class _ServerLink(_Link):
    """The end that was called, from its acceptance on."""

    def begin(self, lines: JsonLines) -> None:
        """Accept."""
        self._lines = lines
        self._note_addresses()
        self._watch()
        try:
            _Note(_Kind.ACCEPT, self._worker.base.pack_address()).send(lines)
        except FabricError:
            self._lost(UcsStatus.UCS_ERR_CONNECTION_RESET)

    def _heard(self, note: _Note) -> None:
        if self.deadline is None or note.kind is not _Kind.READY:
            raise ValueError(f"expected ready, once, got {note.kind}")
        self._established(self._endpoint.remote)


class _Caller(_Line):
    """Somebody has connected, and has not said yet what he wants."""

    def __init__(self, listener: "Listener", connected: socket.socket, address: tuple[Any, ...]) -> None:
        super().__init__(listener.worker, connected)
        self._listener = listener
        self._address = address
        self._lines = JsonLines(connected)
        self._watch()

    def _heard(self, note: _Note) -> None:
        if note.kind is not _Kind.REQUEST:
            raise ValueError(f"expected a request, got {note.kind}")
        try:
            remote = WorkerAddress.unpack(note.address)
        except UcsError as error:
            raise ValueError(str(error)) from error
        self._unwatch()
        assert self._lines is not None
        self._listener.called(self, ConnectionRequest(self._listener, self._lines, remote, note, self._address))

    def _lost(self, status: UcsStatus) -> None:
        self.end()
        self._listener.forget(self)


class ConnectionRequest(ucp_conn_request_h):
    """Somebody wants to be connected, until he is accepted or rejected. One that is dropped is not answered."""

    def __init__(
        self, listener: "Listener", lines: JsonLines, remote: WorkerAddress, note: _Note, address: tuple[Any, ...]
    ) -> None:
        self.listener = listener
        self.context = listener.worker.base.context
        self.remote = remote
        self.number = note.number
        self.client_id = note.client_id
        self.client_address = address
        self._lines: JsonLines | None = lines

    def check(self) -> None:
        """Raise INVALID_PARAM if it was answered."""
        if self._lines is None:
            raise invalid_param("this connection request has been accepted or rejected")

    def take(self) -> JsonLines:
        """The TCP connection, to give the answer. Raises what :meth:`check` raises."""
        self.check()
        assert self._lines is not None
        lines, self._lines = self._lines, None
        return lines

    def reject(self) -> None:
        """Tell the client that he is not wanted."""
        lines = self.take()
        with contextlib.suppress(FabricError):
            _Note(_Kind.REJECT).send(lines)
        lines.close()

    def __del__(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def __repr__(self) -> str:
        return f"<ConnectionRequest of {self.remote}>"


class Listener(UcpObject, ucp_listener_h):
    """Takes connection requests at a socket address; ``handler`` is called with each, from progress.

    Raises BUSY if somebody else has the address, INVALID_ADDR if this host has not, INVALID_PARAM for none.
    """

    deadline: float | None = None

    def __init__(
        self, worker: SocketWorker, address: tuple[Any, ...], handler: Callable[[ConnectionRequest], object]
    ) -> None:
        self.worker = worker
        self._handler = handler
        self.callers: dict[_Caller, None] = {}
        """TCP connections that have not said yet what they want, the oldest first."""
        self.hung_up = 0
        """Of them, those that made room for others."""
        family, resolved = _resolve(address, passive=True)
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(resolved)
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            statuses = {errno.EADDRINUSE: UcsStatus.UCS_ERR_BUSY, errno.EADDRNOTAVAIL: UcsStatus.UCS_ERR_INVALID_ADDR}
            status = statuses.get(error.errno or 0, UcsStatus.UCS_ERR_IO_ERROR)
            raise ucs_error(status, f"cannot listen at {address}: {error}") from error
        super().__init__(worker.base)
        worker.add_source(self)

    @property
    def sockaddr(self) -> tuple[Any, ...]:
        """Where it listens, with the port that was chosen."""
        address: tuple[Any, ...] = self._socket.getsockname()
        return address

    def fileno(self) -> int:
        return self._socket.fileno()

    def go_on(self) -> None:
        """Take those who have called."""
        for _ in range(_BACKLOG):
            try:
                connected, address = self._socket.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._hang_up()  # the next call finds a free descriptor
                return  # nobody more; or whoever it was is gone already
            connected.setblocking(True)
            if len(self.callers) >= _MOST_CALLERS:
                self._hang_up()
            self.callers[_Caller(self, connected, address)] = None

    def _hang_up(self) -> None:
        """Let the oldest caller make room, unless it has just said what it wants."""
        oldest = next(iter(self.callers), None)
        if oldest is not None:
            oldest.go_on()
        if oldest in self.callers:
            self.hung_up += 1
            self.forget(oldest)
            oldest.end()

    def forget(self, caller: _Caller) -> None:
        """It is none of the callers any more."""
        self.callers.pop(caller, None)

    def called(self, caller: _Caller, request: ConnectionRequest) -> None:
        """Somebody has said what he wants."""
        self.forget(caller)
        self._handler(request)

    def _release(self) -> None:
        self.worker.remove_source(self)
        for caller in list(self.callers):
            caller.end()
        self.callers.clear()
        self._socket.close()

    def __repr__(self) -> str:
        return f"<Listener at {self.sockaddr}>" if not self._closed else "<Listener, closed>"


def call(worker: SocketWorker, address: tuple[Any, ...], client_id: int) -> Endpoint:
    """An endpoint that is being connected to whoever listens at a socket address; does not wait.

    Raises INVALID_ADDR for an unknown host.
    """
    family, resolved = _resolve(address)
    number = worker.wireup.next_link()
    endpoint = Endpoint(worker.base, NOBODY_YET, number, number | 1)
    endpoint.unasked = False
    endpoint.on_close = worker.wireup.forget
    link = _ClientLink(worker, endpoint, socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC))
    link.begin(resolved, client_id)
    return endpoint


def accept(worker: SocketWorker, request: ConnectionRequest) -> Endpoint:
    """The endpoint at this end of a connection request; what is sent through it waits until the client is ready.

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
    lines = request.take()
    _ServerLink(worker, endpoint, lines.socket).begin(lines)
    return endpoint


def _resolve(address: tuple[Any, ...], *, passive: bool = False) -> tuple[socket.AddressFamily, Any]:
    """Family and address for a TCP socket. Raises INVALID_ADDR for an unknown host."""
    host, port = address[:2]
    try:
        flags = socket.AI_PASSIVE if passive else 0
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError) as error:
        raise ucs_error(UcsStatus.UCS_ERR_INVALID_ADDR, f"there is no TCP address {address!r}: {error}") from error
    family, _, _, _, resolved = found[0]
    return family, resolved


def _status(error: OSError) -> UcsStatus:
    """Why there is no connection."""
    return _CONNECTION_STATUS.get(error.errno or 0, UcsStatus.UCS_ERR_UNREACHABLE)
