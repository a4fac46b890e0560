"""Put and get: UCX's test_ucp_rma, and what the header guarantees of each call.

Covers ``openucx/ucp/memory_operations.py``, ``openucx/ucp/calls/rma.py`` and ``openucx/ucp/calls/blocking.py``.
"""

import gc
import random

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.impairments import Impairments

from tests.driver.openucx.ucp.entities import ALL_FEATURES, Entity, finish, keep, wait_for
from tests.driver.openucx.ucp.memheap import KINDS, flush, guards, memheap, noise

NO_IMMEDIATE = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL)
FORCED = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
SIZES = (1, 4, 8, 9, 63, 64, 65, 1000, 4096, 4097, 20_000)
OFFSETS = (0, 64, 3)
OK, IN_PROGRESS = ucp.UcsStatus.UCS_OK, ucp.UcsStatus.UCS_INPROGRESS


@pytest.mark.parametrize("by", ["endpoint", "worker"])
def test_put_blocking(pair, by):
    sender, receiver = pair
    heap = memheap(receiver, sender, 32_768)
    for size, offset in zip(SIZES, OFFSETS * 4, strict=False):
        data = noise(size)
        heap.bytes[:] = 0xA5
        request = ucp.ucp_put_nbx(sender.ep, data, size, heap.address + offset, heap.rkey)
        assert finish(request, sender) == OK
        assert flush(sender, by) == OK
        assert heap.bytes[offset : offset + size].tobytes() == data.tobytes(), size
        assert guards(heap, offset, offset + size), size


@pytest.mark.parametrize("kind", KINDS)
def test_put_nonblocking(pair, kind):
    sender, receiver = pair
    heap = memheap(receiver, sender, 40_000, **KINDS[kind])
    expected, kept = heap.bytes.copy(), []
    for number in range(60):
        size = SIZES[number % len(SIZES)]
        offset, data = number * 331 % (40_000 - size), noise(size)
        status = ucp.ucp_put_nbi(sender.ep, data, size, heap.address + offset, heap.rkey)
        assert status == (OK if size <= 64 else IN_PROGRESS)
        expected[offset : offset + size] = data
        if status == OK:
            data[:] = 0  # it has been copied
        kept.append(data)
    assert flush(sender, "endpoint") == OK
    assert heap.bytes.tobytes() == expected.tobytes()


def test_get_blocking(pair):
    sender, receiver = pair
    heap = memheap(receiver, sender, 32_768)
    heap.bytes[:] = noise(32_768)
    for size, offset in zip(SIZES, OFFSETS * 4, strict=False):
        into = np.full(size + 2, 0xA5, np.uint8)
        request = ucp.ucp_get_nbx(sender.ep, into[1:-1], size, heap.address + offset, heap.rkey)
        assert request is not None
        assert finish(request, sender) == OK
        assert into[1:-1].tobytes() == heap.bytes[offset : offset + size].tobytes()
        assert into[0] == into[-1] == 0xA5


def test_get_nonblocking(pair):
    sender, receiver = pair
    heap = memheap(receiver, sender, 40_000)
    heap.bytes[:] = noise(40_000)
    into = []
    for number in range(40):
        size = SIZES[number % len(SIZES)]
        offset = number * 331 % (40_000 - size)
        buffer = bytearray(size)
        assert ucp.ucp_get_nbi(sender.ep, buffer, size, heap.address + offset, heap.rkey) == IN_PROGRESS
        into.append((buffer, offset))
    assert flush(sender, "worker") == OK
    for buffer, offset in into:
        assert buffer == heap.bytes[offset : offset + len(buffer)].tobytes()


def pieces_of(data, seed):
    """The same bytes as an IOV: cut anywhere, with empty entries."""
    chance, cuts = random.Random(seed), [0, len(data)]
    cuts += [chance.randrange(len(data) + 1) for _ in range(chance.choice((1, 3, 90)))]
    entries = [ucp.ucp_dt_iov_t(data[a:b], b - a) for a, b in zip(sorted(cuts), sorted(cuts)[1:], strict=False)]
    return [ucp.ucp_dt_iov_t(None, 0), *entries]


