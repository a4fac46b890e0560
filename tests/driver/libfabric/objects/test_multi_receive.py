"""FI_MULTI_RECV: one buffer that takes message after message."""

import pytest
from amoeba import (
    BindFlags,
    Caps,
    CqTaggedEntry,
    EndpointOption,
    Errno,
    MrAccess,
    OpFlags,
    OptionLevel,
)

from tests.driver.endpoints import BOTH, ON_MODEL, aligned, connect, entries, idle, make_talker, refused

MULTI = OpFlags.FI_MULTI_RECV
RECEIVED = Caps.FI_MSG | Caps.FI_RECV
LAST = RECEIVED | Caps.FI_MULTI_RECV

pytestmark = ON_MODEL


def least(side, size):
    side.endpoint.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MIN_MULTI_RECV, size)


@pytest.fixture
def start(talkers, keep):
    """(buffer, its address, which is a multiple of 4,096)."""
    buffer = aligned(512)
    return buffer, keep(talkers[1].domain.mr_reg(buffer, MrAccess.FI_RECV)).start


@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
@pytest.mark.parametrize("tagged", [False, True], ids=["untagged", "tagged"])
def test_messages_are_packed_and_the_last_gives_the_buffer_back(talkers, start, expected, tagged):
    one, other = talkers
    buffer, address = start
    words = [b"the", b"quick", b"", b"brown", b"fox"]
    memory = buffer[:195]
    kind = (Caps.FI_TAGGED if tagged else Caps.FI_MSG) | Caps.FI_RECV

    def receive():
        if tagged:
            other.endpoint.trecv(memory, 4, context="pool", flags=MULTI)
        else:
            other.endpoint.recv(memory, context="pool", flags=MULTI)

    if expected:
        receive()
        idle(other, 3)
    for word in words:
        if tagged:
            one.endpoint.tsend(word, one.peer, 4)
        else:
            one.endpoint.send(word, one.peer)
        one.finish()
    if not expected:
        receive()
    assert entries(other.queue, 5) == [
        CqTaggedEntry("pool", kind, 3, address, 0, 4 if tagged else 0),
        CqTaggedEntry("pool", kind, 5, address + 64, 0, 4 if tagged else 0),
        CqTaggedEntry("pool", kind, 0, address + 128, 0, 4 if tagged else 0),
        CqTaggedEntry("pool", kind, 5, address + 128, 0, 4 if tagged else 0),
        CqTaggedEntry("pool", kind | Caps.FI_MULTI_RECV, 3, address + 192, 0, 4 if tagged else 0),
    ]
    assert bytes(buffer) == b"".join(word.ljust(64, b"\0") for word in words if word).ljust(512, b"\0")
    assert other.endpoint.rx_size_left == 64


def test_places_are_aligned_wherever_the_buffer_begins_and_the_last_byte_is_used(talkers, start):
    one, other = talkers
    buffer, address = start
    other.endpoint.recv(buffer[29:135], context="pool", flags=MULTI)
    words = [b"first", b"second", b"the end"]
    for word in words:
        one.endpoint.inject(word, one.peer)
    told = entries(other.queue, 3)
    assert [(entry.buf - address, entry.flags) for entry in told] == [(29, RECEIVED), (64, RECEIVED), (128, LAST)]
    expected = bytearray(512)
    for place, word in zip((29, 64, 128), words, strict=True):
        expected[place : place + len(word)] = word
    assert bytes(buffer) == expected


@pytest.mark.parametrize(
    ("size", "taken"),
    [(0, 4), (1, 4), (8, 4), (9, 3), (72, 3), (73, 2), (136, 2), (137, 1), (1000, 1)],
)
def test_a_buffer_with_less_space_than_the_option_says_is_released(talkers, size, taken):
    """Of 200 bytes, messages of 8 leave 136, 72, 8, 0."""
    one, other = talkers
    least(other, size)
    other.endpoint.recv(aligned(200), context="pool", flags=MULTI)
    for _ in range(taken):
        one.endpoint.inject(bytes(8), one.peer)
    told = entries(other.queue, taken)
    assert [entry.flags for entry in told] == [RECEIVED] * (taken - 1) + [LAST]


def test_the_option_concerns_receives_posted_after_it_was_set(talkers):
    one, other = talkers
    other.endpoint.recv(aligned(200), context="before", flags=MULTI)
    least(other, 150)
    other.endpoint.recv(aligned(200), context="after", flags=MULTI)
    assert other.endpoint.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_MIN_MULTI_RECV) == 150
    for _ in range(5):
        one.endpoint.inject(bytes(8), one.peer)
    assert [(entry.op_context, entry.flags) for entry in entries(other.queue, 5)] == [
        ("before", RECEIVED), ("before", RECEIVED), ("before", RECEIVED), ("before", LAST), ("after", LAST)
    ]  # fmt: skip
    with refused(Errno.FI_EINVAL):
        least(other, 1 << 32)


