"""The handshake of connections, ``core/handshake.py``: two sides over TCP, honest, hostile and late ones."""

import contextlib
import errno
import os
import socket

import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.core.handshake import Kind, Note, Rejected, State, bind, reject, resolve

from tests.driver.core.handshakes import (
    LOCAL,
    LONG,
    PATIENCE,
    PROTOCOL,
    ask,
    callers,
    closed,
    line,
    say,
    shake_hands,
)

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