@pytest.mark.parametrize("size", [5, 64, 4000])
def test_put_nonblocking_iov_zcopy(pair, size):
    sender, receiver = pair
    heap, data = memheap(receiver, sender, 8192), noise(size)
    iov = pieces_of(data, size)
    param = ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_iov())
    request = ucp.ucp_put_nbx(sender.ep, iov, len(iov), heap.address + 7, heap.rkey, param)
    assert (request is None) is (size <= 64)
    assert finish(request, sender) == OK
    assert flush(sender, "endpoint") == OK
    assert heap.bytes[7 : 7 + size].tobytes() == data.tobytes()
    assert guards(heap, 7, 7 + size)


@pytest.mark.parametrize("size", [5, 4000])
def test_get_nonblocking_iov_zcopy(pair, size):
    sender, receiver = pair
    heap, into = memheap(receiver, sender, 8192), bytearray(size)
    heap.bytes[:] = noise(8192)
    iov = pieces_of(memoryview(into), size)
    param = ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_iov())
    assert finish(ucp.ucp_get_nbx(sender.ep, iov, len(iov), heap.address + 9, heap.rkey, param), sender) == OK
    assert into == heap.bytes[9 : 9 + size].tobytes()


@pytest.mark.parametrize("seed", [1, 2])
def test_puts_and_gets_arrive_whatever_the_network_does(seed):
    impairments = Impairments(seed=seed, loss=0.02, duplication=0.02, reordering=0.02, corruption=0.02)
    with open_adapters(impairments=impairments) as adapters:
        sender, receiver = Entity(adapters[0]), Entity(adapters[1])
        sender.connect(receiver)
        heap, chance = memheap(receiver, sender, 100_000), random.Random(seed)
        expected, reads = heap.bytes.copy(), []
        for _ in range(300):
            size = chance.choice(SIZES)
            offset = chance.randrange(100_000 - size)
            if chance.random() < 0.6:
                data = noise(size).tobytes()
                ucp.ucp_put_nbi(sender.ep, data, size, heap.address + offset, heap.rkey)
                expected[offset : offset + size] = np.frombuffer(data, np.uint8)
            else:
                into = bytearray(size)
                ucp.ucp_get_nbi(sender.ep, into, size, heap.address + offset, heap.rkey)
                reads.append((into, expected[offset : offset + size].tobytes()))
        assert flush(sender, "worker") == OK, f"seed {seed}"
        assert heap.bytes.tobytes() == expected.tobytes(), f"seed {seed}"
        # one lane is in order, so that each get sees the puts before it
        assert all(into == seen for into, seen in reads), f"seed {seed}"


# Requests and callbacks


def test_a_callback_is_notified_of_the_end_once_with_its_user_data(pair):
    sender, receiver = pair
    heap, heard = memheap(receiver, sender, 4096), []
    param = ucp.ucp_request_param_t(cb=lambda *told: heard.append(told), user_data="mine")
    request = ucp.ucp_put_nbx(sender.ep, bytes(1000), 1000, heap.address, heap.rkey, param)
    assert not heard
    assert finish(request, sender) == OK
    assert heard == [(request, OK, "mine")]
    older = ucp.ucp_get_nb(sender.ep, bytearray(8), 8, heap.address, heap.rkey, lambda *told: heard.append(told))
    assert finish(older, sender) == OK
    assert heard[1:] == [(older, OK)]


