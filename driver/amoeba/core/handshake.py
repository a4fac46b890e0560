"""How two endpoints agree on a connection: a conversation over TCP, in lines of JSON.

The NICs have no part in it. Each side tells the other how to reach its endpoint's NIC::

    connects                           listens
        request: address, data     ->
                                   <-  accept: address, data    or    reject: data
        ready                      ->

Then the TCP connection is silent, and its end is the end of the connection, whatever the reason. Every line names
the protocol of its API, so that an API connects only with itself. Nothing here waits: a watcher lets each side go on
when its descriptor is ready or its time is over. Each side believes the other's addresses: connect over a network
whose hosts you trust.
"""

import contextlib
import enum
import errno
import os
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from amoeba_model.forking import own

from amoeba.core.errors import FabricError
from amoeba.core.lines import JsonLines, stranger
from amoeba.core.waiting import Source, Watcher

__all__ = ["Handshake", "Kind", "Listening", "Note", "Place", "Rejected", "State", "bind", "reject", "resolve"]

_AT_ONCE = 128
"""Maximum TCP connections that a listener takes before others go on."""

Place = tuple[socket.AddressFamily, Any]
"""Family and address of a TCP socket, as :func:`resolve` finds them."""


class Kind(enum.StrEnum):
    """Kinds of lines."""

    REQUEST = "request"
    ACCEPT = "accept"
    REJECT = "reject"
    READY = "ready"


class Note(NamedTuple):
    """One line of the conversation."""

    kind: Kind
    address: bytes = b""
    """The sender's endpoint, in requests and their acceptance."""
    data: bytes = b""
    """Further bytes for the other side."""

    def send(self, lines: JsonLines, protocol: str) -> None:
        """Send it. Raises FI_ECONNABORTED if the other side is gone."""
        lines.send([protocol, self.kind, self.address.hex(), self.data.hex()])

    @classmethod
    def receive(cls, lines: JsonLines, protocol: str, timeout: float = 0.0) -> Self:
        """Return the next line. Raises FI_ECONNREFUSED for one of another protocol, FI_ETIMEDOUT if none comes."""
        value: Any = lines.receive(timeout)
        try:
            name, kind, address, data = value
            if name != protocol:
                raise ValueError
            return cls(Kind(kind), bytes.fromhex(address), bytes.fromhex(data))
        except (TypeError, ValueError):
            raise stranger(f"expected a note of {protocol}, got {str(value)[:80]}") from None


class Rejected(ConnectionRefusedError):
    """The listening side does not want the connection."""

    def __init__(self, data: bytes) -> None:
        super().__init__(errno.ECONNREFUSED, "the connection request was rejected")
        self.data = data
        """Further bytes of the rejection."""


class State(enum.Enum):
    """How far a connection is."""

    IDLE = "not connected"
    CALLING = "being connected"
    ASKING = "waiting for the answer to its request"
    ANSWERING = "waiting until the other side is ready"
    CONNECTED = "connected"
    ENDED = "disconnected"


