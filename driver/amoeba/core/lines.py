"""Values between processes: each is a line of JSON over TCP."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from amoeba_model.forking import own

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.waiting import readable_within

__all__ = ["JsonLines", "stranger"]

_LONGEST_LINE = 1 << 20


class JsonLines:
    """Lines of JSON over a TCP connection, which :meth:`close` closes.

    Calls that take data raise FI_ECONNABORTED when the other end is closed. They raise FI_ECONNREFUSED for data that
    is no JSON, and for a line of more than 2**20 bytes.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # notices a host that is gone
        self._received = b""
        own(self)

    def send(self, value: object) -> None:
        """Send a value that JSON can carry. Raises FI_ECONNABORTED if the other end is known to be closed."""
        try:
            # no SIGPIPE, which ends C programs
            self.socket.sendall(json.dumps(value).encode() + b"\n", socket.MSG_NOSIGNAL)
        except OSError as error:
            raise _gone(error) from error

    def receive(self, timeout: float | None = None, idle: Callable[[], object] | None = None) -> Any:
        """Return the next value. Calls ``idle`` repeatedly meanwhile; without ``idle``, the wait sleeps.

        Raises FI_ETIMEDOUT after ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._received:
            rest = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if idle is not None:
                idle()
            if readable_within([self.socket], rest if idle is None else 0.0):
                self._receive_some()
            elif rest == 0.0:
                raise fabric_error(Errno.FI_ETIMEDOUT, f"another process said nothing for {timeout:g} s")
        line, self._received = self._received.split(b"\n", 1)
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise stranger(f"{line[:40]!r} is no JSON") from error

    def check(self) -> bool:
        """Take what has come, without waiting; whether :meth:`receive` has a value at once."""
        if readable_within([self.socket], 0.0):
            self._receive_some()
        return b"\n" in self._received

    def _receive_some(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except OSError as error:
            raise _gone(error) from error
        if not data:
            raise _gone("it closed the connection")
        self._received += data
        if len(self._received) > _LONGEST_LINE:
            raise stranger(f"a line has at most {_LONGEST_LINE} bytes")

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.socket.close()

    def forked(self) -> None:
        """Close the connection in a child process; the parent keeps its own."""
        self.close()


def _gone(error: object) -> FabricError:
    return fabric_error(Errno.FI_ECONNABORTED, f"another process is gone: {error}")


def stranger(what: str) -> FabricError:
    """Return the FI_ECONNREFUSED to raise when another process sends nonsense."""
    return fabric_error(Errno.FI_ECONNREFUSED, f"this is no Amoeba process: {what}")
