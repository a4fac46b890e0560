"""FI_PEEK, FI_CLAIM and FI_DISCARD, of fi_tagged(3) and without tags: looking at messages before receiving them."""

import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    BindFlags,
    Caps,
    CqTaggedEntry,
    Errno,
    MrAccess,
    Msg,
    OpFlags,
    TaggedMsg,
)

from tests.driver.endpoints import BOTH, ON_MODEL, connect, entries, idle, make_talker, refused

PEEK, CLAIM, DISCARD = OpFlags.FI_PEEK, OpFlags.FI_CLAIM, OpFlags.FI_DISCARD
RECEIVED = Caps.FI_TAGGED | Caps.FI_RECV
TAG = 0x70

pytestmark = ON_MODEL


def text(length):
    return bytes(1 + number % 251 for number in range(length))


def ask(side, flags, *buffers, tag=TAG, ignore=0, context="asked", addr=FI_ADDR_UNSPEC):
    """A receive with flags."""
    side.endpoint.trecvmsg(TaggedMsg(buffers, addr, tag, ignore, context=context), flags)


def search(side, flags, *buffers, context="asked"):
    """The same without a tag."""
    side.endpoint.recvmsg(Msg(buffers, FI_ADDR_UNSPEC, context=context), flags)


@pytest.fixture(params=[11, 10000], ids=["short", "long"])
def sent(request, talkers):
    """(receiver, message, sender): the message has come, and nobody waits for it."""
    one, other = talkers
    message = text(request.param)
    one.endpoint.tsenddata(message, 99, one.peer, TAG, context="sent")
    idle_until_there(one, other)
    return other, message, one


def idle_until_there(one, other):
    """The sender of a long message hears nothing before it has been read, so time is all there is to wait for."""
    assert idle(other) == []


def finish_send(one, message):
    """The sender's entry, which of a long message comes when the receiver is done with it."""
    entry = one.finish()
    assert (entry.op_context, entry.len) == ("sent", len(message))


def test_a_peek_says_what_has_come_and_leaves_it(sent):
    other, message, one = sent
    for _ in range(3):
        ask(other, PEEK)
        assert other.queue.sreadfrom(timeout=30) == [
            (CqTaggedEntry("asked", RECEIVED | Caps.FI_REMOTE_CQ_DATA, len(message), 0, 99, TAG), other.peer)
        ]
    buffer = bytearray(len(message))
    other.endpoint.trecv(buffer, TAG, context="received")
    assert other.finish().op_context == "received"
    assert buffer == message
    finish_send(one, message)


def test_without_a_match_a_peek_fails_with_no_message(sent):
    other, message, one = sent
    for tag, addr in ((TAG + 1, FI_ADDR_UNSPEC), (TAG, other.peers.insert(other.endpoint.getname()))):
        ask(other, PEEK, tag=tag, addr=addr)
        failure = other.failure()
        assert (failure.op_context, failure.err, failure.flags) == ("asked", Errno.FI_ENOMSG, RECEIVED)
        assert (failure.len, failure.data, failure.tag, failure.olen) == (0, 0, 0, 0)
    ask(other, PEEK, tag=TAG + 1, ignore=1)  # but with it
    assert other.finish().tag == TAG
    ask(other, PEEK | DISCARD)
    other.finish()
    finish_send(one, message)


def test_a_peek_that_finds_nothing_is_not_posted(talkers):
    one, other = talkers
    ask(other, PEEK)
    assert other.failure().err == Errno.FI_ENOMSG
    one.endpoint.tsend(b"later", one.peer, TAG)
    one.finish()
    assert idle(other) == []


def test_a_peek_finds_the_oldest_that_matches(talkers):
    one, other = talkers
    for number in range(5):
        one.endpoint.tinject(bytes(number), one.peer, TAG + number % 2)
    idle(one)
    ask(other, PEEK, tag=TAG + 1)
    assert (entry := other.finish()).len == 1
    assert entry.tag == TAG + 1
    ask(other, PEEK, ignore=2**64 - 1, tag=0)
    assert other.finish().len == 0


