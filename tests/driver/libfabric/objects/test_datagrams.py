"""Datagram endpoints: messages of one packet, and nothing else."""

import os

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    CqFormat,
    EndpointOption,
    EpAttr,
    EpType,
    Errno,
    Info,
    Msg,
    Op,
    OpFlags,
    OptionLevel,
    RmaIov,
    RmaMsg,
    TaggedMsg,
    TriggeredContext,
    TryAgainError,
)

from tests.driver.endpoints import BOTH, Side, connect, entries, refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)

PAYLOAD = 4096


def make_node(domain, info):
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED), domain.av_open()
    return Side(domain, queue, peers, domain.endpoint(info, cq=queue, av=peers, cq_flags=BOTH))


@pytest.fixture
def infos(fabric):
    return fabric.getinfo(Info(ep_attr=EpAttr(type=EpType.FI_EP_DGRAM)))


@pytest.fixture
def nodes(fabric, infos):
    """Two endpoints as getinfo offers them, which know each other."""
    one, other = (make_node(fabric.domain(info), info) for info in infos)
    connect(one, other)
    return one, other


def test_what_is_offered_is_what_the_endpoint_does(infos, nodes):
    endpoint = nodes[0].endpoint

    def option(name):
        return endpoint.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption[name])

    assert endpoint.ep_type is EpType.FI_EP_DGRAM
    assert endpoint.max_msg_size == infos[0].ep_attr.max_msg_size == PAYLOAD
    assert option("FI_OPT_MAX_MSG_SIZE") == option("FI_OPT_MAX_TAGGED_SIZE") == PAYLOAD
    assert option("FI_OPT_INJECT_MSG_SIZE") == infos[0].tx_attr.inject_size == 64
    for name in ("MAX_RMA", "MAX_ATOMIC", "INJECT_RMA", "INJECT_ATOMIC"):
        assert option(f"FI_OPT_{name}_SIZE") == 0
    attr = infos[0].ep_attr
    assert attr.max_order_raw_size == attr.max_order_war_size == attr.max_order_waw_size == 0


@pytest.mark.parametrize("size", [0, 1, 64, PAYLOAD])
def test_messages_of_up_to_one_packet_arrive(nodes, size):
    one, other = nodes
    plain, tagged = os.urandom(size), os.urandom(size)
    received = bytearray(PAYLOAD), bytearray(PAYLOAD)
    other.endpoint.recv(received[0], context="plain")
    other.endpoint.trecv(received[1], 7, context="tagged")
    one.endpoint.tsend(tagged, one.peer, 7)
    one.endpoint.send(plain, one.peer)
    found = {entry.op_context: entry.len for entry in entries(other.queue, 2)}
    assert found == {"plain": size, "tagged": size}
    assert (received[0][:size], received[1][:size]) == (plain, tagged)
    assert len(entries(one.queue, 2)) == 2


def test_a_message_that_waits_for_its_receive_arrives(nodes):
    one, other = nodes
    one.endpoint.send(b"early", one.peer)
    assert len(entries(one.queue, 1)) == 1
    other.endpoint.recv(buffer := bytearray(5))
    ((entry, source),) = other.queue.sreadfrom(timeout=30)
    assert (entry.len, source, bytes(buffer)) == (5, other.peer, b"early")


def test_data_and_injected_messages_arrive(nodes):
    one, other = nodes
    for _ in range(2):
        other.endpoint.recv(bytearray(4))
    one.endpoint.injectdata(b"four", 11, one.peer)
    one.endpoint.senddata(b"four", 12, one.peer)
    assert [entry.data for entry in entries(other.queue, 2)] == [11, 12]


def test_a_message_waits_for_its_counter(nodes, keep):
    one, other = nodes
    counter = keep(one.domain.cntr_open())
    other.endpoint.recv(bytearray(4))
    one.endpoint.send(b"late", one.peer, flags=OpFlags.FI_TRIGGER, context=TriggeredContext(counter, 1))
    assert other.queue.read() == []
    counter.add(1)
    assert entries(other.queue, 1)[0].len == 4


