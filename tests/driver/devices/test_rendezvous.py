"""The rendezvous: processes, here threads, that meet, exchange values, and lose each other.

Covers ``devices/bootstrap.py``.
"""

import contextlib
import errno
import json
import queue
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from amoeba import Errno, FabricError, PeerError, Rendezvous, TimedOutError
from amoeba.devices import bootstrap

REQUEST = b'["amoeba-rendezvous-3", "request", "", ""]\n'
"""First line of a process."""


class Listening:
    """A rendezvous that waits in a thread, for as many as ``ranks`` says."""

    def __init__(self, ranks, **options):
        self.place = queue.Queue()
        self.pool = ThreadPoolExecutor(1)
        self.made = self.pool.submit(
            Rendezvous.listen, "127.0.0.1", 0, ranks, ready=lambda *address: self.place.put(address), **options
        )
        self.address = self.place.get(timeout=30)


@pytest.fixture
def meet():
    """A function that gives the members of a rendezvous of so many ranks, by rank; left after the test."""
    with contextlib.ExitStack() as exits:

        def make(ranks):
            listening = Listening(ranks)
            others = [Rendezvous.connect(*listening.address, timeout=30) for _ in range(ranks - 1)]
            members = sorted([listening.made.result(30), *others], key=lambda member: member.rank)
            for member in members:
                exits.enter_context(member)
            return members

        yield make


