"""Messages as fi_msg(3) describes them: what arrives where, and the completions of both sides.

Covers ``libfabric/objects/receiver.py``, ``libfabric/objects/operations/messages.py`` and
``libfabric/objects/operations/receiving.py``.
"""

import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    INJECT_SIZE,
    BindFlags,
    Caps,
    CqDataEntry,
    CqEntry,
    CqFormat,
    CqMsgEntry,
    CqTaggedEntry,
    Errno,
    MrAccess,
    Msg,
    OpFlags,
    TaggedMsg,
)

from tests.driver.endpoints import BOTH, ON_MODEL, connect, entries, idle, make_side, make_talker, refused

DATA = OpFlags.FI_REMOTE_CQ_DATA
SENT = Caps.FI_MSG | Caps.FI_SEND
RECEIVED = Caps.FI_MSG | Caps.FI_RECV
TAG = 0xFEED_0000_0000_0001
SELECTIVE = BOTH | BindFlags.FI_SELECTIVE_COMPLETION


def text(length):
    return bytes(1 + number % 251 for number in range(length))


SENDS = {
    "send": (lambda e, to, c: e.send(text(24), to, context=c), False, 0),
    "sendv": (lambda e, to, c: e.sendv([text(24)[:5], b"", text(24)[5:]], to, context=c), False, 0),
    "sendmsg": (lambda e, to, c: e.sendmsg(Msg([text(24)], to, context=c)), False, 0),
    "sendmsg with data": (
        lambda e, to, c: e.sendmsg(Msg([text(24)], to, context=c, data=0xDA7A), DATA),
        False,
        0xDA7A,
    ),
    "sendmsg with data unsaid": (lambda e, to, c: e.sendmsg(Msg([text(24)], to, context=c, data=0xDA7A)), False, 0),
    "senddata": (lambda e, to, c: e.senddata(text(24), 0xDA7A, to, context=c), False, 0xDA7A),
    "inject": (lambda e, to, c: e.inject(text(24), to), False, 0),
    "injectdata": (lambda e, to, c: e.injectdata(text(24), 2**64 - 1, to), False, 2**64 - 1),
    "tsend": (lambda e, to, c: e.tsend(text(24), to, TAG, context=c), True, 0),
    "tsendv": (lambda e, to, c: e.tsendv([text(24)[:20], text(24)[20:]], to, TAG, context=c), True, 0),
    "tsendmsg": (lambda e, to, c: e.tsendmsg(TaggedMsg([text(24)], to, TAG, context=c)), True, 0),
    "tsendmsg with data": (
        lambda e, to, c: e.tsendmsg(TaggedMsg([text(24)], to, TAG, context=c, data=0xDA7A), DATA),
        True,
        0xDA7A,
    ),
    "tsenddata": (lambda e, to, c: e.tsenddata(text(24), 0xDA7A, to, TAG, context=c), True, 0xDA7A),
    "tinject": (lambda e, to, c: e.tinject(text(24), to, TAG), True, 0),
    "tinjectdata": (lambda e, to, c: e.tinjectdata(text(24), 0xDA7A, to, TAG), True, 0xDA7A),
}
RECEIVES = {
    "recv": (lambda e, buffer: e.recv(buffer, context="mine"), False),
    "recvv": (lambda e, buffer: e.recvv([memoryview(buffer)[:7], memoryview(buffer)[7:]], context="mine"), False),
    "recvmsg": (lambda e, buffer: e.recvmsg(Msg([buffer], context="mine")), False),
    "trecv": (lambda e, buffer: e.trecv(buffer, TAG, context="mine"), True),
    "trecvv": (
        lambda e, buffer: e.trecvv([memoryview(buffer)[:30], memoryview(buffer)[30:]], TAG, context="mine"),
        True,
    ),
    "trecvmsg": (
        lambda e, buffer: e.trecvmsg(TaggedMsg([buffer], FI_ADDR_NOTAVAIL, TAG, context="mine")),
        True,
    ),
}