@pytest.mark.parametrize("length", [20, 5000], ids=["short", "long"])
@pytest.mark.parametrize("expected", [True, False], ids=["expected", "unexpected"])
def test_a_message_that_does_not_fit_is_cut_and_ends_the_buffer(talkers, start, length, expected):
    one, other = talkers
    buffer, address = start
    if expected:
        other.endpoint.recv(buffer[:75], context="pool", flags=MULTI)
        idle(other, 3)
    one.endpoint.inject(b"hello", one.peer)
    one.endpoint.send(b"x" * length, one.peer)
    if not expected:
        idle(one)
        other.endpoint.recv(buffer[:75], context="pool", flags=MULTI)
    assert other.finish() == CqTaggedEntry("pool", RECEIVED, 5, address, 0, 0)
    failure = other.failure()
    assert (failure.err, failure.flags, failure.op_context) == (Errno.FI_ETRUNC, LAST, "pool")
    assert (failure.len, failure.olen, failure.buf) == (11, length - 11, address + 64)
    assert buffer[:76] == b"hello" + bytes(59) + b"x" * 11 + b"\0"


def test_long_messages_go_to_their_places_and_the_last_to_end_gives_the_buffer_back(talkers, keep):
    """The buffer is the application's only when nothing is on its way to it, whichever event comes first."""
    one, other = talkers
    buffer = aligned(15040 + 3000)
    address = keep(other.domain.mr_reg(buffer, MrAccess.FI_RECV)).start
    other.endpoint.recv(buffer, context="pool", flags=MULTI)
    idle(other, 3)
    lengths = [6000, 3000, 6000, 3000]
    sources = [bytes([1 + number]) * length for number, length in enumerate(lengths)]
    for source in sources:
        one.endpoint.send(source, one.peer)
    told = entries(other.queue, 4)
    assert [bool(entry.flags & Caps.FI_MULTI_RECV) for entry in told] == [False, False, False, True]
    assert sorted((entry.buf - address, entry.len) for entry in told) == [
        (0, 6000), (6016, 3000), (9024, 6000), (15040, 3000)
    ]  # fmt: skip
    for place, source in zip((0, 6016, 9024, 15040), sources, strict=True):
        assert buffer[place : place + len(source)] == source
    entries(one.queue, 4)


def test_when_a_buffer_is_used_up_that_is_told_also_by_a_silent_queue(fabric, keep):
    one = keep(make_talker(fabric.domain(0)))
    other = keep(make_talker(fabric.domain(1), cq_flags=BOTH | BindFlags.FI_SELECTIVE_COMPLETION))
    connect(one, other)
    other.endpoint.recv(aligned(69), context="pool", flags=MULTI)
    for _ in range(2):
        one.endpoint.inject(bytes(5), one.peer)
    entry = other.finish()
    assert (entry.op_context, entry.flags, entry.len) == ("pool", LAST, 5)


def test_a_buffer_can_be_taken_back(talkers):
    one, other = talkers
    buffer = bytearray(200)
    other.endpoint.recv(buffer, context="pool", flags=MULTI)
    one.endpoint.inject(b"abc", one.peer)
    assert other.finish().flags == RECEIVED
    other.endpoint.cancel("pool")
    failure = other.failure()
    assert (failure.err, failure.flags) == (Errno.FI_ECANCELED, LAST)
    other.endpoint.recv(bytearray(3), context="next")
    one.endpoint.inject(b"def", one.peer)
    assert other.finish().op_context == "next"
    assert buffer[:6] == b"abc\0\0\0"


def test_one_buffer_takes_more_messages_than_the_queue_may_hold(fabric, keep):
    one, other = keep(make_talker(fabric.domain(0))), keep(make_talker(fabric.domain(1), rx_size=8))
    connect(one, other)
    buffer = aligned(299 * 64 + 1)
    other.endpoint.recv(buffer, flags=MULTI)
    for turn in range(300):
        one.endpoint.send(bytes([turn % 251]), one.peer)
        if turn % 50 == 49:
            entries(one.queue, 8)  # the rest waits for the receiver to read
            entries(other.queue, 50)
            entries(one.queue, 42)
    assert bytes(buffer[::64]) == bytes(turn % 251 for turn in range(300))
    assert idle(other) == []


@pytest.mark.parametrize("buffers", [[], [bytearray(0)], [bytearray(4), bytearray(4)]], ids=["none", "empty", "two"])
def test_a_multi_receive_takes_one_buffer(talkers, buffers):
    with refused(Errno.FI_EINVAL):
        talkers[0].endpoint.recvv(buffers, flags=MULTI)


def test_a_multi_receive_needs_the_capability(fabric, keep):
    side = keep(make_talker(fabric.domain(0), caps=Caps.FI_MSG | Caps.FI_RECV))
    with refused(Errno.FI_EINVAL):
        side.endpoint.recv(bytearray(4), flags=MULTI)
