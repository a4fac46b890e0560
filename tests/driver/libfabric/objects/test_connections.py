"""Connected endpoints, as fi_cm(3) describes them: how connections are made, what goes over them, and their ends.

Covers ``core/lines.py``, ``libfabric/objects/endpoints/connected.py`` and ``libfabric/objects/endpoints/passive.py``.
"""

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    FI_SHARED_CONTEXT,
    ConnectedEndpoint,
    CqFormat,
    EpAttr,
    EpType,
    EqEvent,
    EqFlags,
    Errno,
    ErrorAvailableError,
    FabricError,
    Info,
    Msg,
    Op,
    OpFlags,
    Rendezvous,
    TriggeredContext,
    TxAttr,
    WaitObj,
    join_cluster,
    open_cluster,
)
from amoeba.aio import read_event

from tests.driver.connections import CM_DATA_SIZE, DATA, MSG, Party, asked, connect, free_port, listen
from tests.driver.endpoints import ALL_ACCESS, refused

# The way of a connection


def test_a_connection_is_made_in_three_events(client, server, passive):
    calling = client.endpoint()
    calling.connect(passive.getname(), b"let me in")
    request = asked(client, server)
    assert (request.event, request.fid, request.data) == (EqEvent.FI_CONNREQ, passive, b"let me in")
    assert request.info.dest_addr == calling.getname()
    answering = server.endpoint(request.info)
    assert isinstance(answering, ConnectedEndpoint)
    answering.accept(b"you are in")
    assert server.events.read() is None  # the client does not know yet
    there = client.event(EqEvent.FI_CONNECTED)
    assert (there.fid, there.info, there.data) == (calling, None, b"you are in")
    here = server.event(EqEvent.FI_CONNECTED)
    assert (here.fid, here.info, here.data) == (answering, None, b"")
    assert (calling.getpeer(), answering.getpeer()) == (answering.getname(), calling.getname())
    assert client.events.read() is server.events.read() is None


def test_one_queue_serves_both_ends(two_models, keep, client, party):
    server = party(1)
    keep(server.events)
    server.events = client.events
    passive = listen(two_models, keep, client)
    calling = client.endpoint()
    calling.connect(passive.getname())
    answering = server.endpoint(client.event(EqEvent.FI_CONNREQ).info)
    answering.accept()
    assert {client.event(EqEvent.FI_CONNECTED).fid for _ in range(2)} == {calling, answering}


def test_many_connections_to_one_passive_endpoint(two_models, client, server, passive):
    contexts = two_models.nics[0].parameters.contexts
    pairs = [connect(client, server, passive) for _ in range(contexts)]
    for number, (calling, answering) in enumerate(pairs):
        calling.send(bytes([number] * 4), context=number)
        heard = bytearray(4)
        answering.recv(heard, context=number)
        assert server.entry().op_context == number
        assert heard == bytes([number] * 4)


def test_connections_outlive_the_passive_endpoint(client, server, passive, ends):
    passive.close()
    calling, answering = ends
    answering.recv(buffer := bytearray(2))
    calling.send(b"hi")
    server.entry()
    assert buffer == b"hi"


@pytest.mark.parametrize("size", [0, 1, 1024])
def test_param_of_every_size_arrives_whole_both_ways(client, server, passive, size):
    calling = client.endpoint()
    assert calling.getopt(*CM_DATA_SIZE) == passive.getopt(*CM_DATA_SIZE) == 1024
    calling.connect(passive.getname(), DATA[:size])
    request = asked(client, server)
    assert request.data == DATA[:size]
    server.endpoint(request.info).accept(bytearray(DATA[size : 2 * size]))
    assert client.event(EqEvent.FI_CONNECTED).data == DATA[size : 2 * size]


def test_longer_param_is_cut_off(client, server, passive):
    calling = client.endpoint()
    calling.connect(passive.getname(), DATA)
    request = asked(client, server)
    assert request.data == DATA[:1024]
    passive.reject(request.info.handle, DATA[3:])
    assert client.error().err_data == DATA[3 : 3 + 1024]


