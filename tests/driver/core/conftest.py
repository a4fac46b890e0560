"""Sides of a handshake, each closed at the end of its test."""

import contextlib
import json
import socket
from types import SimpleNamespace

import pytest
from amoeba.core import handshake, waiting
from amoeba.core.handshake import State

from tests.driver.core.handshakes import (
    LOCAL,
    LONG,
    PROTOCOL,
    Clock,
    Server,
    Side,
    Watcher,
)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (handshake, waiting):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def watcher():
    watcher = Watcher()
    yield watcher
    watcher.sources.close()


@pytest.fixture
def exits():
    with contextlib.ExitStack() as exits:
        yield exits


@pytest.fixture
def server(watcher, exits):
    server = Server(watcher)
    exits.callback(server.close)
    return server


@pytest.fixture
def client(exits):
    client = Side()
    exits.callback(client.hang_up)
    return client


@pytest.fixture
def answering(exits):
    answering = Side(b"server", b"welcome")
    exits.callback(answering.hang_up)
    return answering


@pytest.fixture
def stranger(server, exits):
    """A TCP connection to the server, over which anything may be said."""
    return exits.enter_context(contextlib.closing(socket.create_connection(server.listening.address)))


@pytest.fixture
def impostor(client, watcher, exits):
    """The other end of the client's TCP connection, after its request: not this library's listener."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        client.connect(watcher, (LOCAL[0], listening.getsockname()), LONG)
        connected, _ = listening.accept()
    exits.enter_context(contextlib.closing(connected))
    watcher.until(lambda: client.state is State.ASKING)
    with connected.makefile() as lines:
        assert json.loads(lines.readline()) == [PROTOCOL, "request", b"client".hex(), b"please".hex()]
    return connected
