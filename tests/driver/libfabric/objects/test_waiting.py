"""Reading with sources, and ways to wait: fi_cq(3) and fi_trywait of fi_poll(3).

Covers ``libfabric/objects/queues/wait_descriptor.py`` and ``core/waiting.py``.
"""

import asyncio
import select
import threading
import time

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    BindFlags,
    CanceledError,
    CqEntry,
    CqFormat,
    CqMsgEntry,
    Errno,
    ErrorAvailableError,
    Op,
    WaitObj,
)

from tests.driver.endpoints import ALL_ACCESS, make_side, refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)


class Selectable:
    """An endpoint whose queue has a descriptor."""

    def __init__(self, pair, region, keep):
        domain = pair[0].domain
        self.queue, self.peers = keep(domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD)), keep(domain.av_open())
        self.endpoint = keep(domain.endpoint(tx_size=16, cq=self.queue, av=self.peers))
        self.to = (self.peers.insert(pair[1].endpoint.getname()), region.address, region.key)

    def readable(self):
        return bool(select.select([self.queue], [], [], 0)[0])


@pytest.fixture
def selectable(pair, target, keep):
    return Selectable(pair, target[1], keep)


@pytest.fixture
def told(pair, keep):
    """(queue with a descriptor that is notified of immediate data only, tell(data): let the client say something)."""
    server, client = pair[1].domain, pair[0]
    queue = keep(server.cq_open(CqFormat.FI_CQ_FORMAT_DATA, WaitObj.FI_WAIT_FD))
    own, peers = keep(server.cq_open()), keep(server.av_open())
    endpoint = keep(server.endpoint())
    endpoint.bind(own)
    endpoint.bind(queue, BindFlags.FI_RECV)
    endpoint.bind(peers)
    endpoint.enable()
    peers.insert(client.endpoint.getname())
    region = keep(server.mr_reg(bytearray(8), ALL_ACCESS))
    to = (client.peers.insert(endpoint.getname()), region.address, region.key)
    return queue, lambda data: client.endpoint.inject_writedata(b"x", data, *to)


# Sources


@pytest.mark.parametrize("call", ["readfrom", "sreadfrom"])
def test_own_operations_have_no_source(pair, target, call):
    _, region = target
    client = pair[0]
    client.endpoint.write(bytes(8), client.peer, region.address, region.key, context="mine")
    read = getattr(client.queue, call)
    while not (entries := read(4)):
        pass
    ((entry, source),) = entries
    assert (entry.op_context, source) == ("mine", FI_ADDR_NOTAVAIL)
    assert isinstance(entry, CqMsgEntry)


def test_waiting_with_sources_ends_with_its_time(pair):
    assert pair[0].queue.sreadfrom(timeout=0.01) == []
    assert pair[0].queue.readfrom() == []


def test_an_error_is_available_to_readers_with_sources_too(pair, target):
    _, region = target
    client = pair[0]
    client.endpoint.write(bytes(8), client.peer, region.address, region.key ^ 1)
    with pytest.raises(ErrorAvailableError):
        client.queue.sreadfrom(timeout=30)


# Signals


def test_a_signal_ends_the_wait_of_another_thread(pair):
    signal = threading.Timer(0.05, pair[0].queue.signal)
    signal.start()
    begin = time.monotonic()
    with pytest.raises(CanceledError) as caught:
        pair[0].queue.sread(timeout=30)
    assert caught.value.errno == Errno.FI_ECANCELED
    assert time.monotonic() - begin < 20
    signal.join()


def test_a_signal_ends_one_wait(pair):
    pair[0].queue.signal()
    with pytest.raises(CanceledError):
        pair[0].queue.sread()
    assert pair[0].queue.sread(timeout=0.01) == []


def test_completions_go_before_a_signal(pair, target):
    _, region = target
    client = pair[0]
    client.endpoint.write(bytes(8), client.peer, region.address, region.key, context="mine")
    for _ in range(1000):
        client.domain.nic.device.advance()
    client.queue.signal()
    assert client.queue.sread()[0].op_context == "mine"
    with pytest.raises(CanceledError):
        client.queue.sread()


# Wait objects


def test_a_queue_without_wait_object_can_only_be_read(pair, keep):
    queue = keep(pair[0].domain.cq_open(wait_obj=WaitObj.FI_WAIT_NONE))
    assert queue.read() == []
    for use in (queue.sread, queue.sreadfrom, queue.signal, queue.fileno):
        with refused(Errno.FI_ENOSYS):
            use()


@pytest.mark.parametrize("wait_obj", [WaitObj.FI_WAIT_MUTEX_COND, WaitObj.FI_WAIT_POLLFD])
def test_other_wait_objects_are_refused(pair, wait_obj):
    with refused(Errno.FI_ENOSYS):
        pair[0].domain.cq_open(wait_obj=wait_obj)


def test_a_queue_has_a_descriptor_only_if_asked_for(pair):
    with refused(Errno.FI_ENOSYS):
        pair[0].queue.fileno()


