"""Programs run to their ends: one, or a server and its client. Only programs started here are ended here.

Each is a session of its own, so that what a program starts is ended with it.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ended", "run", "run_pair"]

_SETTLING = 0.3
"""Seconds for a server to get ready behind the opening of its first socket."""
_CLOSING = 3.0
"""Seconds for a server to end when its client has failed."""
_LISTENING = "0A"
"""State of a socket, in Linux' tables of them."""


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    command: str
    status: int | None
    """Its exit status, minus the number of the signal that killed it, None if its time was over."""
    output: str
    """Its output, errors included."""

    def __str__(self) -> str:
        return f"{self.command}: {'timeout' if self.status is None else self.status}\n{self.output[-4000:]}"


class _Started:
    """A program that runs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.command = " ".join(command)
        # a pipe could be full, and hold it up
        self._output = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115  open until its end
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def end(self, deadline: float) -> Ended:
        """Wait for its end until ``deadline`` of the monotonic clock, then kill it with all it has started."""
        status: int | None
        try:
            status = self.process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._output.seek(0)
        with self._output as output:
            return Ended(self.command, status, output.read())

    def listens(self, port: int | None = None) -> bool:
        """Whether it has bound a socket of the internet's, or listens at this port of TCP's, or has ended."""
        if self.process.poll() is not None:
            return True
        bound: set[str] = set()
        process = Path("/proc") / str(self.process.pid)
        try:
            for table in ("tcp", "tcp6", "udp", "udp6") if port is None else ("tcp", "tcp6"):
                for line in (process / "net" / table).read_text().splitlines()[1:]:
                    _, local, _, state, *_, inode = line.split()[:10]
                    if port is None or (state == _LISTENING and int(local.split(":")[1], 16) == port):
                        bound.add(f"socket:[{inode}]")
            return any(os.readlink(one) in bound for one in (process / "fd").iterdir())
        except OSError:  # it has ended, or closed a file, meanwhile
            return False


def run(command: Sequence[str], environment: Mapping[str, str] = {}, timeout: float = 60.0) -> Ended:
    """Run a program to its end."""
    return _Started(command, environment).end(time.monotonic() + timeout)


def run_pair(
    server: Sequence[str],
    client: Sequence[str],
    environment: Mapping[str, str] = {},
    timeout: float = 60.0,
    *,
    port: int | None = None,
    patience: float = _CLOSING,
    endless: bool = False,
) -> tuple[Ended, Ended]:
    """Run a server, and its client as soon as it listens, to their ends: (server, client).

    ``port``: of TCP's, where it listens; None: whatever it binds first is good. ``patience``: seconds for a server to
    end when its client has failed. ``endless``: it serves others, too, and is ended when its client is over.
    """
    deadline = time.monotonic() + timeout
    serving = _Started(server, environment)
    try:
        while not serving.listens(port) and time.monotonic() < deadline:
            time.sleep(0.05)
        if port is None:
            time.sleep(_SETTLING)
        asked = run(client, environment, deadline - time.monotonic())
        if asked.status or endless:
            deadline = min(deadline, time.monotonic() + (_SETTLING if endless else patience))
    except BaseException:
        serving.end(0.0)
        raise
    return serving.end(deadline), asked
