"""What operations of UCX's API take: the host's CPU time beside libfabric's endpoint's in one run, and cycles.

Host time: two model NICs, 8 bytes, windows of 64 operations, posted without a doorbell so that no device has part in
it, and taken when all have come. The best window counts. Neither side names registered memory.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, cast

import amoeba.ucp as ucp
import numpy as np
from amoeba import MrAccess, Op, OpFlags, open_cluster
from amoeba.core.buffers import allocate
from amoeba.ucp.adapter import open_adapters
from amoeba_model.network import SimulatedDevice
from amoeba_model.trace import Stage

from bench import nic
from bench.report import Grid

__all__ = ["HOST_LIMIT", "cycles", "host_grid", "host_times", "misses"]

HOST_LIMIT = 1.25
"""The most that an operation is to take, in libfabric's of the same run."""
_WINDOW = 64
_LATENCIES = 400
"""Network latencies after which everything posted has completed."""
_RING = 512
"""Operations that are kept under way: what a worker's lane may have in the ring."""

Times = dict[str, float]
"""CPU microseconds by what was done."""


class _Best:
    """The least time of each thing that is timed."""

    def __init__(self) -> None:
        self.seconds: Times = {}

    def time(self, name: str, function: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = function()
        spent = time.process_time() - begin
        self.seconds[name] = min(spent, self.seconds.get(name, spent))
        return result

    def each(self) -> Times:
        """Microseconds of an operation: posting it and taking it."""
        names = {name.removesuffix(", end") for name in self.seconds}
        return {name: 1e6 / _WINDOW * (self.seconds[name] + self.seconds[f"{name}, end"]) for name in sorted(names)}


def _libfabric(windows: int) -> Times:
    best = _Best()
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, result, operand = np.zeros(8, np.uint64), np.zeros(1, np.uint64), np.ones(1, np.uint64)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        queue, peers = source.cq_open(), source.av_open()
        endpoint = source.endpoint(tx_size=4 * _WINDOW, cq=queue, av=peers)
        server = target.endpoint(cq=target.cq_open(), av=target.av_open())
        peer = peers.insert(server.getname())
        address, key, more, add, data = region.address, region.key, OpFlags.FI_MORE, Op.FI_SUM, bytes(operand)

        def puts() -> None:
            for _ in range(_WINDOW):
                endpoint.write(data, peer, address, key, flags=more)

        def fetches() -> None:
            for _ in range(_WINDOW):
                endpoint.fetch_atomic(operand, result, peer, address, key, add, flags=more)

        for name, post in (("put", puts), ("fetching atomic", fetches)):
            for _ in range(windows):
                best.time(name, post)
                queue.read(1)  # announces them
                for _ in range(_LATENCIES):
                    source.nic.device.advance()
                taken = best.time(f"{name}, end", functools.partial(queue.read, _WINDOW))
                assert len(taken) == _WINDOW, f"{len(taken)} of {_WINDOW} entries"
    return best.each()


def _ucp(windows: int) -> Times:
    best = _Best()
    with open_adapters() as adapters:
        contexts = [ucp.ucp_init(ucp.ucp_params_t(features=_FEATURES), adapter=each) for each in adapters]
        worker, other = (ucp.ucp_worker_create(each, ucp.ucp_worker_params_t()) for each in contexts)
        memory, result, operand = np.zeros(8, np.uint64), np.zeros(1, np.uint64), np.ones(1, np.uint64)
        memh = ucp.ucp_mem_map(contexts[1], ucp.ucp_mem_map_params_t(address=memory, length=memory.nbytes))
        address = ucp.ucp_worker_get_address(other)[0]
        ep = ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=address))
        rkey = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(contexts[1], memh)[0])
        place, data = memh.address, bytes(operand)
        many = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_MULTI_SEND)
        fetch = ucp.ucp_request_param_t(
            op_attr_mask=ucp.UCP_OP_ATTR_FLAG_MULTI_SEND, datatype=ucp.ucp_dt_make_contig(8), reply_buffer=result
        )
        ucp.ucp_put(ep, data, 8, place, rkey)

        def puts() -> None:
            for _ in range(_WINDOW):
                ucp.ucp_put_nbx(ep, data, 8, place, rkey, many)

        def fetches() -> None:
            for _ in range(_WINDOW):
                ucp.ucp_atomic_op_nbx(ep, ucp.UCP_ATOMIC_OP_ADD, operand, 1, place, rkey, fetch)

        for name, post in (("put", puts), ("fetching atomic", fetches)):
            for _ in range(windows):
                ucp.ucp_worker_flush(worker)
                best.time(name, post)
                worker.rings.announce()
                for _ in range(_LATENCIES):
                    worker.nic.device.advance()
                taken = best.time(f"{name}, end", functools.partial(ucp.ucp_worker_progress, worker))
                assert taken >= _WINDOW, f"{taken} of {_WINDOW} operations"
    return best.each()


