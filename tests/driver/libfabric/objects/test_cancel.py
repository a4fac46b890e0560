"""Receives that are taken back."""

import pytest
from amoeba import Caps, ClosedError, Errno, ErrorAvailableError, OpFlags

from tests.driver.endpoints import ON_MODEL, entries, idle, make_talker, refused

RECEIVED = Caps.FI_MSG | Caps.FI_RECV


@ON_MODEL
def test_a_receive_can_be_cancelled(talkers):
    one, other = talkers
    buffers = [bytearray(1) for _ in range(3)]
    for number, buffer in enumerate(buffers):
        other.endpoint.recv(buffer, context=number)
    other.endpoint.cancel(1)
    failure = other.failure()
    assert (failure.op_context, failure.err, failure.flags) == (1, Errno.FI_ECANCELED, RECEIVED)
    assert other.queue.strerror(failure.prov_errno) == "cancelled"
    for number in (b"a", b"b"):
        one.endpoint.inject(number, one.peer)
    assert [entry.op_context for entry in entries(other.queue, 2)] == [0, 2]
    assert buffers == [b"a", b"\0", b"b"]


@ON_MODEL
def test_a_receive_that_has_met_its_message_is_not_cancelled(talkers):
    one, other = talkers
    buffer = bytearray(1)
    other.endpoint.recv(buffer, context="used")
    one.endpoint.send(b"x", one.peer)
    one.finish()  # the message is there, though nobody has read the queue
    other.endpoint.cancel("used")
    assert other.finish().op_context == "used"
    assert idle(other) == []
    with refused(Errno.FI_ENOENT, "'used'"):
        other.endpoint.cancel("used")


@ON_MODEL
def test_of_several_receives_with_a_context_the_oldest_is_cancelled_first(talkers):
    one, other = talkers
    marker = [object()]  # not hashable: known by identity
    buffers = [bytearray(1) for _ in range(3)]
    for buffer in buffers:
        other.endpoint.recv(buffer, context=marker)
    other.endpoint.cancel(marker)
    other.endpoint.cancel(marker)
    with refused(Errno.FI_ENOENT):
        other.endpoint.cancel([marker[0]])
    for _ in range(2):
        with pytest.raises(ErrorAvailableError):
            other.queue.sread(timeout=30)
        assert other.queue.readerr().err == Errno.FI_ECANCELED
    one.endpoint.inject(b"x", one.peer)
    other.finish()
    assert buffers == [b"\0", b"\0", b"x"]


@ON_MODEL
def test_the_ring_turns_while_an_old_receive_stays_posted(talkers):
    """Its entry is used again long before it is: the driver knows that the NIC has taken it."""
    one, other = talkers
    first, later = bytearray(1), bytearray(1)
    other.endpoint.trecv(first, 1, context="first")
    for turn in range(600):
        other.endpoint.trecv(later, 2)
        one.endpoint.tsend(bytes([turn % 251]), one.peer, 2)
        one.finish()
        other.finish()
        assert later[0] == turn % 251
        if turn % 3 == 0:
            other.endpoint.trecv(later, 3, context="gone")
            other.endpoint.cancel("gone")
            assert other.failure().op_context == "gone"
    one.endpoint.tinject(b"!", one.peer, 1)
    assert other.finish().op_context == "first"
    assert first == b"!"


@ON_MODEL
def test_closing_an_endpoint_takes_back_what_its_receives_allowed(fabric, talkers, keep):
    one = talkers[0]
    users = fabric.nics[1].dma._users
    before = set(users)
    domain = fabric.domain(1)
    side = keep(make_talker(domain))
    for _ in range(5):
        side.endpoint.recv(bytearray(100))
        side.endpoint.recvv([bytearray(10), bytearray(10)])
    side.endpoint.recv(bytearray(1 << 16), flags=OpFlags.FI_MULTI_RECV)
    one.endpoint.inject(b"hello", one.peers.insert(side.endpoint.getname()))
    entries(side.queue, 1)
    assert set(users) != before
    side.endpoint.close()
    assert set(users) == before
    with pytest.raises(ClosedError):
        side.endpoint.recv(bytearray(1))
