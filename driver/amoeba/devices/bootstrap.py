"""Rendezvous of a job's processes before their NICs can talk: JSON over TCP.

One process listens, the others connect; then all of them exchange values as often as they like. On the wire,
each value is a line of JSON. Rank 0 is the process that listens; it collects the values, and sends everyone the
list of them all. Processes trust each other's values: use a network whose hosts you trust.

Silent connections block no other process: rank 0 reads all connections at the same time, and drops the oldest when
there are too many. :mod:`amoeba.core.handshake` has the lines by which processes meet::

    connects                                    listens
        request                             ->
                                            <-  accept: [rank, ranks]
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.handshake import Kind, Listening, Note
from amoeba.core.lines import JsonLines
from amoeba.core.waiting import LONGEST_POLL, Source, Sources, readable_within

__all__ = ["Rendezvous", "understood"]

_PROTOCOL = "amoeba-rendezvous-3"
_RETRY = 0.1
"""Seconds between attempts to connect."""
_GREETING = 5.0
"""Seconds that a connecting process may take to identify itself."""
_MAX_CALLERS = 256
"""Maximum number of connections whose process has not identified itself."""
_BREATH = 0.05
"""Seconds until the next look at connections after one that found no complete request."""


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """Raise FI_ECONNREFUSED where the block cannot interpret the values of other processes."""
    try:
        yield
    except FabricError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _stranger(f"one sent a value that makes no sense ({error!r})") from error


class _Reception:
    """Takes connections, and reads which process each is from. A context manager."""

    def __init__(self, server: socket.socket) -> None:
        self._sources = Sources()
        self._heard: list[JsonLines] = []
        self._listening = Listening(
            _PROTOCOL, self, server, lambda callers: callers >= _MAX_CALLERS, self._requested, _GREETING
        )

    def heard(self, deadline: float) -> list[JsonLines]:
        """Wait for processes of Amoeba, until ``deadline`` at most, and return the connections of some."""
        while True:
            until = deadline if self._sources.deadline is None else min(deadline, self._sources.deadline)
            self._sources.wait(max(until - time.monotonic(), 0.0))
            callers = len(self._listening.callers)
            self._sources.go_on()
            heard, self._heard = self._heard, []
            if heard or time.monotonic() >= deadline:
                return heard
            if len(self._listening.callers) == callers:  # half a request, or too many descriptors
                time.sleep(_BREATH)

    def _requested(self, lines: JsonLines, note: Note, address: Any) -> None:
        self._heard.append(lines)

    def _watch(self, source: Source, *, writing: bool = False) -> None:
        self._sources.add(source, writing=writing)

    def _unwatch(self, source: Source) -> None:
        self._sources.remove(source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._sources.close()


class Rendezvous:
    """One process's place in a job of several; made by :meth:`listen` or :meth:`connect`. A context manager.

    A process that is gone makes every later exchange of the others fail.
    """

    def __init__(self, rank: int, ranks: int, connections: list[JsonLines]) -> None:
        self.rank = rank
        """This process's number, from 0."""
        self.ranks = ranks
        """The number of processes."""
        self._connections = connections

    @classmethod
    def listen(
        cls,
        host: str,
        port: int,
        ranks: int,
        *,
        timeout: float = 60.0,
        ready: Callable[[str, int], object] | None = None,
    ) -> Self:
        """Wait at a TCP address (port 0: a free one) until ``ranks - 1`` others have connected, as rank 0.

        ``ready`` is called with the address as soon as others can connect. Raises FI_EINVAL for fewer than two ranks,
        FI_ETIMEDOUT when too few come in ``timeout`` seconds, FI_EADDRNOTAVAIL if the address cannot be had.
        """
        if ranks < 2:
            raise fabric_error(Errno.FI_EINVAL, f"a rendezvous is of two processes or more, got {ranks}")
        deadline = time.monotonic() + timeout
        with contextlib.ExitStack() as exits:
            try:
                server = exits.enter_context(socket.create_server((host, port), backlog=_MAX_CALLERS))
            except (OSError, OverflowError) as error:
                raise fabric_error(Errno.FI_EADDRNOTAVAIL, f"cannot listen at {host}:{port}: {error}") from error
            if ready is not None:
                ready(*server.getsockname()[:2])
            connections: list[JsonLines] = []
            reception = exits.enter_context(_Reception(server))
            while len(connections) < ranks - 1:
                heard = reception.heard(deadline)
                if not heard:
                    raise fabric_error(
                        Errno.FI_ETIMEDOUT,
                        f"expected {ranks - 1} processes to connect in {timeout:g} s, got {len(connections)}",
                    )
                for connection in heard:
                    if len(connections) < ranks - 1 and _place(connection, len(connections) + 1, ranks):
                        connections.append(exits.enter_context(contextlib.closing(connection)))
                    else:
                        connection.close()
            exits.pop_all()
        reception.__exit__()
        return cls(0, ranks, connections)

    @classmethod
    def connect(cls, host: str, port: int, *, timeout: float = 60.0) -> Self:
        """Join the process that listens, or will within ``timeout`` seconds; ranks follow the order of arrival.

        Raises FI_ECONNREFUSED when no process listens by then, or the listener is no rendezvous.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            try:
                connected = socket.create_connection((host, port), timeout=min(left, LONGEST_POLL))
                break
            except (OSError, OverflowError) as error:
                if time.monotonic() + _RETRY > deadline:
                    raise fabric_error(
                        Errno.FI_ECONNREFUSED, f"nobody listened at {host}:{port} for {timeout:g} s: {error}"
                    ) from error
                time.sleep(_RETRY)
        connected.settimeout(None)
        connection = JsonLines(connected)
        try:
            rank, ranks = _join(connection, max(deadline - time.monotonic(), _RETRY))
        except BaseException:
            connection.close()
            raise
        return cls(rank, ranks, [connection])

    @property
    def host(self) -> str:
        """The address of this host, as the others reach it."""
        host: str = self._connections[0].socket.getsockname()[0]
        return host

    def exchange(self, value: object, idle: Callable[[], object] | None = None) -> list[Any]:
        """Give a value that JSON can carry, and get the values of all by rank; returns only after all have called.

        ``idle`` is called repeatedly while waiting, so that a simulated NIC can continue to serve the others.
        Raises FI_ECONNABORTED if another process is gone.
        """
        if self.rank:
            (connection,) = self._connections
            connection.send(value)
            values = connection.receive(idle=idle)
            if not isinstance(values, list) or len(values) != self.ranks:
                raise _stranger(f"expected the values of {self.ranks} processes, got {values!r}")
            return values
        # sent and received once, as everybody else's
        values = [json.loads(json.dumps(value))]
        values += [connection.receive(idle=idle) for connection in self._connections]
        for connection in self._connections:
            connection.send(values)
        return values

    def check(self, patience: float = 0.0) -> None:
        """Raise FI_ECONNABORTED if another process is gone, or leaves within ``patience`` seconds.

        Rank 0 notices all processes; the others notice rank 0.
        """
        deadline = time.monotonic() + patience
        while True:
            for connection in self._connections:
                connection.check()
            rest = deadline - time.monotonic()
            if rest <= 0 or not readable_within([connection.socket for connection in self._connections], rest):
                return

    def close(self) -> None:
        """Leave. Idempotent."""
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Rendezvous rank {self.rank} of {self.ranks}>"


def _place(connection: JsonLines, rank: int, ranks: int) -> bool:
    """Send a process its rank; returns whether the process is still there."""
    try:
        Note(Kind.ACCEPT, data=json.dumps([rank, ranks]).encode()).send(connection, _PROTOCOL)
    except FabricError:
        return False
    return True


def _join(connection: JsonLines, timeout: float) -> tuple[int, int]:
    """Identify this process; return its rank and the number of ranks, as the listening process sends them."""
    try:
        Note(Kind.REQUEST).send(connection, _PROTOCOL)
        note = Note.receive(connection, _PROTOCOL, timeout)
    except FabricError as error:
        raise _stranger("it hung up") if error.fi_errno is Errno.FI_ECONNABORTED else error from None
    with contextlib.suppress(ValueError, RecursionError):
        place = json.loads(note.data)
        numbers = isinstance(place, list) and all(type(number) is int for number in place)
        if note.kind is Kind.ACCEPT and numbers and len(place) == 2:
            return place[0], place[1]
    raise _stranger(f"expected a rank and their number, got {note.kind} {note.data[:40]!r}")


def _stranger(what: str) -> FabricError:
    return fabric_error(Errno.FI_ECONNREFUSED, f"this is no rendezvous of Amoeba processes: {what}")