@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("call", SENDS)
def test_every_send_arrives_and_both_sides_are_notified_of_it(talkers, call, expected):
    one, other = talkers
    send, tagged, data = SENDS[call]
    buffer = bytearray(40)
    receive = RECEIVES["trecv" if tagged else "recv"][0]
    if expected:
        receive(other.endpoint, buffer)
        idle(other, 3)
    send(one.endpoint, one.peer, "sent")
    kind = Caps.FI_TAGGED if tagged else Caps.FI_MSG
    if "inject" in call:
        assert idle(one) == []
    else:
        assert one.finish() == CqTaggedEntry("sent", kind | Caps.FI_SEND, 24, 0, 0, 0)
    if not expected:
        assert idle(other) == []
        receive(other.endpoint, buffer)
    told = kind | Caps.FI_RECV | (Caps.FI_REMOTE_CQ_DATA if data else 0)
    assert other.queue.sreadfrom(timeout=30) == [
        (CqTaggedEntry("mine", told, 24, 0, data, TAG if tagged else 0), other.peer)
    ]
    assert buffer == text(24) + bytes(16)
    assert idle(one, 3) == idle(other, 3) == []


@ON_MODEL
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("call", RECEIVES)
def test_every_receive_takes_a_message(talkers, call, expected):
    one, other = talkers
    receive, tagged = RECEIVES[call]
    buffer = bytearray(b"\xee" * 60)
    if expected:
        receive(other.endpoint, buffer)
        idle(other, 3)
    if tagged:
        one.endpoint.tsend(text(44), one.peer, TAG)
    else:
        one.endpoint.send(text(44), one.peer)
    one.finish()
    if not expected:
        receive(other.endpoint, buffer)
    entry = other.finish()
    assert (entry.op_context, entry.len, entry.tag) == ("mine", 44, TAG if tagged else 0)
    assert buffer == text(44) + b"\xee" * 16


@ON_MODEL
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("length", [0, 1, 8, 9, 31, 32, 33, 4095, 4096])
def test_messages_of_every_length_fit_exactly(talkers, length, expected):
    one, other = talkers
    buffer = bytearray(length)
    if expected:
        other.endpoint.recv(buffer)
        idle(other, 3)
    one.endpoint.send(text(length), one.peer)
    one.finish()
    if not expected:
        other.endpoint.recv(buffer)
    assert other.finish().len == length
    assert buffer == text(length)


@ON_MODEL
def test_messages_meet_receives_in_order(talkers):
    one, other = talkers
    buffers = [bytearray(2) for _ in range(20)]
    for number in range(10):
        other.endpoint.recv(buffers[number], context=number)
    for number in range(20):
        one.endpoint.inject(number.to_bytes(2, "big"), one.peer)
    for number in range(10, 20):
        other.endpoint.recv(buffers[number], context=number)
    assert [entry.op_context for entry in entries(other.queue, 20)] == list(range(20))
    assert [int.from_bytes(buffer, "big") for buffer in buffers] == list(range(20))


@ON_MODEL
def test_receives_held_back_by_more_are_announced_with_the_next_or_when_the_queue_is_read(talkers):
    one, other = talkers
    buffer = bytearray(1)
    other.endpoint.recv(buffer, flags=OpFlags.FI_MORE)
    one.endpoint.inject(b"x", one.peer)
    other.finish()
    assert buffer == b"x"


@ON_MODEL
@pytest.mark.parametrize(
    ("cq_format", "expected"),
    [
        (CqFormat.FI_CQ_FORMAT_CONTEXT, CqEntry("mine")),
        (CqFormat.FI_CQ_FORMAT_MSG, CqMsgEntry("mine", Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_REMOTE_CQ_DATA, 3)),
        (
            CqFormat.FI_CQ_FORMAT_DATA,
            CqDataEntry("mine", Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_REMOTE_CQ_DATA, 3, 0, 7),
        ),
        (
            CqFormat.FI_CQ_FORMAT_TAGGED,
            CqTaggedEntry("mine", Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_REMOTE_CQ_DATA, 3, 0, 7, TAG),
        ),
    ],
)
def test_every_format_has_its_fields(fabric, talkers, keep, cq_format, expected):
    one, _ = talkers
    domain = fabric.domain(1)
    queue, peers = keep(domain.cq_open(cq_format)), keep(domain.av_open())
    endpoint = keep(domain.endpoint(cq=queue, av=peers, cq_flags=BOTH))
    endpoint.trecv(bytearray(8), TAG, context="mine")
    one.endpoint.tinjectdata(b"abc", 7, one.peers.insert(endpoint.getname()), TAG)
    assert queue.sread(timeout=30) == [expected]