def test_an_endpoint_is_enabled_by_connecting(client, passive):
    endpoint = client.domain.endpoint(EpType.FI_EP_MSG)
    client.kept.append(endpoint)
    for bind in (lambda: None, lambda: endpoint.bind(client.queue), lambda: endpoint.bind(client.events)):
        bind()
        if endpoint._eq is None:
            with refused(Errno.FI_ENOEQ):
                endpoint.connect(passive.getname())
    endpoint.connect(passive.getname())
    with refused(Errno.FI_EOPBADSTATE):
        endpoint.enable()


def test_an_endpoint_without_a_completion_queue_is_not_enabled(client, passive):
    endpoint = client.domain.endpoint(EpType.FI_EP_MSG, eq=client.events)
    client.kept.append(endpoint)
    with refused(Errno.FI_ENOCQ):
        endpoint.connect(passive.getname())


# Operations


@pytest.mark.parametrize("dest_addr", [0, 7, FI_ADDR_UNSPEC])
def test_every_operation_reaches_the_one_peer_whatever_address_is_given(client, server, ends, dest_addr):
    calling, answering = ends
    memory = np.arange(4, dtype=np.uint64)
    region = server.domain.mr_reg(memory, ALL_ACCESS)
    server.kept.append(region)
    found = np.zeros(1, np.uint64)
    calling.write(np.uint64(40), dest_addr, region.address, region.key)
    client.entry()
    calling.fetch_atomic(np.uint64(2), found, dest_addr, region.address, region.key, Op.FI_SUM)
    client.entry()
    assert (memory[0], found[0]) == (42, 40)
    calling.readv([found], dest_addr, region.address + 24, region.key)
    client.entry()
    assert found[0] == 3
    for tagged in False, True:
        for size in (0, 5, 64, 4096, 4097, 20_000):
            message, buffer = os.urandom(size), bytearray(size)
            if tagged:
                answering.trecv(buffer, 5, src_addr=dest_addr)
                calling.tsend(message, dest_addr, 5)
            else:
                answering.recvmsg(Msg([buffer], dest_addr))
                calling.sendmsg(Msg([message], dest_addr))
            server.entry()
            client.entry()
            assert buffer == message


def test_sends_need_no_address(client, server, ends):
    calling, answering = ends
    for send in (
        lambda: calling.send(b"abcd"),
        lambda: calling.sendv([b"ab", b"cd"]),
        lambda: calling.senddata(b"abcd", 7),
        lambda: calling.inject(b"abcd"),
        lambda: calling.injectdata(b"abcd", 7),
    ):
        answering.recv(buffer := bytearray(4))
        send()
        server.entry()
        assert buffer == b"abcd"


def test_both_ends_send(client, server, ends):
    calling, answering = ends
    calling.recv(there := bytearray(9000))
    answering.recv(here := bytearray(9000))
    answering.send(b"t" * 9000)
    calling.send(b"h" * 9000)
    entries = []
    while len(entries) < 4:
        entries += [*client.queue.read(), *server.queue.read()]
    assert (there, here) == (b"t" * 9000, b"h" * 9000)


def test_an_alias_reaches_the_same_peer(client, server, ends):
    calling, answering = ends
    alias = calling.alias()
    client.kept.append(alias)
    answering.recv(buffer := bytearray(5))
    alias.send(b"alias")
    server.entry()
    assert buffer == b"alias"
    calling.shutdown()
    with refused(Errno.FI_ENOTCONN):
        alias.send(b"alias")


def test_an_operation_waits_for_its_counter(client, server, ends):
    calling, answering = ends
    counter = client.domain.cntr_open()
    client.kept.append(counter)
    answering.recv(buffer := bytearray(4))
    calling.send(b"late", flags=OpFlags.FI_TRIGGER, context=TriggeredContext(counter, 1))
    assert client.queue.read() == []
    counter.add(1)
    server.entry()
    assert buffer == b"late"


