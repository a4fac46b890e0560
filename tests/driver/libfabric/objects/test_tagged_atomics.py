"""Atomics on the buffers of tagged receives: FI_TAGGED of fi_atomic(3)."""

import numpy as np
import pytest
from amoeba import (
    AtomicMsg,
    Caps,
    CqTaggedEntry,
    Datatype,
    Errno,
    Op,
    OpFlags,
    QueryFlags,
    RmaIoc,
    open_cluster,
)
from amoeba_model.parameters import NicParameters

from tests.driver.endpoints import ON_MODEL, aligned, entries, idle, make_talkers, refused

TAGGED, DATA = OpFlags.FI_TAGGED, OpFlags.FI_REMOTE_CQ_DATA
NO_FLAGS = OpFlags(0)
TAG = 0xA70_0000_0000_0001
MET = Caps.FI_TAGGED | Caps.FI_ATOMIC | Caps.FI_RECV


def change(side, operands, op=Op.FI_SUM, *, offset=0, tag=TAG, flags=NO_FLAGS, **fields):
    """A tagged atomic of 64-bit numbers: a list of them, or of arrays."""
    arrays = operands if isinstance(operands[0], np.ndarray) else [np.array(operands, np.uint64)]
    count = sum(array.size for array in arrays)
    msg = AtomicMsg(arrays, side.peer, [RmaIoc(offset, count, tag)], op, **fields)
    side.endpoint.atomicmsg(msg, TAGGED | flags)


def fetch(side, operands, op=Op.FI_SUM, *, offset=0, tag=TAG, count=1):
    result = np.zeros(count, np.uint64)
    msg = AtomicMsg(
        [] if operands is None else [np.array(operands, np.uint64)],
        side.peer,
        [RmaIoc(offset, count, tag)],
        op,
        Datatype.FI_UINT64,
    )
    side.endpoint.fetch_atomicmsg(msg, [result], flags=TAGGED)
    return result


def test_an_atomic_changes_the_buffer_of_the_receive_and_ends_it(talkers):
    one, other = talkers
    memory = np.arange(8, dtype=np.uint64)
    other.endpoint.trecv(memory, TAG, context="box")
    idle(other, 3)
    change(one, [100, 200], offset=16, context="sum")
    assert one.finish() == CqTaggedEntry("sum", Caps.FI_ATOMIC | Caps.FI_WRITE, 16, 0, 0, 0)
    assert other.queue.sreadfrom(timeout=30) == [(CqTaggedEntry("box", MET, 16, 0, 0, TAG), other.peer)]
    assert list(memory) == [0, 1, 102, 203, 4, 5, 6, 7]
    assert other.endpoint.rx_size_left == 64
    change(one, [1])
    assert one.failure().err == Errno.FI_ENORX


@ON_MODEL
def test_an_atomic_brings_data(talkers):
    one, other = talkers
    other.endpoint.trecv(np.zeros(1, np.uint64), TAG)
    idle(other, 3)
    change(one, [1], flags=DATA, data=0xDA7A)
    assert other.finish() == CqTaggedEntry(None, MET | Caps.FI_REMOTE_CQ_DATA, 8, 0, 0xDA7A, TAG)


@ON_MODEL
def test_fetching_atomics_bring_what_was_there(talkers):
    one, other = talkers
    memory = np.array([5, 6], np.uint64)
    for operands, op, expected, after in (
        ([10], Op.FI_SUM, 6, 16),
        ([3], Op.FI_ATOMIC_WRITE, 16, 3),
        (None, Op.FI_ATOMIC_READ, 3, 3),
        ([4], Op.FI_MAX, 3, 4),
    ):
        other.endpoint.trecv(memory, TAG, 0xFF)
        idle(other, 3)
        result = fetch(one, operands, op, offset=8)
        assert one.finish().flags == Caps.FI_ATOMIC | Caps.FI_READ
        other.finish()
        assert (result[0], memory[0], memory[1]) == (expected, 5, after)


@ON_MODEL
def test_each_atomic_meets_the_oldest_receive_with_its_tag(talkers):
    one, other = talkers
    memories = [np.zeros(1, np.uint64) for _ in range(4)]
    for memory, tag in zip(memories, (1, 2, 1, 2), strict=True):
        other.endpoint.trecv(memory, tag, context=tag)
    idle(other, 3)
    for value, tag in ((10, 2), (20, 1), (30, 2)):
        change(one, [value], tag=tag)
    assert [entry.op_context for entry in entries(other.queue, 3)] == [2, 1, 2]
    assert [int(memory[0]) for memory in memories] == [20, 10, 0, 30]


@ON_MODEL
def test_without_a_receive_an_atomic_fails_and_none_waits_for_one(talkers):
    one, other = talkers
    other.endpoint.recv(bytearray(8))  # untagged
    other.endpoint.trecv(bytearray(8), TAG + 1)
    idle(other, 3)
    change(one, [1], context="early")
    failure = one.failure()
    assert (failure.op_context, failure.err) == ("early", Errno.FI_ENORX)
    assert failure.flags == Caps.FI_ATOMIC | Caps.FI_WRITE
    assert one.queue.strerror(failure.prov_errno) == "no match"
    memory = bytearray(8)
    other.endpoint.trecv(memory, TAG)
    assert idle(other) == []
    assert memory == bytes(8)


