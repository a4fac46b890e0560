"""Cycles of memory operations of UCX's API."""

from collections.abc import Callable
from typing import cast

import amoeba.ucp as ucp
import numpy as np
from amoeba.core.buffers import allocate
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.network import SimulatedDevice
from amoeba_model.trace import Stage

from bench import nic

__all__ = ["cycles"]

_RING = 1024
"""Operations that are kept in flight: as many as a worker's lane may have in the ring."""
_FEATURES = ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_AMO64


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
