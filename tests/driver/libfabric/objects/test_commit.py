"""FI_COMMIT_COMPLETE: what is sent for it, when it completes, and what it counts as."""

import numpy as np
import pytest
from amoeba import (
    AtomicMsg,
    BindFlags,
    Caps,
    CqFormat,
    DeferredWork,
    Errno,
    Info,
    MrAccess,
    MrFlags,
    Op,
    OpFlags,
    OpRma,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TaggedMsg,
    TriggerOp,
    TxAttr,
)
from amoeba_model.wire.codec import decode
from amoeba_model.wire.uet import RequestOpcode

from tests.driver.endpoints import ALL_ACCESS, BOTH, refused

COMMIT = OpFlags.FI_COMMIT_COMPLETE
ONE = np.array([1], np.uint64)
WORDS = np.arange(100, 110, dtype=np.uint64)


@pytest.fixture
def persistent(pair, keep):
    """(memory, region): 2048 words of the server's, which are said to be persistent, memory[i] = i."""
    memory = np.arange(2048, dtype=np.uint64)
    return memory, keep(pair[1].domain.mr_reg(memory, ALL_ACCESS, flags=MrFlags.FI_RMA_PMEM))


@pytest.fixture
def to(pair, persistent):
    """(dest_addr, addr, key) of its first word."""
    return pair[0].peer, persistent[1].address, persistent[1].key


@pytest.fixture
def sent(fabric, to):
    """Tells what has been sent: (opcode, offset in the region, length) of every request, None for every answer."""
    fabric.network.recording = True
    log = fabric.network.log
    before = len(log)

    def frames():
        headers = [decode(frame.data).header for _, frame in log[before:]]
        return [
            (RequestOpcode(h.opcode).name, h.buffer_offset - to[1], h.request_length) if h.is_request else None
            for h in headers
        ]

    return frames


def requests(sent):
    return [frame for frame in sent() if frame is not None]


# What is sent


def test_the_last_byte_is_read_when_a_write_has_been_answered(pair, persistent, to, sent):
    pair[0].endpoint.write(WORDS, *to, flags=COMMIT, context="mine")
    entry = pair[0].finish()
    assert (entry.op_context, entry.flags, entry.len) == ("mine", Caps.FI_RMA | Caps.FI_WRITE, 80)
    assert sent() == [("WRITE", 0, 80), None, ("READ", 79, 1), None, ("WRITE", 80, 0), None]
    assert list(persistent[0][:11]) == [*WORDS, 10]


def test_all_packets_of_a_long_write_are_answered_before_it_is_flushed(fabric, pair, persistent, to, sent):
    payload = fabric.nics[0].parameters.payload
    source = np.random.default_rng(2).integers(0, 256, 2 * payload + 100, np.uint8)
    pair[0].endpoint.write(source, *to, flags=COMMIT)
    assert pair[0].finish().len == len(source)
    frames = sent()
    flush = frames.index(("READ", len(source) - 1, 1))
    assert sorted(map(str, frames[:flush])) == sorted(map(str, [("WRITE", 0, len(source)), None] * 3))
    assert frames[flush + 1 :] == [None, ("WRITE", len(source), 0), None]
    assert persistent[0].tobytes()[: len(source)] == source.tobytes()


CHANGES = {
    "write": (lambda e, to, space: e.write(ONE, *to, flags=COMMIT), "WRITE", 8, 0, 1),
    "injected": (lambda e, to, space: e.write(ONE, *to, flags=COMMIT | OpFlags.FI_INJECT), "WRITE", 8, 0, 1),
    "atomic": (lambda e, to, space: e.atomic(ONE, *to, Op.FI_SUM, flags=COMMIT), "ATOMIC", 8, 0, 8),
    "fetch": (
        lambda e, to, space: e.fetch_atomic(ONE, space, *to, Op.FI_SUM, flags=COMMIT),
        "FETCHING_ATOMIC",
        8,
        7,
        8,
    ),
    "compare": (
        lambda e, to, space: e.compare_atomic(ONE, ONE, space, *to, Op.FI_CSWAP_NE, flags=COMMIT),
        "FETCHING_ATOMIC",
        32,  # what the wire asks for with the extension
        7,
        1,
    ),
}


@pytest.mark.parametrize(("post", "opcode", "length", "found", "after"), CHANGES.values(), ids=CHANGES)
def test_everything_that_changes_memory_can_be_committed(
    pair, persistent, to, sent, post, opcode, length, found, after
):
    memory, space = persistent[0], np.zeros(1, np.uint64)
    memory[0] = 7
    post(pair[0].endpoint, to, space)
    assert pair[0].finish().len == 8
    assert (space[0], memory[0]) == (found, after)
    assert requests(sent) == [(opcode, 0, length), ("READ", 7, 1), ("WRITE", 8, 0)]