class Handshake:
    """One side of a connection, from its first attempt to its end: a source of its watcher.

    The connection of an API derives from this, and adds its own steps: :meth:`_request`, :meth:`_accepted`,
    :meth:`_connected` and :meth:`_lost`.
    """

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._state = State.IDLE
        self._watcher: Watcher | None = None
        self._socket: socket.socket | None = None
        """The TCP connection, from the first attempt to its end."""
        self._lines: JsonLines | None = None
        """The conversation, from when TCP has connected."""
        self.deadline: float | None = None
        """When it gives up waiting for the other side's next line."""

    # Beginning and end

    def _call(self, watcher: Watcher, place: Place, timeout: float | None) -> None:
        """Begin to connect to the listener at ``place``; give up after ``timeout`` seconds."""
        family, address = place
        self._watcher = watcher
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._begin(State.CALLING, timeout)
        problem = self._socket.connect_ex(address)
        if problem in (0, errno.EINPROGRESS):
            watcher._watch(self, writing=True)
        else:
            self._lost(_system_error(problem))

    def _answer(self, watcher: Watcher, lines: JsonLines, accept: Note, timeout: float | None) -> None:
        """Accept a request that came over ``lines``; give up after ``timeout`` seconds without its confirmation."""
        self._watcher, self._lines, self._socket = watcher, lines, lines.socket
        self._begin(State.ANSWERING, timeout)
        watcher._watch(self)
        with contextlib.suppress(FabricError):  # the watcher notices a peer that is gone
            accept.send(lines, self._protocol)

    def _begin(self, state: State, timeout: float | None) -> None:
        self._state = state
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def _hang_up(self) -> None:
        """Close the TCP connection, so that the other side is notified of the end. Idempotent."""
        if self._socket is not None and self._watcher is not None:
            self._watcher._unwatch(self)
            self._socket.close()
            self._socket = self._lines = None

    # Steps of an API

    def _request(self) -> Note:
        """Return the request, as soon as TCP has connected."""
        raise NotImplementedError

    def _accepted(self, note: Note) -> None:
        """Prepare to use the connection: the other side has accepted the request, and may not send yet.

        An OSError raised here ends the conversation, and goes to :meth:`_lost`.
        """
        raise NotImplementedError

    def _connected(self, note: Note) -> None:
        """Use the connection: both sides are ready. ``note``: the other side's last line."""
        raise NotImplementedError

    def _lost(self, error: OSError) -> None:
        """Hang up: TCP could not connect, the other side is gone, late or talks nonsense, or has rejected.

        ``error`` is a :class:`Rejected`, a FabricError for what the other side did and for what :meth:`_accepted`
        raised, or an OSError with the system's number; ETIMEDOUT also when the time is over.
        """
        raise NotImplementedError

    # Going on

    def fileno(self) -> int:
        assert self._socket is not None  # it is watched while it has one
        return self._socket.fileno()

    def go_on(self) -> None:
        """Take the next step, for which the TCP connection is ready, or too late."""
        try:
            last = self._step()
        except OSError as error:
            self._lost(error)
        else:
            if last is not None:
                self._connected(last)

    def _step(self) -> Note | None:
        """Go one step on; return the other side's last line once both are ready."""
        if self._lines is None:
            self._called()
        elif self._lines.check():
            return self._hear(Note.receive(self._lines, self._protocol))
        elif _late(self):
            raise _system_error(errno.ETIMEDOUT)
        return None

    def _called(self) -> None:
        """Send the request if TCP has connected."""
        assert self._socket is not None
        assert self._watcher is not None
        if problem := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise _system_error(problem)
        if _late(self):
            raise _system_error(errno.ETIMEDOUT)
        self._watcher._unwatch(self)
        self._socket.setblocking(True)
        self._lines = JsonLines(self._socket)
        self._state = State.ASKING
        self._watcher._watch(self)
        self._request().send(self._lines, self._protocol)

    def _hear(self, note: Note) -> Note | None:
        if self._state is State.ASKING and note.kind is Kind.REJECT:
            raise Rejected(note.data)
        if self._state is State.ASKING and note.kind is Kind.ACCEPT:
            assert self._lines is not None
            self._accepted(note)
            with contextlib.suppress(FabricError):  # the watcher notices a peer that is gone
                Note(Kind.READY).send(self._lines, self._protocol)
        elif self._state is not State.ANSWERING or note.kind is not Kind.READY:
            raise stranger(f"the endpoint is {self._state.value}, and is told {note.kind}")
        self._state = State.CONNECTED
        self.deadline = None
        return note


