"""Batches of puts, gets and atomics: what they do, that flushes and fences count them, and what is refused.

Covers ``openucx/ucp/batches.py``.
"""

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.openucx.ucp.batches import atomic_batch, get_batch, put_batch

from tests.driver.openucx.ucp.entities import Entity, finish
from tests.driver.openucx.ucp.memheap import flush, memheap

OK = ucp.UcsStatus.UCS_OK


@pytest.fixture
def near(models):
    """(sender, memory of the receiver) on two models."""
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 80_000)
    heap.bytes[:] = 0
    return sender, heap


@pytest.mark.parametrize(("dtype", "columns"), [(np.uint8, 1), (np.uint64, 1), (np.uint64, 4), (np.uint32, 1)])
@pytest.mark.parametrize("count", [1, 128, 1500])
def test_rows_are_written_and_read_where_the_addresses_say(near, dtype, columns, count):
    sender, heap = near
    chance = np.random.default_rng(count)
    values = chance.integers(0, 200, (count, columns)).astype(dtype)
    size = values.nbytes // count
    places = heap.address + size * chance.permutation(count)
    assert finish(put_batch(heap.rkey, values, places), sender) == OK
    into = np.zeros_like(values)
    assert finish(get_batch(heap.rkey, into, places), sender) == OK
    assert np.array_equal(into, values)
    seen = np.frombuffer(heap.bytes[: values.nbytes].tobytes(), dtype).reshape(count, columns)
    assert np.array_equal(seen[(places - heap.address) // size], values)
    assert sender.ep.memory.idle


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_atomics_of_a_batch_all_take_effect(near, dtype):
    sender, heap = near
    ones, replies = np.ones(1000, dtype), np.zeros(1000, dtype)
    places = np.full(1000, heap.address)
    assert finish(atomic_batch(heap.rkey, ucp.UCP_ATOMIC_OP_ADD, ones, places, replies), sender) == OK
    assert replies.tolist() == list(range(1000))
    atomic_batch(heap.rkey, ucp.UCP_ATOMIC_OP_ADD, ones, places)
    assert flush(sender, "worker") == OK
    wanted, swapped = np.array([2000, 5, 6], dtype), np.array([5, 7, 8], dtype)
    found = np.zeros(3, dtype)
    assert finish(atomic_batch(heap.rkey, ucp.UCP_ATOMIC_OP_CSWAP, swapped, places[:3], found, wanted), sender) == OK
    assert found.tolist() == [2000, 5, 7]
    assert int(np.frombuffer(heap.bytes[:8].tobytes(), dtype)[0]) == 7


def test_a_batch_that_fails_in_part_says_so_and_the_rest_is_done(near):
    sender, heap = near
    places = heap.address + 8 * np.arange(300)
    places[200] = heap.address + 80_000
    request = put_batch(heap.rkey, np.full(300, 7, np.uint64), places)
    assert finish(request, sender) == ucp.UcsStatus.UCS_ERR_INVALID_ADDR
    written = np.frombuffer(heap.bytes[:2400].tobytes(), np.uint64)
    assert written.tolist() == [7] * 200 + [0] + [7] * 99


def test_what_follows_a_batch_is_behind_it(near):
    sender, heap = near
    put_batch(heap.rkey, np.full(2000, 9, np.uint64), heap.address + 8 * np.arange(2000))
    got = bytearray(8)
    ucp.ucp_get(sender.ep, got, 8, heap.address + 8 * 1999, heap.rkey)
    assert got[0] == 9


def test_wrong_arguments_are_refused_and_nothing_is_posted(near):
    sender, heap = near
    values, places = np.zeros(4, np.uint64), heap.address + 8 * np.arange(4)
    add, swap, cswap = ucp.UCP_ATOMIC_OP_ADD, ucp.UCP_ATOMIC_OP_SWAP, ucp.UCP_ATOMIC_OP_CSWAP
    fixed = values.copy()
    fixed.flags.writeable = False
    for call in (
        lambda: put_batch(heap.rkey, values, places[:3]),
        lambda: put_batch(heap.rkey, [1, 2], places),
        lambda: put_batch(heap.rkey, np.zeros((4, 4), np.uint64)[:, :2], places),
        lambda: put_batch(heap.rkey, values, -places.astype(np.int64)),
        lambda: put_batch(heap.rkey, values, places.astype(float)),
        lambda: get_batch(heap.rkey, fixed, places),
        lambda: atomic_batch(heap.rkey, 17, values, places),
        lambda: atomic_batch(heap.rkey, add, values.astype(np.uint16), places),
        lambda: atomic_batch(heap.rkey, add, values, places + 4),
        lambda: atomic_batch(heap.rkey, swap, values, places),
        lambda: atomic_batch(heap.rkey, cswap, values, places, values.copy()),
        lambda: atomic_batch(heap.rkey, add, values, places, values.copy(), values),
        lambda: atomic_batch(heap.rkey, add, values, places, np.zeros(4, np.uint32)),
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            call()
    assert ucp.ucp_worker_flush_nbx(sender.worker) is None
    heap.rkey.close()
    with pytest.raises(ucp.UcsInvalidParamError):
        put_batch(heap.rkey, values, places)
