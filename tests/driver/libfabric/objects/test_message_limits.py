"""Messages and receives for which there is no space, and those that cannot be."""

import pytest
from amoeba import FI_ADDR_UNSPEC, Errno, MrAccess, OpFlags, TaggedMsg
from amoeba.core.buffers import address_of

from tests.driver.endpoints import ON_MODEL, connect, entries, idle, make_talker, refused

DATA = OpFlags.FI_REMOTE_CQ_DATA


def text(length):
    return bytes(1 + number % 251 for number in range(length))


@ON_MODEL
def test_a_thousand_receives_are_posted_and_the_last_is_met_first(talkers):
    one, other = talkers
    buffers = [bytearray(2) for _ in range(1000)]
    for number, buffer in enumerate(buffers):
        assert other.endpoint.rx_size_left == max(0, 64 - number)
        other.endpoint.trecv(buffer, number, context=number)
    for number in range(999, -1, -1):
        one.endpoint.tsend(number.to_bytes(2, "big"), one.peer, number)
        one.finish()
        assert other.finish().op_context == number
    assert [int.from_bytes(buffer, "big") for buffer in buffers] == list(range(1000))


def send_many(one, other, messages, *, tagged=True):
    """Send, with tags from 0 on, though nobody receives; the receiver does no more than to look for completions."""
    for number, message in enumerate(messages):
        while not one.endpoint.tx_size_left:
            idle(one, 1)
            assert other.queue.read() == []
        if tagged:
            one.endpoint.tsend(message, one.peer, number)
        else:
            one.endpoint.send(message, one.peer)
    for _ in range(400):
        idle(one, 1)
        assert other.queue.read() == []


@ON_MODEL
@pytest.mark.parametrize("length", [8, 6000], ids=["short", "long"])
def test_a_hundred_messages_are_sent_and_received_from_the_last_to_the_first(fabric, keep, length):
    one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1)))
    connect(one, other)
    messages = [bytes([number]) * length for number in range(100)]
    send_many(one, other, messages)
    for number in range(99, -1, -1):
        buffer = bytearray(length)
        other.endpoint.trecv(buffer, number, context=number)
        while not (done := other.queue.read()):
            one.queue.read()
        assert ([entry.op_context for entry in done], bytes(buffer)) == ([number], messages[number])


@ON_MODEL
def test_messages_that_nobody_receives_hold_up_nobody_whose_receives_are_posted(fabric, keep):
    sender, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1)))
    second = keep(make_talker(sender.domain))
    connect(second, other)
    connect(sender, other)
    send_many(sender, other, [b"unwanted"] * 200)
    buffer = bytearray(4)
    other.endpoint.trecv(buffer, 1000, context="wanted")
    second.endpoint.tsend(b"here", second.peer, 1000)
    assert entries(other.queue, 1)[0].op_context == "wanted"
    assert buffer == b"here"


@ON_MODEL
def test_long_messages_that_were_taken_over_are_refused_when_their_receiver_closes(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1)))
    connect(one, other)
    for number in range(60):
        one.endpoint.tsend(bytes(6000), one.peer, number, context=number)
    for _ in range(400):
        idle(one, 1)
        assert other.queue.read() == []
    for number in range(100):  # held, some of them
        other.endpoint.trecv(bytearray(8), 1000 + number)
    other.endpoint.close()
    refusals = {one.failure(last=number == 59).op_context for number in range(60)}
    assert refusals == set(range(60))


@ON_MODEL
def test_searches_find_what_was_taken_over(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1)))
    connect(one, other)
    send_many(one, other, [bytes([number]) for number in range(100)])
    peek, claim = OpFlags.FI_PEEK, OpFlags.FI_PEEK | OpFlags.FI_CLAIM
    for number in (0, 50, 99):
        buffer = bytearray(1)
        other.endpoint.trecvmsg(TaggedMsg([buffer], FI_ADDR_UNSPEC, tag=number, context="seen"), peek)
        assert (other.finish().op_context, buffer) == ("seen", bytes([number]))
        other.endpoint.trecvmsg(TaggedMsg([], FI_ADDR_UNSPEC, tag=number, context=number), claim)
        assert other.finish().tag == number
        other.endpoint.trecvmsg(TaggedMsg([], FI_ADDR_UNSPEC, tag=number, context="gone"), peek)
        assert other.failure().err is Errno.FI_ENOMSG
    for number in (99, 0):
        buffer = bytearray(1)
        other.endpoint.trecvmsg(TaggedMsg([buffer], FI_ADDR_UNSPEC, tag=number, context=number), OpFlags.FI_CLAIM)
        assert (other.finish().op_context, buffer) == (number, bytes([number]))
    drop = OpFlags.FI_PEEK | OpFlags.FI_DISCARD
    other.endpoint.trecvmsg(TaggedMsg([], FI_ADDR_UNSPEC, tag=1, context="dropped"), drop)
    assert other.finish().op_context == "dropped"
    other.endpoint.trecv(bytearray(1), 0, 255, context="next")
    assert other.finish().tag == 2


@ON_MODEL
def test_receives_beyond_what_the_nic_keeps_are_cancelled(talkers):
    one, other = talkers
    for number in range(100):
        other.endpoint.trecv(bytearray(1), number, context=number)
    for number in (99, 0, 70):
        other.endpoint.cancel(number)
        failure = other.failure()
        assert (failure.err, failure.op_context) == (Errno.FI_ECANCELED, number)
        with refused(Errno.FI_ENOENT):
            other.endpoint.cancel(number)
    for number in (98, 1):
        one.endpoint.tsend(b"x", one.peer, number)
        assert entries(other.queue, 1)[0].op_context == number


@ON_MODEL
def test_one_buffer_for_many_messages_takes_those_that_were_taken_over(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1)))
    connect(one, other)
    send_many(one, other, [bytes([number]) for number in range(100)], tagged=False)
    memory = bytearray(100 * 64 + 64)
    start = -address_of(memoryview(memory)) % 64
    buffer = memoryview(memory)[start : start + 99 * 64 + 1]
    other.endpoint.recv(buffer, context="many", flags=OpFlags.FI_MULTI_RECV)
    found = entries(other.queue, 100)
    assert bytes(buffer[::64]) == bytes(range(100))
    assert [entry.len for entry in found] == [1] * 100
    assert [bool(entry.flags & OpFlags.FI_MULTI_RECV) for entry in found] == [False] * 99 + [True]


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
def test_a_sender_waits_while_the_receiver_has_no_space_for_unexpected_messages(fabric, talkers):
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