# Too long


@ON_MODEL
@pytest.mark.parametrize("scattered", [False, True], ids=["one buffer", "scattered"])
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("space", [0, 1, 99])
def test_what_does_not_fit_is_cut_and_reported(talkers, space, expected, scattered):
    one, other = talkers
    memory = bytearray(b"\xee" * (space + 20))
    places = [memoryview(memory)[:space]]
    if scattered:
        places = [memoryview(memory)[: space // 2], memoryview(memory)[space // 2 : space]]
    if expected:
        other.endpoint.recvv(places, context="short")
        idle(other, 3)
    one.endpoint.senddata(text(100), 5, one.peer)
    one.finish()  # the sender has nothing to do with it
    if not expected:
        other.endpoint.recvv(places, context="short")
    failure = other.failure()
    assert (failure.op_context, failure.err) == ("short", Errno.FI_ETRUNC)
    assert (failure.len, failure.olen) == (space, 100 - space)
    assert (failure.flags, failure.data) == (RECEIVED | Caps.FI_REMOTE_CQ_DATA, 5)
    assert other.queue.strerror(failure.prov_errno) == "too long"
    assert memory == text(100)[:space] + b"\xee" * 20


@ON_MODEL
def test_an_error_ends_a_read_and_what_is_behind_it_comes_later(talkers):
    one, other = talkers
    for number, space in enumerate([4, 2, 4]):
        other.endpoint.recv(bytearray(space), context=number)
        one.endpoint.inject(b"four", one.peer)
    assert [entry.op_context for entry in entries(other.queue, 1)] == [0]
    assert other.failure().op_context == 1
    assert other.finish().op_context == 2


# What the sender may do


@ON_MODEL
def test_what_is_injected_may_be_changed_at_once(talkers):
    one, other = talkers
    received = bytearray(INJECT_SIZE)
    for send in (one.endpoint.inject, lambda buffer, to: one.endpoint.send(buffer, to, flags=OpFlags.FI_INJECT)):
        source = bytearray(text(INJECT_SIZE))
        send(source, one.peer)
        source[:] = bytes(INJECT_SIZE)
        other.endpoint.recv(received)
        entries(other.queue, 1)
        assert received == text(INJECT_SIZE)
    with refused(Errno.FI_EINVAL, "64 bytes can be injected, got 65"):
        one.endpoint.inject(bytes(65), one.peer)


@ON_MODEL
def test_successes_are_reported_where_they_are_wanted(fabric, keep):
    one = keep(make_talker(fabric.domain(0), cq_flags=SELECTIVE))
    other = keep(make_talker(fabric.domain(1), cq_flags=SELECTIVE))
    connect(one, other)
    wanted = OpFlags.FI_COMPLETION
    buffers = [bytearray(1) for _ in range(4)]
    for number, buffer in enumerate(buffers):
        other.endpoint.recv(buffer, context=number, flags=wanted if number % 2 else OpFlags(0))
        one.endpoint.send(bytes([number]), one.peer, context=number, flags=wanted if number // 2 else OpFlags(0))
    assert [entry.op_context for entry in entries(one.queue, 2)] == [2, 3]
    assert [entry.op_context for entry in entries(other.queue, 2)] == [1, 3]
    assert idle(one) == idle(other) == []
    assert b"".join(buffers) == bytes(range(4))
    other.endpoint.recv(bytearray(0), context="short")
    one.endpoint.inject(b"x", one.peer)
    assert other.failure().op_context == "short"  # errors are always reported


def test_an_endpoint_without_a_queue_for_messages_takes_none(fabric, talkers, keep):
    one, _ = talkers
    mute = keep(make_side(fabric.domain(1)))
    to = one.peers.insert(mute.endpoint.getname())
    one.endpoint.send(b"hello", to, context="lost")
    failure = one.failure()
    assert (failure.op_context, failure.err, failure.flags) == ("lost", Errno.FI_ESHUTDOWN, SENT)
    with refused(Errno.FI_EOPNOTSUPP, "bind a queue with FI_RECV"):
        mute.endpoint.recv(bytearray(8))
    with refused(Errno.FI_ENOENT):
        mute.endpoint.cancel(None)


@ON_MODEL
@pytest.mark.parametrize("caps", [Caps.FI_RMA | Caps.FI_REMOTE_WRITE, Caps.FI_MSG | Caps.FI_SEND])
def test_capabilities_without_receiving_spare_the_receive_ring(fabric, talkers, keep, caps):
    one, _ = talkers
    deaf = keep(make_talker(fabric.domain(1), caps=caps))
    with refused(Errno.FI_EOPNOTSUPP):
        deaf.endpoint.recv(bytearray(8))
    one.endpoint.send(b"hello", one.peers.insert(deaf.endpoint.getname()))
    assert one.failure().err == Errno.FI_ESHUTDOWN


@ON_MODEL
def test_sends_and_writes_to_a_peer_keep_their_order(talkers, keep):
    """FI_ORDER_SAW: who has received the message sees what was written before it."""
    one, other = talkers
    memory, buffer = bytearray(8), bytearray(1)
    region = keep(other.domain.mr_reg(memory, MrAccess.FI_REMOTE_WRITE))
    for turn in range(1, 20):
        other.endpoint.recv(buffer)
        one.endpoint.inject_write(bytes([turn]) * 8, one.peer, region.address, region.key)
        one.endpoint.inject(bytes([turn]), one.peer)
        other.finish()
        assert memory == bytes([turn]) * 8


@ON_MODEL
def test_an_endpoint_can_send_to_itself(talkers):
    one, _ = talkers
    me = one.peers.insert(one.endpoint.getname())
    buffer = bytearray(5)
    one.endpoint.recv(buffer, context="in")
    one.endpoint.send(b"hello", me, context="out")
    assert {entry.op_context for entry in entries(one.queue, 2)} == {"in", "out"}
    assert buffer == b"hello"


# Directed receives


@ON_MODEL
def test_a_directed_receive_waits_for_its_sender(fabric, talkers, keep):
    one, other = talkers
    third = keep(make_talker(one.domain))
    third.peer = third.peers.insert(other.endpoint.getname())
    number = other.peers.insert(third.endpoint.getname())
    mine, anybody = bytearray(5), bytearray(5)
    other.endpoint.recv(mine, src_addr=number, context="third")
    other.endpoint.recv(anybody, context="anybody")
    one.endpoint.inject(b"first", one.peer)
    assert other.queue.sreadfrom(timeout=30)[0][1] == other.peer
    third.endpoint.inject(b"third", third.peer)
    ((entry, source),) = other.queue.sreadfrom(timeout=30)
    assert (entry.op_context, source, mine, anybody) == ("third", number, b"third", b"first")


@ON_MODEL
def test_a_directed_receive_finds_its_sender_among_unexpected_messages(talkers, keep):
    one, other = talkers
    third = keep(make_talker(one.domain))
    third.peer = third.peers.insert(other.endpoint.getname())
    number = other.peers.insert(third.endpoint.getname())
    for side, words in ((one, b"first"), (third, b"third")):
        side.endpoint.tsend(words, side.peer, TAG)
        side.finish()
    mine, anybody = bytearray(5), bytearray(5)
    other.endpoint.trecv(mine, TAG, src_addr=number)
    other.endpoint.trecv(anybody, TAG)
    entries(other.queue, 2)
    assert (mine, anybody) == (b"third", b"first")


@ON_MODEL
def test_without_the_capability_the_source_is_ignored(fabric, talkers, keep):
    one, _ = talkers
    side = keep(make_talker(fabric.domain(1), caps=Caps.FI_MSG | Caps.FI_RECV))
    side.endpoint.recv(bytearray(4), src_addr=12345, context="from anybody")
    one.endpoint.inject(b"x", one.peers.insert(side.endpoint.getname()))
    ((entry, source),) = side.queue.sreadfrom(timeout=30)
    assert (entry.op_context, source) == ("from anybody", FI_ADDR_NOTAVAIL)
    with refused(Errno.FI_EINVAL, "no address 12345"):
        one.endpoint.recv(bytearray(4), src_addr=12345)
