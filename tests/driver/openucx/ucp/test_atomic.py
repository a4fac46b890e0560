"""Atomics: UCX's test_ucp_atomic, with a CSWAP that succeeds, and what the header guarantees of each call.

Covers ``openucx/ucp/calls/atomics.py`` and ``openucx/ucp/atomic_operations.py``.
"""

import random

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.impairments import Impairments

from tests.driver.openucx.ucp.entities import ALL_FEATURES, Entity, finish
from tests.driver.openucx.ucp.memheap import flush, guards, memheap

OK = ucp.UcsStatus.UCS_OK
SIZES = (4, 8)
POST = {
    ucp.UCP_ATOMIC_POST_OP_ADD: lambda was, value: was + value,
    ucp.UCP_ATOMIC_POST_OP_AND: lambda was, value: was & value,
    ucp.UCP_ATOMIC_POST_OP_OR: lambda was, value: was | value,
    ucp.UCP_ATOMIC_POST_OP_XOR: lambda was, value: was ^ value,
}
FETCH = {
    ucp.UCP_ATOMIC_FETCH_OP_FADD: POST[ucp.UCP_ATOMIC_POST_OP_ADD],
    ucp.UCP_ATOMIC_FETCH_OP_SWAP: lambda was, value: value,
    ucp.UCP_ATOMIC_FETCH_OP_FAND: POST[ucp.UCP_ATOMIC_POST_OP_AND],
    ucp.UCP_ATOMIC_FETCH_OP_FOR: POST[ucp.UCP_ATOMIC_POST_OP_OR],
    ucp.UCP_ATOMIC_FETCH_OP_FXOR: POST[ucp.UCP_ATOMIC_POST_OP_XOR],
}
OPS = {
    ucp.UCP_ATOMIC_OP_ADD: POST[ucp.UCP_ATOMIC_POST_OP_ADD],
    ucp.UCP_ATOMIC_OP_SWAP: FETCH[ucp.UCP_ATOMIC_FETCH_OP_SWAP],
    ucp.UCP_ATOMIC_OP_AND: POST[ucp.UCP_ATOMIC_POST_OP_AND],
    ucp.UCP_ATOMIC_OP_OR: POST[ucp.UCP_ATOMIC_POST_OP_OR],
    ucp.UCP_ATOMIC_OP_XOR: POST[ucp.UCP_ATOMIC_POST_OP_XOR],
}


def number(heap, offset, size):
    return int.from_bytes(heap.bytes[offset : offset + size].tobytes(), "little")


def put_number(heap, offset, size, value):
    heap.bytes[offset : offset + size] = np.frombuffer(value.to_bytes(size, "little"), np.uint8)


def param(size, reply=None, **more):
    return ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_contig(size), reply_buffer=reply, **more)


@pytest.fixture
def near(models):
    """(sender, receiver) on two models."""
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    return sender, receiver


@pytest.mark.full_build
@pytest.mark.parametrize("size", SIZES)
def test_post(pair, size):
    sender, receiver = pair
    heap, chance = memheap(receiver, sender, 64), random.Random(size)
    end = 1 << 8 * size
    for by, (op, result) in zip(("endpoint", "worker") * 2, POST.items(), strict=True):
        expected = number(heap, 16, size)
        for _ in range(6):
            value = chance.getrandbits(64)  # of which 4 bytes count if there are 4
            assert ucp.ucp_atomic_post(sender.ep, op, value, size, heap.address + 16, heap.rkey) is OK
            expected = result(expected, value % end) % end
        assert flush(sender, by) == OK
        assert number(heap, 16, size) == expected, op
    assert guards(heap, 16, 16 + size)