def test_a_small_put_is_over_at_once_and_calls_nobody(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap, heard = memheap(receiver, sender, 4096), []
    param = ucp.ucp_request_param_t(cb=lambda *told: heard.append(told))
    for size in (1, 8, 64):
        assert ucp.ucp_put_nbx(sender.ep, bytes(size), size, heap.address, heap.rkey, param) is None
        assert ucp.ucp_put_nb(sender.ep, bytes(size), size, heap.address, heap.rkey, heard.append) is None
    assert flush(sender, "endpoint") == OK
    assert not heard


@pytest.mark.parametrize("size", [0, 8, 64, 65])
def test_without_immediate_completion_there_is_always_a_request_and_a_callback(models, size):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap, heard = memheap(receiver, sender, 4096), []
    param = ucp.ucp_request_param_t(
        op_attr_mask=ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        cb=lambda request, status, data: heard.append((request, status)),
    )
    put = ucp.ucp_put_nbx(sender.ep, bytes(size), size, heap.address, heap.rkey, param)
    got = ucp.ucp_get_nbx(sender.ep, bytearray(size), size, heap.address, heap.rkey, param)
    finish(put, sender), finish(got, sender)
    assert heard == [(put, OK), (got, OK)]


def test_a_put_that_must_be_over_at_once_is_copied_or_refused(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 4096)
    assert ucp.ucp_put_nbx(sender.ep, bytes(64), 64, heap.address, heap.rkey, FORCED) is None
    with pytest.raises(ucp.UcsNoResourceError):
        ucp.ucp_put_nbx(sender.ep, bytes(65), 65, heap.address + 1000, heap.rkey, FORCED)
    with pytest.raises(ucp.UcsNoResourceError):
        ucp.ucp_get_nbx(sender.ep, bytearray(1), 1, heap.address, heap.rkey, FORCED)
    assert ucp.ucp_get_nbx(sender.ep, None, 0, heap.address, heap.rkey, FORCED) is None
    fast = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_FAST_CMPL | ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
    data = bytearray(noise(1000))
    expected = bytes(data)
    assert ucp.ucp_put_nbx(sender.ep, data, 1000, heap.address + 2000, heap.rkey, fast) is None
    data[:] = bytes(1000)
    assert flush(sender, "endpoint") == OK
    assert heap.bytes[2000:3000].tobytes() == expected
    assert guards(heap, 0, 3000)
    assert (heap.bytes[64:2000] == 0xA5).all()


def test_many_puts_wait_for_the_doorbell_of_the_next_progress_or_flush(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 4096)
    many = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_MULTI_SEND)
    for index in range(100):
        ucp.ucp_put_nbx(sender.ep, bytes([index]), 1, heap.address + index, heap.rkey, many)
    assert flush(sender, "worker") == OK
    assert heap.bytes[:100].tolist() == list(range(100))


def test_what_a_callback_raises_comes_out_of_progress_and_nothing_is_lost(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 4096)

    def fail(*told):
        raise ZeroDivisionError

    first = ucp.ucp_put_nb(sender.ep, bytes(100), 100, heap.address, heap.rkey, fail)
    second = ucp.ucp_put_nb(sender.ep, bytes(100), 100, heap.address, heap.rkey, None)
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: first.done and second.done, sender)
    assert first.done
    assert finish(second, sender) == OK
    assert flush(sender, "endpoint") == OK


