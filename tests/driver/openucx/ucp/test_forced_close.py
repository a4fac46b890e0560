"""Closing by force: every request ends with CANCELED inside the call, and the NIC touches no buffer afterwards."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.openucx.ucp.batches import atomic_batch, get_batch, put_batch

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.memheap import Memheap, memheap
from tests.driver.openucx.ucp.test_ep_close import FORCE, Handler
from tests.support.pages import Pages

# Packets of 4 KiB: results of several lines are outstanding when an endpoint is closed.
pytestmark = pytest.mark.full_build

OK, CANCELED = ucp.UCS_OK, ucp.UCS_ERR_CANCELED
LENGTH = 1 << 18
MANY = 1000
DATA, GUARD, POISON = 0x11, 0x22, 0xEE
SOME = ("put", "get", "fetch_add", "put_batch")
EVERY_NIC = pytest.mark.parametrize("adapters", ["model,model", "rtl,rtl"], indirect=True)


class Posted:
    """Operations of one kind from ``sender`` to ``heap``, and what their callbacks have heard, in order."""

    def __init__(self, sender: Entity, heap: Memheap) -> None:
        self.sender, self.heap, self.ep = sender, heap, heap.rkey.endpoint
        self.length = len(heap.bytes)
        self.buffers = Pages(self.length, DATA), Pages(self.length, GUARD)
        self.source, self.sink = (buffer.bytes for buffer in self.buffers)
        self.places = heap.address + 64 * np.arange(MANY)
        self.heard: list[tuple[str, Any]] = []
        self.requests: list[Any] = []
        self.there = GUARD
        """The bytes of the heap, before anything changes them."""

    def hears(self, name: str) -> Any:
        return ucp.ucp_request_param_t(cb=lambda request, status, *told: self.heard.append((name, status)))

    def post(self, kind: str) -> None:
        ep, key, there = self.ep, self.heap.rkey, self.heap.address
        self.there = DATA if "get" in kind else GUARD
        self.heap.bytes[:] = self.there
        if kind == "put":
            self.requests = [ucp.ucp_put_nbx(ep, self.source, self.length, there, key, self.hears("operation"))]
        elif kind == "get":
            self.requests = [ucp.ucp_get_nbx(ep, self.sink, self.length, there, key, self.hears("operation"))]
        elif kind == "put_nbi":
            for start in range(0, self.length, 1 << 16):
                ucp.ucp_put_nbi(ep, self.source[start : start + (1 << 16)], 1 << 16, there + start, key)
        elif kind == "get_nbi":
            for start in range(0, self.length, 1 << 16):
                ucp.ucp_get_nbi(ep, self.sink[start : start + (1 << 16)], 1 << 16, there + start, key)
        elif kind == "fetch_add":
            one = np.ones(1, np.uint64)
            for number in range(MANY):
                param = self.hears("operation")
                param.reply_buffer = self.sink[8 * number : 8 * number + 8]
                param.datatype = ucp.ucp_dt_make_contig(8)
                self.requests.append(ucp.ucp_atomic_op_nbx(ep, ucp.UCP_ATOMIC_OP_ADD, one, 1, there, key, param))
        elif kind == "add":
            for _ in range(MANY):
                ucp.ucp_atomic_post(ep, ucp.UCP_ATOMIC_POST_OP_ADD, 1, 8, there, key)
        else:
            self.requests = [self.batch(kind)]
            self.requests[0].callback = lambda request, status, *told: self.heard.append(("operation", status))

    def batch(self, kind: str) -> Any:
        rows = self.source[: 64 * MANY].reshape(MANY, 64), self.sink[: 64 * MANY].reshape(MANY, 64)
        if kind == "put_batch":
            return put_batch(self.heap.rkey, rows[0], self.places)
        if kind == "get_batch":
            return get_batch(self.heap.rkey, rows[1], self.places)
        numbers = self.source[: 8 * MANY].view(np.uint64), self.sink[: 8 * MANY].view(np.uint64)
        return atomic_batch(self.heap.rkey, ucp.UCP_ATOMIC_OP_ADD, numbers[0], self.places, numbers[1])

    @property
    def begun(self) -> bool:
        """Whether the first bytes have moved."""
        return bool(self.sink[0] != GUARD or self.heap.bytes[0] != self.there)

    def poison(self, *entities: Entity) -> None:
        """Change all local buffers, then free them, and see that the NIC neither reads nor writes them."""
        self.source[:] = self.sink[:] = POISON
        self.run(*entities)
        assert (self.sink == POISON).all()
        assert not (self.heap.bytes == POISON).any()
        for buffer in self.buffers:
            buffer.free()
        self.run(*entities)

    def run(self, *entities: Entity) -> None:
        """Let time pass."""
        for _ in range(150):
            for entity in (self.sender, *entities):
                entity.progress()


KINDS = ("put", "get", "put_nbi", "get_nbi", "fetch_add", "add", "put_batch", "get_batch", "atomic_batch")
ALL_OR_SOME = pytest.mark.parametrize(
    ("adapters", "kind"),
    [("model,model", kind) for kind in KINDS] + [("rtl,rtl", kind) for kind in SOME],
    indirect=["adapters"],
)
"""Every kind on models, where it takes no time, and some on RTL."""


def posted(sender: Entity, receiver: Entity, kind: str, length: int = LENGTH, **params: Any) -> Posted:
    """Operations to memory of the receiver's, through an endpoint of their own."""
    ep = sender.connect(receiver, **{"err_mode": ucp.UCP_ERR_HANDLING_MODE_PEER, **params})
    operations = Posted(sender, memheap(receiver, sender, length, ep=ep))
    operations.post(kind)
    return operations


