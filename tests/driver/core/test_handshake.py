"""The handshake of connections, ``core/handshake.py``: two sides over TCP, honest, hostile and late ones."""

import contextlib
import errno
import json
import os
import select
import socket
from types import SimpleNamespace

import pytest
from amoeba.core import handshake, waiting
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.core.handshake import Handshake, Kind, Listening, Note, Rejected, State, bind, reject, resolve
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


# Honest sides


def test_both_sides_hear_what_the_other_says(watcher, client, server, answering):
    client.connect(watcher, server.place, LONG)
    assert client.state is State.CALLING
    watcher.until(lambda: server.requests)
    assert client.state is State.ASKING
    (lines, request, address) = server.requests.pop()
    assert request == Note(Kind.REQUEST, b"client", b"please")
    assert address == client.socket.getsockname()
    answering.answer(watcher, lines, LONG)
    assert answering.state is State.ANSWERING
    watcher.until(lambda: client.state is answering.state is State.CONNECTED)
    assert client.accepted == client.last == Note(Kind.ACCEPT, b"server", b"welcome")
    assert answering.last == Note(Kind.READY)
    assert (client.deadline, answering.deadline, client.error, answering.error) == (None, None, None, None)


@pytest.mark.parametrize("closer", ["client", "server"])
def test_the_end_of_one_side_is_the_end_of_the_other(watcher, client, server, answering, closer):
    shake_hands(watcher, client, server, answering)
    one, other = (client, answering) if closer == "client" else (answering, client)
    one.hang_up()
    one.hang_up()
    watcher.until(lambda: other.error)
    assert isinstance(other.error, FabricError)
    assert other.error.fi_errno is Errno.FI_ECONNABORTED
    assert len(watcher.sources) == 1, "the listener alone"


def test_a_rejection_brings_its_data(watcher, client, server):
    reject(ask(watcher, client, server), PROTOCOL, b"not today")
    watcher.until(lambda: client.error)
    assert isinstance(client.error, Rejected)
    assert (client.error.errno, client.error.data) == (errno.ECONNREFUSED, b"not today")
    assert client.accepted is None


def test_a_side_that_cannot_use_the_connection_hangs_up(watcher, client, server, answering):
    client.refusal = OSError(errno.ENOSPC, "full")
    answering.answer(watcher, ask(watcher, client, server), LONG)
    watcher.until(lambda: client.error and answering.error)
    assert client.error is client.refusal
    assert answering.error.errno == errno.ECONNABORTED
    assert client.last is answering.last is None


def test_what_an_application_raises_once_connected_is_no_loss(watcher, client, server, answering, monkeypatch):
    def fail(note):
        raise OSError(errno.EIO, "the application's")

    monkeypatch.setattr(client, "_connected", fail)
    with pytest.raises(OSError, match="the application's"):
        shake_hands(watcher, client, server, answering)
    assert (client.state, client.error) == (State.CONNECTED, None)


def test_a_side_may_call_again_after_it_was_lost(watcher, client, server, answering):
    reject(ask(watcher, client, server), PROTOCOL)
    watcher.until(lambda: client.error)
    client.error = None
    shake_hands(watcher, client, server, answering)
    assert client.error is None


def test_where_nobody_listens_the_system_s_number_says_why(watcher, client):
    with contextlib.closing(bind(LOCAL)) as silent:
        client.connect(watcher, (LOCAL[0], silent.getsockname()), LONG)
        watcher.until(lambda: client.error)
    assert not isinstance(client.error, FabricError)
    assert client.error.errno == errno.ECONNREFUSED


def test_an_address_that_tcp_refuses_at_once_is_lost_at_once(watcher, client):
    client.connect(watcher, (LOCAL[0], ("255.255.255.255", 1)), LONG)
    assert client.error.errno in (errno.ENETUNREACH, errno.EACCES, errno.EHOSTUNREACH)
    assert client.socket is None


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


def say(connected, words):
    """Say it, as far as the other side listens: it may hang up in the middle."""
    connected.settimeout(LONG)
    with contextlib.suppress(ConnectionError):
        connected.sendall(words)


def say_piecemeal(watcher, connected, words, over):
    """The same where ``words`` may be more than fit into the kernel's buffers."""
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


# Half-open peers, and those that close midway


def test_a_request_may_come_byte_by_byte(watcher, server, stranger):
    watcher.until(lambda: server.listening.callers)
    for byte in line("request", b"slow".hex(), ""):
        assert server.requests == []
        stranger.sendall(bytes([byte]))
        watcher.step()
    assert server.requests[0][1] == Note(Kind.REQUEST, b"slow")


def test_an_answer_may_come_in_two_pieces(watcher, client, impostor):
    words = line("accept", b"server".hex(), "")
    for piece in (words[:20], words[20:]):
        assert client.last is None
        impostor.sendall(piece)
        watcher.step()
    assert client.last == Note(Kind.ACCEPT, b"server")