def test_what_waits_for_its_counter_when_the_connection_ends_is_cancelled(client, ends):
    calling, _ = ends
    counter = client.domain.cntr_open()
    client.kept.append(counter)
    calling.send(b"late", flags=OpFlags.FI_TRIGGER, context=TriggeredContext(counter, 1))
    calling.shutdown()
    counter.add(1)
    with pytest.raises(ErrorAvailableError):
        client.queue.sread(timeout=30)
    assert client.queue.readerr().err == Errno.FI_ECANCELED


def test_connected_endpoints_share_a_transmit_context(two_models, client, server, passive):
    ring = client.domain.stx_context()
    client.kept.append(ring)
    shared = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG, tx_ctx_cnt=FI_SHARED_CONTEXT), tx_attr=TxAttr(size=16))
    for word in (b"one ", b"two "):
        calling = client.domain.endpoint(shared)
        client.kept.append(calling)
        for target in (client.queue, client.events, ring):
            calling.bind(target)
        calling.connect(passive.getname())
        answering = server.endpoint(asked(client, server).info)
        answering.accept()
        client.event(EqEvent.FI_CONNECTED)
        server.event(EqEvent.FI_CONNECTED)
        answering.recv(buffer := bytearray(4))
        calling.send(word)
        server.entry()
        assert buffer == word


def operations(endpoint):
    one = np.ones(1, np.uint64)
    return (
        lambda: endpoint.send(b"x"),
        lambda: endpoint.send(bytes(5000)),
        lambda: endpoint.tinject(b"x", 0, 1),
        lambda: endpoint.write(b"x", 0, 0, 0),
        lambda: endpoint.readv([one], 0, 0, 0),
        lambda: endpoint.atomic(one, 0, 0, 0, Op.FI_SUM),
        lambda: endpoint.getpeer(),
        lambda: endpoint.shutdown(),
    )


def test_nothing_is_sent_before_the_connection_is_made(client, server, passive):
    calling = client.endpoint()
    for operation in operations(calling):
        with refused(Errno.FI_ENOTCONN):
            operation()
    calling.connect(passive.getname())
    for operation in operations(calling):
        with refused(Errno.FI_ENOTCONN):
            operation()
    answering = server.endpoint(asked(client, server).info)
    answering.accept()
    for operation in operations(answering):
        with refused(Errno.FI_ENOTCONN):
            operation()


def test_receives_are_posted_before_the_connection_is_made(client, server, passive):
    calling = client.endpoint()
    calling.recv(there := bytearray(9000))
    calling.connect(passive.getname())
    answering = server.endpoint(asked(client, server).info)
    answering.recv(here := bytearray(9000))
    answering.accept()
    client.event(EqEvent.FI_CONNECTED)
    calling.send(b"h" * 9000)  # before the other side has read its event
    server.entry()
    assert here == b"h" * 9000
    client.entry()
    server.event(EqEvent.FI_CONNECTED)
    answering.send(b"t" * 9000)
    while not (found := client.queue.read()):
        server.queue.read()
    assert found[0].len == 9000
    assert there == b"t" * 9000


# Ends


def test_a_shutdown_is_an_event_of_the_other_side(client, server, ends):
    calling, answering = ends
    calling.shutdown()
    event = server.event(EqEvent.FI_SHUTDOWN)
    assert (event.fid, event.info, event.data) == (answering, None, b"")
    assert client.events.read() is server.events.read() is None
    for endpoint in ends:
        for operation in (*operations(endpoint), lambda e=endpoint: e.recv(bytearray(1))):
            with refused(Errno.FI_ENOTCONN):
                operation()


def test_operations_in_flight_end_after_a_shutdown(client, server, ends):
    calling, answering = ends
    answering.recv(buffer := bytearray(20_000), context="received")
    calling.send(b"x" * 20_000, context="sent")
    calling.shutdown()
    server.event(EqEvent.FI_SHUTDOWN)
    assert server.entry().op_context == "received"
    assert client.entry().op_context == "sent"
    assert buffer == b"x" * 20_000


def test_receives_are_cancelled_after_a_shutdown(client, server, ends):
    calling, answering = ends
    answering.recv(bytearray(1), context="never")
    calling.shutdown()
    server.event(EqEvent.FI_SHUTDOWN)
    answering.cancel("never")
    with pytest.raises(ErrorAvailableError):
        server.queue.sread(timeout=30)
    assert server.queue.readerr().err == Errno.FI_ECANCELED