@pytest.mark.parametrize("space", [4, 11, 20])
def test_a_peek_with_a_buffer_brings_the_data_of_a_short_message(talkers, keep, space):
    one, other = talkers
    one.endpoint.tsend(text(11), one.peer, TAG)
    one.finish()
    buffer = bytearray(space)
    address = keep(other.domain.mr_reg(buffer, MrAccess.FI_RECV)).start
    ask(other, PEEK, buffer)
    entry = other.finish()
    assert (entry.len, entry.buf) == (11, address)
    assert buffer == text(11)[:space] + bytes(max(0, space - 11))


def test_of_a_long_message_a_peek_brings_no_data(talkers):
    one, other = talkers
    one.endpoint.tsend(text(5000), one.peer, TAG)
    idle(one)
    buffer = bytearray(64)
    ask(other, PEEK, buffer)
    entry = other.finish()
    assert (entry.len, entry.buf, buffer) == (5000, 0, bytes(64))
    other.endpoint.trecv(bytearray(5000), TAG)
    other.finish()
    one.finish()


def test_a_claimed_message_is_received_by_its_context_only(sent):
    other, message, one = sent
    ask(other, PEEK | CLAIM, context="claim")
    entry = other.finish()
    assert (entry.op_context, entry.len, entry.data, entry.tag) == ("claim", len(message), 99, TAG)
    # nobody else finds it
    ask(other, PEEK)
    assert other.failure().err == Errno.FI_ENOMSG
    bystander = bytearray(8)
    other.endpoint.trecv(bystander, TAG, context="bystander")
    with refused(Errno.FI_EINVAL, "no tagged message was claimed with context 'another'"):
        ask(other, CLAIM, bytearray(8), context="another")
    buffer = bytearray(len(message) + 3)
    ask(other, CLAIM, buffer, context="claim")
    assert other.queue.sreadfrom(timeout=30) == [
        (CqTaggedEntry("claim", RECEIVED | Caps.FI_REMOTE_CQ_DATA, len(message), 0, 99, TAG), other.peer)
    ]
    assert buffer == message + bytes(3)
    with refused(Errno.FI_EINVAL):
        ask(other, CLAIM, buffer, context="claim")
    finish_send(one, message)
    one.endpoint.tinject(b"for the bystander"[:8], one.peer, TAG)
    assert other.finish().op_context == "bystander"
    assert bystander == b"for the "


def test_a_claimed_message_can_be_scattered_and_cut(sent):
    other, message, one = sent
    ask(other, PEEK | CLAIM, context="claim")
    other.finish()
    parts = [bytearray(2), bytearray(0), bytearray(6)]
    ask(other, CLAIM, *parts, context="claim")
    failure = other.failure()
    assert (failure.err, failure.len, failure.olen) == (Errno.FI_ETRUNC, 8, len(message) - 8)
    assert b"".join(parts) == message[:8]
    finish_send(one, message)


def test_a_claimed_message_can_be_dropped(sent):
    other, message, one = sent
    ask(other, PEEK | CLAIM, context="claim")
    other.finish()
    ask(other, CLAIM | DISCARD, context="claim")
    assert (entry := other.finish()).op_context == "claim"
    assert entry.len == len(message)
    finish_send(one, message)
    ask(other, PEEK)
    assert other.failure().err == Errno.FI_ENOMSG


def test_a_message_found_can_be_dropped_at_once(sent):
    other, message, one = sent
    ask(other, PEEK | DISCARD)
    entry = other.finish()
    assert (entry.len, entry.tag, entry.data) == (len(message), TAG, 99)
    finish_send(one, message)
    ask(other, PEEK)
    assert other.failure().err == Errno.FI_ENOMSG


def test_what_is_looked_for_and_taken_frees_its_slot(talkers):
    one, other = talkers
    for turn in range(200):
        one.endpoint.tsend(bytes([turn]), one.peer, TAG)
        one.finish()
        for flags in (PEEK, PEEK | (DISCARD if turn % 2 else CLAIM)):
            ask(other, flags, context="mine")
            other.finish()
        if not turn % 2:
            buffer = bytearray(1)
            ask(other, CLAIM, buffer, context="mine")
            other.finish()
            assert buffer[0] == turn


