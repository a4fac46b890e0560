"""The structures of the ...msg calls: each call takes its own, and FI_ATOMIC_READ needs no operands."""

import numpy as np
import pytest
from amoeba import (
    ArgumentTypeError,
    AtomicMsg,
    Caps,
    Datatype,
    DeferredWork,
    MrAccess,
    Msg,
    Op,
    OpFlags,
    OpMsg,
    OpRma,
    OpTagged,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TaggedMsg,
    TriggerOp,
    fi,
)

from tests.driver.endpoints import ON_MODEL, make_talkers

DATA = OpFlags.FI_REMOTE_CQ_DATA


@pytest.fixture
def talkers(fabric, keep):
    return keep(make_talkers(fabric))


def messages(peer):
    """One of each class, and what is none."""
    return {
        Msg: Msg([bytes(8)], peer),
        TaggedMsg: TaggedMsg([bytes(8)], peer, 5),
        RmaMsg: RmaMsg([bytes(8)], peer, [RmaIov(0, 8, 1)]),
        AtomicMsg: AtomicMsg([np.zeros(1, np.uint64)], peer, [RmaIoc(0, 1, 1)], Op.FI_SUM),
        type(None): None,
        bytes: b"12345678",
        dict: {"msg_iov": [bytes(8)], "addr": peer},
    }


@ON_MODEL
@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("sendmsg", Msg),
        ("recvmsg", Msg),
        ("tsendmsg", TaggedMsg),
        ("trecvmsg", TaggedMsg),
        ("writemsg", RmaMsg),
        ("readmsg", RmaMsg),
        ("atomicmsg", AtomicMsg),
        ("fetch_atomicmsg", AtomicMsg),
        ("compare_atomicmsg", AtomicMsg),
    ],
)
def test_a_message_of_another_call_is_refused_and_nothing_is_posted(talkers, call, kind):
    one, other = talkers
    vectors = [[np.zeros(1, np.uint64)]] * ("fetch" in call) or [[np.zeros(1, np.uint64)]] * 2 * ("compare" in call)
    for other_kind, message in messages(one.peer).items():
        for flags in (OpFlags(0), OpFlags.FI_COMPLETION, DATA)[: 2 if "recv" in call else 3]:
            if other_kind is not kind:
                words = f"msg: expected {kind.__name__}, got {other_kind.__name__}"
                with pytest.raises(ArgumentTypeError, match=words):
                    getattr(one.endpoint, call)(message, *vectors, flags=flags)
    assert one.queue.read() == other.queue.read() == []


@ON_MODEL
@pytest.mark.parametrize(
    ("op_type", "op"),
    [
        (TriggerOp.FI_OP_SEND, lambda ep, peer: OpMsg(ep, TaggedMsg([b"1"], peer, 5))),
        (TriggerOp.FI_OP_TRECV, lambda ep, peer: OpTagged(ep, Msg([bytearray(1)], peer))),
        (TriggerOp.FI_OP_WRITE, lambda ep, peer: OpRma(ep, Msg([b"1"], peer))),
        (TriggerOp.FI_OP_WRITE, lambda ep, peer: OpRma(ep, None)),
    ],
)
def test_deferred_work_with_a_message_of_another_call_is_refused(talkers, keep, op_type, op):
    one, _ = talkers
    counter = keep(one.domain.cntr_open())
    with pytest.raises(ArgumentTypeError, match="msg: expected"):
        one.domain.queue_work(DeferredWork(1, counter, op_type, op(one.endpoint, one.peer)))


def test_an_atomic_read_ignores_its_operands(pair, target):
    client, (memory, region) = pair[0], target
    to = client.peer, region.address + 24, region.key
    for operands in (None, [], [np.full(2, 9, np.uint64)], "not looked at"):
        results = [np.zeros(1, np.uint64), np.zeros(1, np.uint64)]
        client.endpoint.fetch_atomicv(operands, results, *to, Op.FI_ATOMIC_READ)
        client.finish()
        assert [int(each[0]) for each in results] == [3, 4]
        message = AtomicMsg(operands, client.peer, [RmaIoc(to[1], 2, to[2])], Op.FI_ATOMIC_READ)
        results = [np.zeros(2, np.uint64)]
        client.endpoint.fetch_atomicmsg(message, results)
        client.finish()
        assert results[0].tolist() == [3, 4]
    assert memory.tolist() == list(range(64))


def test_an_atomic_read_needs_no_operands_by_the_calls_of_c(pair, target):
    client, (_, region) = pair[0], target
    result = np.zeros(1, np.uint64)
    fi.fi_fetch_atomicv(
        client.endpoint, None, None, 0, [result], None, 1, client.peer, region.address + 24, region.key,
        Datatype.FI_UINT64, Op.FI_ATOMIC_READ, None,
    )  # fmt: skip
    client.finish()
    assert result[0] == 3


@ON_MODEL
def test_other_atomics_need_their_operands(pair, target):
    client, (_, region) = pair[0], target
    to, results = (client.peer, region.address, region.key), [np.zeros(1, np.uint64)]
    for call in (
        lambda: client.endpoint.fetch_atomicv(None, results, *to, Op.FI_SUM),
        lambda: client.endpoint.atomicv(None, *to, Op.FI_SUM),
        lambda: client.endpoint.compare_atomicv(None, results, results, *to, Op.FI_CSWAP),
    ):
        with pytest.raises(ArgumentTypeError, match="iov: expected a sequence of buffers, got NoneType"):
            call()


def test_the_rows_of_an_array_are_a_vector(pair, target):
    client, (memory, region) = pair[0], target
    to = client.peer, region.address, region.key
    rows, results = np.ones((2, 3), np.uint64), np.zeros((3, 2), np.uint64)
    client.endpoint.atomicv(rows, *to, Op.FI_SUM)
    client.endpoint.fetch_atomicv(None, results, *to, Op.FI_ATOMIC_READ)
    client.queue.wait_for(2, timeout=30)
    assert memory[:7].tolist() == [1, 2, 3, 4, 5, 6, 6]
    assert results.reshape(-1).tolist() == [1, 2, 3, 4, 5, 6]


def test_a_compare_atomic_with_data_is_told_as_a_write_of_no_bytes(talkers, keep):
    """fi_atomic(3) knows no data of atomics; what fi_cq(3) says of a peer's write with data holds for this one."""
    one, other = talkers
    memory, found = keep(np.array([3], np.uint64)), np.zeros(1, np.uint64)
    region = keep(other.domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE))
    message = AtomicMsg(
        [np.array([5], np.uint64)], one.peer, [RmaIoc(region.address, 1, region.key)], Op.FI_CSWAP, data=77
    )
    one.endpoint.compare_atomicmsg(message, [np.array([3], np.uint64)], [found], flags=DATA)
    one.finish()
    entry = other.finish()
    assert (entry.flags, entry.len, entry.data) == (Caps.FI_RMA | Caps.FI_REMOTE_WRITE | DATA, 0, 77)
    assert (memory[0], found[0]) == (5, 3)


def test_data_is_told_although_an_earlier_segment_was_refused(talkers, keep):
    """The entry is of the last packet, as docs/libfabric.md says; the error says that not all were done."""
    one, other = talkers
    memory = keep(np.zeros(2, np.uint64))
    region = keep(other.domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE))
    segments = [RmaIov(region.address, 8, region.key ^ 1), RmaIov(region.address + 8, 8, region.key)]
    one.endpoint.writemsg(RmaMsg([np.array([1, 2], np.uint64)], one.peer, segments, data=77), DATA)
    assert one.failure().divided
    assert other.finish().data == 77
    assert memory.tolist() == [0, 2]
