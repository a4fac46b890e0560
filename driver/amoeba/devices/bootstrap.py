"""Rendezvous of a job's processes before their NICs can talk: JSON over TCP.

One process listens, the others connect; then all of them exchange values as often as they like. On the wire,
each value is a line of JSON. Rank 0 is the process that listens; it collects the values, and sends everyone the
list of them all. Processes trust each other's values: use a network whose hosts you trust.

Silent connections block no other process: rank 0 reads all connections at the same time, and drops the oldest when
there are too many::

    connects                                    listens
                                            <-  [protocol]
        protocol                            ->
                                            <-  [rank, ranks]
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.lines import JsonLines
from amoeba.core.waiting import LONGEST_POLL, readable_within

__all__ = ["Rendezvous", "understood"]

_PROTOCOL = "amoeba-rendezvous-2"
_RETRY = 0.1
"""Seconds between attempts to connect."""
_GREETING = 5.0
"""Seconds that a connecting process may take to identify itself."""
_MAX_CALLERS = 256
"""Maximum number of connections whose process has not identified itself."""
_BREATH = 0.05
"""Seconds until the next try when the process has too many descriptors."""


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
        server.setblocking(False)
        self._server = server
        self._callers: dict[JsonLines, float] = {}
        """The time by which each process must identify itself; the oldest first."""

    def heard(self, deadline: float) -> list[JsonLines]:
        """Wait for processes of Amoeba, until ``deadline`` at most, and return the connections of some."""
        while True:
            now = time.monotonic()
            for caller in [caller for caller, until in self._callers.items() if until <= now]:
                self._drop(caller)
            sockets = [self._server, *(caller.socket for caller in self._callers)]
            readable_within(sockets, min([deadline, *self._callers.values()]) - now)
            found = [caller for caller in list(self._callers) if self._hear(caller)]
            self._accept()
            if found or now >= deadline:
                return found

    def _hear(self, caller: JsonLines) -> bool:
        """Return whether a connection is from an Amoeba process; hang up on any other."""
        try:
            if not caller.check():
                return False
            if caller.receive(0) == _PROTOCOL:
                del self._callers[caller]
                return True
        except FabricError:
            pass
        self._drop(caller)
        return False

    def _accept(self) -> None:
        """Take a waiting connection, and send the greeting."""
        try:
            accepted, _ = self._server.accept()
        except BlockingIOError:
            return
        except OSError:  # the connection is gone already, or there are too many descriptors
            if self._callers:
                self._drop(next(iter(self._callers)))
            else:
                time.sleep(_BREATH)
            return
        accepted.setblocking(True)
        caller = JsonLines(accepted)
        self._callers[caller] = time.monotonic() + _GREETING
        if len(self._callers) > _MAX_CALLERS:
            self._drop(next(iter(self._callers)))
        try:
            caller.send([_PROTOCOL])
        except FabricError:
            self._drop(caller)

    def _drop(self, caller: JsonLines) -> None:
        self._callers.pop(caller, None)
        caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for caller in list(self._callers):
            self._drop(caller)
        self._server.close()


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
            greeting = connection.receive(timeout)
            if greeting != [_PROTOCOL]:
                raise _stranger(f"expected a greeting of {_PROTOCOL}, got {greeting!r}")
            connection.send(_PROTOCOL)
            place = connection.receive(max(deadline - time.monotonic(), _RETRY))
            if not (isinstance(place, list) and len(place) == 2 and all(type(number) is int for number in place)):
                raise _stranger(f"expected a rank and their number, got {place!r}")
        except BaseException:
            connection.close()
            raise
        return cls(place[0], place[1], [connection])

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

    def check(self) -> None:
        """Raise FI_ECONNABORTED if another process is gone; rank 0 notices all of them, the others rank 0."""
        for connection in self._connections:
            connection.check()

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
        connection.send([rank, ranks])
    except FabricError:
        return False
    return True


def _stranger(what: str) -> FabricError:
    return fabric_error(Errno.FI_ECONNREFUSED, f"this is no rendezvous of Amoeba processes: {what}")