@pytest.fixture(params=["endpoint", "alias"])
def poster(request, nodes, keep):
    """Everything that posts through one endpoint."""
    endpoint = nodes[0].endpoint
    return endpoint if request.param == "endpoint" else keep(endpoint.alias())


@pytest.mark.parametrize("flags", [OpFlags(0), OpFlags.FI_TRIGGER], ids=["now", "later"])
def test_longer_messages_are_refused(nodes, poster, flags):
    peer, long = nodes[0].peer, bytes(PAYLOAD + 1)
    for send in (
        lambda: poster.send(long, peer, flags=flags),
        lambda: poster.sendv([long[1:], b"x"], peer, flags=flags),
        lambda: poster.tsend(long, peer, 1, flags=flags),
        lambda: poster.tsendmsg(TaggedMsg([long], peer, 1), flags),
    ):
        with refused(Errno.FI_EMSGSIZE):
            send()
    assert nodes[0].queue.read() == []


def test_completion_when_a_receive_has_met_the_message_is_refused(nodes, poster):
    peer = nodes[0].peer
    with refused(Errno.FI_EBADFLAGS):
        poster.send(b"x", peer, flags=OpFlags.FI_MATCH_COMPLETE)
    with refused(Errno.FI_EBADFLAGS):
        poster.sendmsg(Msg([b"x"], peer), OpFlags.FI_MATCH_COMPLETE)


@pytest.mark.parametrize("count", [0, 1])
def test_memory_of_peers_is_out_of_reach(nodes, poster, count):
    peer, words = nodes[0].peer, np.zeros(count, np.uint64)
    msg = RmaMsg([words], peer, [RmaIov(0, words.nbytes, 0)])
    for operation in (
        lambda: poster.write(words, peer, 0, 0),
        lambda: poster.writev([words], peer, 0, 0),
        lambda: poster.writemsg(msg),
        lambda: poster.writedata(words, 1, peer, 0, 0),
        lambda: poster.inject_write(words, peer, 0, 0),
        lambda: poster.read(words, peer, 0, 0),
        lambda: poster.readv([words], peer, 0, 0),
        lambda: poster.readmsg(msg),
    ):
        with refused(Errno.FI_EOPNOTSUPP):
            operation()


def test_atomics_are_refused(nodes, poster):
    peer, one, found = nodes[0].peer, np.ones(1, np.uint64), np.zeros(1, np.uint64)
    for operation in (
        lambda: poster.atomic(one, peer, 0, 0, Op.FI_SUM),
        lambda: poster.atomicv([one], peer, 0, 0, Op.FI_SUM),
        lambda: poster.inject_atomic(one, peer, 0, 0, Op.FI_SUM),
        lambda: poster.fetch_atomic(one, found, peer, 0, 0, Op.FI_SUM),
        lambda: poster.compare_atomic(one, one, found, peer, 0, 0, Op.FI_CSWAP),
    ):
        with refused(Errno.FI_EOPNOTSUPP):
            operation()


def test_other_endpoints_of_the_domain_are_not_limited(nodes, keep):
    one, _ = nodes
    queue, peers = keep(one.domain.cq_open()), keep(one.domain.av_open())
    reliable = keep(one.domain.endpoint(cq=queue, av=peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV))
    peer = peers.insert(reliable.getname())
    reliable.recv(buffer := bytearray(2 * PAYLOAD))
    reliable.send(bytes(range(256)) * 32, peer)
    done = 0
    while done < 2:
        done += len(queue.sread(timeout=30))
    assert buffer == bytes(range(256)) * 32


def test_nothing_is_lost_where_nobody_receives_yet(nodes):
    one, other = nodes
    sent = 0
    for number in range(200):
        try:
            one.endpoint.send(bytes([number]), one.peer)
        except TryAgainError:
            break
        sent += 1
    received = bytearray(sent)
    for number in range(sent):
        other.endpoint.recv(memoryview(received)[number : number + 1])
        assert len(entries(other.queue, 1)) == 1
    assert received == bytes(range(sent))
