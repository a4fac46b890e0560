"""The host's CPU time for operations of UCX's API, beside libfabric's endpoint in the same run.

Two model NICs, 8 bytes, windows of 64 operations. Completions are taken when all have come, so that no device works
in the timed part. Both sides post memory operations without a doorbell if possible; messages have one each. The best
window counts. Neither side names registered memory.
"""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import amoeba.ucp as ucp
import numpy as np
from amoeba import BindFlags, MrAccess, Op, OpFlags, open_cluster
from amoeba.openucx.ucp.adapter import open_adapters

from bench.report import Grid

__all__ = ["HOST_LIMIT", "host_grid", "host_times", "misses"]

HOST_LIMIT = 1.25
"""The most that an operation is to take, in libfabric's of the same run."""
_WINDOW = 64
_LATENCIES = 400
"""Network latencies after which everything posted has completed."""
_TAG = 7
_AM_ID = 1

Times = dict[str, float]
"""CPU microseconds by what was done."""


class _Work(NamedTuple):
    """A window of operations, and how they are taken. ``before`` and ``after`` are not timed."""

    post: Callable[[], Any]
    take: Callable[[], Any]
    before: Callable[[], Any] = lambda: None
    between: Callable[[], Any] = lambda: None
    """After posting: what it is that comes, if it is not what was posted."""
    after: Callable[[], Any] = lambda: None


class _Side(NamedTuple):
    works: dict[str, _Work]
    settle: Callable[[], Any]
    """Announce what waits, and let all of it happen."""


def _repeated(call: Callable[[], Any]) -> Callable[[], None]:
    def window() -> None:
        for _ in range(_WINDOW):
            call()

    return window