def test_vectors_are_flushed_once_behind_their_last_segment(pair, persistent, to, sent):
    segments = [RmaIov(to[1] + 800, 16, to[2]), RmaIov(to[1], 8, to[2])]
    pair[0].endpoint.writemsg(RmaMsg([b"a" * 12, b"b" * 12], to[0], segments), COMMIT)
    assert pair[0].finish().len == 24
    assert requests(sent) == [
        ("WRITE", 800, 12),
        ("WRITE", 812, 4),
        ("WRITE", 0, 8),
        ("READ", 7, 1),
        ("WRITE", 8, 0),
    ]
    assert persistent[0][100:102].tobytes() + persistent[0][:1].tobytes() == b"a" * 12 + b"b" * 12


def test_where_nothing_is_written_there_is_nothing_to_flush(pair, to, sent):
    pair[0].endpoint.write(b"", *to, flags=COMMIT)
    pair[0].endpoint.writev([b""], *to, flags=COMMIT)
    assert [pair[0].finish().len for _ in range(2)] == [0, 0]
    assert requests(sent) == [("WRITE", 0, 0)] * 2


def test_vectors_of_the_guaranteed_size_fit_into_the_smallest_ring(pair, persistent, to):
    endpoint = pair[0].endpoint
    assert (endpoint.tx_size, endpoint.iov_limit) == (16, 4)
    # no two segments end in the same place
    lengths = [[40, 80, 80, 120], [56, 72, 80, 112], [24, 64, 72, 160], [8, 64, 72, 176]]
    operands, compares, results = ([np.zeros(n // 8, np.uint64) for n in part] for part in lengths[:3])
    at, iocs = to[1], []
    for length in lengths[3]:
        iocs.append(RmaIoc(at, length // 8, to[2]))
        at += length + 8
    msg = AtomicMsg(operands, to[0], iocs, Op.FI_CSWAP_NE, data=9)
    endpoint.compare_atomicmsg(msg, compares, results, flags=COMMIT | OpFlags.FI_REMOTE_CQ_DATA)
    assert endpoint.tx_size_left == 16 - (4 * 4 - 3 + 2)
    assert pair[0].failure().err is Errno.FI_ESHUTDOWN  # nobody there takes data


# Defaults


def test_commit_complete_as_a_default_applies_to_operations_that_change_memory(pair, persistent, to, sent):
    client = pair[0]
    client.endpoint.op_flags = COMMIT
    space = np.zeros(1, np.uint64)
    client.endpoint.read(space, *to)
    client.finish()
    client.endpoint.fetch_atomic(None, space, *to, Op.FI_ATOMIC_READ)
    client.finish()
    assert requests(sent) == [("READ", 0, 8), ("FETCHING_ATOMIC", 0, 8)]
    client.endpoint.atomic(ONE, *to, Op.FI_SUM)
    client.finish()
    assert requests(sent)[2:] == [("ATOMIC", 0, 8), ("READ", 7, 1), ("WRITE", 8, 0)]


def test_messages_are_sent_as_ever(talkers):
    one, other = talkers
    one.endpoint.op_flags = COMMIT
    space = bytearray(5)
    other.endpoint.trecv(space, 3)
    one.endpoint.tsend(b"hello", one.peer, 3)
    assert one.finish().flags == Caps.FI_TAGGED | Caps.FI_SEND
    assert other.finish().len == 5
    assert space == b"hello"
    with refused(Errno.FI_EBADFLAGS):
        one.endpoint.tsendmsg(TaggedMsg([b"x"], one.peer, 3), COMMIT)
    tagged = AtomicMsg([ONE], one.peer, [RmaIoc(0, 1, 3)], Op.FI_SUM)
    with refused(Errno.FI_EBADFLAGS):
        one.endpoint.atomicmsg(tagged, COMMIT | OpFlags.FI_TAGGED)


# What fails


def test_a_region_that_cannot_be_read_cannot_be_committed_to(pair, keep):
    client, server = pair
    memory = bytearray(8)
    region = keep(server.domain.mr_reg(memory, MrAccess.FI_REMOTE_WRITE, flags=MrFlags.FI_RMA_PMEM))
    client.endpoint.write(b"durable?", client.peer, region.address, region.key, flags=COMMIT, context=5)
    failed = client.failure()
    assert (failed.op_context, failed.err) == (5, Errno.FI_EACCES)
    assert memory == b"durable?"


def test_what_is_refused_is_one_error(pair, persistent, to):
    client = pair[0]
    end = to[1] + persistent[0].nbytes
    client.endpoint.write(WORDS, to[0], end - 8, to[2], flags=COMMIT, context=6)
    failed = client.failure()
    assert (failed.op_context, failed.err) == (6, Errno.FI_EINVAL)
    client.endpoint.write(ONE, to[0], end - 8, to[2], flags=COMMIT)
    client.finish()  # up to the region's last byte
    assert persistent[0][-1] == 1


def test_registrations_have_this_flag_only(pair, persistent, keep):
    domain = pair[1].domain
    assert persistent[1].persistent
    assert not keep(domain.mr_reg(bytearray(8), ALL_ACCESS)).persistent
    with refused(Errno.FI_EBADFLAGS):
        domain.mr_reg(bytearray(8), ALL_ACCESS, flags=MrFlags(1 << 5))


# Counters, data, deferred work


@pytest.fixture
def listener(fabric, keep):
    """(counter of reads, counter of writes, queue, endpoint) where peers' operations are counted and reported."""
    domain = fabric.domain(1)
    queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA))
    endpoint = keep(domain.endpoint())
    endpoint.bind(queue, BOTH)
    endpoint.bind(keep(domain.av_open()))
    reads, writes = keep(domain.cntr_open()), keep(domain.cntr_open())
    endpoint.bind(reads, BindFlags.FI_REMOTE_READ)
    endpoint.bind(writes, BindFlags.FI_REMOTE_WRITE)
    endpoint.enable()
    region = keep(domain.mr_reg(np.zeros(8, np.uint64), ALL_ACCESS, flags=MrFlags.FI_RMA_PMEM))
    return reads, writes, queue, endpoint, region


def test_a_committed_write_counts_as_one_write_on_both_sides(fabric, listener, keep):
    reads, writes, _, endpoint, region = listener
    domain = fabric.domain(0)
    client = keep(domain.endpoint())
    own_reads, own_writes = keep(domain.cntr_open()), keep(domain.cntr_open())
    queue, peers = keep(domain.cq_open()), keep(domain.av_open())
    for target, flags in (
        (queue, BindFlags.FI_TRANSMIT),
        (peers, BindFlags(0)),
        (own_reads, BindFlags.FI_READ),
        (own_writes, BindFlags.FI_WRITE),
    ):
        client.bind(target, flags)
    client.enable()
    peer = peers.insert(endpoint.getname())
    client.write(WORDS[:4], peer, region.address, region.key, flags=COMMIT)
    client.atomic(ONE, peer, region.address, region.key, Op.FI_SUM, flags=COMMIT)
    assert len(queue.sread(2, timeout=30)) == 1
    assert len(queue.sread(2, timeout=30)) == 1
    writes.wait(2, timeout=30)
    assert (own_writes.read(), own_reads.read(), reads.read(), writes.read()) == (2, 0, 0, 2)
    assert queue.read() == []


@pytest.mark.parametrize("atomic", [False, True], ids=["write", "compare"])
def test_data_tells_the_peer_of_a_write_when_it_is_committed(fabric, pair, listener, atomic):
    _, _, queue, endpoint, region = listener
    client = pair[0]
    peer = client.peers.insert(endpoint.getname())
    fabric.network.recording = True
    to = (peer, region.address, region.key)
    if atomic:
        msg = AtomicMsg([ONE], peer, [RmaIoc(to[1], 1, to[2])], Op.FI_CSWAP_NE, data=99)
        client.endpoint.compare_atomicmsg(msg, [ONE], [bytearray(8)], flags=COMMIT | OpFlags.FI_REMOTE_CQ_DATA)
    else:
        client.endpoint.writedata(WORDS[:4], 99, *to, flags=COMMIT)
    client.finish()
    (entry,) = queue.sread(timeout=30)
    assert (entry.data, entry.flags & Caps.FI_REMOTE_WRITE) == (99, Caps.FI_REMOTE_WRITE)
    assert queue.read() == []
    headers = [decode(frame.data).header for _, frame in fabric.network.log]
    told = [number for number, header in enumerate(headers) if header.is_request and header.header_data == 99]
    assert not headers[told[0] - 1].is_request  # that the byte has been read
    assert [header.opcode for header in headers if header.is_request][-2] == RequestOpcode.READ


def test_deferred_work_can_be_committed(pair, persistent, to, keep, sent):
    client = pair[0]
    counter, done = keep(client.domain.cntr_open()), keep(client.domain.cntr_open())
    write = OpRma(client.endpoint, RmaMsg([ONE], to[0], [RmaIov(to[1], 8, to[2])]), COMMIT)
    client.domain.queue_work(DeferredWork(1, counter, TriggerOp.FI_OP_WRITE, write, done))
    counter.add(1)
    done.wait(1, timeout=30)
    assert (done.read(), persistent[0][0]) == (1, 1)
    assert requests(sent) == [("WRITE", 0, 8), ("READ", 7, 1), ("WRITE", 8, 0)]


# Capabilities


def test_commit_complete_is_granted_with_rma(fabric, keep):
    info = fabric.getinfo(Info(caps=Caps.FI_RMA | Caps.FI_RMA_PMEM, tx_attr=TxAttr(op_flags=COMMIT)))[0]
    assert info.caps & Caps.FI_RMA_PMEM
    assert keep(keep(fabric.domain(info)).endpoint(info)).op_flags == COMMIT
    assert fabric.getinfo(Info(caps=Caps.FI_RMA))[0].caps & Caps.FI_RMA_PMEM
    assert not fabric.getinfo(Info(caps=Caps.FI_ATOMIC))[0].caps & Caps.FI_RMA_PMEM
