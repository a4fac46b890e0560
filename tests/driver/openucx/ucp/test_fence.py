"""Fence and flush: UCX's test_ucp_fence, and what is ordered across endpoints, by driver and NIC.

Covers ``openucx/ucp/fences.py``, ``openucx/ucp/flushes.py`` and ``openucx/ucp/calls/flushes.py``.
"""

import random

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.fences import Fences
from amoeba_model.ucp import MessageKind

from tests.driver.openucx.ucp.entities import Entity, finish, keep, wait_for
from tests.driver.openucx.ucp.memheap import flush, memheap

OK = ucp.UcsStatus.UCS_OK


@pytest.mark.full_build
@pytest.mark.parametrize("size", [4, 8])
def test_atomic_add_fadd(pair, size):
    sender, receiver = pair
    heap = memheap(receiver, sender, 64)
    heap.bytes[:] = 0
    for count in range(8):
        ucp.ucp_atomic_post(sender.ep, ucp.UCP_ATOMIC_POST_OP_ADD, 1, size, heap.address, heap.rkey)
        ucp.ucp_worker_fence(sender.worker)
        reply = bytearray(size)
        request = ucp.ucp_atomic_fetch_nb(
            sender.ep, ucp.UCP_ATOMIC_FETCH_OP_FADD, 0, reply, size, heap.address, heap.rkey, None
        )
        assert finish(request, sender) == OK
        assert int.from_bytes(reply, "little") == count + 1


@pytest.fixture
def two(pair):
    """(sender, receiver, endpoints of the sender, memory, its key on each endpoint)."""
    return with_two_endpoints(*pair)