def moving(operations: Posted, receiver: Entity) -> Posted:
    """The same when they have begun, and are not over."""
    wait_for(lambda: operations.begun, operations.sender, receiver)
    assert not all(request.done for request in operations.requests) or not operations.requests
    return operations


@EVERY_NIC
@pytest.mark.parametrize("kind", KINDS)
def test_a3_a_forced_close_cancels_operations_and_the_flush_behind_them(sender, receiver, kind):
    handler = Handler()
    operations = posted(sender, receiver, kind, 1 << 20 if kind == "put" else LENGTH, **handler.params())
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    moving(operations, receiver)
    before = len(operations.heard)
    assert ucp.ucp_ep_close_nbx(operations.ep, FORCE) is None
    assert {status for _, status in operations.heard[before:]} == {CANCELED}
    assert {status for _, status in operations.heard[:before]} <= {OK}
    names = [name for name, _ in operations.heard]
    assert names == ["operation"] * len(operations.requests) + ["flush"]
    assert flushed.code is CANCELED
    assert all(request.done for request in operations.requests)
    operations.poison(receiver)
    assert len(operations.heard) == len(names)
    assert handler.heard == []
    assert sender.worker.rings.outstanding == 0
    assert not sender.worker.lanes
    assert ucp.ucp_worker_flush_nbx(sender.worker) is None


@EVERY_NIC
@pytest.mark.parametrize("kind", ["put", "put_nbi", "put_batch"])
def test_a3_a_flush_of_the_worker_waits_for_other_endpoints_and_then_says_canceled(sender, receiver, kind):
    closed = posted(sender, receiver, kind)
    other = posted(sender, receiver, "put")
    flushes = [ucp.ucp_worker_flush_nbx(sender.worker, closed.hears("flush")) for _ in range(2)]
    own = ucp.ucp_ep_flush_nbx(other.ep, other.hears("flush"))
    moving(closed, receiver)
    assert not other.requests[0].done
    assert ucp.ucp_ep_close_nbx(closed.ep, FORCE) is None
    assert closed.heard == [("operation", CANCELED)] * len(closed.requests)
    assert not any(each.done for each in flushes)
    assert [finish(each, sender, receiver) for each in flushes] == [CANCELED] * 2
    assert finish(own, sender, receiver) is OK
    assert other.heard == [("operation", OK), ("flush", OK)]
    assert (other.heap.bytes == DATA).all()
    closed.poison(receiver)


@pytest.mark.parametrize("kind", KINDS)
def test_a3_a_flush_called_after_a_forced_close_knows_nothing_of_that_endpoint(models, kind):
    sender, receiver = Entity(models[0]), Entity(models[1])
    operations = moving(posted(sender, receiver, kind), receiver)
    assert ucp.ucp_ep_close_nbx(operations.ep, FORCE) is None
    assert finish(ucp.ucp_worker_flush_nbx(sender.worker), sender) is OK
    operations.poison(receiver)


