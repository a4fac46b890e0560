"""Places for the callers of a listener: who waits, who is shown out, and who closes."""

import errno
import os
import select
import socket
from types import SimpleNamespace

import pytest
from amoeba.core.handshake import reject

from tests.driver.core.handshakes import (
    LONG,
    PROTOCOL,
    callers,
    closed,
    line,
)


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