def _timed(function: Callable[[], Any]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def _best(side: _Side, windows: int) -> Times:
    """Microseconds of an operation: posting it and taking it; and of taking one put."""
    found: Times = {}
    for name, work in side.works.items():
        posted = taken = float("inf")
        for _ in range(windows):
            work.before()
            posted = min(posted, _timed(work.post))
            work.between()
            side.settle()
            taken = min(taken, _timed(work.take))
            work.after()
        found[name] = (posted + taken) * 1e6 / _WINDOW
        if name == "put":
            found["completion of a put"] = taken * 1e6 / _WINDOW
    return found


@contextmanager
def _libfabric() -> Iterator[_Side]:
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, result, operand = np.zeros(8, np.uint64), np.zeros(1, np.uint64), np.ones(1, np.uint64)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        queue, peers, arrived = source.cq_open(), source.av_open(), target.cq_open()
        endpoint = source.endpoint(tx_size=4 * _WINDOW, cq=queue, av=peers)
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        server = target.endpoint(rx_size=4 * _WINDOW, cq=arrived, av=target.av_open(), cq_flags=both)
        peer = peers.insert(server.getname())
        place, key, more, add, data = region.address, region.key, OpFlags.FI_MORE, Op.FI_SUM, bytes(operand)
        buffers = [bytearray(8) for _ in range(_WINDOW)]

        def receive() -> None:
            for buffer in buffers:
                server.trecv(buffer, _TAG)

        def receive_untagged() -> None:
            for buffer in buffers:
                server.recv(buffer)

        def send() -> None:
            for _ in range(_WINDOW):
                endpoint.tsend(data, peer, _TAG)

        def settle() -> None:
            queue.read(1)  # announces them
            for _ in range(_LATENCIES):
                source.nic.device.advance()

        def taken() -> None:
            assert len(queue.read(_WINDOW)) == _WINDOW

        def received() -> None:
            assert len(arrived.read(_WINDOW)) == _WINDOW

        calls: dict[str, Callable[[], Any]] = {
            "put": lambda: endpoint.write(data, peer, place, key, flags=more),
            "get": lambda: endpoint.read(result, peer, place, key, flags=more),
            "posted atomic": lambda: endpoint.atomic(operand, peer, place, key, add, flags=more),
            "fetching atomic": lambda: endpoint.fetch_atomic(operand, result, peer, place, key, add, flags=more),
            "ucp_atomic_post": lambda: endpoint.atomic(operand, peer, place, key, add),
            "ucp_atomic_fetch_nb": lambda: endpoint.fetch_atomic(operand, result, peer, place, key, add),
        }
        works = {name: _Work(_repeated(call), taken) for name, call in calls.items()}
        works["tagged send"] = _Work(
            _repeated(lambda: endpoint.tsend(data, peer, _TAG)), taken, before=receive, after=received
        )
        works["tagged receive"] = _Work(receive, received, between=send, after=taken)
        works["tagged send, with a structure"] = works["tagged send"]
        works["active message"] = works["active message, with a structure"] = _Work(
            _repeated(lambda: endpoint.send(data, peer)), taken, before=receive_untagged, after=received
        )
        yield _Side(works, settle)


@contextmanager
def _ucp() -> Iterator[_Side]:
    features = ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_AMO64 | ucp.UCP_FEATURE_TAG | ucp.UCP_FEATURE_AM
    with open_adapters() as adapters:
        contexts = [ucp.ucp_init(ucp.ucp_params_t(features=features), adapter=each) for each in adapters]
        worker, other = (ucp.ucp_worker_create(each, ucp.ucp_worker_params_t()) for each in contexts)
        memory, result, operand = np.zeros(8, np.uint64), np.zeros(1, np.uint64), np.ones(1, np.uint64)
        memh = ucp.ucp_mem_map(contexts[1], ucp.ucp_mem_map_params_t(address=memory, length=memory.nbytes))
        ep = ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=ucp.ucp_worker_get_address(other)[0]))
        rkey = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(contexts[1], memh)[0])
        place, data, buffers = memh.address, bytes(operand), [bytearray(8) for _ in range(_WINDOW)]
        add, fadd, posted_add = ucp.UCP_ATOMIC_OP_ADD, ucp.UCP_ATOMIC_FETCH_OP_FADD, ucp.UCP_ATOMIC_POST_OP_ADD
        several, eight = ucp.UCP_OP_ATTR_FLAG_MULTI_SEND, ucp.ucp_dt_make_contig(8)
        many = ucp.ucp_request_param_t(op_attr_mask=several)
        change = ucp.ucp_request_param_t(op_attr_mask=several, datatype=eight)
        fetch = ucp.ucp_request_param_t(op_attr_mask=several, datatype=eight, reply_buffer=result)
        ucp.ucp_worker_set_am_recv_handler(
            other, ucp.ucp_am_handler_param_t(id=_AM_ID, cb=lambda *_: ucp.UcsStatus.UCS_OK)
        )
        ucp.ucp_put(ep, data, 8, place, rkey)

        def receive() -> None:
            for buffer in buffers:
                ucp.ucp_tag_recv_nbx(other, buffer, 8, _TAG, 2**64 - 1, None)

        def send() -> None:
            for _ in range(_WINDOW):
                ucp.ucp_tag_send_nbx(ep, data, 8, _TAG, None)

        def settle() -> None:
            worker.rings.announce()
            for _ in range(_LATENCIES):
                worker.nic.device.advance()

        def taken() -> None:
            count = ucp.ucp_worker_progress(worker)
            assert count >= _WINDOW, f"{count} of {_WINDOW} operations"

        def received() -> None:
            count = ucp.ucp_worker_progress(other)
            assert count >= _WINDOW, f"{count} of {_WINDOW} messages"

        flush = functools.partial(ucp.ucp_worker_flush, worker)
        calls: dict[str, Callable[[], Any]] = {
            "put": lambda: ucp.ucp_put_nbx(ep, data, 8, place, rkey, many),
            "get": lambda: ucp.ucp_get_nbx(ep, result, 8, place, rkey, many),
            "posted atomic": lambda: ucp.ucp_atomic_op_nbx(ep, add, operand, 1, place, rkey, change),
            "fetching atomic": lambda: ucp.ucp_atomic_op_nbx(ep, add, operand, 1, place, rkey, fetch),
            "ucp_atomic_post": lambda: ucp.ucp_atomic_post(ep, posted_add, 1, 8, place, rkey),
            "ucp_atomic_fetch_nb": lambda: ucp.ucp_atomic_fetch_nb(ep, fadd, 1, result, 8, place, rkey, None),
        }
        works = {name: _Work(_repeated(call), taken, before=flush) for name, call in calls.items()}
        works["tagged send"] = _Work(send, taken, before=receive, after=received)
        works["tagged receive"] = _Work(receive, received, between=send, after=taken)
        told = ucp.ucp_request_param_t(cb=lambda *_: None, user_data=ep, flags=0)
        works["tagged send, with a structure"] = works["tagged send"]._replace(
            post=_repeated(lambda: ucp.ucp_tag_send_nbx(ep, data, 8, _TAG, told))
        )
        for name, param in (("active message", None), ("active message, with a structure", told)):
            call = functools.partial(ucp.ucp_am_send_nbx, ep, _AM_ID, None, 0, data, 8, param)
            works[name] = _Work(_repeated(call), taken, after=received)
        yield _Side(works, settle)


def host_times(windows: int = 40, rounds: int = 3) -> tuple[Times, Times]:
    """Measure operations through UCX's API and through libfabric's endpoint, alternately."""
    sides: tuple[Times, Times] = ({}, {})
    for _ in range(rounds):
        for best, make in zip(sides, (_ucp, _libfabric), strict=True):
            with make() as side:
                for name, spent in _best(side, windows).items():
                    best[name] = min(spent, best.get(name, spent))
    return sides


def misses(ours: Times, libfabrics: Times) -> list[str]:
    """List the operations that take more than their limits."""
    return [name for name, spent in ours.items() if spent > HOST_LIMIT * libfabrics[name]]


def host_grid(ours: Times, libfabrics: Times) -> Grid:
    """Return a table of both APIs side by side."""
    limit = f"at most {HOST_LIMIT}"
    rows = [
        (name, round(spent, 2), round(libfabrics[name], 2), round(spent / libfabrics[name], 2), limit)
        for name, spent in ours.items()
    ]
    header = ("8 bytes, posted and taken", "UCP us", "endpoint us", "ratio", "limit")
    return Grid("an operation of UCX's API beside libfabric's endpoint, two model NICs", header, rows)