@pytest.mark.parametrize("closed", ["endpoint", "queue", "events", "domain"])
def test_whatever_closes_an_endpoint_disconnects_it(client, server, ends, closed):
    calling, answering = ends
    {"endpoint": calling, "queue": client.queue, "events": client.events, "domain": client.domain}[closed].close()
    assert calling.closed
    assert server.event(EqEvent.FI_SHUTDOWN).fid is answering
    for use in (calling.shutdown, calling.getpeer, calling.accept, lambda: calling.connect(("127.0.0.1", 1))):
        with refused(Errno.FI_EBADF):
            use()


def test_events_of_an_endpoint_that_is_closed_are_gone(client, server, ends):
    calling, called = ends
    called.close()
    while client.events.read(EqFlags.FI_PEEK) is None:  # the end of the connection
        pass
    calling.close()
    assert client.events.read() is None


def test_the_peer_of_an_endpoint_that_was_closed_can_be_connected_again(client, server, passive):
    for _ in range(client.domain.nic.parameters.contexts + 1):
        for endpoint in connect(client, server, passive):
            endpoint.close()
        while client.events.read() or server.events.read():
            pass


def test_an_endpoint_that_is_dropped_open_warns_and_hangs_up(client, server, passive):
    calling = client.domain.endpoint(MSG, cq=client.queue, eq=client.events)
    calling.connect(passive.getname())
    answering = server.endpoint(asked(client, server).info)
    answering.accept()
    client.event(EqEvent.FI_CONNECTED)
    server.event(EqEvent.FI_CONNECTED)
    with pytest.warns(ResourceWarning, match="unclosed <ConnectedEndpoint"):
        del calling
    assert server.event(EqEvent.FI_SHUTDOWN).fid is answering


def test_a_passive_endpoint_that_is_dropped_open_warns_and_refuses(two_models, client, server):
    passive = two_models.passive_ep(MSG)
    passive.bind(server.events)
    passive.listen()
    client.endpoint().connect(passive.getname())
    request = asked(client, server).info
    with pytest.warns(ResourceWarning, match="unclosed <PassiveEndpoint"):
        del passive
    assert client.error().err is Errno.FI_ECONNREFUSED
    with refused(Errno.FI_EINVAL):
        server.endpoint(request).accept()


def test_no_descriptor_is_left(two_models, keep):
    before = len(os.listdir("/proc/self/fd"))
    with open_cluster(["model"] * 2) as other, contextlib.ExitStack() as strangers:
        parties = []
        for nic in range(2):
            domain = keep(other.domain(nic))
            events, queue = keep(other.eq_open(wait_obj=WaitObj.FI_WAIT_FD)), keep(domain.cq_open())
            parties.append(Party(domain, events, queue))
        client, server = parties
        passive = listen(other, keep, server)
        connect(client, server, passive)
        for _ in range(2):
            client.endpoint().connect(passive.getname())
        asked(client, server)  # one is asked for, the other has not been heard, and there is somebody else
        strangers.enter_context(contextlib.closing(socket.create_connection(passive.getname())))
        time.sleep(0.05)
        server.events.read()
        keep(parties)
    assert len(os.listdir("/proc/self/fd")) == before


# Waiting


def test_descriptors_say_when_queues_are_to_be_read(two_models, keep, party):
    client, server = (party(nic, WaitObj.FI_WAIT_FD) for nic in range(2))
    passive = listen(two_models, keep, server)
    calling = client.endpoint()
    calling.connect(passive.getname())
    found = []
    while len(found) < 3:
        ready, _, _ = select.select([client.events, server.events], [], [], 30)
        assert ready
        for queue in ready:
            if event := queue.read():
                found.append(event.event)
                if event.event is EqEvent.FI_CONNREQ:
                    server.endpoint(event.info).accept()
    assert sorted(found) == [EqEvent.FI_CONNREQ, EqEvent.FI_CONNECTED, EqEvent.FI_CONNECTED]
    assert not select.select([client.events, server.events], [], [], 0)[0]
    assert two_models.trywait(client.events, server.events)
    calling.shutdown()
    assert select.select([client.events, server.events], [], [], 30)[0] == [server.events]
    assert not two_models.trywait(server.events)
    server.event(EqEvent.FI_SHUTDOWN)
    assert not select.select([client.events, server.events], [], [], 0)[0]


