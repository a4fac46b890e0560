"""Connections: what their two ends tell each other over TCP, and what becomes of one end. fi_cm(3).

The NICs have no part in it. Each side says, in lines of JSON, by which address the other's NIC reaches its endpoint::

    connects                            listens
        request: address, param    ->
                                   <-   accept: address, param      or   reject: param
        ready                      ->

After that the TCP connection is silent: its end is the end of the connection, whatever the reason. What the other
side says is believed: connect over a network whose hosts you trust.
"""

import contextlib
import enum
import errno
import socket
import time
import weakref
from typing import Any, NamedTuple, Protocol, Self, cast

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.lines import JsonLines
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.constants import EqEvent
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.nic.address import EndpointAddress

__all__ = [
    "CM_DATA_SIZE",
    "CONNECT_TIME",
    "Connectable",
    "Connection",
    "ConnectionRequest",
    "Kind",
    "Note",
    "SocketAddress",
    "resolve",
]

_PROTOCOL = "amoeba-connection-1"
CM_DATA_SIZE = 1024
"""Most bytes of ``param`` that reach the other side: FI_OPT_CM_DATA_SIZE."""
CONNECT_TIME = 60.0
"""Seconds that a request waits for its answer if nothing else is said."""

SocketAddress = tuple[str, int]
"""(host, port) of TCP: where a passive endpoint listens."""


class Kind(enum.StrEnum):
    """What one side tells the other."""

    REQUEST = "request"
    ACCEPT = "accept"
    REJECT = "reject"
    READY = "ready"


class Note(NamedTuple):
    """One line of the exchange."""

    kind: Kind
    address: bytes = b""
    """The sender's endpoint, as :meth:`EndpointAddress.pack` makes it; of a request and its acceptance."""
    param: bytes = b""
    """For the other application; what is longer than CM_DATA_SIZE is cut off, as fi_cm(3) asks for."""

    def send(self, lines: JsonLines) -> None:
        """Raises FI_ECONNABORTED if nobody is there any more."""
        lines.send([_PROTOCOL, self.kind, self.address.hex(), bytes(self.param[:CM_DATA_SIZE]).hex()])

    @classmethod
    def receive(cls, lines: JsonLines) -> Self:
        """The note that has come. Raises FI_ECONNREFUSED if it is none."""
        value: Any = lines.receive(0)
        try:
            protocol, kind, address, param = value
            if protocol != _PROTOCOL:
                raise ValueError
            note = cls(Kind(kind), bytes.fromhex(address), bytes.fromhex(param))
        except (TypeError, ValueError):
            raise fabric_error(
                Errno.FI_ECONNREFUSED, f"expected a note of {_PROTOCOL}, got {str(value)[:80]}"
            ) from None
        if note.kind in (Kind.REQUEST, Kind.ACCEPT):
            try:
                EndpointAddress.unpack(note.address)
            except FabricError as error:
                raise fabric_error(Errno.FI_ECONNREFUSED, error.strerror or "") from None
        return note


class ConnectionRequest:
    """``fi_connreq_t``: an endpoint that wants to be connected, until it is accepted or rejected.

    ``handle`` of the Info in a FI_CONNREQ.
    """

    def __init__(self, waiting: "set[ConnectionRequest]", lines: JsonLines, peer: bytes) -> None:
        self._waiting = waiting
        """Those of its passive endpoint; it is among them."""
        self._lines = lines
        self.peer = peer
        """Its address."""

    def check(self) -> None:
        """Raise FI_EINVAL if it has been answered, or its passive endpoint was closed."""
        if self not in self._waiting:
            raise fabric_error(Errno.FI_EINVAL, "this connection request was answered, or its endpoint is closed")

    def take(self) -> JsonLines:
        """The TCP connection, to give the answer. Raises what :meth:`check` raises."""
        self.check()
        self._waiting.discard(self)
        return self._lines

    def __repr__(self) -> str:
        return f"<ConnectionRequest of {EndpointAddress.unpack(self.peer)}>"


class Connectable(Protocol):
    """What a connection needs of its endpoint, which is a FabricObject."""

    def getname(self) -> bytes:
        """Its address. It is enabled when this is asked for."""

    def _event_queue(self) -> EventQueue:
        """Where its connection is reported."""

    def _vector(self) -> AddressVector:
        """Where its one peer gets a number."""