@pytest.mark.parametrize("words", [b"", line("request", "", "")[:20]], ids=["silent", "in the middle of a line"])
def test_a_caller_that_closes_before_its_request_is_forgotten(watcher, server, stranger, words):
    say(stranger, words)
    stranger.close()
    watcher.until(lambda: server.listening.callers)
    watcher.until(lambda: not server.listening.callers)
    assert server.requests == []


def test_a_caller_that_closes_after_its_request_is_lost_once_accepted(watcher, client, server, answering):
    lines = ask(watcher, client, server)
    client.hang_up()
    answering.answer(watcher, lines)
    watcher.until(lambda: answering.error)
    assert answering.error.errno == errno.ECONNABORTED
    assert answering.state is State.ANSWERING


@pytest.mark.parametrize("words", [b"", line("accept", "", "")[:20]], ids=["silent", "in the middle of a line"])
def test_a_listener_that_closes_before_its_answer_is_lost(watcher, client, impostor, words):
    say(impostor, words)
    impostor.close()
    watcher.until(lambda: client.error)
    assert isinstance(client.error, FabricError)
    assert (client.error.errno, client.state) == (errno.ECONNABORTED, State.ASKING)


def test_a_listener_that_closes_after_its_acceptance_is_lost_once_connected(watcher, client, impostor):
    say(impostor, line("accept", "", ""))
    impostor.close()
    watcher.until(lambda: client.error)
    assert client.last == Note(Kind.ACCEPT)
    assert (client.error.errno, client.state) == (errno.ECONNABORTED, State.CONNECTED)


def test_a_caller_that_closes_before_it_is_ready_is_lost(watcher, server, stranger, answering):
    say(stranger, line("request", "", ""))
    watcher.until(lambda: server.requests)
    answering.answer(watcher, server.requests[0][0])
    stranger.close()
    watcher.until(lambda: answering.error)
    assert (answering.error.errno, answering.last) == (errno.ECONNABORTED, None)


# Times


def late(watcher, clock, side, timeout):
    """Let ``timeout`` seconds pass, and then a little more."""
    assert side.deadline == watcher.sources.deadline == clock.now + timeout
    clock.now += timeout
    watcher.sources.go_on()
    assert side.error is None
    clock.now += 0.001
    watcher.sources.go_on()
    assert not isinstance(side.error, FabricError)
    assert side.error.errno == errno.ETIMEDOUT
    assert side.socket is None


def test_a_host_that_does_not_take_the_call_is_given_up(clock, watcher, client, exits):
    full = exits.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=0)))
    exits.enter_context(contextlib.closing(socket.create_connection(full.getsockname())))
    client.connect(watcher, (LOCAL[0], full.getsockname()), 60.0)
    late(watcher, clock, client, 60.0)
    assert client.state is State.CALLING


def test_a_call_that_is_taken_too_late_is_given_up(clock, watcher, client, exits):
    listening = exits.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0))))
    client.connect(watcher, (LOCAL[0], listening.getsockname()), 60.0)
    clock.now += 61.0
    watcher.step()
    assert client.error.errno == errno.ETIMEDOUT


@pytest.mark.parametrize("words", [b"", line("accept", "", "")[:-1]], ids=["silent", "in the middle of a line"])
def test_a_listener_that_does_not_answer_is_given_up(clock, watcher, client, impostor, words):
    if words:
        impostor.sendall(words)
        watcher.step()
    late(watcher, clock, client, LONG)
    assert closed(impostor)


def test_a_caller_that_does_not_say_ready_is_given_up(clock, watcher, server, stranger, answering):
    say(stranger, line("request", "", ""))
    watcher.until(lambda: server.requests)
    answering.answer(watcher, server.requests[0][0], 7.0)
    late(watcher, clock, answering, 7.0)
    assert answering.state is State.ANSWERING


def test_an_answer_that_has_come_is_heard_however_late(clock, watcher, client, impostor):
    impostor.sendall(line("accept", "", ""))
    clock.now += LONG + 1
    watcher.until(lambda: client.last)
    assert client.error is None


def test_without_a_timeout_nothing_is_given_up(clock, watcher, client, server, answering):
    client.connect(watcher, server.place)
    watcher.until(lambda: server.requests)
    clock.now += 1e9
    answering.answer(watcher, server.requests[0][0])
    clock.now += 1e9
    watcher.until(lambda: client.state is answering.state is State.CONNECTED)
    clock.now += 1e9
    watcher.sources.go_on()
    assert client.error is answering.error is None


@pytest.mark.parametrize("words", [b"", line("request", "", "")[:20]], ids=["silent", "in the middle of a line"])
def test_a_caller_that_does_not_say_what_it_wants_is_shown_out(clock, watcher, server, stranger, words):
    watcher.until(lambda: server.listening.callers)
    if words:
        stranger.sendall(words)
        watcher.step()
    clock.now += PATIENCE
    watcher.sources.go_on()
    assert len(server.listening.callers) == 1
    clock.now += 0.001
    watcher.sources.go_on()
    assert not server.listening.callers
    assert closed(stranger)