def test_a_thread_that_waits_already_makes_the_connection(client, server, passive):
    calling = client.endpoint()
    found = []
    waiting = threading.Thread(target=lambda: found.append(client.events.sread(30)))
    waiting.start()
    time.sleep(0.02)
    calling.connect(passive.getname())
    server.endpoint(server.event(EqEvent.FI_CONNREQ).info).accept()
    waiting.join()
    assert found[0].event is EqEvent.FI_CONNECTED


def test_a_queue_that_is_closed_ends_the_wait_of_another_thread(client, ends):
    raised = []

    def wait():
        with pytest.raises(FabricError) as caught:
            client.events.sread(30)
        raised.append(caught.value.fi_errno)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.02)
    client.events.close()
    waiting.join()
    assert raised == [Errno.FI_EBADF]


def test_events_of_connections_are_awaited(two_models, keep, party):
    client, server = (party(nic, WaitObj.FI_WAIT_FD) for nic in range(2))
    passive = listen(two_models, keep, server)

    async def call():
        client.endpoint().connect(passive.getname(), b"hello")
        return (await read_event(client.events, 30)).data

    async def answer():
        request = await read_event(server.events, 30)
        server.endpoint(request.info).accept(request.data + b" there")
        return (await read_event(server.events, 30)).event

    async def main():
        return await asyncio.gather(call(), answer())

    assert asyncio.run(main()) == [b"hello there", EqEvent.FI_CONNECTED]


# Processes

CHILD = """
import os, sys
from amoeba import *

port, way = int(sys.argv[1]), sys.argv[2]
with Rendezvous.connect("127.0.0.1", port) as rendezvous, join_cluster("model", rendezvous) as fabric:
    domain = fabric.domain(0)
    events, queue = fabric.eq_open(), domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
    both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    endpoint = domain.endpoint(EpType.FI_EP_MSG, cq=queue, cq_flags=both, eq=events)
    endpoint.connect(tuple(rendezvous.exchange(None)[0]), b"child")
    assert events.sread(60).event is EqEvent.FI_CONNECTED
    buffer = bytearray(9000)
    endpoint.recv(buffer)
    while not queue.sread(1, 1):
        pass
    endpoint.send(bytes(reversed(buffer)))
    while not queue.sread(1, 1):
        pass
    rendezvous.exchange(None, queue.read)  # the other side's NIC may need answers still
    if way == "dies":
        os.kill(os.getpid(), 9)
    elif way == "shuts down":
        endpoint.shutdown()
        sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["dies", "closes", "shuts down"])
def test_processes_are_connected_and_notice_when_the_other_one_is_gone(keep, way):
    port = free_port()[1]
    command = [sys.executable, "-c", CHILD, str(port), way]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as child,
        Rendezvous.listen("127.0.0.1", port, 2) as rendezvous,
        join_cluster("model", rendezvous) as here,
    ):
        domain = here.domain(0)
        server = keep(Party(domain, here.eq_open(), domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)))
        rendezvous.exchange(listen(here, keep, server).getname())
        request = server.event(EqEvent.FI_CONNREQ)
        assert request.data == b"child"
        endpoint = server.endpoint(request.info)
        endpoint.recv(buffer := bytearray(9000))
        endpoint.accept()
        server.event(EqEvent.FI_CONNECTED)
        message = os.urandom(9000)
        endpoint.send(message)
        entries = []
        deadline = time.monotonic() + 60
        while len(entries) < 2:
            assert time.monotonic() < deadline
            entries += server.queue.sread(1, 1)
        assert buffer == bytes(reversed(message))
        rendezvous.exchange(None, server.queue.read)
        server.event(EqEvent.FI_SHUTDOWN)
        child.stdin.close()
        assert child.wait(60) == (-9 if way == "dies" else 0)