class _State(enum.Enum):
    IDLE = "not connected"
    CALLING = "being connected"
    ASKING = "waiting for the answer to its request"
    ACCEPTING = "waiting until the other side is ready"
    CONNECTED = "connected"
    ENDED = "disconnected"


_REFUSALS = {_State.CONNECTED: Errno.FI_EISCONN, _State.ENDED: Errno.FI_EOPBADSTATE}
"""Why no new connection is begun; otherwise FI_EALREADY."""


class Connection:
    """An endpoint's end of its connection, which goes on while the endpoint's event queue is read."""

    def __init__(self, endpoint: Connectable) -> None:
        self._owner = weakref.ref(endpoint)
        self._queue: EventQueue | None = None
        """That of the endpoint, from the first attempt on."""
        self._state = _State.IDLE
        self._socket: socket.socket | None = None
        """The TCP connection, from the first attempt to its end."""
        self._lines: JsonLines | None = None
        """What goes over it, from when it is made."""
        self._param = b""
        self._peer = b""
        self._number = 0
        """Of the peer in the endpoint's address vector."""
        self.deadline: float | None = None
        """When a request is given up."""

    @property
    def peer(self) -> bytes:
        """The other endpoint's address. Raises FI_ENOTCONN before it is connected, and afterwards."""
        self.destination()
        return self._peer

    @property
    def ended(self) -> bool:
        """There was one."""
        return self._state is _State.ENDED

    def destination(self) -> int:
        """The peer's number, for an operation that is about to be posted. Raises FI_ENOTCONN if there is none."""
        if self._state is not _State.CONNECTED:
            raise fabric_error(Errno.FI_ENOTCONN, f"the endpoint is {self._state.value}")
        return self._number

    def check_receiving(self) -> None:
        """Receives can be posted before the endpoint is connected. Raises FI_ENOTCONN when it is no longer."""
        if self._state is _State.ENDED:
            raise fabric_error(Errno.FI_ENOTCONN, f"the endpoint is {self._state.value}")

    def check_idle(self) -> None:
        """Raise FI_EISCONN, FI_EALREADY or FI_EOPBADSTATE if this is no time to begin a connection."""
        if self._state is not _State.IDLE:
            raise fabric_error(
                _REFUSALS.get(self._state, Errno.FI_EALREADY), f"the endpoint is {self._state.value} already"
            )

    def connect(self, address: SocketAddress, param: bytes, timeout: float | None) -> None:
        """Begin to call the passive endpoint there. Raises FI_EADDRNOTAVAIL for what is no TCP address."""
        self.check_idle()
        family, resolved = resolve(address)
        queue = self._queue = self._endpoint._event_queue()
        with queue._changed:
            self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.deadline = None if timeout is None else time.monotonic() + timeout
            self._param = bytes(param)
            self._state = _State.CALLING
            problem = self._socket.connect_ex(resolved)
            if problem in (0, errno.EINPROGRESS):
                queue._watch(self, writing=True)
            else:
                self._fail(_known(problem))

    def accept(self, request: ConnectionRequest, param: bytes) -> None:
        """Answer a request. Raises FI_ENOSPC if the NIC has no peer table entry left; then it waits as before."""
        queue = self._queue = self._endpoint._event_queue()
        with queue._changed:
            self._insert(request.peer)
            lines = self._lines = request.take()
            self._socket = lines.socket
            self._state = _State.ACCEPTING
            queue._watch(self)
            with contextlib.suppress(FabricError):  # a peer that is gone is noticed when the queue is read
                Note(Kind.ACCEPT, self._endpoint.getname(), param).send(lines)

    def end(self, *, report: bool = False) -> None:
        """Hang up: the other side is told, and with ``report`` this one."""
        with contextlib.nullcontext() if self._queue is None else self._queue._changed:
            self._state = _State.ENDED
            self._hang_up()
            if report:
                self._report(EqEvent.FI_SHUTDOWN)

    # What the event queue does with it

    def fileno(self) -> int:
        assert self._socket is not None  # only then it is watched
        return self._socket.fileno()

    def go_on(self) -> None:
        """Take the next step, for which the TCP connection is ready, or too late."""
        try:
            if self._state is _State.CALLING:
                self._called()
            elif self._lines is not None and self._lines.check():
                self._hear(Note.receive(self._lines))
            elif self.deadline is not None and time.monotonic() > self.deadline:
                self._fail(Errno.FI_ETIMEDOUT)
        except FabricError as error:
            self._lost(error.fi_errno)

    def _called(self) -> None:
        """TCP has connected, or has failed to."""
        assert self._socket is not None
        assert self._queue is not None
        if problem := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail(_known(problem))
        elif self.deadline is not None and time.monotonic() > self.deadline:
            self._fail(Errno.FI_ETIMEDOUT)
        else:
            self._queue._unwatch(self)
            self._socket.setblocking(True)
            self._lines = JsonLines(self._socket)
            self._state = _State.ASKING
            self._queue._watch(self)
            Note(Kind.REQUEST, self._endpoint.getname(), self._param).send(self._lines)

    def _hear(self, note: Note) -> None:
        """The other side has said something."""
        if self._state is _State.ASKING and note.kind is Kind.ACCEPT:
            assert self._lines is not None
            self._insert(note.address)
            with contextlib.suppress(FabricError):  # a peer that is gone shuts down
                Note(Kind.READY).send(self._lines)
            self._connected(note.param)
        elif self._state is _State.ASKING and note.kind is Kind.REJECT:
            self._fail(Errno.FI_ECONNREFUSED, note.param)
        elif self._state is _State.ACCEPTING and note.kind is Kind.READY:
            self._connected(b"")
        else:
            raise fabric_error(Errno.FI_ECONNREFUSED, f"the endpoint is {self._state.value}, and is told {note.kind}")

    def _insert(self, peer: bytes) -> None:
        vector = self._endpoint._vector()
        self._number, self._peer = vector.insert(peer), peer

    def _connected(self, param: bytes) -> None:
        self._state = _State.CONNECTED
        self.deadline = None
        self._report(EqEvent.FI_CONNECTED, param)

    def _lost(self, err: Errno) -> None:
        """The TCP connection has ended, or is of no use."""
        if self._state is _State.CONNECTED:
            self.end()
            self._report(EqEvent.FI_SHUTDOWN)
        elif err is Errno.FI_ECONNABORTED and self._state is not _State.ACCEPTING:
            self._fail(Errno.FI_ECONNREFUSED)  # whoever listened has closed without an answer
        else:
            self._fail(err)

    def _fail(self, err: Errno, param: bytes = b"") -> None:
        """No connection this time. Where none has been agreed upon, another can be begun."""
        self._state = _State.ENDED if self._peer else _State.IDLE
        self._hang_up()
        assert self._queue is not None
        self._queue._report_error(self._reported, None, 0, err, param)

    def _report(self, event: EqEvent, param: bytes = b"") -> None:
        assert self._queue is not None
        self._queue._report_connection(event, self._reported, None, param)

    def _hang_up(self) -> None:
        if self._socket is not None and self._queue is not None:
            self._queue._unwatch(self)
            self._socket.close()
            self._socket = self._lines = None

    @property
    def _endpoint(self) -> Connectable:
        endpoint = self._owner()
        assert endpoint is not None  # it ends its connection when it goes
        return endpoint

    @property
    def _reported(self) -> FabricObject:
        """The endpoint, as the object that something has happened to."""
        return cast(FabricObject, self._endpoint)


def resolve(address: SocketAddress, *, passive: bool = False) -> tuple[socket.AddressFamily, Any]:
    """Family and address for a TCP socket that connects to (host, port), or listens there.

    Raises FI_EINVAL for what is no such pair, FI_EADDRNOTAVAIL for an unknown host.
    """
    try:
        host, port = address
        flags = socket.AI_PASSIVE if passive else 0
        found = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM, flags=flags)
    except (TypeError, ValueError):
        raise fabric_error(Errno.FI_EINVAL, f"expected (host, port), got {address!r}") from None
    except (OSError, OverflowError) as error:
        raise fabric_error(Errno.FI_EADDRNOTAVAIL, f"there is no TCP address {address!r}: {error}") from None
    family, _, _, _, resolved = found[0]
    return family, resolved


def _known(number: int) -> Errno:
    """The system's error number, as far as libfabric has it."""
    if number == errno.ECONNRESET:
        return Errno.FI_ECONNREFUSED  # whoever listened has closed without an answer
    try:
        return Errno(number)
    except ValueError:
        return Errno.FI_EHOSTUNREACH