@ON_MODEL
@pytest.mark.parametrize(("offset", "count"), [(8, 2), (16, 1), (9, 1), (2**64 - 8, 1), (2**63, 1)])
def test_an_atomic_beyond_the_buffer_fails_and_the_receive_stays(talkers, offset, count):
    one, other = talkers
    memory = bytearray(16)
    other.endpoint.trecv(memory, TAG)
    idle(other, 3)
    change(one, [255] * count, offset=offset)
    assert one.failure().err == Errno.FI_EINVAL
    assert memory == bytes(16)
    change(one, [7], offset=8)
    other.finish()
    assert memory == bytes(8) + b"\7" + bytes(7)


@ON_MODEL
def test_scattered_operands_meet_a_scattered_buffer(talkers):
    """The atomic computes with the contents that the buffers had when they were posted."""
    one, other = talkers
    parts = [np.array([1], np.uint64), np.array([2, 3], np.uint64), np.array([4], np.uint64)]
    other.endpoint.trecvv(parts, TAG)
    idle(other, 3)
    change(one, [np.array([10], np.uint64), np.array([20], np.uint64)], offset=8)
    assert other.finish().len == 16
    assert [list(part) for part in parts] == [[1], [12, 23], [4]]


@ON_MODEL
def test_an_atomic_ends_a_buffer_for_several_messages(talkers):
    one, other = talkers
    memory = np.frombuffer(aligned(128), np.uint64)
    other.endpoint.trecv(memory, TAG, flags=OpFlags.FI_MULTI_RECV, context="pool")
    one.endpoint.tinject(b"\1", one.peer, TAG)
    assert other.finish().flags == Caps.FI_TAGGED | Caps.FI_RECV
    change(one, [0x100], offset=8)  # counts from where the next message would lie
    entry = other.finish()
    assert (entry.op_context, entry.flags, entry.len) == ("pool", MET | Caps.FI_MULTI_RECV, 8)
    assert {index: value for index, value in enumerate(memory) if value} == {0: 1, 9: 0x100}


@ON_MODEL
def test_most_elements_are_those_of_a_packet(talkers):
    one, other = talkers
    most = one.domain.query_atomic(Datatype.FI_UINT64, Op.FI_SUM, QueryFlags.FI_TAGGED)
    assert (most.count, most.size) == (512, 8)
    assert (
        one.domain.query_atomic(
            Datatype.FI_DOUBLE_COMPLEX, Op.FI_PROD, QueryFlags.FI_TAGGED | QueryFlags.FI_FETCH_ATOMIC
        ).count
        == 256
    )
    memory = np.zeros(513, np.uint64)
    other.endpoint.trecv(memory, TAG)
    idle(other, 3)
    with refused(Errno.FI_EMSGSIZE, "at most 4096 bytes, got 4104"):
        change(one, [1] * 513)
    change(one, list(range(512)), offset=8)
    other.finish()
    assert list(memory) == [0, *range(512)]


@ON_MODEL
def test_there_is_no_compare_form(talkers):
    one, _ = talkers
    with refused(Errno.FI_EOPNOTSUPP):
        one.domain.query_atomic(Datatype.FI_UINT64, Op.FI_CSWAP, QueryFlags.FI_TAGGED | QueryFlags.FI_COMPARE_ATOMIC)
    word = np.zeros(1, np.uint64)
    msg = AtomicMsg([word], one.peer, [RmaIoc(0, 1, TAG)], Op.FI_CSWAP)
    with refused(Errno.FI_EOPNOTSUPP, "no compare form"):
        one.endpoint.compare_atomicmsg(msg, [word], [word.copy()], flags=TAGGED)


@ON_MODEL
def test_one_segment_and_one_result_are_what_a_tagged_atomic_has(talkers):
    one, _ = talkers
    two = np.zeros(2, np.uint64)
    apart = AtomicMsg([two], one.peer, [RmaIoc(0, 1, TAG), RmaIoc(8, 1, TAG)], Op.FI_SUM)
    with refused(Errno.FI_EINVAL, "one segment"):
        one.endpoint.atomicmsg(apart, TAGGED)
    whole = AtomicMsg([two], one.peer, [RmaIoc(0, 2, TAG)], Op.FI_SUM)
    with refused(Errno.FI_EINVAL, "one buffer for results"):
        one.endpoint.fetch_atomicmsg(whole, [two[:1].copy(), two[1:].copy()], flags=TAGGED)
    with refused(Errno.FI_EBADFLAGS):
        one.endpoint.atomic(two, one.peer, 0, TAG, Op.FI_SUM, flags=TAGGED)
    assert one.endpoint.tx_size_left == 64


def test_what_a_nic_does_not_execute_is_not_posted():
    with open_cluster(parameters=NicParameters(ops=(Op.FI_MIN,), datatypes=(Datatype.FI_UINT64,))) as fabric:
        one, other = make_talkers(fabric)
        with refused(Errno.FI_EOPNOTSUPP):
            change(one, [1], Op.FI_SUM)
        with refused(Errno.FI_EOPNOTSUPP):
            one.domain.query_atomic(Datatype.FI_UINT64, Op.FI_SUM, QueryFlags.FI_TAGGED)
        memory = np.array([9], np.uint64)
        other.endpoint.trecv(memory, TAG)
        idle(other, 3)
        change(one, [1], Op.FI_MIN)
        other.finish()
        assert memory[0] == 1