def together(calls):
    """The results of calls made at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(30) for future in [pool.submit(call) for call in calls]]


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_everybody_gets_everybodys_values_by_rank(meet, ranks):
    members = meet(ranks)
    assert [(member.rank, member.ranks) for member in members] == [(rank, ranks) for rank in range(ranks)]
    assert repr(members[1]) == f"<Rendezvous rank 1 of {ranks}>"
    for repeat in range(3):
        values = [{"rank": member.rank, "repeat": repeat, "key": 2**64 - 1, "text": "\n"} for member in members]
        calls = [
            lambda member=member, value=value: member.exchange(value)
            for member, value in zip(members, values, strict=True)
        ]
        assert together(calls) == [values] * ranks


def test_values_come_as_json_carries_them_also_ones_own(meet):
    members = meet(2)
    told = together([lambda member=member: member.exchange((1, {2: None})) for member in members])
    assert told == [[[1, {"2": None}]] * 2] * 2


def test_values_larger_than_a_segment_arrive_whole(meet):
    members = meet(2)
    value = "x" * 300_000
    assert together([lambda member=member: member.exchange(value) for member in members]) == [[value] * 2] * 2


def test_nobody_returns_before_all_have_called(meet):
    first, second = meet(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.exchange, None)
        time.sleep(0.1)
        assert not waiting.done()
        first.exchange(None)
        assert waiting.result(30) == [None, None]


@pytest.mark.parametrize("waiting", [0, 1])
def test_whoever_waits_can_do_something_meanwhile(meet, waiting):
    members = meet(2)
    idled = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(members[waiting].exchange, "early", idled.set)
        assert idled.wait(30)
        assert members[1 - waiting].exchange("late")[waiting] == "early"
        assert early.result(30)[1 - waiting] == "late"


def test_the_host_is_the_address_that_the_others_reach(meet):
    assert [member.host for member in meet(3)] == ["127.0.0.1"] * 3


@pytest.mark.parametrize("gone", [0, 1])
def test_a_process_that_is_gone_ends_the_exchange_of_the_others(meet, gone):
    members = meet(3)
    members[gone].close()
    with pytest.raises(PeerError, match="another process is gone") as caught:
        members[1 - gone].exchange(None)
    assert caught.value.fi_errno == Errno.FI_ECONNABORTED


@pytest.mark.parametrize("gone", [0, 1])
def test_a_process_that_is_gone_is_noticed_without_an_exchange(meet, gone):
    members = meet(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(members[gone].exchange, "mine")  # what was said before is no sign of leaving
        time.sleep(0.1)
        members[1 - gone].check()
        assert members[1 - gone].exchange("yours")[gone] == "mine"
        waiting.result(30)
    members[1 - gone].check()
    members[gone].close()
    with pytest.raises(PeerError, match="another process is gone"):
        members[1 - gone].check()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_process_that_is_about_to_leave_can_be_waited_for(meet, gone):
    members = meet(2)
    members[1 - gone].check(0.01)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(members[1 - gone].check, 60.0)
        members[gone]._connections[0].send("what is said is no sign of leaving")
        members[gone].close()
        with pytest.raises(PeerError, match="another process is gone"):
            waiting.result(30)


def test_those_who_connect_may_come_first():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as reserved:
        address = reserved.getsockname()
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(Rendezvous.connect, *address, timeout=30)
        time.sleep(0.3)
        listener = pool.submit(Rendezvous.listen, *address, 2, timeout=30)
        with early.result(60) as second, listener.result(60) as first:
            assert (first.rank, second.rank) == (0, 1)


def test_nobody_there_is_said_after_the_timeout():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as reserved:
        host, port = reserved.getsockname()
    with pytest.raises(PeerError, match=f"nobody listened at {host}:{port} for 0.2 s") as caught:
        Rendezvous.connect(host, port, timeout=0.2)
    assert caught.value.fi_errno == Errno.FI_ECONNREFUSED


def test_too_few_is_said_after_the_timeout():
    with pytest.raises(TimedOutError, match=r"expected 2 processes to connect in 0\.2 s, got 0"):
        Rendezvous.listen("127.0.0.1", 0, 3, timeout=0.2)


def test_strangers_do_not_keep_others_from_meeting():
    listening = Listening(2, timeout=60)
    for words in (b"GET / HTTP/1.1\r\n\r\n", b'"something else"\n', b""):
        with contextlib.closing(socket.create_connection(listening.address)) as stranger:
            stranger.sendall(words)
    with Rendezvous.connect(*listening.address) as second, listening.made.result(60) as first:
        assert (first.rank, second.rank, second.ranks) == (0, 1, 2)


@pytest.mark.parametrize(
    "greeting", [b"220 mail.example ESMTP\r\n", b'["another", 1, 2]\n', b"7\n", b"x" * 2_000_000]
)
def test_a_server_that_is_no_rendezvous_is_refused(greeting):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server, ThreadPoolExecutor(1) as pool:

        def serve():
            with contextlib.closing(server.accept()[0]) as accepted, contextlib.suppress(OSError):
                accepted.sendall(greeting)

        pool.submit(serve)
        with pytest.raises(PeerError, match=r"this is no (rendezvous of )?Amoeba process"):
            Rendezvous.connect(*server.getsockname(), timeout=10)


def test_an_answer_that_is_no_list_of_all_is_refused(meet):
    first, second = meet(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.exchange, 1)
        first._connections[0].socket.sendall(json.dumps([1, 2, 3]).encode() + b"\n")
        with pytest.raises(PeerError, match=r"expected the values of 2 processes, got \[1, 2, 3\]"):
            waiting.result(30)


@pytest.mark.parametrize(("ranks", "host"), [(1, "127.0.0.1"), (2, "192.0.2.1")])
def test_what_cannot_be_listened_at_is_refused(ranks, host):
    with pytest.raises(FabricError) as caught:
        Rendezvous.listen(host, 0, ranks, timeout=1)
    assert caught.value.fi_errno == (Errno.FI_EINVAL if ranks == 1 else Errno.FI_EADDRNOTAVAIL)


def test_a_connection_that_is_gone_is_an_error_and_no_signal():
    """Programs in C end by SIGPIPE, which Python ignores in its own."""
    code = (
        "import signal, socket\n"
        "from amoeba.core.errors import FabricError\n"
        "from amoeba.core.lines import JsonLines\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "here, there = socket.create_server(('127.0.0.1', 0)), None\n"
        "lines = JsonLines(socket.create_connection(here.getsockname()))\n"
        "here.accept()[0].close()\n"
        "try:\n"
        "    while True:\n"
        "        lines.send('x' * 100000)\n"
        "except FabricError as error:\n"
        "    print(error.fi_errno.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "FI_ECONNABORTED\n")


def test_b13_connections_that_say_nothing_delay_nobody(monkeypatch):
    """Each connection could be silent for an hour."""
    monkeypatch.setattr(bootstrap, "_GREETING", 3600.0)
    listening = Listening(3, timeout=3600)
    with contextlib.ExitStack() as exits:
        for words in (b"", b"", b'["amoeba', b"", b"["):
            silent = exits.enter_context(contextlib.closing(socket.create_connection(listening.address)))
            silent.sendall(words)
        others = [exits.enter_context(Rendezvous.connect(*listening.address, timeout=300)) for _ in range(2)]
        first = exits.enter_context(listening.made.result(300))
        assert [member.rank for member in (first, *others)] == [0, 1, 2]


def test_the_oldest_silent_connection_makes_space_for_another(monkeypatch):
    monkeypatch.setattr(bootstrap, "_MAX_CALLERS", 2)
    listening = Listening(2, timeout=3600)
    with contextlib.ExitStack() as exits:
        silent = []
        for _ in range(4):
            caller = exits.enter_context(contextlib.closing(socket.create_connection(listening.address, 300)))
            silent.append(caller.makefile())
        assert [each.readline() for each in silent[:2]] == ["", ""], "hung up"
        with Rendezvous.connect(*listening.address, timeout=300), listening.made.result(300):
            pass


def test_a_connection_that_is_silent_for_too_long_is_hung_up(monkeypatch):
    monkeypatch.setattr(bootstrap, "_GREETING", 0.0)
    server = socket.create_server(("127.0.0.1", 0))
    with bootstrap._Reception(server) as reception, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(reception.heard, time.monotonic() + 300)
        with contextlib.closing(socket.create_connection(server.getsockname(), 300)) as silent:
            assert silent.makefile().readline() == ""
        reception._listening.patience = 300.0
        with contextlib.closing(socket.create_connection(server.getsockname(), 300)) as honest:
            honest.sendall(REQUEST)
            (found,) = heard.result(300)
            found.close()


def test_a_process_without_free_descriptors_hangs_up_on_the_silent():
    class Full:
        """A listening socket; the second connection finds no descriptor at first."""

        def __init__(self, server):
            self.server, self.accepted = server, 0

        def __getattr__(self, name):
            return getattr(self.server, name)

        def accept(self):
            self.accepted += 1
            if self.accepted == 2:
                raise OSError(errno.EMFILE, "too many open files")
            return self.server.accept()

    server = socket.create_server(("127.0.0.1", 0))
    with bootstrap._Reception(Full(server)) as reception, ThreadPoolExecutor(2) as pool:
        silent = socket.create_connection(server.getsockname(), 300)
        heard = pool.submit(reception.heard, time.monotonic() + 300)
        words = silent.makefile()
        honest = socket.create_connection(server.getsockname(), 300)
        honest.sendall(REQUEST)
        assert words.readline() == ""
        (found,) = heard.result(300)
        for each in (found, silent, honest, words):
            each.close()
