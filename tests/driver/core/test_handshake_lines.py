"""Hostile lines of either side of a handshake: each ends the connection, and nothing else."""

import contextlib

import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.core.handshake import Kind, State

from tests.driver.core.handshakes import (
    LONG,
    closed,
    line,
    say,
    shake_hands,
)

# Hostile lines

NONSENSE = {
    "not JSON": b"GET / HTTP/1.1\r\n\r\n",
    "empty": b"\n",
    "not text": bytes(range(256)) + b"\n",
    "deep": b"[" * 100_000 + b"\n",
    "a number": b"7\n",
    "an object": b'{"protocol": "test-1"}\n',
    "another protocol": b'["test-2", "request", "", ""]\n',
    "another kind": line("greeting", "", ""),
    "no kind": line(7, "", ""),
    "too few words": line("request", ""),
    "too many words": line("request", "", "", ""),
    "not hexadecimal": line("request", "zz", ""),
    "no bytes": line("request", "", 1e300),
    "long": b"x" * ((1 << 20) + 1),
    "long and a line": b'"' + b"x" * (1 << 20) + b'"\n',
}


def say_piecemeal(watcher, connected, words, over):
    """Send ``words``, which may be more than the kernel's buffers hold, and read on until ``over``."""
    connected.setblocking(False)
    rest = memoryview(words)
    while rest and not over():
        with contextlib.suppress(BlockingIOError):
            try:
                rest = rest[connected.send(rest) :]
            except ConnectionError:
                break
        watcher.sources.go_on()
    watcher.until(over)


@pytest.mark.parametrize(
    "words",
    [*NONSENSE.values(), line("accept", "", ""), line("reject", "", ""), line("ready", "", "")],
    ids=[*NONSENSE, "accept", "reject", "ready"],
)
def test_a_caller_that_talks_nonsense_is_hung_up_on(watcher, server, stranger, client, answering, words):
    watcher.until(lambda: server.listening.callers)
    (caller,) = server.listening.callers
    say_piecemeal(watcher, stranger, words, lambda: not server.listening.callers)
    assert closed(stranger)
    assert caller.fileno() < 0
    assert server.requests == []
    assert server.listening.hung_up == 0
    shake_hands(watcher, client, server, answering)


@pytest.mark.parametrize(
    "words",
    [*NONSENSE.values(), line("request", "", ""), line("ready", "", "")],
    ids=[*NONSENSE, "request", "ready"],
)
def test_a_listener_that_talks_nonsense_is_refused(watcher, client, impostor, words):
    say_piecemeal(watcher, impostor, words, lambda: client.error)
    assert isinstance(client.error, FabricError)
    assert client.error.fi_errno is Errno.FI_ECONNREFUSED
    assert client.accepted is client.last is None
    assert closed(impostor)


@pytest.mark.parametrize("words", [line("accept", "", ""), line("reject", "", ""), line("request", "", ""), b"7\n"])
def test_an_accepted_caller_that_does_not_say_ready_is_refused(watcher, server, stranger, answering, words):
    say(stranger, line("request", "", ""))
    watcher.until(lambda: server.requests)
    answering.answer(watcher, server.requests[0][0], LONG)
    say(stranger, words)
    watcher.until(lambda: answering.error)
    assert answering.error.fi_errno is Errno.FI_ECONNREFUSED
    assert answering.last is None


@pytest.mark.parametrize("kind", [*Kind, "hello"])
@pytest.mark.parametrize("speaker", ["client", "server"])
def test_nothing_more_may_be_said_once_connected(watcher, client, server, answering, speaker, kind):
    shake_hands(watcher, client, server, answering)
    one, other = (client, answering) if speaker == "client" else (answering, client)
    one.socket.sendall(line(kind, "", ""))
    watcher.until(lambda: other.error)
    assert other.error.fi_errno is Errno.FI_ECONNREFUSED
    assert other.state is State.CONNECTED, "so the API sees that it loses a connection"
