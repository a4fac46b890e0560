"""Scattered memory: every byte goes where it belongs, as one operation, posted as a whole or not at all.

Covers ``libfabric/objects/operations/vectors.py``.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from amoeba import (
    INJECT_SIZE,
    AtomicMsg,
    Caps,
    CqMsgEntry,
    Errno,
    MrAccess,
    Op,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
)
from amoeba.core.buffers import Segment, cut
from amoeba_model.registers import DOORBELL_PAGE, Counter
from hypothesis import given
from hypothesis import strategies as st

from tests.driver.endpoints import ALL_ACCESS, connect, make_side, refused

WORD = 8
ONE = np.uint64(1)


def parts(array, sizes):
    """Consecutive pieces of an array."""
    ends = [0, *itertools.accumulate(sizes)]
    assert ends[-1] == len(array)
    return [array[begin:end] for begin, end in itertools.pairwise(ends)]


@pytest.fixture
def two(pair, keep):
    """The client, and two regions of the server's: words 100 to 139 and 200 to 239."""

    def side(start):
        memory = np.arange(start, start + 40, dtype=np.uint64)
        return SimpleNamespace(memory=memory, region=keep(pair[1].domain.mr_reg(memory, ALL_ACCESS)))

    return pair[0], side(100), side(200)


def there(part, first, size, unit=WORD):
    """``size`` words from word ``first`` of a region on, as (addr, length in units of 8 or of elements, key)."""
    return part.region.address + WORD * first, size * (WORD // unit), part.region.key


# How vectors are cut


@given(st.integers(0, 60), st.lists(st.sets(st.integers(0, 60)), min_size=1, max_size=4), st.data())
def test_pieces_are_the_segments_cut_wherever_one_ends(length, cuts, data):
    vectors, bytes_of = [], []
    for number, positions in enumerate(cuts):
        ends = [0, *sorted(p for p in positions if 0 < p < length), length]
        if data.draw(st.booleans()):  # a segment of no bytes, anywhere
            ends = sorted([*ends, data.draw(st.sampled_from(ends))])
        vectors.append(
            [Segment(1000 * number + 100_000 * n + begin, end - begin, n) for n, (begin, end) in
             enumerate(itertools.pairwise(ends))]
        )  # fmt: skip
        bytes_of.append([(s.address + i, s.key) for s in vectors[-1] for i in range(s.length)])
    pieces = cut(vectors)
    for number, expected in enumerate(bytes_of):
        segments = [piece[number] for piece in pieces]
        assert [(s.address + i, s.key) for s in segments for i in range(s.length)] == expected
    assert all(len({segment.length for segment in piece}) == 1 for piece in pieces)
    boundaries = {end for vector in vectors for end in itertools.accumulate(s.length for s in vector)} - {0}
    assert len(pieces) == max(len(boundaries), 1)


# RMA


@pytest.mark.parametrize("registered", [False, True], ids=["granted", "registered"])
def test_scattered_writes_and_reads_move_every_byte_to_its_place(two, keep, registered):
    client, one, other = two
    source = np.arange(20, dtype=np.uint64)
    copy = np.zeros(20, np.uint64)
    desc = copy_desc = None
    if registered:
        desc = [keep(client.domain.mr_reg(source, MrAccess.FI_WRITE))] * 4
        copy_desc = [keep(client.domain.mr_reg(copy, MrAccess.FI_READ)), None]
    remote = [RmaIov(*there(one, 3, 7, 1)), RmaIov(*there(other, 0, 1, 1)), RmaIov(*there(one, 20, 12, 1))]
    iov = parts(source, [1, 9, 0, 10])
    client.endpoint.writemsg(RmaMsg(iov, client.peer, remote, desc, context="scatter"))
    assert client.finish() == CqMsgEntry("scatter", Caps.FI_RMA | Caps.FI_WRITE, 160)
    expected = np.arange(100, 140, dtype=np.uint64)
    expected[3:10], expected[20:32] = source[:7], source[8:]
    np.testing.assert_array_equal(one.memory, expected)
    assert other.memory.tolist() == [7, *range(201, 240)]
    client.endpoint.readmsg(RmaMsg(parts(copy, [13, 7]), client.peer, remote, copy_desc, context="gather"))
    assert client.finish() == CqMsgEntry("gather", Caps.FI_RMA | Caps.FI_READ, 160)
    np.testing.assert_array_equal(copy, source)


def test_writev_and_readv_have_one_remote_segment(two):
    client, one, _ = two
    addr, _, key = there(one, 5, 1)
    client.endpoint.writev([b"abc", b"", bytearray(b"defg")], client.peer, addr + 1, key)
    assert client.finish().len == 7
    assert one.memory.tobytes()[40:50] == b"\x69abcdefg\x6a\0"
    copy = [bytearray(2), bytearray(3), bytearray(2)]
    client.endpoint.readv(copy, client.peer, addr + 1, key)
    client.finish()
    assert copy == [b"ab", b"cde", b"fg"]


def test_operations_on_no_bytes_complete_once(two):
    client, one, _ = two
    addr, _, key = there(one, 40, 0)
    for post in (
        lambda: client.endpoint.writev([], client.peer, addr, key),
        lambda: client.endpoint.readv([bytearray(), bytearray()], client.peer, addr, key),
        lambda: client.endpoint.writemsg(RmaMsg([b""], client.peer, [RmaIov(addr, 0, key), RmaIov(0, 0, 99)])),
    ):
        post()
        assert client.finish().len == 0
    assert client.queue.sread(timeout=0.01) == []


def test_pieces_may_be_longer_than_a_frame(pair, keep, fabric):
    client, payload = pair[0], fabric.nics[0].parameters.payload
    memory = bytearray(5 * payload)
    region = keep(pair[1].domain.mr_reg(memory, ALL_ACCESS))
    data = np.random.default_rng(3).integers(0, 256, 3 * payload + 3, np.uint8)
    remote = [
        RmaIov(region.address + 3 * payload, payload + 2, region.key),
        RmaIov(region.address, 2 * payload + 1, region.key),
    ]
    client.endpoint.writemsg(RmaMsg(parts(data, [5, 2 * payload, payload - 2]), client.peer, remote))
    assert client.finish().len == len(data)
    assert memory[3 * payload : 4 * payload + 2] == data[: payload + 2].tobytes()
    assert memory[: 2 * payload + 1] == data[payload + 2 :].tobytes()


# Atomics


def test_scattered_atomics_of_all_forms_agree_with_numpy(two, keep):
    client, one, other = two
    random = np.random.default_rng(5)
    operand = random.integers(0, 2**63, 12, np.uint64)
    remote = [RmaIoc(*there(other, 2, 5)), RmaIoc(*there(one, 30, 7))]

    def remote_words():
        return np.concatenate([other.memory[2:7], one.memory[30:37]])

    before, result = remote_words(), np.zeros(12, np.uint64)
    msg = AtomicMsg(parts(operand, [4, 8]), client.peer, remote, Op.FI_BXOR, context=1)
    client.endpoint.atomicmsg(msg)
    assert client.finish() == CqMsgEntry(1, Caps.FI_ATOMIC | Caps.FI_WRITE, 96)
    np.testing.assert_array_equal(remote_words(), before ^ operand)

    msg = AtomicMsg(parts(operand, [11, 1]), client.peer, remote, Op.FI_SUM, context=2)
    client.endpoint.fetch_atomicmsg(msg, parts(result, [1, 5, 6]))
    assert client.finish() == CqMsgEntry(2, Caps.FI_ATOMIC | Caps.FI_READ, 96)
    np.testing.assert_array_equal(result, before ^ operand)
    np.testing.assert_array_equal(remote_words(), (before ^ operand) + operand)

    here, swapped = remote_words(), np.arange(12) % 3 == 0
    compare = np.where(swapped, here, ~here)
    msg = AtomicMsg(parts(operand, [6, 6]), client.peer, remote, Op.FI_CSWAP, context=3)
    client.endpoint.compare_atomicmsg(msg, parts(compare, [3, 9]), parts(result, [10, 2]))
    assert client.finish() == CqMsgEntry(3, Caps.FI_ATOMIC | Caps.FI_READ, 96)
    np.testing.assert_array_equal(result, here)
    np.testing.assert_array_equal(remote_words(), np.where(swapped, operand, here))

    msg = AtomicMsg([], client.peer, remote, Op.FI_ATOMIC_READ)
    client.endpoint.fetch_atomicmsg(msg, parts(result, [2, 10]))
    client.finish()
    np.testing.assert_array_equal(result, remote_words())


@pytest.mark.full_build
def test_vector_atomics_have_one_remote_segment(two):
    client, one, _ = two
    to = (client.peer, one.region.address, one.region.key)
    result = np.zeros(3, np.uint64)
    client.endpoint.atomicv(parts(np.array([1, 2, 3], np.uint64), [1, 2]), *to, Op.FI_SUM)
    client.finish()
    assert one.memory[:4].tolist() == [101, 103, 105, 103]
    client.endpoint.fetch_atomicv([np.full(3, 2, np.uint64)], parts(result, [2, 1]), *to, Op.FI_PROD)
    client.finish()
    assert (result.tolist(), one.memory[:3].tolist()) == ([101, 103, 105], [202, 206, 210])
    client.endpoint.compare_atomicv(
        [np.full(3, 7, np.uint64)], parts(np.array([202, 0, 210], np.uint64), [1, 1, 1]), [result], *to, Op.FI_CSWAP
    )
    client.finish()
    assert (result.tolist(), one.memory[:3].tolist()) == ([202, 206, 210], [7, 206, 7])
    client.endpoint.fetch_atomicv([], [result], *to, Op.FI_ATOMIC_READ)
    client.finish()
    assert result.tolist() == [7, 206, 7]


def test_registered_buffers_of_vector_atomics_are_used_by_their_desc(two, keep):
    client, one, _ = two
    buffer = np.arange(6, dtype=np.uint64)
    region = keep(client.domain.mr_reg(buffer, ALL_ACCESS))
    client.endpoint.compare_atomicv(
        [buffer[:1]], [np.array([100], np.uint64)], [buffer[2:3]], client.peer, one.region.address, one.region.key,
        Op.FI_CSWAP, desc=[region], compare_desc=[None], result_desc=[region],
    )  # fmt: skip
    client.finish()
    assert (one.memory[0], buffer[2]) == (0, 100)


# One operation


def test_an_error_in_the_middle_is_one_error_of_the_operation(two):
    client, one, other = two
    for wrong in range(3):
        remote = [RmaIov(*there(one, 0, 1, 1)), RmaIov(*there(other, 1, 2, 1)), RmaIov(*there(one, 2, 3, 1))]
        remote[wrong] = RmaIov(remote[wrong].addr, remote[wrong].len, remote[wrong].key ^ 1)
        client.endpoint.writemsg(RmaMsg([bytes(48)], client.peer, remote, context=wrong))
        failure = client.failure()
        assert (failure.op_context, failure.err, failure.len) == (wrong, Errno.FI_ENOKEY, 48)
    client.endpoint.write(bytes(8), client.peer, one.region.address, one.region.key, context="next")
    assert client.finish().op_context == "next"
    assert client.endpoint._rings.outstanding == 0


def test_a_piece_that_the_nic_refuses_is_one_error_of_the_operation(two):
    client, one, _ = two
    rings = client.endpoint._rings
    # The driver checks what the NIC checks, so this takes what it would never write: an atomic of no bytes.
    post_chain = rings.post_chain

    def with_a_wrong_piece(*arguments):
        *others, pieces = arguments
        pieces[1] = pieces[1]._replace(length=0)
        post_chain(*others, pieces)

    rings.post_chain = with_a_wrong_piece
    client.endpoint.atomicv(parts(np.ones(3, np.uint64), [1, 1, 1]), client.peer, one.region.address, one.region.key,
                            Op.FI_SUM, context="wrong")  # fmt: skip
    failure = client.failure()
    assert (failure.op_context, failure.err, failure.len) == ("wrong", Errno.FI_EINVAL, 24)
    assert client.queue.sread(timeout=0.01) == []
    assert rings.outstanding == 0
    rings.post_chain = post_chain
    client.endpoint.atomicv(parts(np.ones(3, np.uint64), [1, 2]), client.peer, one.region.address, one.region.key,
                            Op.FI_SUM)  # fmt: skip
    client.finish()


def test_a_vector_is_one_doorbell(fabric, two, monkeypatch):
    client, one, _ = two
    doorbells = []
    ring = client.endpoint._rings._ring_doorbell
    monkeypatch.setattr(
        client.endpoint._rings, "_ring_doorbell", lambda at, value: (doorbells.append((at, value)), ring(at, value))
    )
    client.endpoint.writev([b"ab", b"cd", b"ef"], client.peer, one.region.address, one.region.key)
    assert doorbells == [(DOORBELL_PAGE, 3)]
    client.endpoint.writev([b"ab", b"cd"], client.peer, one.region.address, one.region.key, flags=OpFlags.FI_MORE)
    assert doorbells == [(DOORBELL_PAGE, 3)]
    done = 0
    while done < 2:
        done += len(client.queue.sread(2, timeout=30))


def test_a_vector_that_does_not_fit_now_is_not_begun(fabric, two):
    client, one, _ = two
    size = client.endpoint.tx_size
    to = (client.peer, one.region.address, one.region.key)
    for _ in range(size - 2):
        client.endpoint.atomic(ONE, *to, Op.FI_SUM)
    before = fabric.nics[0].counters()[Counter.DESCRIPTORS]
    three = parts(np.ones(3, np.uint64), [1, 1, 1])
    tail = client.endpoint._rings._tail
    with refused(Errno.FI_EAGAIN):
        client.endpoint.atomicv(three, *to, Op.FI_SUM)
    assert client.endpoint._rings._tail == tail
    done = 0
    while done < size - 2:
        done += len(client.queue.sread(size, timeout=30))
    assert one.memory[0] == 100 + size - 2
    client.endpoint.atomicv(three, *to, Op.FI_SUM)
    client.finish()
    assert one.memory[:4].tolist() == [100 + size - 1, 102, 103, 103]
    assert fabric.nics[0].counters()[Counter.DESCRIPTORS] > before


def test_vectors_pass_the_ends_of_the_ring(two):
    client, one, _ = two
    to = (client.peer, one.region.address, one.region.key)
    for turn in range(40):
        count = 1 + turn % 5
        client.endpoint.atomicv(parts(np.ones(count, np.uint64), [1] * count), *to, Op.FI_SUM, context=turn)
        assert client.finish().op_context == turn
    assert one.memory[:5].tolist() == [100 + n for n in (40, 33, 26, 19, 12)]


def test_an_endpoint_takes_as_many_segments_as_it_says(fabric, keep):
    client, server = keep(make_side(fabric.domain(0), tx_size=1)), keep(make_side(fabric.domain(1)))
    connect(client, server)
    limit = client.endpoint.iov_limit
    assert limit == client.endpoint.rma_iov_limit == 4
    memory = np.zeros(64, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    # four segments everywhere, none of which ends where another one does
    words = [np.arange(n, n + 52, dtype=np.uint64) for n in (1000, 0, 0)]
    shapes = ([13, 13, 13, 13], [10, 14, 13, 15], [11, 12, 14, 15])
    remote = [
        RmaIoc(region.address + WORD * at, count, region.key) for at, count in ((0, 12), (12, 14), (26, 14), (40, 12))
    ]
    msg = AtomicMsg(parts(words[0], shapes[0]), client.peer, remote, Op.FI_CSWAP)
    client.endpoint.compare_atomicmsg(msg, parts(np.zeros(52, np.uint64), shapes[1]), parts(words[2], shapes[2]))
    client.finish()
    np.testing.assert_array_equal(memory[:52], words[0])
    with refused(Errno.FI_EINVAL, "ring entries, there are 16"):
        client.endpoint.writev([b"x"] * 17, client.peer, region.address, region.key)
    client.endpoint.writev([b"x"] * 16, client.peer, region.address, region.key)
    assert client.finish().len == 16


# Injection


@pytest.mark.parametrize("size", [1, 8, 9, 40, INJECT_SIZE])
def test_injected_buffers_may_change_at_once(two, size):
    client, one, _ = two
    to = (client.peer, one.region.address, one.region.key)
    sources = [bytearray([n + 1] * size) for n in range(client.endpoint.tx_size)]
    for n, source in enumerate(sources):
        client.endpoint.inject_write(source, to[0], to[1] + n * INJECT_SIZE % 256, to[2])
        source[:] = bytes(size)

    def arrived(n):
        return one.memory.tobytes()[n * INJECT_SIZE % 256 :][:size] == bytes([n + 1] * size)

    client.pass_silently(lambda: all(arrived(n) for n in range(len(sources) - 4, len(sources))))


def test_injected_vectors_and_compare_values_may_change_at_once(two):
    client, one, _ = two
    operand, compare = np.arange(8, dtype=np.uint64), np.arange(100, 108, dtype=np.uint64)
    result = np.zeros(8, np.uint64)
    to = (client.peer, one.region.address, one.region.key)
    client.endpoint.compare_atomic(operand, compare, result, *to, Op.FI_CSWAP, flags=OpFlags.FI_INJECT)
    client.endpoint.compare_atomicv(
        parts(compare, [3, 5]), parts(operand, [1, 7]), [result], *to, Op.FI_CSWAP, flags=OpFlags.FI_INJECT
    )
    operand[:], compare[:] = 0, 0
    done = 0
    while done < 2:
        done += len(client.queue.sread(2, timeout=30))
    assert one.memory[:8].tolist() == list(range(100, 108))
    assert result.tolist() == list(range(8))


def test_a_long_injected_atomic_is_silent(two):
    client, one, _ = two
    client.endpoint.inject_atomic(np.ones(8, np.uint64), client.peer, one.region.address, one.region.key, Op.FI_SUM)
    client.pass_silently(lambda: one.memory[:9].tolist() == [*range(101, 109), 108])


# Refusals

REFUSED = {
    "writemsg: no remote segment": (Errno.FI_EINVAL, lambda e, t: e.writemsg(RmaMsg([b"x"], t[0], []))),
    "writemsg: less remote memory": (
        Errno.FI_EINVAL,
        lambda e, t: e.writemsg(RmaMsg([b"xyz"], t[0], [RmaIov(t[1], 2, t[2])])),
    ),
    "readmsg: more remote memory": (
        Errno.FI_EINVAL,
        lambda e, t: e.readmsg(RmaMsg([bytearray(1)], t[0], [RmaIov(t[1], 2, t[2])])),
    ),
    "writemsg: negative length": (
        Errno.FI_EINVAL,
        lambda e, t: e.writemsg(RmaMsg([b"x"], t[0], [RmaIov(t[1], 2, t[2]), RmaIov(t[1], -1, t[2])])),
    ),
    "writemsg: address of 65 bits": (
        Errno.FI_EINVAL,
        lambda e, t: e.writemsg(RmaMsg([b"xy"], t[0], [RmaIov(t[1], 1, t[2]), RmaIov(1 << 64, 1, t[2])])),
    ),
    "writev: key of 65 bits": (Errno.FI_EINVAL, lambda e, t: e.writev([b"x"], t[0], t[1], 1 << 64)),
    "writev: unknown peer": (Errno.FI_EINVAL, lambda e, t: e.writev([b"x"], 99, *t[1:])),
    "writev: fewer regions than buffers": (
        Errno.FI_EINVAL,
        lambda e, t: e.writev([b"x", b"y"], *t, desc=[None]),
    ),
    "writev: data": (Errno.FI_EBADFLAGS, lambda e, t: e.writev([b"x"], *t, flags=OpFlags.FI_REMOTE_CQ_DATA)),
    "readmsg: durable": (
        Errno.FI_EBADFLAGS,
        lambda e, t: e.readmsg(RmaMsg([bytearray(1)], t[0], [RmaIov(t[1], 1, t[2])]), OpFlags.FI_COMMIT_COMPLETE),
    ),
    "writev: too much to inject": (
        Errno.FI_EINVAL,
        lambda e, t: e.writev([bytes(64), b"x"], *t, flags=OpFlags.FI_INJECT),
    ),
    "readv: constant memory": (Errno.FI_EINVAL, lambda e, t: e.readv([bytearray(1), b"constant"], *t)),
    "readv: too long": (
        Errno.FI_EMSGSIZE,
        lambda e, t: e.readv([np.lib.stride_tricks.as_strided(np.zeros(2**29 + 1, np.uint8))] * 2, *t),
    ),
    "atomicv: nothing": (Errno.FI_EINVAL, lambda e, t: e.atomicv([], *t, Op.FI_SUM)),
    "atomicv: no elements": (Errno.FI_EINVAL, lambda e, t: e.atomicv([np.zeros(0, np.uint64)], *t, Op.FI_SUM)),
    "atomicv: an element in two buffers": (
        Errno.FI_EINVAL,
        lambda e, t: e.atomicv([bytes(4), bytes(12)], *t, Op.FI_SUM, 7),
    ),
    "atomicv: a compare operation": (Errno.FI_EOPNOTSUPP, lambda e, t: e.atomicv([ONE], *t, Op.FI_CSWAP)),
    "atomicv: a fetch operation": (Errno.FI_EOPNOTSUPP, lambda e, t: e.atomicv([ONE], *t, Op.FI_ATOMIC_READ)),
    "fetch_atomicv: more results": (
        Errno.FI_EINVAL,
        lambda e, t: e.fetch_atomicv([ONE], [np.zeros(2, np.uint64)], *t, Op.FI_SUM),
    ),
    "fetch_atomicv: no results": (Errno.FI_EINVAL, lambda e, t: e.fetch_atomicv([ONE], [], *t, Op.FI_SUM)),
    "fetch_atomicv: an element in two results": (
        Errno.FI_EINVAL,
        lambda e, t: e.fetch_atomicv([ONE], [bytearray(3), bytearray(5)], *t, Op.FI_SUM),
    ),
    "compare_atomicv: fewer compare values": (
        Errno.FI_EINVAL,
        lambda e, t: e.compare_atomicv([ONE, ONE], [ONE], [np.zeros(2, np.uint64)], *t, Op.FI_CSWAP),
    ),
    "atomicmsg: other count": (
        Errno.FI_EINVAL,
        lambda e, t: e.atomicmsg(AtomicMsg([ONE], t[0], [RmaIoc(t[1], 2, t[2])], Op.FI_SUM)),
    ),
    "atomicmsg: negative count": (
        Errno.FI_EINVAL,
        lambda e, t: e.atomicmsg(
            AtomicMsg([ONE], t[0], [RmaIoc(t[1], 2, t[2]), RmaIoc(t[1], -1, t[2])], Op.FI_SUM)
        ),
    ),
    "atomicmsg: data of 65 bits": (
        Errno.FI_EINVAL,
        lambda e, t: e.atomicmsg(
            AtomicMsg([ONE], t[0], [RmaIoc(t[1], 1, t[2])], Op.FI_SUM, data=1 << 64), OpFlags.FI_REMOTE_CQ_DATA
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_vectors_are_refused_before_anything_is_sent(two, case):
    client, one, _ = two
    number, call = REFUSED[case]
    with refused(number):
        call(client.endpoint, (client.peer, one.region.address, one.region.key))
    assert client.endpoint._rings.outstanding == 0
    assert client.queue.sread(timeout=0.01) == []
    assert one.memory.tolist() == list(range(100, 140))
    client.endpoint.writev([b"x"], client.peer, one.region.address, one.region.key)
    client.finish()


def test_a_refused_vector_gives_no_access_to_its_buffers(fabric, two, monkeypatch):
    client, one, _ = two
    granted = []
    monkeypatch.setattr(fabric.devices[0], "grant", lambda *arguments, **_: granted.append(arguments))
    with refused(Errno.FI_EINVAL):
        client.endpoint.writev([bytes(100)] * 17, client.peer, one.region.address, one.region.key)
    with refused(Errno.FI_EINVAL):
        client.endpoint.writev([bytes(100)] * 2, 99, one.region.address, one.region.key)
    assert granted == []
