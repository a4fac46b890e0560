"""Driver operations per second on the model device, and of the driver alone.

Times are CPU time of this process, which does all the work, so that the load of the machine matters little. Times
depend on the machine: compare the ratios of one run.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from amoeba import BindFlags, CompletionQueue, Endpoint, MrAccess, Op, OpFlags, open_cluster
from amoeba_model.descriptors import MULTI_ALIGNMENT
from amoeba_model.device import Device

__all__ = ["measure"]

_WINDOW = 64
_TAG = 7
_STRIDE = MULTI_ALIGNMENT // 8
"""Words from one message to the next in a receive for several."""
_SEND = "tagged send, 8 bytes"


def _rate(
    post: Callable[[OpFlags], None], queue: CompletionQueue, operations: int, heard: CompletionQueue | None = None
) -> tuple[float, float]:
    """(operations per CPU second, CPU seconds per call of ``post`` alone), a window of operations at a time.

    If the peer has something to do with each, it says so in ``heard``.
    """
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
        if heard is not None:
            heard.read(_WINDOW)
    return operations / (time.process_time() - begin), posting / (operations - -(-operations // _WINDOW))


def _seconds_alone(
    post: Callable[[OpFlags], None], queue: CompletionQueue, device: Device, operations: int
) -> float:
    """CPU seconds of a call with its doorbell, on a device that swallows writes until a window has been posted."""
    posting = 0.0
    for _ in range(0, operations, _WINDOW):
        swallowed: dict[int, int] = {}
        device.write = swallowed.__setitem__  # type: ignore[method-assign]
        start = time.process_time()
        for _ in range(_WINDOW):
            post(OpFlags(0))
        posting += time.process_time() - start
        del device.write
        for offset, value in swallowed.items():
            device.write(offset, value)
        count = _WINDOW
        while count:
            count -= len(queue.read(count))
    return posting / (-(-operations // _WINDOW) * _WINDOW)


def measure(operations: int = 4096) -> dict[str, Any]:
    """Measure the rates of the calls between two model NICs, 64 operations in flight.

    For each call ``per_second`` (device and network included), ``call_ns`` (CPU time of one call: checks,
    descriptor, no doorbell), ``alone_ns`` (with the doorbell, to a device that does nothing) and ``driver_share``
    (``call_ns`` as a part of the whole).
    """
    calls: dict[str, dict[str, float]] = {}
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, local = np.zeros(64, np.uint64), np.zeros(64, np.uint64)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        desc = source.mr_reg(local, MrAccess.FI_READ | MrAccess.FI_WRITE)
        queue, peers = source.cq_open(), source.av_open()
        endpoint: Endpoint = source.endpoint(tx_size=_WINDOW, cq=queue, av=peers)
        heard, known = target.cq_open(), target.av_open()
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        server = target.endpoint(rx_size=4 * operations + 16 * _WINDOW, cq=heard, av=known, cq_flags=both)
        known.insert(endpoint.getname())
        inbox = np.zeros(_STRIDE * (4 * operations + 16 * _WINDOW + 1), np.uint64)
        server.trecv(inbox, _TAG, desc=target.mr_reg(inbox, MrAccess.FI_RECV), flags=OpFlags.FI_MULTI_RECV)
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
            _SEND: lambda flags: endpoint.tsend(operand, to[0], _TAG, flags=flags),
        }
        for name, post in posts.items():
            told = heard if name == _SEND else None
            _rate(post, queue, 4 * _WINDOW, told)
            per_second, call = _rate(post, queue, operations, told)
            alone = _seconds_alone(post, queue, source.nic.device, operations)
            calls[name] = {
                "per_second": round(per_second),
                "call_ns": round(call * 1e9),
                "alone_ns": round(alone * 1e9),
                "driver_share": round(call * per_second, 3),
            }
    return {"window": _WINDOW, "operations": operations, "calls": calls}
