"""Waits for longer than the system counts milliseconds, 31 bits of them, and for infinitely many seconds.

The awaited event comes, or is there: a number that does not fit is an error even then.
"""

import asyncio
import contextlib
import math
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from amoeba import EqEvent, EqFlags, Progress, Rendezvous, WaitObj, open_cluster
from amoeba.aio import read_event, wait_counter, wait_set
from amoeba.core.lines import JsonLines
from amoeba.core.waiting import Sources, WaitFd, readable_within

from tests.driver.automatic import asleep
from tests.driver.connections import Party, asked, listen
from tests.driver.endpoints import ALL_ACCESS, connect, make_counted_talker, make_side

LONG = [1e12, math.inf]
MODES = [Progress.FI_PROGRESS_MANUAL, Progress.FI_PROGRESS_AUTO]

pytestmark = pytest.mark.parametrize("seconds", LONG)


@pytest.fixture(params=MODES, ids=["manual", "automatic"])
def served(request):
    """A fabric of two models, with either kind of progress."""
    with open_cluster(progress=request.param) as fabric:
        yield fabric


@pytest.fixture
def sides(served):
    client, server = make_side(served.domain(0)), make_side(served.domain(1))
    connect(client, server)
    return client, server


@pytest.fixture
def to(sides):
    """Where the client writes: its peer, address, key."""
    client, server = sides
    region = server.domain.mr_reg(bytearray(8), ALL_ACCESS)
    yield client.peer, region.address, region.key
    region.close()


# Below


def test_descriptors_are_waited_for(seconds):
    with contextlib.closing(WaitFd()) as raised, contextlib.closing(WaitFd()) as other:
        raised.set()
        assert readable_within([other, raised.fileno()], seconds)


def test_sources_are_waited_for(seconds):
    with contextlib.closing(WaitFd()) as raised, contextlib.closing(Sources(raised)) as sources:
        raised.set()
        sources.wait(seconds)
        assert sources.ready


def test_lines_are_waited_for(seconds):
    here, there = socket.socketpair()
    with contextlib.closing(there), contextlib.closing(_lines(here)) as lines:
        there.sendall(b'"hello"\n')
        assert lines.receive(seconds) == "hello"


def _lines(connected):
    """Over a pair of sockets, which have none of TCP's options."""

    class Plain(socket.socket):
        def setsockopt(self, *_):
            pass

    return JsonLines(Plain(fileno=connected.detach()))


def test_processes_meet(seconds):
    places = []
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(
            Rendezvous.listen, "127.0.0.1", 0, 2, timeout=seconds, ready=lambda *place: places.append(place)
        )
        while not places:
            os.sched_yield()
        with Rendezvous.connect(*places[0], timeout=seconds) as one, listening.result(60) as other:
            assert (one.rank, other.rank) == (1, 0)


# Queues, counters, wait sets


def test_entries_are_waited_for(sides, to, seconds):
    client = sides[0]
    client.endpoint.write(bytes(8), *to)
    assert len(client.queue.sread(1, seconds)) == 1
    client.endpoint.write(bytes(8), *to)
    assert len(client.queue.sreadfrom(1, seconds)) == 1
    for _ in range(2):
        client.endpoint.write(bytes(8), *to)
    assert len(client.queue.wait_for(2, seconds)) == 2


def test_counters_are_waited_for(served, keep, seconds):
    endpoint, _, peers, receives, sends = make_counted_talker(served.domain(0), keep)
    other, _, _, received, _ = make_counted_talker(served.domain(1), keep)
    to = peers.insert(other.getname())
    other.recv(bytearray(8))
    endpoint.send(bytes(8), to)
    sends.wait(1, seconds)
    received.wait(1, seconds)
    assert receives.read() == 0


def test_events_are_waited_for(served, keep, seconds):
    queue = keep(served.eq_open(0, EqFlags.FI_WRITE))
    queue.write(1)
    assert queue.sread(seconds) is not None


def test_wait_sets_are_waited_for(sides, to, served, keep, seconds):
    waiting = keep(served.wait_open())
    client = sides[0]
    queue = keep(client.domain.cq_open(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waiting))
    keep(client.domain.endpoint(cq=queue, av=client.peers)).write(bytes(8), *to)
    waiting.wait(seconds)
    assert len(queue.read()) == 1


def test_connections_are_waited_for(served, keep, seconds):
    domains = served.domain(0), served.domain(1)
    client, server = keep([Party(each, served.eq_open(), each.cq_open()) for each in domains])
    passive = listen(served, keep, server)
    client.endpoint().connect(passive.getname(), timeout=seconds)
    request = asked(client, server)
    if served._auto is not None:
        asleep(served)  # its thread sleeps until the deadline
    server.endpoint(request.info).accept()
    assert client.events.sread(seconds).event is EqEvent.FI_CONNECTED
    assert server.events.sread(seconds).event is EqEvent.FI_CONNECTED


def test_tasks_wait(served, keep, seconds):
    async def wait():
        counter = keep(served.domain(0).cntr_open(WaitObj.FI_WAIT_FD))
        events = keep(served.eq_open(0, EqFlags.FI_WRITE, WaitObj.FI_WAIT_FD))
        waiting = keep(served.wait_open(WaitObj.FI_WAIT_FD))
        member = keep(served.eq_open(0, EqFlags.FI_WRITE, WaitObj.FI_WAIT_SET, wait_set=waiting))
        tasks = [
            asyncio.create_task(task)
            for task in (wait_counter(counter, 1, seconds), read_event(events, seconds), wait_set(waiting, seconds))
        ]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        counter.add(1)
        for queue in (events, member):
            queue.write(1)
        _, event, _ = await asyncio.gather(*tasks)
        assert event.event == member.read().event == 1

    asyncio.run(wait())