def test_a3_all_that_waits_for_space_in_the_ring_is_cancelled_too(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    operations = posted(sender, receiver, "put_batch")
    more = [operations.batch(kind) for kind in ("put_batch", "get_batch", "atomic_batch") for _ in range(4)]
    flushed = ucp.ucp_ep_flush_nbx(operations.ep)
    moving(operations, receiver)
    assert ucp.ucp_ep_close_nbx(operations.ep, FORCE) is None
    assert {each.code for each in more} == {flushed.code} == {CANCELED}
    operations.poison(receiver)
    assert sender.worker.rings.outstanding == 0


def test_a3_a_batch_whose_ends_are_known_to_the_nic_alone_ends_inside_the_call(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    operations = posted(sender, receiver, "put_batch")
    wait_for(lambda: (operations.heap.bytes[64 * MANY - 64 : 64 * MANY] == DATA).all(), receiver, sender)
    for _ in range(20):
        models.network.step()
    assert ucp.ucp_ep_close_nbx(operations.ep, FORCE) is None
    assert operations.requests[0].done
    operations.poison(receiver)


def test_a3_without_peer_failures_a_forced_close_is_refused_and_everything_goes_on(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    operations = posted(sender, receiver, "put", err_mode=ucp.UCP_ERR_HANDLING_MODE_NONE)
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    moving(operations, receiver)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_ep_close_nbx(operations.ep, FORCE)
    assert finish(flushed, sender, receiver) is OK
    assert operations.heard == [("operation", OK), ("flush", OK)]
    assert (operations.heap.bytes == DATA).all()


def test_a3_a_forced_close_behind_a_flushing_one_is_refused_and_everything_is_delivered(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    operations = posted(sender, receiver, "put")
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    moving(operations, receiver)
    closing = ucp.ucp_ep_close_nbx(operations.ep, operations.hears("close"))
    with pytest.raises(ucp.UcsNotConnectedError):
        ucp.ucp_ep_close_nbx(operations.ep, FORCE)
    assert finish(closing, sender, receiver) is OK
    assert flushed.code is OK
    assert operations.heard == [("operation", OK), ("flush", OK), ("close", OK)]
    assert (operations.heap.bytes == DATA).all()


@ALL_OR_SOME
def test_a3_a_flushing_close_that_is_cut_short_ends_with_all_that_it_waited_for(sender, receiver, kind):
    operations = posted(sender, receiver, kind)
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    closing = ucp.ucp_ep_close_nbx(operations.ep, operations.hears("close"))
    moving(operations, receiver)
    operations.ep.cut_short()
    assert operations.heard[-2:] == [("flush", CANCELED), ("close", CANCELED)]
    assert flushed.code is closing.code is CANCELED
    assert all(request.done for request in operations.requests)
    heard = len(operations.heard)
    operations.poison(receiver)
    assert len(operations.heard) == heard
    assert not sender.worker.lanes


@pytest.mark.parametrize("kind", KINDS)
def test_a3_keys_that_are_released_first_change_nothing(models, kind):
    sender, receiver = Entity(models[0]), Entity(models[1])
    operations = moving(posted(sender, receiver, kind), receiver)
    flushed = ucp.ucp_ep_flush_nbx(operations.ep)
    ucp.ucp_rkey_destroy(operations.heap.rkey)
    assert ucp.ucp_ep_close_nbx(operations.ep, FORCE) is None
    assert flushed.code is CANCELED
    assert all(request.done for request in operations.requests)
    operations.poison(receiver)


def destroyed(sender, receiver, kind):
    """Destroy a worker in the middle of operations, which end, and touch no buffer afterwards."""
    operations = posted(sender, receiver, kind)
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    moving(operations, receiver)
    ucp.ucp_worker_destroy(sender.worker)
    assert flushed.code is CANCELED
    assert all(request.done for request in operations.requests)
    operations.sender = receiver
    operations.poison()


@ALL_OR_SOME
def test_a3_a_worker_that_is_destroyed_ends_operations_and_flushes(sender, receiver, kind):
    destroyed(sender, receiver, kind)


@pytest.mark.parametrize("handled", [True, False])
@ALL_OR_SOME
def test_a3_operations_on_an_endpoint_that_fails_all_end_with_its_failure(sender, receiver, kind, handled):
    params = Handler().params() if handled else {"err_mode": ucp.UCP_ERR_HANDLING_MODE_NONE}
    operations = posted(sender, receiver, kind, **params)
    flushed = ucp.ucp_ep_flush_nbx(operations.ep, operations.hears("flush"))
    moving(operations, receiver)
    operations.ep.fail(ucp.UCS_ERR_CONNECTION_RESET)
    assert finish(flushed, sender, receiver) is ucp.UCS_ERR_CONNECTION_RESET
    assert {finish(request, sender, receiver) for request in operations.requests} <= {
        OK,
        ucp.UCS_ERR_CONNECTION_RESET,
    }
    assert operations.heard[-1] == ("flush", ucp.UCS_ERR_CONNECTION_RESET)
    operations.poison(receiver)


# Messages


Send = Callable[[Any, Any], Any]


def send_tagged(ep: Any, data: Any) -> Any:
    return ucp.ucp_tag_send_nbx(ep, data, len(data), 5, None)


def send_stream(ep: Any, data: Any) -> Any:
    return ucp.ucp_stream_send_nbx(ep, data, len(data), None)


def send_active(ep: Any, data: Any) -> Any:
    return ucp.ucp_am_send_nbx(ep, 3, b"", 0, data, len(data), None)


class Receiving:
    """A receiver of each kind of message, into ``place``."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity
        self.place = np.full(LENGTH, GUARD, np.uint8)
        self.requests: list[Any] = []

    def receive(self, send: Send) -> None:
        place, param = self.place, ucp.ucp_request_param_t(flags=ucp.UCP_STREAM_RECV_FLAG_WAITALL)
        if send is send_tagged:
            self.requests.append(ucp.ucp_tag_recv_nbx(self.entity.worker, place, LENGTH, 5, 5, None))
        elif send is send_stream:
            self.requests.append(ucp.ucp_stream_recv_nbx(self.entity.ep, place, LENGTH, param)[0])
        else:
            handler = ucp.ucp_am_handler_param_t(id=3, cb=self.arrived)
            ucp.ucp_worker_set_am_recv_handler(self.entity.worker, handler)

    def arrived(self, arg: Any, header: Any, header_length: int, data: Any, length: int, param: Any) -> Any:
        self.requests.append(ucp.ucp_am_recv_data_nbx(self.entity.worker, data, self.place, length, None))
        return ucp.UCS_INPROGRESS


@EVERY_NIC
@pytest.mark.parametrize("send", [send_tagged, send_stream, send_active])
def test_a3_long_messages_that_are_cancelled_are_read_no_more(sender, receiver, send):
    ep = sender.connect(receiver, err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER)
    receiver.connect(sender)
    receiving = Receiving(receiver)
    receiving.receive(send)
    data = np.full(LENGTH, DATA, np.uint8)
    requests = [send(ep, data) for _ in range(3)]
    wait_for(lambda: receiving.place[0] == DATA, sender, receiver)
    assert not requests[-1].done
    assert ucp.ucp_ep_close_nbx(ep, FORCE) is None
    assert {request.code for request in requests if not request.done} == set()
    assert requests[-1].code is CANCELED
    data[:] = POISON
    for _ in range(300):
        sender.progress()
        receiver.progress()
    assert not (receiving.place == POISON).any()
    # of a message that its receiver is reading the NIC may still ask for the rest, which is not accessible any more
    start = data.ctypes.data
    for fault in sender.adapter.nic.device.faults():
        assert not fault.write
        assert start <= fault.address < start + LENGTH


@EVERY_NIC
@pytest.mark.parametrize("send", [send_stream, send_active])
def test_a3_receives_of_an_endpoint_that_are_cancelled_are_written_no_more(sender, receiver, send):
    sender.connect(receiver)
    receiver.connect(sender, err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER)
    receiving = Receiving(receiver)
    receiving.receive(send)
    data = np.full(LENGTH, DATA, np.uint8)
    send(sender.ep, data)
    wait_for(lambda: receiving.place[0] == DATA, sender, receiver)
    (received,) = receiving.requests
    assert not received.done
    assert ucp.ucp_ep_close_nbx(receiver.ep, FORCE) is None
    assert received.code is CANCELED
    receiving.place[:] = POISON
    for _ in range(300):
        sender.progress()
        receiver.progress()
    assert (receiving.place == POISON).all()