def test_the_descriptor_is_readable_from_the_doorbell_until_all_is_read(selectable):
    assert not selectable.readable()
    for context in (1, 2):
        selectable.endpoint.write(bytes(8), *selectable.to, context=context)
        assert selectable.readable()
    entries = []
    while len(entries) < 2:
        assert selectable.readable()
        entries += selectable.queue.read(1)
    assert entries == [CqEntry(1), CqEntry(2)]
    assert not selectable.readable()


def test_the_descriptor_is_readable_while_an_error_is_not_read(fabric, selectable):
    *to, key = selectable.to
    selectable.endpoint.write(bytes(8), *to, key ^ 1)
    while fabric.trywait(selectable.queue):
        fabric.devices[0].advance()
    with pytest.raises(ErrorAvailableError):
        selectable.queue.read()
    assert selectable.readable()
    assert selectable.queue.readerr() is not None
    assert selectable.queue.read() == []
    assert not selectable.readable()


def test_a_program_sleeps_in_select_and_finishes(selectable, target):
    memory, _ = target
    for _ in range(16):
        selectable.endpoint.atomic(np.uint64(1), *selectable.to, Op.FI_SUM)
    done = 0
    while done < 16:
        assert select.select([selectable.queue], [], [], 30)[0]
        done += len(selectable.queue.read(4))
    assert memory[0] == 16


def test_an_asyncio_program_awaits_completions(selectable, target):
    memory, _ = target

    async def main():
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def on_readable():
            if selectable.queue.read():
                done.set()

        loop.add_reader(selectable.queue, on_readable)
        selectable.endpoint.atomic(np.uint64(5), *selectable.to, Op.FI_SUM)
        await asyncio.wait_for(done.wait(), 30)
        loop.remove_reader(selectable.queue)

    asyncio.run(main())
    assert memory[0] == 5


def test_a_signal_makes_the_descriptor_readable_until_the_queue_is_read(selectable):
    selectable.queue.signal()
    assert selectable.readable()
    assert selectable.queue.read() == []
    assert not selectable.readable()


def test_trywait_permits_waiting_when_there_is_nothing_to_read(fabric, selectable):
    assert fabric.trywait(selectable.queue)
    selectable.endpoint.write(bytes(8), *selectable.to, context="mine")
    assert fabric.trywait(selectable.queue)
    assert selectable.readable()  # the simulated NIC waits for the program to read
    while fabric.trywait(selectable.queue):
        fabric.devices[0].advance()
    assert selectable.queue.read() == [CqEntry("mine")]
    assert fabric.trywait(selectable.queue)


def test_trywait_asks_all_queues(fabric, pair, keep, target):
    _, region = target
    busy, idle = (Selectable(pair, region, keep) for _ in range(2))
    busy.endpoint.write(bytes(8), *busy.to)
    while fabric.trywait(idle.queue, busy.queue):
        fabric.devices[0].advance()
    assert fabric.trywait(idle.queue)
    assert not fabric.trywait(busy.queue, idle.queue)


def test_a_queue_that_is_notified_of_peers_is_always_readable_as_nobody_else_runs_their_target(told):
    queue, tell = told
    tell(7)
    data = []
    while not data:
        assert select.select([queue], [], [], 0)[0]
        data += [entry.data for entry in queue.read()]
    assert data == [7]
    assert queue.read() == []
    assert select.select([queue], [], [], 0)[0]


def test_trywait_sees_what_peers_tell_and_leaves_it_to_be_read(fabric, told):
    queue, tell = told
    assert fabric.trywait(queue)
    for data in range(3):
        tell(data)
    while fabric.trywait(queue):
        fabric.devices[1].advance()
    assert not fabric.trywait(queue)
    entries = []
    while len(entries) < 3:
        entries += queue.readfrom(4)
    assert [(entry.data, source) for entry, source in entries] == [(0, 0), (1, 0), (2, 0)]
    assert fabric.trywait(queue)


def test_the_descriptor_is_readable_for_what_completed_while_a_peer_was_removed(selectable, pair, keep):
    peers, (peer, address, key) = selectable.peers, selectable.to
    gone = peers.insert(keep(make_side(pair[1].domain)).endpoint.getname())
    selectable.endpoint.write(bytes(8), gone, address, key)
    while not selectable.queue.read():
        pass
    assert not selectable.readable()
    for context in (1, 2):
        selectable.endpoint.write(bytes(8), peer, address, key, context=context)
    peers.remove(gone)
    assert selectable.endpoint._rings.outstanding == 0  # taken out of the ring, and kept for the application
    for context in (1, 2):
        assert selectable.readable()
        assert selectable.queue.read() == [CqEntry(context)]
    assert selectable.queue.read() == []
    assert not selectable.readable()


def test_the_descriptor_ends_with_the_queue(selectable):
    selectable.queue.close()
    with refused(Errno.FI_EBADF):
        selectable.queue.fileno()
    assert selectable.endpoint.closed
