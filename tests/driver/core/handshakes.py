"""Two sides of a handshake over TCP, and what lets them go on."""

import contextlib
import json
import socket

from amoeba.core.handshake import Handshake, Kind, Listening, Note, State, bind, resolve
from amoeba.core.waiting import Sources

PROTOCOL = "test-1"
LOCAL = resolve("127.0.0.1", 0)
PATIENCE = 5.0
LONG = 60.0
"""Seconds that a test waits for what the kernel is about to report."""


class Watcher:
    """Lets sources go on, whenever the kernel reports something about one."""

    def __init__(self):
        self.sources = Sources()

    def _watch(self, source, *, writing=False):
        self.sources.add(source, writing=writing)

    def _unwatch(self, source):
        self.sources.remove(source)

    def step(self):
        """Sleep until something happens, and let it go on."""
        self.sources.wait(LONG)
        assert self.sources.go_on(), "nothing has happened"

    def until(self, ready):
        while not ready():
            self.step()


class Side(Handshake):
    """One side, which notes what it hears."""

    def __init__(self, name=b"client", data=b"please"):
        super().__init__(PROTOCOL)
        self.name, self.data = name, data
        self.accepted = self.last = self.error = self.refusal = None

    @property
    def state(self):
        return self._state

    @property
    def socket(self):
        return self._socket

    def connect(self, watcher, place, timeout=None):
        self._call(watcher, place, timeout)

    def answer(self, watcher, lines, timeout=None):
        self._answer(watcher, lines, Note(Kind.ACCEPT, self.name, self.data), timeout)

    def hang_up(self):
        self._hang_up()

    def _request(self):
        return Note(Kind.REQUEST, self.name, self.data)

    def _accepted(self, note):
        self.accepted = note
        if self.refusal is not None:
            raise self.refusal

    def _connected(self, note):
        self.last = note

    def _lost(self, error):
        self.error = error
        self._hang_up()


class Server:
    """A listener, which keeps the requests that come."""

    def __init__(self, watcher, most=100):
        self.requests, self.taken = [], []
        self.most = most
        self.listening = Listening(
            PROTOCOL, watcher, bind(LOCAL, 128), lambda callers: callers >= self.most, self._requested, PATIENCE
        )

    @property
    def place(self):
        return LOCAL[0], self.listening.address

    def _requested(self, lines, note, address):
        self.requests.append((lines, note, address))
        self.taken.append(lines)

    def close(self):
        self.listening.close()
        for lines in self.taken:
            lines.close()


class Clock:
    """Stands until it is told to go on."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


def line(*words):
    return json.dumps([PROTOCOL, *words]).encode() + b"\n"


def ask(watcher, client, server):
    """Let the client's request come to the server; returns its lines."""
    client.connect(watcher, server.place, LONG)
    watcher.until(lambda: server.requests)
    return server.requests.pop()[0]


def shake_hands(watcher, client, server, answering):
    answering.answer(watcher, ask(watcher, client, server), LONG)
    watcher.until(lambda: client.state is answering.state is State.CONNECTED)


def closed(connected):
    """Whether the other end of this TCP connection has hung up."""
    connected.settimeout(LONG)
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:
        return True


def say(connected, words):
    """Say it, as far as the other side listens: it may hang up in the middle."""
    connected.settimeout(LONG)
    with contextlib.suppress(ConnectionError):
        connected.sendall(words)


def callers(exits, server, count):
    address = server.listening.address
    return [exits.enter_context(contextlib.closing(socket.create_connection(address))) for _ in range(count)]