@pytest.mark.full_build
@pytest.mark.parametrize("size", SIZES)
def test_fetch(pair, size):
    sender, receiver = pair
    heap, chance = memheap(receiver, sender, 64), random.Random(size)
    end, reply = 1 << 8 * size, bytearray(size)
    for op, result in FETCH.items():
        was, value = number(heap, 24, size), chance.getrandbits(8 * size)
        request = ucp.ucp_atomic_fetch_nb(sender.ep, op, value, reply, size, heap.address + 24, heap.rkey, None)
        assert finish(request, sender) == OK
        assert int.from_bytes(reply, "little") == was, op
        assert number(heap, 24, size) == result(was, value) % end, op
    for equal in (True, False):
        was, swap = number(heap, 24, size), chance.getrandbits(8 * size)
        reply[:] = swap.to_bytes(size, "little")
        compare = was if equal else was ^ 1
        request = ucp.ucp_atomic_fetch_nb(
            sender.ep, ucp.UCP_ATOMIC_FETCH_OP_CSWAP, compare, reply, size, heap.address + 24, heap.rkey, None
        )
        assert finish(request, sender) == OK
        assert int.from_bytes(reply, "little") == was
        assert number(heap, 24, size) == (swap if equal else was)
    assert guards(heap, 24, 24 + size)