_FEATURES = ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_AMO64


def host_times(windows: int = 60) -> tuple[Times, Times]:
    """Of an operation through UCX's API, and through libfabric's endpoint, taken in turns."""
    sides: list[Times] = [{}, {}]
    for _ in range(3):
        for best, measure in zip(sides, (_ucp, _libfabric), strict=True):
            for name, spent in measure(windows).items():
                best[name] = min(spent, best.get(name, spent))
    return sides[0], sides[1]


def misses(ours: Times, libfabrics: Times) -> list[str]:
    """What takes more than it is to take."""
    return [name for name, spent in ours.items() if spent > HOST_LIMIT * libfabrics[name]]


def host_grid(ours: Times, libfabrics: Times) -> Grid:
    """Both side by side."""
    rows = [
        (
            name,
            round(spent, 2),
            round(theirs := libfabrics[name], 2),
            round(spent / theirs, 2),
            f"at most {HOST_LIMIT}",
        )
        for name, spent in ours.items()
    ]
    header = ("8 bytes, posted and taken", "UCP us", "endpoint us", "ratio", "limit")
    return Grid("an operation of UCX's API beside libfabric's endpoint, two model NICs", header, rows)


def cycles(count: int = 4096, size: int = 1 << 16, kind: str = "rtl") -> dict[str, float]:
    """Cycles per 8-byte put and fetching atomic, and payload bytes per cycle of puts and gets of ``size`` bytes."""
    with open_adapters(
        [kind, kind], latency=nic.LINK_LATENCY, rtl_options={"host_latency": nic.HOST_LATENCY}
    ) as adapters:
        contexts = [ucp.ucp_init(ucp.ucp_params_t(features=_FEATURES), adapter=each) for each in adapters]
        worker, other = (ucp.ucp_worker_create(each, ucp.ucp_worker_params_t()) for each in contexts)
        memory, local = (np.frombuffer(allocate(max(size, 8 * count)), np.uint64) for _ in range(2))
        memh = ucp.ucp_mem_map(contexts[1], ucp.ucp_mem_map_params_t(address=memory, length=memory.nbytes))
        address = ucp.ucp_worker_get_address(other)[0]
        ep = ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=address))
        rkey = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(contexts[1], memh)[0])
        one, lane = (1).to_bytes(8, "little"), ep.memory
        device = cast(SimulatedDevice, worker.nic.device)
        device.tracing = True

        def each(name: str, number: int, post: Callable[[int], object]) -> float:
            """Cycles per operation in the middle half of them."""
            device.trace_events()
            for index in range(number):
                post(index)
                while lane.posted - lane.done >= _RING:
                    ucp.ucp_worker_progress(worker)
            ucp.ucp_worker_flush(worker)
            written = [event.cycle for event in device.trace_events() if event.stage is Stage.COMPLETION_WRITTEN]
            assert len(written) == number, f"{name}: {len(written)} completions of {number} operations"
            first, last = number // 4, number - number // 4
            return (written[last] - written[first]) / (last - first)

        many = ucp.UCP_OP_ATTR_FLAG_MULTI_SEND
        put = ucp.ucp_request_param_t(op_attr_mask=many)
        ucp.ucp_put(ep, one, 8, memh.address, rkey)
        ucp.ucp_worker_flush(worker)
        found = {"8-byte put": each("put", count, lambda _: ucp.ucp_put_nbx(ep, one, 8, memh.address, rkey, put))}
        replies = [local[index : index + 1] for index in range(count)]
        params = [
            ucp.ucp_request_param_t(op_attr_mask=many, datatype=ucp.ucp_dt_make_contig(8), reply_buffer=reply)
            for reply in replies
        ]
        add = ucp.UCP_ATOMIC_OP_ADD
        found["8-byte fetching atomic"] = each(
            "atomic",
            count,
            lambda index: ucp.ucp_atomic_op_nbx(ep, add, one, 1, memh.address, rkey, params[index]),
        )
        assert np.array_equal(np.sort(local[:count]), np.arange(1, count + 1))
        transfers = {"put": ucp.ucp_put_nbi, "get": ucp.ucp_get_nbi}
        for name, call in transfers.items():
            local[:] = np.arange(len(local)) if name == "put" else 0
            view = memoryview(local).cast("B")[:size]
            taken = each(name, 16, lambda _: call(ep, view, size, memh.address, rkey))  # noqa: B023
            found[f"64 KiB {name}"] = size / taken
            assert np.array_equal(local[: size // 8], memory[: size // 8])
        return found