# Places for callers


def callers(exits, server, count):
    address = server.listening.address
    return [exits.enter_context(contextlib.closing(socket.create_connection(address))) for _ in range(count)]


def came(*sources):
    """Sleep until the kernel has something for each."""
    for source in sources:
        assert select.select([source], [], [], LONG)[0]


def test_the_oldest_silent_caller_makes_space(watcher, server, exits):
    server.most = 2
    first, second, third = callers(exits, server, 3)
    watcher.until(lambda: server.listening.hung_up)
    assert len(server.listening.callers) == 2
    assert closed(first)
    for connected in (second, third):
        connected.sendall(line("request", "", ""))
    watcher.until(lambda: len(server.requests) == 2)
    assert server.listening.hung_up == 1


def test_a_caller_whose_request_has_just_come_is_heard_instead(watcher, server, exits):
    server.most = 1
    (first,) = callers(exits, server, 1)
    watcher.until(lambda: server.listening.callers)
    (caller,) = server.listening.callers
    first.sendall(line("request", b"first".hex(), ""))
    callers(exits, server, 1)
    came(caller, server.listening)
    server.listening.go_on()
    assert len(server.listening.callers) == 1
    assert caller not in server.listening.callers
    assert (server.requests[0][1].address, server.listening.hung_up) == (b"first", 0)


def test_a_listener_without_any_place_hangs_up_on_new_callers(watcher, server, exits):
    server.most = 0
    (first,) = callers(exits, server, 1)
    watcher.step()
    assert closed(first)
    assert not server.listening.callers


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_free_descriptors_the_oldest_silent_caller_makes_space(watcher, server, exits, monkeypatch, number):
    first, _ = callers(exits, server, 2)
    watcher.until(lambda: len(server.listening.callers) == 2)

    def fail():
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(server.listening, "socket", SimpleNamespace(accept=fail))
        server.listening.go_on()
    assert (len(server.listening.callers), server.listening.hung_up) == (1, 1)
    assert closed(first)


def test_a_call_that_has_gone_again_harms_nobody(watcher, server, exits, monkeypatch):
    callers(exits, server, 1)
    watcher.until(lambda: server.listening.callers)

    def fail():
        raise OSError(errno.ECONNABORTED, "gone")

    with monkeypatch.context() as patch:
        patch.setattr(server.listening, "socket", SimpleNamespace(accept=fail))
        server.listening.go_on()
    assert (len(server.listening.callers), server.listening.hung_up) == (1, 0)


def test_a_listener_that_closes_hangs_up_on_its_callers_alone(watcher, server, exits):
    first, second = callers(exits, server, 2)
    second.sendall(line("request", "", ""))
    watcher.until(lambda: server.requests and server.listening.callers)
    place = server.listening.address
    server.listening.close()
    assert closed(first)
    reject(server.requests[0][0], PROTOCOL)
    second.settimeout(LONG)
    assert second.recv(1000) == line("reject", "", "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place)


def test_a_request_may_close_the_listener(watcher, server, exits, monkeypatch):
    server.most = 1
    (first,) = callers(exits, server, 1)
    watcher.until(lambda: server.listening.callers)
    monkeypatch.setattr(server.listening, "_requested", lambda lines, *_: (server.close(), lines.close()))
    (caller,) = server.listening.callers
    first.sendall(line("request", "", ""))
    (second,) = callers(exits, server, 1)
    came(caller, server.listening)
    server.listening.go_on()
    assert closed(second)
    assert not server.listening.callers


def test_a_child_of_the_process_closes_its_copy_of_the_listener(watcher, server, exits):
    place = server.listening.address
    child = os.fork()
    if child == 0:
        os._exit(0 if server.listening.fileno() < 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert server.listening.address == place
    callers(exits, server, 1)
    watcher.until(lambda: server.listening.callers)


# Addresses


def test_an_unknown_host_is_an_error_of_the_system():
    with pytest.raises(OSError, match=r"not known|No address|resolution"):
        resolve("no.such.host.invalid", 1)


def test_an_address_that_is_taken_cannot_be_had(server):
    with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
        bind(server.place, 1)
    with pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
        bind(resolve("192.0.2.1", 0))


def test_an_address_can_be_had_again_while_tcp_remembers_a_connection(watcher, server, exits):
    (caller,) = callers(exits, server, 1)
    watcher.until(lambda: server.listening.callers)
    place = server.place
    server.listening.close()
    assert closed(caller)
    with contextlib.closing(bind(place, 1)) as again:
        assert again.getsockname() == place[1]


def test_an_empty_host_is_every_address_of_this_one():
    with contextlib.closing(bind(resolve("", 0, passive=True), 1)) as listening:
        port = listening.getsockname()[1]
        with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as connected:
            assert connected.getpeername()[1] == port
