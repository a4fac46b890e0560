"""Driver operations per second on the model device, and of the driver alone.

All time is CPU time of this process, in which everything happens, so that it matters little how busy the machine is;
it depends on the machine all the same: compare the ratios of one run.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from amoeba import CompletionQueue, Endpoint, MrAccess, Op, OpFlags, open_cluster

__all__ = ["measure"]

_WINDOW = 64


def _rate(post: Callable[[OpFlags], None], queue: CompletionQueue, operations: int) -> tuple[float, float]:
    """(operations per CPU second, CPU seconds per call of ``post`` alone), a window of operations at a time."""
    posting = 0.0
    begin = time.process_time()
    for done in range(0, operations, _WINDOW):
        count = min(_WINDOW, operations - done)
        start = time.process_time()
        for _ in range(count - 1):
            post(OpFlags.FI_MORE)
        posting += time.process_time() - start
        post(OpFlags(0))
        while count:
            count -= len(queue.read(count))
    return operations / (time.process_time() - begin), posting / (operations - -(-operations // _WINDOW))


def measure(operations: int = 4096) -> dict[str, Any]:
    """Rates of the calls between two model NICs, 64 operations under way.

    For each call ``per_second`` (device and network included), ``call_ns`` (CPU time of one call: checks,
    descriptor, no doorbell) and ``driver_share`` (that time as a part of the whole).
    """
    calls: dict[str, dict[str, float]] = {}
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, local = np.zeros(64, np.uint64), np.zeros(64, np.uint64)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        desc = source.mr_reg(local, MrAccess.FI_READ | MrAccess.FI_WRITE)
        queue, peers = source.cq_open(), source.av_open()
        endpoint: Endpoint = source.endpoint(tx_size=_WINDOW, cq=queue, av=peers)
        server = target.endpoint(cq=target.cq_open(), av=target.av_open())
        to = (peers.insert(server.getname()), region.address, region.key)
        operand, result = local[:1], local[1:2]
        posts: dict[str, Callable[[OpFlags], None]] = {
            "atomic": lambda flags: endpoint.atomic(operand, *to, Op.FI_SUM, flags=flags),
            "fetch_atomic": lambda flags: endpoint.fetch_atomic(
                operand, result, *to, Op.FI_SUM, result_desc=desc, flags=flags
            ),
            "fetch_atomic, result not registered": lambda flags: endpoint.fetch_atomic(
                operand, result, *to, Op.FI_SUM, flags=flags
            ),
            "write, 8 bytes": lambda flags: endpoint.write(operand, *to, flags=flags),
            "write, 512 bytes": lambda flags: endpoint.write(local, *to, desc=desc, flags=flags),
            "read, 512 bytes": lambda flags: endpoint.read(local, *to, desc=desc, flags=flags),
        }
        for name, post in posts.items():
            _rate(post, queue, 4 * _WINDOW)
            per_second, call = _rate(post, queue, operations)
            calls[name] = {
                "per_second": round(per_second),
                "call_ns": round(call * 1e9),
                "driver_share": round(call * per_second, 3),
            }
    return {"window": _WINDOW, "operations": operations, "calls": calls}
