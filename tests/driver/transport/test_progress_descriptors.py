"""Descriptors and wait sets with automatic progress say exactly what there is. fi_cq(3), fi_cntr(3), fi_poll(3)."""

import pytest
from amoeba import (
    BindFlags,
    CqEntry,
    CqFormat,
    EqFlags,
    ErrorAvailableError,
    TimedOutError,
    WaitObj,
    open_cluster,
)
from amoeba.devices.devices import DEVICE_KINDS

from tests.driver.automatic import LONG, asleep, automatic_cluster, eventually, is_readable, make_counted
from tests.driver.endpoints import ON_MODEL, make_talkers


@pytest.fixture(params=DEVICE_KINDS)
def fabric(request, build_of):
    with automatic_cluster(request.param, build_of(request.param)) as opened:
        yield opened


def test_a_queue_is_readable_exactly_while_it_has_an_entry(fabric, pair, target, keep):
    domain, region = pair[0].domain, target[1]
    queue = keep(domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD))
    endpoint = keep(domain.endpoint(tx_size=16, cq=queue, av=pair[0].peers))
    to = (pair[0].peer, region.address, region.key)
    assert not is_readable(queue)
    with fabric.frozen():
        for number in range(2):
            endpoint.write(bytes(8), *to, context=number)
        endpoint.inject_write(bytes(8), *to)
        assert not is_readable(queue), "nothing has ended"
    eventually(lambda: is_readable(queue))
    asleep(fabric)
    assert queue.read() == [CqEntry(0)]
    assert is_readable(queue)
    assert queue.read(4) == [CqEntry(1)]
    assert not is_readable(queue)
    endpoint.write(bytes(8), to[0], to[1], to[2] ^ 1)
    eventually(lambda: is_readable(queue))
    with pytest.raises(ErrorAvailableError):
        queue.read()
    assert is_readable(queue)
    assert queue.readerr() is not None
    assert not is_readable(queue)
    queue.signal()
    assert is_readable(queue)
    assert queue.read() == []
    assert not is_readable(queue)


@ON_MODEL
def test_a_queue_of_messages_is_readable_exactly_while_it_has_an_entry(fabric, keep):
    one, other = keep(make_talkers(fabric))
    domain = other.domain
    queue, peers = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, WaitObj.FI_WAIT_FD)), keep(domain.av_open())
    flags = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    endpoint = keep(domain.endpoint(cq=queue, av=peers, cq_flags=flags))
    number = one.peers.insert(endpoint.getname())
    endpoint.recv(bytearray(1), context="first")
    endpoint.recv(bytearray(1), context="second")
    asleep(fabric)
    assert not is_readable(queue)
    one.endpoint.inject(b"x", number)
    one.endpoint.inject(b"y", number)
    eventually(lambda: is_readable(queue))
    asleep(fabric)
    for expected, more in (("first", True), ("second", False)):
        assert [entry.op_context for entry in queue.read()] == [expected]
        assert is_readable(queue) is more


def test_a_counter_is_readable_exactly_while_it_has_another_value(fabric, pair, target, keep):
    region = target[1]
    endpoint, counter = make_counted(pair[0], keep)
    with fabric.frozen():
        endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
        assert not is_readable(counter)
    eventually(lambda: is_readable(counter))
    assert counter.read() == 1
    assert not is_readable(counter)
    counter.add(2)
    assert is_readable(counter)
    assert counter.read() == 3
    endpoint.write(bytes(8), pair[0].peer, region.address, region.key ^ 1)
    eventually(lambda: is_readable(counter))
    assert counter.readerr() == 1
    assert not is_readable(counter)


# Wait sets


@pytest.mark.parametrize("before", [True, False], ids=["opened before the domain", "opened afterwards"])
def test_a_wait_set_waits_for_whatever_it_has(keep, before):
    """As C programs do it: the queue of events, and the set itself, may be older than automatic progress."""
    with open_cluster() as fabric:
        if not before:
            fabric.automate()
        waits = keep(fabric.wait_open(WaitObj.FI_WAIT_FD))
        events = keep(fabric.eq_open(flags=EqFlags.FI_WRITE, wait_obj=WaitObj.FI_WAIT_SET, wait_set=waits))
        fabric.automate()
        one, _ = keep(make_talkers(fabric))
        domain = one.domain
        queue = keep(domain.cq_open(wait_obj=WaitObj.FI_WAIT_SET, wait_set=waits))
        counter = keep(domain.cntr_open(WaitObj.FI_WAIT_SET, waits))
        endpoint = keep(domain.endpoint(cq=queue, av=one.peers))
        with pytest.raises(TimedOutError):
            waits.wait(0.01)
        assert not is_readable(waits)
        endpoint.send(b"x", one.peer)
        waits.wait(LONG)
        assert is_readable(waits)
        assert len(queue.read()) == 1
        assert not is_readable(waits)
        for begin, end in ((lambda: counter.add(1), counter.read), (lambda: events.write(7), events.read)):
            begin()
            assert is_readable(waits)
            waits.wait(LONG)
            end()
            assert not is_readable(waits)


@ON_MODEL
def test_a_poll_set_finds_what_came_by_itself(fabric, pair, target, keep):
    region = target[1]
    polls = keep(pair[0].domain.poll_open())
    polls.add(pair[0].queue)
    assert polls.poll() == []
    pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
    eventually(lambda: polls.poll() == [pair[0].queue])
    assert pair[0].finish()
