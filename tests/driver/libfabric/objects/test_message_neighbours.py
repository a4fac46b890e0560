"""Messages beside other parts of the driver: aliases, counters, shared and scalable endpoints."""

import pytest
from amoeba import BindFlags, CqEntry, Errno, OpFlags, TriggeredContext

from tests.driver.endpoints import BOTH, ON_MODEL, entries, make_counted_talker, refused


def text(length):
    return bytes(1 + number % 251 for number in range(length))


@ON_MODEL
def test_an_alias_sends_and_receives_as_its_endpoint(talkers, keep):
    one, other = talkers
    alias = keep(other.endpoint.alias())
    buffers = [bytearray(5), bytearray(9000)]
    for number, buffer in enumerate(buffers):
        alias.trecv(buffer, number, context=number)
    one.endpoint.tsend(b"hello", one.peer, 0)
    keep(one.endpoint.alias()).tsend(text(9000), one.peer, 1)
    assert [entry.op_context for entry in entries(other.queue, 2)] == [0, 1]
    assert buffers == [b"hello", text(9000)]
    alias.recv(bytearray(1), context="alias")
    other.endpoint.cancel("alias")
    assert other.failure().op_context == "alias"


@ON_MODEL
@pytest.mark.parametrize("length", [5, 9000], ids=["short", "long"])
def test_a_send_can_wait_for_a_counter_of_receives(fabric, talkers, keep, length):
    """FI_TRIGGER: what comes in lets the answer go out, and the NIC counts both."""
    one, _ = talkers
    endpoint, queue, peers, receives, sends = make_counted_talker(fabric.domain(1), keep)
    peers.insert(one.endpoint.getname())
    to = one.peers.insert(endpoint.getname())
    answer = bytearray(length)
    one.endpoint.recv(answer, context="answer")
    endpoint.send(text(length), 0, context=TriggeredContext(receives, 2), flags=OpFlags.FI_TRIGGER)
    for turn in range(2):
        endpoint.recv(bytearray(3), context=turn)
        assert queue.read() == []
        one.endpoint.inject(b"ask", to)
        assert entries(queue, 1)[0].op_context == turn
    assert one.finish().op_context == "answer"
    sends.wait(1, timeout=30)
    assert answer == text(length)
    assert (sends.read(), receives.read()) == (1, 2)


@ON_MODEL
def test_endpoints_that_share_a_transmit_context_talk(fabric, talkers, keep):
    one, other = talkers
    domain = fabric.domain(1)
    shared = keep(domain.stx_context(64))
    queue, peers, endpoint = keep(domain.cq_open()), keep(domain.av_open()), keep(domain.endpoint())
    endpoint.bind(queue, BOTH)
    endpoint.bind(peers)
    endpoint.bind(shared)
    endpoint.enable()
    peers.insert(one.endpoint.getname())
    received, sent = bytearray(9000), bytearray(4097)
    endpoint.recv(received, context="in")
    one.endpoint.send(text(9000), one.peers.insert(endpoint.getname()))
    assert queue.sread(timeout=30) == [CqEntry("in")]
    assert received == text(9000)
    one.finish()
    one.endpoint.recv(sent)
    endpoint.send(text(4097), 0, context="out")
    one.finish()
    assert queue.sread(timeout=30) == [CqEntry("out")]
    assert sent == text(4097)
    assert other.endpoint.rx_size_left == 64


@ON_MODEL
def test_a_transmit_context_of_a_scalable_endpoint_sends_and_receives_nothing(fabric, talkers, keep):
    one, _ = talkers
    domain = keep(fabric.domain(1))
    scalable, queue, peers = keep(domain.scalable_endpoint()), keep(domain.cq_open()), keep(domain.av_open())
    scalable.bind(peers)
    context = keep(scalable.tx_context(0))
    context.bind(queue, BindFlags.FI_TRANSMIT)
    context.enable()
    number, to = one.peers.insert(scalable.getname()), peers.insert(one.endpoint.getname())
    buffer = bytearray(4096)
    one.endpoint.recv(buffer)
    context.send(text(4096), to, context="sent")
    assert queue.sread(timeout=30) == [CqEntry("sent")]
    assert one.queue.sreadfrom(timeout=30)[0][1] == number
    assert buffer == text(4096)
    with refused(Errno.FI_EOPNOTSUPP):
        context.recv(bytearray(1))