def test_many_searches_at_once_are_refused_before_the_ring_overruns(talkers):
    _, other = talkers
    for number in range(64):
        ask(other, PEEK, context=number)
    with refused(Errno.FI_EAGAIN, "64 searches"):
        ask(other, PEEK)
    for number in range(64):
        assert other.failure(last=number == 63).op_context == number
    ask(other, PEEK, context="again")
    assert other.failure().op_context == "again"


def test_searches_pass_receives_that_wait_for_other_messages(talkers):
    one, other = talkers
    for number in range(64):
        other.endpoint.trecv(bytearray(1), 1000 + number)
    one.endpoint.tsend(b"x", one.peer, TAG)
    one.finish()
    ask(other, PEEK | DISCARD)
    assert other.finish().len == 1


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        (PEEK | CLAIM | DISCARD, Errno.FI_EBADFLAGS),
        (PEEK | OpFlags.FI_MULTI_RECV, Errno.FI_EBADFLAGS),
        (DISCARD, Errno.FI_EINVAL),
    ],
)
def test_senseless_combinations_are_refused(talkers, flags, number):
    with refused(number):
        ask(talkers[1], flags)


def test_a_silent_queue_is_notified_of_peeks_that_ask_for_it_and_of_those_that_fail(fabric, keep):
    one = keep(make_talker(fabric.domain(0)))
    other = keep(make_talker(fabric.domain(1), cq_flags=BOTH | BindFlags.FI_SELECTIVE_COMPLETION))
    connect(one, other)
    one.endpoint.tsend(b"x", one.peer, TAG)
    one.finish()
    ask(other, PEEK, context="silent")
    ask(other, PEEK | OpFlags.FI_COMPLETION, context="reported")
    assert [entry.op_context for entry in entries(other.queue, 1)] == ["reported"]
    ask(other, PEEK, tag=TAG + 1, context="failed")
    assert other.failure().op_context == "failed"


# Messages without a tag: recvmsg


@pytest.mark.parametrize("length", [11, 10000], ids=["short", "long"])
def test_messages_without_a_tag_are_found_claimed_and_dropped_likewise(talkers, length):
    one, other = talkers
    for number in range(3):
        one.endpoint.send(text(length + number), one.peer)
    one.endpoint.tsend(b"tagged", one.peer, TAG)
    idle(other)
    found = Caps.FI_MSG | Caps.FI_RECV
    search(other, PEEK)
    assert other.finish() == CqTaggedEntry("asked", found, length, 0, 0, 0)
    search(other, PEEK | CLAIM, context="mine")
    assert other.finish().len == length
    search(other, PEEK | DISCARD)
    assert other.finish().len == length + 1
    buffer, last = bytearray(length), bytearray(length + 2)
    other.endpoint.recv(last, context="last")
    assert other.finish().op_context == "last"
    assert last == text(length + 2)
    search(other, CLAIM, buffer, context="mine")
    assert (entry := other.finish()).flags & found == found
    assert (entry.op_context, entry.len) == ("mine", length)
    assert buffer == text(length)
    search(other, PEEK)
    assert other.failure().err is Errno.FI_ENOMSG
    assert len(entries(one.queue, 4)) == 4


def test_what_was_claimed_with_a_tag_is_received_with_one(talkers):
    one, other = talkers
    one.endpoint.tsend(b"tagged", one.peer, TAG)
    one.endpoint.send(b"untagged", one.peer)
    idle(other)
    for claimed in (search, ask):
        claimed(other, PEEK | CLAIM, context="mine")
        other.finish()
    buffers = bytearray(8), bytearray(6)
    search(other, CLAIM, buffers[0], context="mine")
    other.finish()
    with refused(Errno.FI_EINVAL, "no message without a tag was claimed"):
        search(other, CLAIM, context="mine")
    ask(other, CLAIM, buffers[1], context="mine")
    other.finish()
    assert buffers == (b"untagged", b"tagged")
