"""Messages and receives for which there is no room, and those that cannot be."""

import pytest
from amoeba import Errno, MrAccess, OpFlags, TaggedMsg
from sides import ON_MODEL, connect, entries, idle, make_talker, refused

DATA = OpFlags.FI_REMOTE_CQ_DATA


def text(length):
    return bytes(1 + number % 251 for number in range(length))


@ON_MODEL
def test_more_receives_than_the_nic_keeps_are_refused_and_none_is_lost(talkers):
    one, other = talkers
    buffers = [bytearray(1) for _ in range(70)]
    for number in range(64):
        assert other.endpoint.rx_size_left == 64 - number
        other.endpoint.recv(buffers[number], context=number)
    with refused(Errno.FI_EAGAIN, "64 receives are posted"):
        other.endpoint.recv(buffers[64])
    for number in range(70):
        one.endpoint.send(bytes([number]), one.peer)
        one.finish()
        if number < 6:
            other.finish()
            other.endpoint.recv(buffers[64 + number], context=64 + number)
    entries(other.queue, 64)
    assert b"".join(buffers) == bytes(range(70))


@ON_MODEL
def test_a_full_transmit_ring_is_refused_and_what_is_in_it_is_sent(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0), tx_size=16)), keep(make_talker(fabric.domain(1)))
    connect(one, other)
    for number in range(16):
        one.endpoint.send(bytes([number]), one.peer)
    with refused(Errno.FI_EAGAIN, "16 of 16"):
        one.endpoint.send(b"x", one.peer)
    with refused(Errno.FI_EAGAIN):
        one.endpoint.send(bytes(5000), one.peer)
    entries(one.queue, 16)
    received = bytearray(16)
    for number in range(16):
        other.endpoint.recv(memoryview(received)[number : number + 1])
    entries(other.queue, 16)
    assert received == bytes(range(16))


@ON_MODEL
def test_a_sender_waits_while_the_receiver_has_no_room_for_unexpected_messages(fabric, talkers):
    one, other = talkers
    for number in range(64):
        one.endpoint.inject(bytes([number]), one.peer)
    idle(one, 100)
    for number in range(64, 100):
        one.endpoint.inject(bytes([number]), one.peer)
    idle(one, 100)
    assert one.endpoint.tx_size_left == 64 - 36  # 64 lie in the receiver's slots
    received = bytearray(100)
    for number in range(100):
        other.endpoint.recv(memoryview(received)[number : number + 1])
        entries(other.queue, 1)
    assert received == bytes(range(100))
    idle(one, 100)
    assert one.endpoint.tx_size_left == 64


@ON_MODEL
def test_a_receiver_that_reads_nothing_holds_its_senders_back(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1), rx_size=4))
    connect(one, other)
    received = bytearray(40)
    for number in range(40):
        other.endpoint.recv(memoryview(received)[number : number + 1], context=number)
        one.endpoint.inject(bytes([number]), one.peer)
    idle(one, 200)
    assert sum(1 for byte in received[1:] if byte) < 16
    assert [entry.op_context for entry in entries(other.queue, 40)] == list(range(40))
    assert received == bytes(range(40))


@ON_MODEL
@pytest.mark.parametrize(
    ("call", "number"),
    [
        pytest.param(lambda e, to: e.send(b"x", 99), Errno.FI_EINVAL, id="unknown peer"),
        pytest.param(lambda e, to: e.send("x", to), Errno.FI_EINVAL, id="no buffer"),
        pytest.param(lambda e, to: e.send(b"x", to, flags=OpFlags.FI_MULTI_RECV), Errno.FI_EBADFLAGS, id="send flag"),
        pytest.param(lambda e, to: e.send(b"x", to, flags=DATA), Errno.FI_EBADFLAGS, id="data not given"),
        pytest.param(lambda e, to: e.senddata(b"x", 2**64, to), Errno.FI_EINVAL, id="long data"),
        pytest.param(lambda e, to: e.tsend(b"x", to, 2**64), Errno.FI_EINVAL, id="long tag"),
        pytest.param(lambda e, to: e.tsend(b"x", to, -1), Errno.FI_EINVAL, id="negative tag"),
        pytest.param(lambda e, to: e.trecv(bytearray(1), 0, 2**64), Errno.FI_EINVAL, id="long mask"),
        pytest.param(lambda e, to: e.recv(b"constant"), Errno.FI_EINVAL, id="read-only buffer"),
        pytest.param(lambda e, to: e.recv(bytearray(1), flags=OpFlags.FI_FENCE), Errno.FI_EBADFLAGS, id="flag"),
        pytest.param(lambda e, to: e.recv(bytearray(1), flags=OpFlags.FI_PEEK), Errno.FI_EBADFLAGS, id="peek"),
        pytest.param(lambda e, to: e.recvv([bytearray(1)] * 17), Errno.FI_EINVAL, id="too many buffers"),
        pytest.param(lambda e, to: e.sendv([b"a"], to, desc=[None, None]), Errno.FI_EINVAL, id="too many regions"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_posted(talkers, call, number):
    one, other = talkers
    with refused(number):
        call(one.endpoint, one.peer)
    assert one.endpoint.tx_size_left == 64
    assert one.endpoint.rx_size_left == 64
    other.endpoint.recv(bytearray(1), context="free")
    one.endpoint.inject(b"!", one.peer)
    assert other.finish().op_context == "free"


@ON_MODEL
def test_before_enable_there_is_nothing_to_post_to(fabric, keep):
    endpoint = keep(keep(fabric.domain(0)).endpoint())
    for call in (
        lambda: endpoint.send(b"x", 0),
        lambda: endpoint.recv(bytearray(1)),
        lambda: endpoint.trecvmsg(TaggedMsg([], 0, 1), OpFlags.FI_PEEK),
        lambda: endpoint.cancel(1),
    ):
        with refused(Errno.FI_EOPBADSTATE):
            call()


@ON_MODEL
def test_registered_buffers_need_the_right_of_their_use(talkers, keep):
    one, other = talkers
    memory = bytearray(text(64))
    sends = keep(one.domain.mr_reg(memory, MrAccess.FI_SEND))
    receives = keep(one.domain.mr_reg(memory, MrAccess.FI_RECV))
    with refused(Errno.FI_EACCES):
        one.endpoint.send(memory, one.peer, desc=receives)
    with refused(Errno.FI_EACCES):
        one.endpoint.recv(memory, desc=sends)
    target = bytearray(64)
    region = keep(other.domain.mr_reg(target, MrAccess.FI_RECV))
    other.endpoint.recv(target, desc=region)
    one.endpoint.send(memory, one.peer, desc=sends)
    other.finish()
    assert target == text(64)