class Listening:
    """A TCP socket that listens, and the callers that have not sent their request yet.

    ``full``: whether so many callers leave no place for another; then the oldest gets out of the way. ``requested``
    takes each request, with its lines and the TCP address of its sender. ``patience``: seconds that callers have.
    """

    deadline: float | None = None

    def __init__(
        self,
        protocol: str,
        watcher: Watcher,
        listening: socket.socket,
        full: Callable[[int], bool],
        requested: Callable[[JsonLines, Note, Any], object],
        patience: float,
    ) -> None:
        self.protocol = protocol
        self.socket = listening
        self.patience = patience
        self.callers: dict[_Caller, None] = {}
        """The oldest first."""
        self.hung_up = 0
        """How many callers had to get out of the way."""
        self._watcher = watcher
        self._full = full
        self._requested = requested
        self.socket.setblocking(False)
        own(self)
        watcher._watch(self)

    @property
    def address(self) -> Any:
        """Where it listens, with the port that the system chose."""
        return self.socket.getsockname()

    def fileno(self) -> int:
        return self.socket.fileno()

    def go_on(self) -> None:
        """Take the TCP connections that have come."""
        for _ in range(_AT_ONCE):
            try:
                connected, address = self.socket.accept()
            except OSError as error:  # no further one has come, or it has gone again
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._make_place()  # the next call finds a free descriptor
                return
            if self._full(len(self.callers)):
                self._make_place()
            if self.fileno() < 0 or self._full(len(self.callers)):
                connected.close()
                continue
            connected.setblocking(True)
            caller = _Caller(self, JsonLines(connected), address)
            self.callers[caller] = None
            self._watcher._watch(caller)

    def _make_place(self) -> None:
        """Hang up on the oldest caller, unless its request has just come."""
        oldest = next(iter(self.callers), None)
        if oldest is not None:
            oldest.go_on()
        if oldest in self.callers:
            self.hung_up += 1
            self.hang_up(oldest)

    def hang_up(self, caller: "_Caller") -> None:
        """Close a caller's TCP connection."""
        self._forget(caller)
        caller.lines.close()

    def heard(self, caller: "_Caller", note: Note) -> None:
        """Pass on a caller's request."""
        self._forget(caller)
        self._requested(caller.lines, note, caller.address)

    def _forget(self, caller: "_Caller") -> None:
        self._watcher._unwatch(caller)
        self.callers.pop(caller, None)

    def close(self) -> None:
        """Listen no more, and hang up on all callers."""
        self._watcher._unwatch(self)
        self.socket.close()
        for caller in list(self.callers):
            self.hang_up(caller)

    def forked(self) -> None:
        """Leave the address to the parent: this is a child of the process that listens."""
        self.socket.close()


class _Caller:
    """A TCP connection over which no request has come yet."""

    def __init__(self, listening: Listening, lines: JsonLines, address: Any) -> None:
        self._listening = listening
        self.lines = lines
        self.address = address
        self.deadline: float | None = time.monotonic() + listening.patience

    def fileno(self) -> int:
        return self.lines.socket.fileno()

    def go_on(self) -> None:
        """Take the request if it has come; hang up if it is late, or something else came."""
        try:
            if self.lines.check():
                note = Note.receive(self.lines, self._listening.protocol)
            elif _late(self):
                raise _system_error(errno.ETIMEDOUT)
            else:
                return
        except OSError:
            self._listening.hang_up(self)
            return
        if note.kind is Kind.REQUEST:
            self._listening.heard(self, note)
        else:
            self._listening.hang_up(self)


def reject(lines: JsonLines, protocol: str, data: bytes = b"") -> None:
    """Refuse the request that came over ``lines``, and hang up."""
    with contextlib.closing(lines), contextlib.suppress(FabricError):
        Note(Kind.REJECT, data=data).send(lines, protocol)


def resolve(host: str, port: int, *, passive: bool = False) -> Place:
    """Find where to connect by TCP, or to listen. Raises OSError for an unknown host, UnicodeError for no name."""
    flags = socket.AI_PASSIVE if passive else 0
    family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)[0]
    return family, address


def bind(place: Place, backlog: int | None = None) -> socket.socket:
    """Return a TCP socket that has the address; with ``backlog`` it listens. Raises OSError if it cannot."""
    family, address = place
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        if backlog is not None:
            bound.listen(backlog)
    except OSError:
        bound.close()
        raise
    return bound


def _late(source: Source) -> bool:
    return source.deadline is not None and time.monotonic() > source.deadline


def _system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