@pytest.mark.parametrize("size", SIZES)
def test_misaligned_post(near, size):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    place = heap.address + 16
    for by in {1, 2, size // 2, size - 1}:
        calls = (
            lambda to: ucp.ucp_atomic_post(sender.ep, ucp.UCP_ATOMIC_POST_OP_ADD, 1, size, to, heap.rkey),
            lambda to: ucp.ucp_atomic_fetch_nb(sender.ep, 0, 1, bytearray(size), size, to, heap.rkey, None),
            lambda to: ucp.ucp_atomic_op_nbx(sender.ep, 0, bytes(size), 1, to, heap.rkey, param(size)),
        )
        for call in calls:
            with pytest.raises(ucp.UcsInvalidParamError, match="multiple"):
                call(place + by)
    assert flush(sender, "worker") == OK
    assert guards(heap, 0, 0)


@pytest.mark.parametrize("size", SIZES)
def test_nbx_posts_without_a_reply_buffer_and_fetches_with_one(near, size):
    sender, receiver = near
    heap, chance, heard = memheap(receiver, sender, 64), random.Random(size), []
    end = 1 << 8 * size
    for op, result in OPS.items():
        value = chance.getrandbits(8 * size)
        operand, reply = bytearray(value.to_bytes(size, "little")), bytearray(size)
        was = number(heap, 8, size)
        if op != ucp.UCP_ATOMIC_OP_SWAP:
            given = param(size, cb=lambda *told: heard.append(told))
            assert ucp.ucp_atomic_op_nbx(sender.ep, op, operand, 1, heap.address + 8, heap.rkey, given) is None
            operand[:] = bytes(size)  # it has been copied
            assert flush(sender, "endpoint") == OK
            assert number(heap, 8, size) == result(was, value) % end, op
            operand[:] = value.to_bytes(size, "little")
            was = number(heap, 8, size)
        request = ucp.ucp_atomic_op_nbx(
            sender.ep,
            op,
            operand,
            1,
            heap.address + 8,
            heap.rkey,
            param(size, reply, cb=lambda *told: heard.append(told)),
        )
        operand[:] = bytes(size)
        assert finish(request, sender) == OK
        assert heard == [(request, OK, None)], "posts call nobody"
        heard.clear()
        assert int.from_bytes(reply, "little") == was
        assert number(heap, 8, size) == result(was, value) % end, op
    assert guards(heap, 8, 8 + size)


@pytest.mark.full_build
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("equal", [True, False])
def test_nbx_swaps_in_what_the_reply_buffer_held_if_the_buffer_is_equal(pair, size, equal):
    sender, receiver = pair
    heap = memheap(receiver, sender, 64)
    was, swap = number(heap, 32, size), 0x1122_3344_5566_7788 % (1 << 8 * size)
    reply = np.frombuffer(swap.to_bytes(size, "little"), np.uint8).copy()
    compare = (was if equal else was - 1).to_bytes(size, "little")
    request = ucp.ucp_atomic_op_nbx(
        sender.ep, ucp.UCP_ATOMIC_OP_CSWAP, compare, 1, heap.address + 32, heap.rkey, param(size, reply)
    )
    assert finish(request, sender) == OK
    assert int.from_bytes(reply.tobytes(), "little") == was
    assert number(heap, 32, size) == (swap if equal else was)
    assert guards(heap, 32, 32 + size)


@pytest.mark.parametrize("size", SIZES)
def test_blocking_calls_return_what_was_there(near, size):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    end = 1 << 8 * size
    add, fadd, swap, cswap = (
        getattr(ucp, f"ucp_atomic_{name}{8 * size}") for name in ("add", "fadd", "swap", "cswap")
    )
    put_number(heap, 0, size, 5)
    assert add(sender.ep, end - 1, heap.address, heap.rkey) is None
    assert fadd(sender.ep, 10, heap.address, heap.rkey) == 4, "numbers wrap"
    assert swap(sender.ep, 99, heap.address, heap.rkey) == 14
    assert cswap(sender.ep, 99, 7, heap.address, heap.rkey) == 99
    assert cswap(sender.ep, 99, 8, heap.address, heap.rkey) == 7
    assert number(heap, 0, size) == 7
    with pytest.raises(ucp.UcsInvalidParamError):
        fadd(sender.ep, end, heap.address, heap.rkey)
    assert guards(heap, 0, size)


def test_every_numbering_has_its_own_table(near):
    """The same number means AND to one call, SWAP to the others; casting one to another would show here."""
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    expected = {1: (0x0F & 0x3C, 0x3C, 0x3C), 3: (0x0F ^ 0x3C, 0x0F & 0x3C, 0x0F & 0x3C)}
    for opcode, results in expected.items():
        put_number(heap, 0, 8, 0x0F), put_number(heap, 8, 8, 0x0F), put_number(heap, 16, 8, 0x0F)
        ucp.ucp_atomic_post(sender.ep, opcode, 0x3C, 8, heap.address, heap.rkey)
        ucp.ucp_atomic_fetch_nb(sender.ep, opcode, 0x3C, bytearray(8), 8, heap.address + 8, heap.rkey, None)
        operand = (0x3C).to_bytes(8, "little")
        ucp.ucp_atomic_op_nbx(sender.ep, opcode, operand, 1, heap.address + 16, heap.rkey, param(8, bytearray(8)))
        assert flush(sender, "worker") == OK
        assert tuple(number(heap, place, 8) for place in (0, 8, 16)) == results, opcode


def test_a_post_that_asks_for_a_request_gets_one(near):
    sender, receiver = near
    heap, heard = memheap(receiver, sender, 64), []
    mask = ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
    given = param(8, op_attr_mask=mask, cb=lambda *told: heard.append(told), user_data=3)
    request = ucp.ucp_atomic_op_nbx(sender.ep, 0, bytes([1] + [0] * 7), 1, heap.address, heap.rkey, given)
    assert finish(request, sender) == OK
    assert heard == [(request, OK, 3)]
    assert number(heap, 0, 8) == 0xA5A5_A5A5_A5A5_A5A6


def test_at_once_or_not_at_all(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    mask = ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
    one = bytes([1] + [0] * 7)
    assert ucp.ucp_atomic_op_nbx(sender.ep, 0, one, 1, heap.address, heap.rkey, param(8, op_attr_mask=mask)) is None
    with pytest.raises(ucp.UcsNoResourceError):
        ucp.ucp_atomic_op_nbx(
            sender.ep, 0, one, 1, heap.address, heap.rkey, param(8, bytearray(8), op_attr_mask=mask)
        )
    assert flush(sender, "endpoint") == OK
    assert number(heap, 0, 8) == 0xA5A5_A5A5_A5A5_A5A6


def test_two_workers_that_count_the_same_number_lose_nothing(near):
    sender, receiver = near
    heap, other = memheap(receiver, sender, 64), Entity(sender.adapter)
    other.connect(receiver)
    key = ucp.ucp_ep_rkey_unpack(other.ep, ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    put_number(heap, 0, 8, 0)
    seen = []
    for _ in range(100):
        for entity, rkey in ((sender, heap.rkey), (other, key)):
            reply = bytearray(8)
            ucp.ucp_atomic_fetch_nb(entity.ep, 0, 1, reply, 8, heap.address, rkey, None)
            seen.append(reply)
    assert (flush(sender, "worker"), flush(other, "worker")) == (OK, OK)
    assert sorted(int.from_bytes(reply, "little") for reply in seen) == list(range(200))
    key.close()


def test_atomics_are_executed_once_whatever_the_network_does():
    impairments = Impairments(seed=3, loss=0.02, duplication=0.02, reordering=0.02, corruption=0.02)
    with open_adapters(impairments=impairments) as adapters:
        sender, receiver = Entity(adapters[0]), Entity(adapters[1])
        sender.connect(receiver)
        heap = memheap(receiver, sender, 64)
        put_number(heap, 0, 8, 0)
        replies = [bytearray(8) for _ in range(300)]
        for reply in replies:
            ucp.ucp_atomic_fetch_nb(sender.ep, 0, 3, reply, 8, heap.address, heap.rkey, None)
            ucp.ucp_atomic_post(sender.ep, ucp.UCP_ATOMIC_POST_OP_ADD, 4, 8, heap.address, heap.rkey)
        assert flush(sender, "worker") == OK
        assert number(heap, 0, 8) == 2100
        assert [int.from_bytes(reply, "little") for reply in replies] == list(range(0, 2100, 7))


def test_a_wrong_argument_is_refused_and_nothing_is_sent(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    post = {
        "ep": sender.ep, "opcode": 0, "value": 1, "op_size": 8, "remote_addr": heap.address, "rkey": heap.rkey,
    }  # fmt: skip
    for change in (
        {"ep": None}, {"opcode": 4}, {"opcode": -1}, {"opcode": "ADD"}, {"opcode": []}, {"value": -1},
        {"value": 2**64}, {"value": 1.5}, {"op_size": 2}, {"op_size": 16}, {"op_size": 0}, {"op_size": None},
        {"remote_addr": -8}, {"remote_addr": 2**64}, {"rkey": None}, {"rkey": sender.ep},
    ):  # fmt: skip
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_atomic_post(*(post | change).values())
    fetch = {
        "ep": sender.ep, "opcode": 0, "value": 1, "result": bytearray(8), "op_size": 8, "remote_addr": heap.address,
        "rkey": heap.rkey, "cb": None,
    }  # fmt: skip
    for change in (
        {"opcode": 6}, {"result": None}, {"result": bytes(8)}, {"result": bytearray(7)}, {"result": 5}, {"cb": 5},
        {"op_size": 1}, {"value": None}, {"rkey": 0},
    ):  # fmt: skip
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_atomic_fetch_nb(*(fetch | change).values())
    nbx = {
        "ep": sender.ep, "opcode": 0, "buffer": bytes(8), "count": 1, "remote_addr": heap.address, "rkey": heap.rkey,
        "param": param(8),
    }  # fmt: skip
    for change in (
        {"opcode": 6}, {"count": 0}, {"count": 2}, {"count": None}, {"buffer": None}, {"buffer": bytes(4)},
        {"param": None}, {"param": ucp.ucp_request_param_t()}, {"param": param(2)}, {"param": param(16)},
        {"param": ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_iov())}, {"param": param(8, bytes(8))},
        {"param": param(8, bytearray(4))}, {"opcode": ucp.UCP_ATOMIC_OP_SWAP}, {"opcode": ucp.UCP_ATOMIC_OP_CSWAP},
    ):  # fmt: skip
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_atomic_op_nbx(*(nbx | change).values())
    assert ucp.ucp_worker_flush_nbx(sender.worker) is None
    assert guards(heap, 0, 0)


@pytest.mark.parametrize(("feature", "size"), [(ucp.UCP_FEATURE_AMO32, 4), (ucp.UCP_FEATURE_AMO64, 8)])
def test_each_size_has_a_feature_of_its_own(models, feature, size):
    sender, receiver = Entity(models[0], ALL_FEATURES & ~feature), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 64)
    other = 12 - size
    assert ucp.ucp_atomic_post(sender.ep, 0, 1, other, heap.address, heap.rkey) == OK
    for call in (
        lambda: ucp.ucp_atomic_post(sender.ep, 0, 1, size, heap.address, heap.rkey),
        lambda: ucp.ucp_atomic_fetch_nb(sender.ep, 0, 1, bytearray(size), size, heap.address, heap.rkey, None),
        lambda: ucp.ucp_atomic_op_nbx(sender.ep, 0, bytes(size), 1, heap.address, heap.rkey, param(size)),
    ):
        with pytest.raises(ucp.UcsInvalidParamError, match=r"FEATURE_AMO"):
            call()
    assert flush(sender, "worker") == OK
