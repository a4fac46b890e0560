"""Mapped memory and remote keys: UCX's test_ucp_mmap, and ucp_mem_map's matrix.

Covers ``openucx/ucp/memory.py``, ``openucx/ucp/remote_key.py`` and ``openucx/ucp/calls/memory.py``.
"""

import contextlib
import ctypes
import io
import os
import random

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.core.buffers import address_of
from amoeba.core.process_memory import PAGE, accessible, map_pages, view_at

from tests.driver.openucx.ucp.entities import Entity, finish, keep, wait_for
from tests.driver.openucx.ucp.memheap import KINDS, flush, memheap, noise

OK = ucp.UcsStatus.UCS_OK
ALLOCATE, FIXED, NONBLOCK = ucp.UCP_MEM_MAP_ALLOCATE, ucp.UCP_MEM_MAP_FIXED, ucp.UCP_MEM_MAP_NONBLOCK


def mapped(entity, **params):
    memh = ucp.ucp_mem_map(entity.context, ucp.ucp_mem_map_params_t(**params))
    keep(entity.adapter, memh)
    return memh


def query(memh):
    return ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t())


@pytest.fixture
def near(models):
    """(sender, receiver) on two models."""
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    return sender, receiver


@pytest.mark.parametrize("kind", KINDS)
def test_alloc_and_reg_mem_type(near, kind):
    sender, receiver = near
    chance = random.Random(kind)
    for _ in range(20):
        size = chance.randrange(1, 1 << chance.randrange(1, 21))
        heap = memheap(receiver, sender, size, **KINDS[kind])
        found = query(heap.memh)
        assert found.mem_type == ucp.UCS_MEMORY_TYPE_HOST
        assert found.length == (-(-size // PAGE) * PAGE if "allocated" in kind else size)
        assert address_of(heap.memh.view) == found.address
        last = ucp.ucp_rkey_ptr(heap.rkey, found.address + size - 1)
        last[0] = 77
        assert heap.bytes[size - 1] == 77
        got = bytearray(1)
        ucp.ucp_get(sender.ep, got, 1, found.address + size - 1, heap.rkey)
        assert got[0] == 77
        ucp.ucp_rkey_destroy(heap.rkey)
        ucp.ucp_mem_unmap(receiver.context, heap.memh)
    assert len(receiver.context.nic.keys) == 0


@pytest.mark.parametrize("flags", [0, ALLOCATE, NONBLOCK, FIXED, ALLOCATE | FIXED | NONBLOCK])
@pytest.mark.parametrize("address", [None, 0x1234567, b"", bytearray(8)], ids=["none", "number", "empty", "buffer"])
def test_reg0_and_alloc0(near, flags, address):
    sender, receiver = near
    memh = mapped(receiver, address=address, length=0, flags=flags)
    assert query(memh).length == 0
    packed = ucp.ucp_rkey_pack(receiver.context, memh)[0]
    rkey = ucp.ucp_ep_rkey_unpack(sender.ep, packed)
    keep(sender.adapter, rkey)
    assert ucp.ucp_put_nbi(sender.ep, b"", 0, 0, rkey) == OK
    ucp.ucp_put_nbi(sender.ep, b"x", 1, query(memh).address, rkey)
    assert flush(sender, "worker") == ucp.UcsStatus.UCS_ERR_REJECTED
    with pytest.raises(ucp.UcsUnreachableError):
        ucp.ucp_rkey_ptr(rkey, query(memh).address)
    ucp.ucp_mem_unmap(receiver.context, memh)


@pytest.mark.parametrize("flags", [ALLOCATE | NONBLOCK, NONBLOCK])
def test_alloc_and_reg_advise(near, flags):
    _, receiver = near
    size = 1 << 20
    params = {} if flags & ALLOCATE else {"address": np.zeros(size, np.uint8)}
    memh = mapped(receiver, length=size, flags=flags, **params)
    start = query(memh).address

    def advise(**given):
        return ucp.ucp_mem_advise(receiver.context, memh, ucp.ucp_mem_advise_params_t(**given))

    assert advise(address=start, length=size, advice=ucp.UCP_MADV_WILLNEED) is None
    assert advise(address=start + 5, length=7, advice=ucp.UCP_MADV_NORMAL) is None
    for wrong in (
        {"address": start, "length": size},
        {"address": start, "advice": ucp.UCP_MADV_NORMAL},
        {"length": size, "advice": ucp.UCP_MADV_NORMAL},
        {"address": start - 1, "length": 8, "advice": ucp.UCP_MADV_NORMAL},
        {"address": start + 1, "length": size, "advice": ucp.UCP_MADV_NORMAL},
        {"address": start, "length": size, "advice": 9},
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            advise(**wrong)


def test_fixed(near):
    _, receiver = near
    chance = random.Random(1)
    for _ in range(50):
        size = chance.randrange(1, 100_000)
        free = map_pages(size)
        start = address_of(free)
        del free
        memh = mapped(receiver, address=start, length=size, flags=ALLOCATE | FIXED)
        assert query(memh).address == start
        assert query(memh).length >= size
        memh.view[size - 1] = 1
        with pytest.raises(ucp.UcsNoMemoryError, match="something is"):
            mapped(receiver, address=start, length=size, flags=ALLOCATE | FIXED)
        memh.view[size - 1] = 2  # nothing was mapped over it
        with pytest.raises(ucp.UcsInvalidParamError, match="multiple"):
            mapped(receiver, address=start + 8, length=size, flags=ALLOCATE | FIXED)
        ucp.ucp_mem_unmap(receiver.context, memh)


def test_a_hint_is_followed_where_there_is_space_and_else_ignored(near):
    _, receiver = near
    free = map_pages(PAGE)
    start = address_of(free)
    used = mapped(receiver, address=start, length=PAGE, flags=ALLOCATE)
    assert query(used).address != start
    del free
    assert query(mapped(receiver, address=start + 3, length=PAGE, flags=ALLOCATE)).address == start


def test_the_rest_of_the_matrix_is_an_error_and_takes_no_key(near):
    _, receiver = near
    buffer = bytearray(100)
    before = len(receiver.context.nic.keys)
    for wrong in (
        {"length": 100},
        {"length": 100, "flags": FIXED},
        {"length": 100, "flags": FIXED | ALLOCATE},
        {"length": 100, "address": buffer, "flags": FIXED},
        {"address": buffer},
        {"flags": ALLOCATE},
        {},
        {"length": 101, "address": buffer},
        {"length": -1, "address": buffer},
        {"length": 8, "address": "text"},
        {"length": 8, "address": np.array([None] * 8)},
        {"length": 8, "address": np.zeros((8, 8), np.uint8)[:, :2]},
        {"length": 8, "address": bytes(8)},
        {"length": 8, "address": bytes(8), "prot": ucp.UCP_MEM_MAP_PROT_REMOTE_WRITE},
        {"length": 8, "address": 8},
        {"length": 1 << 63, "address": 1 << 63},
        {"length": 8, "address": buffer, "memory_type": ucp.UCS_MEMORY_TYPE_CUDA},
        {"length": 8, "address": buffer, "memory_type": 99},
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            mapped(receiver, **wrong)
    with pytest.raises(ucp.UcsNoMemoryError):
        mapped(receiver, length=1 << 62, flags=ALLOCATE)
    with pytest.raises(ucp.UcsNoMemoryError):
        mapped(receiver, length=2**64 - 1, flags=ALLOCATE)
    for wrong in (None, 5, ucp.ucp_params_t()):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_mem_map(receiver.context, wrong)
    assert len(receiver.context.nic.keys) == before


def test_memory_is_named_by_its_address_as_well_as_by_a_buffer(near):
    sender, receiver = near
    memory = ctypes.create_string_buffer(64)
    heap = memheap(receiver, sender, 64, address=ctypes.addressof(memory))
    assert heap.address == ctypes.addressof(memory)
    ucp.ucp_put(sender.ep, b"12345678", 8, heap.address + 4, heap.rkey)
    assert flush(sender, "endpoint") == OK
    assert memory.raw[4:12] == b"12345678"


def test_a_read_only_buffer_can_be_read_by_peers(near):
    sender, receiver = near
    data = noise(100).tobytes()
    memh = mapped(receiver, address=data, length=100, prot=ucp.UCP_MEM_MAP_PROT_REMOTE_READ)
    rkey = ucp.ucp_ep_rkey_unpack(sender.ep, ucp.ucp_rkey_pack(receiver.context, memh)[0])
    keep(sender.adapter, rkey)
    got = bytearray(100)
    ucp.ucp_get(sender.ep, got, 100, query(memh).address, rkey)
    assert got == data
    assert ucp.ucp_rkey_ptr(rkey, query(memh).address).readonly


def test_unmapping_refuses_what_comes_and_loses_nothing_that_is_in_flight(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 8192)
    buffers = [bytes([index]) * 3000 for index in range(30)]
    requests = [ucp.ucp_put_nbx(sender.ep, each, 3000, heap.address, heap.rkey) for each in buffers]
    for _ in range(3):
        sender.progress()
    ucp.ucp_mem_unmap(receiver.context, heap.memh)
    statuses = [finish(request, sender) for request in requests]
    assert statuses[-1] == ucp.UcsStatus.UCS_ERR_REJECTED
    assert sorted(statuses, reverse=True) == statuses, "what was done was done first"
    assert flush(sender, "worker") == OK
    # its place is free, and others are not concerned
    again = memheap(receiver, sender, 64)
    ucp.ucp_put(sender.ep, b"12345678", 8, again.address, again.rkey)
    assert flush(sender, "worker") == OK
    with pytest.raises(ucp.UcsInvalidParamError, match="closed"):
        ucp.ucp_mem_query(heap.memh, ucp.ucp_mem_attr_t())
    with pytest.raises(ucp.UcsUnreachableError):
        ucp.ucp_rkey_ptr(heap.rkey, heap.address)


def test_a_view_of_allocated_memory_outlives_the_mapping(near):
    _, receiver = near
    memh = mapped(receiver, length=PAGE, flags=ALLOCATE)
    view, start = memh.view, query(memh).address
    ucp.ucp_mem_unmap(receiver.context, memh)
    view[5] = 9
    assert view[5] == 9
    assert accessible(start, PAGE, writable=True)


def test_a_full_key_table_is_no_resource(near):
    _, receiver = near
    parameters = receiver.context.nic.parameters
    for _ in range(parameters.keys - 2 * (parameters.contexts - 1)):  # some are kept for other contexts
        mapped(receiver, length=8, address=bytearray(8))
    with pytest.raises(ucp.UcsNoResourceError, match="has 1010 of 1024 slots of the key table"):
        mapped(receiver, length=8, address=bytearray(8))


def test_keys_are_bound_to_their_endpoint_and_closed_with_it(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    packed = ucp.ucp_rkey_pack(receiver.context, heap.memh)[0]
    other = sender.connect(receiver)
    keys = [ucp.ucp_ep_rkey_unpack(other, packed) for _ in range(3)]
    assert ucp.ucp_put_nbi(other, bytes(8), 8, heap.address, keys[2]) == OK
    with pytest.raises(ucp.UcsInvalidParamError, match="another endpoint"):
        ucp.ucp_put_nbi(sender.ep, bytes(8), 8, heap.address, keys[0])
    ucp.ucp_rkey_destroy(keys[0])
    with pytest.raises(ucp.UcsInvalidParamError, match="destroyed"):
        ucp.ucp_rkey_destroy(keys[0])
    assert flush(sender, "worker") == OK
    other.close()
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_rkey_ptr(keys[1], heap.address)


def test_a_pointer_is_within_bounds_and_only_to_memory_of_this_process(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 100)
    pointer = ucp.ucp_rkey_ptr(heap.rkey, heap.address + 40)
    assert pointer.nbytes == 60
    for outside in (heap.address - 1, heap.address + 100, 0):
        with pytest.raises(ucp.UcsInvalidAddrError):
            ucp.ucp_rkey_ptr(heap.rkey, outside)
    for wrong in (-1, 2**64, None):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_rkey_ptr(heap.rkey, wrong)
    packed = bytearray(ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    packed[8] ^= 1  # the uid: another process's
    rkey = ucp.ucp_ep_rkey_unpack(sender.ep, bytes(packed))
    keep(sender.adapter, rkey)
    with pytest.raises(ucp.UcsUnreachableError):
        ucp.ucp_rkey_ptr(rkey, heap.address)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_no_packed_key_is_refused(near, seed):
    sender, receiver = near
    heap, chance = memheap(receiver, sender, 100), random.Random(seed)
    packed = ucp.ucp_rkey_pack(receiver.context, heap.memh)[0]
    for wrong in (None, 5, "key", b"", packed[:-1], packed + b"x", bytes(len(packed)), np.array([None])):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_ep_rkey_unpack(sender.ep, wrong)
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_rkey_buffer_release(wrong)
    for _ in range(200):
        given = bytearray(packed)
        for _ in range(chance.randrange(1, 4)):
            given[chance.randrange(len(given))] = chance.randrange(256)
        try:
            rkey = ucp.ucp_ep_rkey_unpack(sender.ep, given)
        except ucp.UcsInvalidParamError:
            continue
        ucp.ucp_put_nbi(sender.ep, b"1", 1, heap.address, rkey)
        rkey.close()
    with contextlib.suppress(ucp.UcsError):
        ucp.ucp_worker_flush(sender.worker)


def test_memory_of_another_context_is_refused(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    for call in (ucp.ucp_rkey_pack, ucp.ucp_mem_unmap):
        with pytest.raises(ucp.UcsInvalidParamError, match="another context"):
            call(sender.context, heap.memh)
        with pytest.raises(ucp.UcsInvalidParamError):
            call(None, heap.memh)
        with pytest.raises(ucp.UcsInvalidParamError):
            call(receiver.context, heap.rkey)


@pytest.mark.parametrize(("size", "length"), [("64", 4096), ("4K", 4096), ("1MB", 1 << 20), ("2m", 2 << 20)])
def test_print_info_maps_memory_and_gives_it_back(near, size, length):
    _, receiver = near
    out = io.StringIO()
    ucp.ucp_mem_print_info(size, receiver.context, out)
    assert "allocated" in out.getvalue()
    assert f"{length} bytes" in out.getvalue()
    assert len(receiver.context.nic.keys) == 0


@pytest.mark.parametrize("size", ["", "K", "-1", "1.5K", "4KK", "four", None, 4096, "1 P"])
def test_print_info_refuses_what_is_no_size(near, size):
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_mem_print_info(size, near[1].context, io.StringIO())


def test_a_child_that_was_forked_has_closed_memory_and_keys_and_the_parent_goes_on(near):
    sender, receiver = near
    heap = memheap(receiver, sender, 64)
    child = os.fork()
    if not child:
        wrong = 0
        for call in (
            lambda: ucp.ucp_put_nbi(sender.ep, b"childish", 8, heap.address, heap.rkey),
            lambda: ucp.ucp_atomic_post(sender.ep, 0, 1, 8, heap.address, heap.rkey),
            lambda: ucp.ucp_mem_query(heap.memh, ucp.ucp_mem_attr_t()),
            lambda: ucp.ucp_rkey_ptr(heap.rkey, heap.address),
            lambda: ucp.ucp_worker_flush(sender.worker),
        ):
            try:
                call()
                wrong += 1
            except ucp.UcsInvalidParamError:
                pass
        os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ucp.ucp_put_nbi(sender.ep, b"12345678", 8, heap.address, heap.rkey)
    assert flush(sender, "worker") == OK
    assert heap.bytes[:8].tobytes() == b"12345678"


def test_memory_of_the_process_is_known_by_its_address():
    pages = map_pages(2 * PAGE)
    start = address_of(pages)
    assert accessible(start, 2 * PAGE, writable=True)
    assert not accessible(0, 1)
    assert not accessible(2**64 - 1, 2)
    view_at(start + 5, 3)[:] = b"abc"
    assert pages[5:8] == b"abc"
    constant = b"some bytes that are not written"
    assert accessible(address_of(memoryview(constant)), len(constant))
    del pages
    assert not accessible(start, 2 * PAGE)


def test_waiting_is_over_when_memory_is(pair):
    """The main path on every pair of devices."""
    sender, receiver = pair
    heap = memheap(receiver, sender, 4096, flags=ALLOCATE)
    ucp.ucp_put_nbi(sender.ep, b"12345678", 8, heap.address, heap.rkey)
    wait_for(lambda: sender.ep.memory.idle, sender)
    ucp.ucp_mem_unmap(receiver.context, heap.memh)
    ucp.ucp_put_nbi(sender.ep, b"12345678", 8, heap.address, heap.rkey)
    assert flush(sender, "worker") == ucp.UcsStatus.UCS_ERR_REJECTED