def test_callbacks_may_post_but_not_wait(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap, raised, posted = memheap(receiver, sender, 4096), [], []

    def called(request, status):
        calls = (
            lambda: ucp.ucp_put(sender.ep, bytes(100), 100, heap.address + 1000, heap.rkey),
            lambda: ucp.ucp_get(sender.ep, bytearray(1), 1, heap.address, heap.rkey),
            lambda: ucp.ucp_atomic_fadd64(sender.ep, 1, heap.address, heap.rkey),
            lambda: ucp.ucp_ep_flush(sender.ep),
            lambda: ucp.ucp_worker_flush(sender.worker),
        )
        for call in calls:
            with pytest.raises(ucp.UcsInvalidParamError, match="callback"):
                call()
            raised.append(call)
        posted.append(ucp.ucp_put_nb(sender.ep, b"x" * 100, 100, heap.address, heap.rkey, None))

    finish(ucp.ucp_put_nb(sender.ep, bytes(100), 100, heap.address, heap.rkey, called), sender)
    assert len(raised) == 5
    assert finish(posted[0], sender) == OK
    assert heap.bytes[:100].tobytes() == b"x" * 100
    assert guards(heap, 0, 100)


def test_a_buffer_stays_alive_until_the_end(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap, data = memheap(receiver, sender, 8192), noise(5000)
    ucp.ucp_put_nbi(sender.ep, data.copy(), 5000, heap.address, heap.rkey)
    request = ucp.ucp_get_nbx(sender.ep, memoryview(bytearray(5000)), 5000, heap.address, heap.rkey)
    gc.collect()
    assert flush(sender, "endpoint") == OK
    assert request.done
    assert heap.bytes[:5000].tobytes() == data.tobytes()


def test_more_operations_than_the_ring_holds_wait_for_their_turn(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 64_000)
    expected = heap.bytes.copy()
    for index in range(6000):
        data = bytes([index % 251]) * (index % 70 + 1)
        offset = index * 37 % 63_900
        ucp.ucp_put_nbi(sender.ep, data, len(data), heap.address + offset, heap.rkey)
        expected[offset : offset + len(data)] = data[0]
    got = bytearray(64_000)
    request = ucp.ucp_get_nbx(sender.ep, got, 64_000, heap.address, heap.rkey)
    assert finish(request, sender) == OK
    assert got == expected.tobytes()


def test_blocking_calls_return_when_they_are_over(pair):
    sender, receiver = pair
    heap, data, into = memheap(receiver, sender, 4096), noise(3000).tobytes(), bytearray(3000)
    ucp.ucp_put(sender.ep, data, 3000, heap.address + 5, heap.rkey)
    assert heap.bytes[5:3005].tobytes() == data
    ucp.ucp_get(sender.ep, into, 3000, heap.address + 5, heap.rkey)
    assert into == data


def test_elements_of_any_size_are_counted(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap, data = memheap(receiver, sender, 4096), noise(400)
    param = ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_contig(40))
    assert finish(ucp.ucp_put_nbx(sender.ep, data, 10, heap.address, heap.rkey, param), sender) == OK
    assert heap.bytes[:400].tobytes() == data.tobytes()
    assert guards(heap, 0, 400)


def test_an_operation_of_no_bytes_is_over_at_once_and_needs_no_buffer(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 4096)
    assert ucp.ucp_put_nbi(sender.ep, None, 0, heap.address, heap.rkey) == OK
    assert ucp.ucp_get_nbi(sender.ep, None, 0, heap.address, heap.rkey) == OK
    assert ucp.ucp_put_nbx(sender.ep, None, 0, 0, heap.rkey) is None
    assert ucp.ucp_get_nb(sender.ep, None, 0, 0, heap.rkey, None) is None
    assert ucp.ucp_worker_flush_nbx(sender.worker) is None


# Errors


def test_bounds_and_rights_are_the_nics_and_the_next_flush_tells_them(pair):
    sender, receiver = pair
    heap = memheap(receiver, sender, 4096)
    readable = memheap(receiver, sender, 4096, prot=ucp.UCP_MEM_MAP_PROT_REMOTE_READ)
    writable = memheap(receiver, sender, 4096, prot=ucp.UCP_MEM_MAP_PROT_REMOTE_WRITE)
    before = [each.bytes.copy() for each in (heap, readable, writable)]
    outside = ucp.UcsStatus.UCS_ERR_INVALID_ADDR
    refused = ucp.UcsStatus.UCS_ERR_REJECTED
    for call, status in (
        (lambda: ucp.ucp_put_nbi(sender.ep, bytes(8), 8, heap.address + 4089, heap.rkey), outside),
        (lambda: ucp.ucp_put_nbi(sender.ep, bytes(8), 8, heap.address - 1, heap.rkey), outside),
        (lambda: ucp.ucp_get_nbi(sender.ep, bytearray(90), 90, heap.address + 4096, heap.rkey), outside),
        (lambda: ucp.ucp_put_nbi(sender.ep, bytes(8), 8, readable.address, readable.rkey), refused),
        (lambda: ucp.ucp_put_nbi(sender.ep, bytes(90), 90, readable.address, readable.rkey), refused),
        (lambda: ucp.ucp_get_nbi(sender.ep, bytearray(8), 8, writable.address, writable.rkey), refused),
        (lambda: ucp.ucp_atomic_post(sender.ep, 0, 1, 8, readable.address, readable.rkey), refused),
    ):
        call()
        assert flush(sender, "endpoint") == status
        assert flush(sender, "endpoint") == OK, "it is told once"
    got = ucp.ucp_get_nbx(sender.ep, bytearray(90), 90, heap.address + 4000, heap.rkey)
    bad = ucp.ucp_get_nbx(sender.ep, bytearray(97), 97, heap.address + 4000, heap.rkey)
    assert (finish(got, sender), finish(bad, sender)) == (OK, outside)
    assert flush(sender, "worker") == OK, "a request reports its error"
    for each, was in zip((heap, readable, writable), before, strict=True):
        assert (each.bytes == was).all()


def test_a_worker_flush_tells_of_every_endpoint_and_an_endpoint_s_of_its_own(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    first, second = sender.connect(receiver), sender.connect(receiver)
    heap = memheap(receiver, sender, 64)
    other = ucp.ucp_ep_rkey_unpack(second, ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    keep(models[0], other)
    ucp.ucp_put_nbi(second, bytes(8), 8, heap.address + 64, other)
    assert finish(ucp.ucp_ep_flush_nbx(first), sender) == OK
    assert finish(ucp.ucp_worker_flush_nbx(sender.worker), sender) == ucp.UcsStatus.UCS_ERR_INVALID_ADDR
    ucp.ucp_put_nbi(second, bytes(8), 8, heap.address + 64, other)
    wait_for(lambda: second.memory.idle, sender)
    with pytest.raises(ucp.UcsInvalidAddrError):
        ucp.ucp_ep_flush_nbx(second)
    assert ucp.ucp_ep_flush_nbx(second) is None


def test_a_part_of_a_scattered_operation_that_fails_fails_it(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 1000)
    iov = [ucp.ucp_dt_iov_t(bytes(10), 10) for _ in range(120)]
    param = ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_iov())
    # its first part begins before the memory, and its last one lies within
    request = ucp.ucp_put_nbx(sender.ep, iov, 120, heap.address - 315, heap.rkey, param)
    assert finish(request, sender) == ucp.UcsStatus.UCS_ERR_INVALID_ADDR
    assert flush(sender, "endpoint") == OK


def test_a_wrong_argument_is_refused_and_nothing_is_sent(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    first, second = sender.connect(receiver), sender.connect(receiver)
    heap = memheap(receiver, sender, 4096)
    gone = ucp.ucp_ep_rkey_unpack(first, ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    ucp.ucp_rkey_destroy(gone)
    closed = sender.connect(receiver)
    of_closed = ucp.ucp_ep_rkey_unpack(closed, ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    closed.close()
    good = {"ep": first, "buffer": bytearray(100), "length": 100, "remote_addr": heap.address, "rkey": heap.rkey}
    wrong = [
        {"ep": None}, {"ep": second}, {"ep": sender.worker}, {"ep": closed}, {"ep": closed, "rkey": of_closed},
        {"buffer": None}, {"buffer": bytearray(99)}, {"buffer": "text"}, {"buffer": 7},
        {"buffer": np.zeros((20, 20), np.uint8)[:, :10]}, {"buffer": np.array([None] * 100)},
        {"length": -1}, {"length": 2**64}, {"length": 1.0}, {"length": None},
        {"remote_addr": -1}, {"remote_addr": 2**64}, {"remote_addr": "0"}, {"remote_addr": None},
        {"rkey": None}, {"rkey": gone}, {"rkey": heap.memh}, {"rkey": of_closed}, {"ep": None, "rkey": gone},
    ]  # fmt: skip
    calls = {
        ucp.ucp_put_nbi: (),
        ucp.ucp_get_nbi: (),
        ucp.ucp_put_nb: (None,),
        ucp.ucp_get_nb: (None,),
        ucp.ucp_put_nbx: (None,),
        ucp.ucp_get_nbx: (None,),
        ucp.ucp_put: (),
        ucp.ucp_get: (),
    }
    for call, more in calls.items():
        for change in wrong:
            for short in ({}, {"buffer": bytes(8), "length": 8}):
                if not short.keys() & change.keys():
                    with pytest.raises(ucp.UcsInvalidParamError):
                        call(*(good | short | change).values(), *more)
        if call in (ucp.ucp_put_nb, ucp.ucp_get_nb):
            with pytest.raises(ucp.UcsInvalidParamError, match="cb"):
                call(*good.values(), "no function")
    for call in (ucp.ucp_get_nbi, ucp.ucp_get):
        with pytest.raises(ucp.UcsInvalidParamError, match="read-only"):
            call(first, bytes(100), 100, heap.address, heap.rkey)
    assert ucp.ucp_worker_flush_nbx(sender.worker) is None
    assert (heap.bytes == 0xA5).all()


@pytest.mark.parametrize("call", [ucp.ucp_put_nbx, ucp.ucp_get_nbx])
def test_a_generic_datatype_is_not_supported_and_not_begun(models, call):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 4096)
    calls = ("start_pack", "start_unpack", "packed_size", "pack", "unpack", "finish")
    begun = []
    ops = ucp.ucp_generic_dt_ops_t(**{name: lambda *told: begun.append(told) for name in calls})
    datatype = ucp.ucp_dt_create_generic(ops)
    param = ucp.ucp_request_param_t(datatype=datatype)
    with pytest.raises(ucp.UcsUnsupportedError):
        call(sender.ep, bytearray(8), 1, heap.address, heap.rkey, param)
    assert not begun
    ucp.ucp_dt_destroy(datatype)


def test_without_the_feature_every_call_is_refused(models):
    sender = Entity(models[0], ALL_FEATURES & ~ucp.UCP_FEATURE_RMA)
    receiver = Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 64)
    for call, more in ((ucp.ucp_put_nbi, ()), (ucp.ucp_get_nbi, ()), (ucp.ucp_put_nb, (None,)), (ucp.ucp_get, ())):
        with pytest.raises(ucp.UcsInvalidParamError, match="FEATURE_RMA"):
            call(sender.ep, bytearray(8), 8, heap.address, heap.rkey, *more)
    assert ucp.ucp_atomic_post(sender.ep, ucp.UCP_ATOMIC_POST_OP_ADD, 1, 8, heap.address, heap.rkey) == OK
    assert flush(sender, "worker") == OK


def test_an_endpoint_to_oneself_reaches_one_s_own_memory(models):
    entity = Entity(models[0])
    entity.connect(entity)
    heap, into = memheap(entity, entity, 4096), bytearray(8)
    ucp.ucp_put_nbi(entity.ep, b"12345678", 8, heap.address, heap.rkey)
    ucp.ucp_get(entity.ep, into, 8, heap.address, heap.rkey)
    assert into == b"12345678"


@pytest.mark.long
@pytest.mark.parametrize("size", [(1 << 30) + 1000])
def test_more_bytes_than_a_descriptor_can_say_go_in_pieces(models, size, monkeypatch):
    """The pieces alone: their data would take the model minutes."""
    from amoeba.openucx.ucp import memory_operations

    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 10_000)
    parts = list(memory_operations._parts([memoryview(np.broadcast_to(np.zeros(1, np.uint8), size)[:0])]))
    assert parts == []
    monkeypatch.setattr(memory_operations, "MAX_BYTES", 64)
    data, into = noise(9000), bytearray(9000)
    assert finish(ucp.ucp_put_nbx(sender.ep, data, 9000, heap.address, heap.rkey), sender) == OK
    assert finish(ucp.ucp_get_nbx(sender.ep, into, 9000, heap.address, heap.rkey), sender) == OK
    assert into == data.tobytes() == heap.bytes[:9000].tobytes()