def with_two_endpoints(sender, receiver):
    heap = memheap(receiver, sender, 100_000)
    heap.bytes[:] = 0
    other = sender.connect(receiver)
    key = ucp.ucp_ep_rkey_unpack(other, ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    keep(sender.adapter, key)
    return sender, receiver, (sender.ep, other), heap, (heap.rkey, key)


def test_what_is_posted_after_a_fence_finds_what_was_put_before_it_on_another_endpoint(two):
    sender, _, eps, heap, keys = two
    for count in range(1, 4):
        ucp.ucp_put_nbi(eps[0], bytes([count]) * 30_000, 30_000, heap.address, keys[0])
        ucp.ucp_put_nbi(eps[0], bytes([count]), 1, heap.address + 30_000, keys[0])
        ucp.ucp_worker_fence(sender.worker)
        last, small = bytearray(2), bytearray(1)
        ucp.ucp_get_nbi(eps[1], small, 1, heap.address + 30_000, keys[1])
        assert finish(ucp.ucp_get_nbx(eps[1], last, 2, heap.address + 29_998, keys[1]), sender) == OK
        assert (last, small) == (bytes([count, count]), bytes([count]))


def test_a_fence_within_one_lane_holds_nothing(two):
    sender, _, eps, heap, keys = two
    ucp.ucp_put_nbi(eps[0], bytes(3000), 3000, heap.address, keys[0])
    outstanding = sender.worker.rings.outstanding
    ucp.ucp_worker_fence(sender.worker)
    ucp.ucp_put_nbi(eps[0], b"1", 1, heap.address, keys[0])
    assert sender.worker.rings.outstanding == outstanding + 1
    assert not sender.worker.held_lanes
    assert flush(sender, "worker") == OK


def test_without_messages_the_nic_holds_what_comes_after(two):
    sender, _, eps, heap, keys = two
    assert flush(sender, "worker") == OK
    ucp.ucp_put_nbi(eps[1], b"1", 1, heap.address, keys[1])
    assert flush(sender, "worker") == OK
    ucp.ucp_put_nbi(eps[0], bytes(3000), 3000, heap.address, keys[0])
    ucp.ucp_worker_fence(sender.worker)
    outstanding = sender.worker.rings.outstanding
    ucp.ucp_put_nbi(eps[1], b"1", 1, heap.address, keys[1])
    assert sender.worker.rings.outstanding == outstanding + 2, "a fence of the NIC, and the put"
    assert sender.worker.fences is None
    assert not sender.worker.held_lanes
    assert flush(sender, "worker") == OK
    assert heap.bytes[0] == ord("1")


def test_messages_that_nobody_reads_hold_up_no_memory_operation_fence_or_not(models):
    """On models: to fill a receiver's buffers takes RTL minutes."""
    entities = Entity(models[0]), Entity(models[1])
    entities[0].connect(entities[1])
    sender, _, eps, heap, keys = with_two_endpoints(*entities)
    # the receiver makes no progress, so that they fill its buffers, and the NIC sends them again and again
    for _ in range(400):
        eps[0].send_message(MessageKind.STREAM, memoryview(bytes(4096)))
    for count in range(1, 4):
        ucp.ucp_put_nbi(eps[0], bytes([count]) * 5000, 5000, heap.address, keys[0])
        ucp.ucp_worker_fence(sender.worker)
        got = bytearray(1)
        assert finish(ucp.ucp_get_nbx(eps[1], got, 1, heap.address + 4999, keys[1]), sender) == OK
        assert got == bytes([count])
    assert flush(sender, "worker") == OK
    assert not eps[0].messages.idle


def test_a_message_after_a_fence_comes_when_the_puts_before_it_are_there(pair):
    sender, receiver = pair
    heap, seen = memheap(receiver, sender, 50_000), []
    heap.bytes[:] = 0

    def take(endpoint, header, letter):
        letter.chunk.release()
        seen.append(int(heap.bytes[49_999]))

    receiver.worker.wireup.handlers[MessageKind.STREAM] = take
    for count in range(1, 4):
        ucp.ucp_put_nbi(sender.ep, bytes([count]) * 50_000, 50_000, heap.address, heap.rkey)
        ucp.ucp_worker_fence(sender.worker)
        sender.ep.send_message(MessageKind.STREAM, memoryview(b"look"))
        wait_for(lambda: len(seen) == count, sender, receiver)  # noqa: B023
    assert seen == [1, 2, 3]


def test_fences_hold_also_what_exceeds_the_ring(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    first, second = sender.connect(receiver), sender.connect(receiver)
    heap = memheap(receiver, sender, 64)
    other = ucp.ucp_ep_rkey_unpack(second, ucp.ucp_rkey_pack(receiver.context, heap.memh)[0])
    keep(sender.adapter, other)
    heap.bytes[:] = 0
    replies = []
    for _ in range(4):
        for _ in range(1500):
            ucp.ucp_atomic_post(first, ucp.UCP_ATOMIC_POST_OP_ADD, 1, 8, heap.address, heap.rkey)
        ucp.ucp_worker_fence(sender.worker)
        reply = bytearray(8)
        ucp.ucp_atomic_fetch_nb(second, 0, 1, reply, 8, heap.address, other, None)
        replies.append(reply)
        ucp.ucp_worker_fence(sender.worker)
    assert flush(sender, "worker") == OK
    assert [int.from_bytes(reply, "little") for reply in replies] == [1500, 3001, 4502, 6003]


class FakeLane:
    """Counts, as a lane does."""

    def __init__(self):
        self.posted = self.done = self.begun = 0


@pytest.mark.parametrize("seed", range(40))
def test_no_operation_begins_before_what_it_must_wait_for_and_all_begin_in_the_end(seed):
    """Against a plain list of operations, each with the number of fences before it; lanes are in order anyway."""
    chance, fences, age = random.Random(seed), Fences(), 0
    lanes = [FakeLane() for _ in range(4)]
    memory = lanes[:3]
    log = {lane: [] for lane in lanes}
    for _ in range(300):
        what = chance.random()
        if what < 0.35:
            lane = chance.choice(lanes)
            log[lane].append(age)
            lane.posted += 1
        elif what < 0.45:
            age += 1
            fences.raise_one(memory, [lane for lane in lanes if lane.begun != lane.posted])
        elif what < 0.75:
            lane = chance.choice(lanes)
            if lane.begun != lane.posted and fences.may_begin(lane):
                mine = log[lane][lane.begun]
                for other in memory:
                    if other is not lane:
                        assert all(theirs >= mine for theirs in log[other][other.done : other.posted]), f"seed {seed}"
                lane.begun += 1
        else:
            lane = chance.choice(lanes)
            lane.done += lane.done < lane.begun
    for _ in range(2000):
        for lane in lanes:
            if lane.begun != lane.posted and fences.may_begin(lane):
                lane.begun += 1
            lane.done = lane.begun
    assert all(lane.done == lane.posted for lane in lanes), f"seed {seed}"
    assert fences.over


# Flush


def test_a_flush_of_nothing_is_over_at_once(pair):
    sender, _ = pair
    assert ucp.ucp_ep_flush_nbx(sender.ep) is None
    assert ucp.ucp_ep_flush_nb(sender.ep, 0, None) is None
    assert ucp.ucp_worker_flush_nbx(sender.worker) is None
    assert ucp.ucp_worker_flush_nb(sender.worker, 0, None) is None
    ucp.ucp_ep_flush(sender.ep), ucp.ucp_worker_flush(sender.worker)
    heard = []
    given = ucp.ucp_request_param_t(
        op_attr_mask=ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL, cb=lambda *told: heard.append(told), user_data=1
    )
    request = ucp.ucp_ep_flush_nbx(sender.ep, given)
    assert finish(request, sender) == OK
    assert heard == [(request, OK, 1)]


def test_a_flush_waits_for_what_was_posted_before_it_alone(two):
    sender, _, eps, heap, keys = two
    ucp.ucp_put_nbi(eps[0], bytes(20_000), 20_000, heap.address, keys[0])
    heard = []
    one = ucp.ucp_ep_flush_nb(eps[0], 0, lambda *told: heard.append(told))
    assert ucp.ucp_ep_flush_nbx(eps[1]) is None
    forced = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
    with pytest.raises(ucp.UcsNoResourceError):
        ucp.ucp_worker_flush_nbx(sender.worker, forced)
    later = [ucp.ucp_put_nbx(eps[0], bytes(20_000), 20_000, heap.address, keys[0]) for _ in range(4)]
    assert finish(one, sender) == OK
    assert heard == [(one, OK)]
    assert not all(request.done for request in later)
    assert finish(ucp.ucp_worker_flush_nbx(sender.worker), sender) == OK
    assert all(request.done for request in later)
    assert eps[0].memory.idle


def test_a_flush_sends_no_frame(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap = memheap(receiver, sender, 64)
    ucp.ucp_put(sender.ep, bytes(64), 64, heap.address, heap.rkey)
    wait_for(lambda: sender.ep.memory.idle, sender)
    sent = models.network.traffic.sent
    for _ in range(10):
        assert ucp.ucp_worker_flush_nbx(sender.worker) is None
        sender.progress()
    assert models.network.traffic.sent == sent


def test_a_flush_ends_when_its_worker_is_destroyed(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    heap, heard = memheap(receiver, sender, 64_000), []
    ucp.ucp_put_nbi(sender.ep, bytes(64_000), 64_000, heap.address, heap.rkey)
    request = ucp.ucp_worker_flush_nb(sender.worker, 0, lambda *told: heard.append(told))
    ucp.ucp_worker_destroy(sender.worker)
    assert request.done
    assert heard == [(request, request.code)]


def test_wrong_arguments_are_refused(models):
    sender = Entity(models[0])
    sender.connect(Entity(models[1]))
    for call, wrong in (
        (ucp.ucp_ep_flush, (None,)),
        (ucp.ucp_ep_flush_nbx, (sender.worker,)),
        (ucp.ucp_ep_flush_nbx, (sender.ep, 5)),
        (ucp.ucp_ep_flush_nb, (sender.ep, -1, None)),
        (ucp.ucp_ep_flush_nb, (sender.ep, 0, 1)),
        (ucp.ucp_worker_flush, (sender.ep,)),
        (ucp.ucp_worker_flush_nb, (sender.worker, 2**32, None)),
        (ucp.ucp_worker_flush_nbx, (sender.worker, "param")),
        (ucp.ucp_worker_fence, (sender.ep,)),
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            call(*wrong)
    ucp.ucp_worker_destroy(sender.worker)
    for call in (ucp.ucp_worker_flush, ucp.ucp_worker_fence, ucp.ucp_worker_flush_nbx):
        with pytest.raises(ucp.UcsInvalidParamError, match="closed"):
            call(sender.worker)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_ep_flush_nbx(sender.ep)
