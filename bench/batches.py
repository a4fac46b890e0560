"""The driver's time for an operation of a batch, and for one that is posted alone.

Only the driver is measured. It posts all operations to a device that ignores writes; then the NICs execute them all,
and then the driver takes the completions. Times are CPU time, the best of many. After the NICs' work the caches hold
nothing of the driver for the first call. Every buffer lies in a region, since access for a single batch is the
device's work, not the driver's.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from amoeba import CompletionQueue, Fabric, MrAccess, Op, open_cluster
from amoeba_model.device import Device

from bench.report import Grid

__all__ = ["LIMIT", "batches_grid", "measure", "misses"]

LIMIT = 150
"""Maximum nanoseconds of an operation in a batch, posting and completing together."""
_BATCH = 1024
_OUTSTANDING = 8
"""Batches, or as many operations, that are posted before the NICs begin."""
_ROUNDS = 7
_QUIET = 20
"""Network latencies without a frame after which everything has been done."""


def _let_the_nics_work(fabric: Fabric) -> None:
    """Step until no frame has been in flight for a while."""
    network, quiet, sent = fabric.network, 0, 0
    assert network is not None  # of model devices
    while quiet < _QUIET:
        network.step()
        quiet = 0 if network.moving or network.traffic.sent != sent else quiet + 1
        sent = network.traffic.sent


def _seconds(
    fabric: Fabric, device: Device, queue: CompletionQueue, post: Callable[[], object], calls: int
) -> tuple[float, float]:
    """Measure CPU seconds of a call of ``post``, and of taking its completion; ``calls`` of them are in flight."""
    best = [float("inf")] * 2
    for _ in range(_ROUNDS):
        swallowed: dict[int, int] = {}
        device.write = swallowed.__setitem__  # type: ignore[method-assign]
        for _ in range(_OUTSTANDING):
            start = time.process_time()
            for _ in range(calls // _OUTSTANDING):
                post()
            best[0] = min(best[0], (time.process_time() - start) / (calls // _OUTSTANDING))
        del device.write
        for offset, value in swallowed.items():
            device.write(offset, value)
        _let_the_nics_work(fabric)
        device.write = swallowed.__setitem__  # type: ignore[method-assign]
        begin, taken = time.process_time(), 0
        while taken < calls:
            taken += len(queue.read(calls))
        end = time.process_time()
        del device.write
        for offset, value in swallowed.items():
            device.write(offset, value)
        best[1] = min(best[1], (end - begin) / calls)
    return best[0], best[1]


def measure(batch: int = _BATCH) -> dict[str, Any]:
    """Nanoseconds per operation of two model NICs' driver: ``post`` and ``complete`` in batches, ``single`` alone."""
    calls: dict[str, dict[str, float]] = {}
    rng = np.random.default_rng(1)
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, local = np.zeros(4096, np.uint64), np.zeros((3, batch), np.uint64)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        desc = source.mr_reg(local, MrAccess.FI_READ | MrAccess.FI_WRITE)
        queue, peers = source.cq_open(), source.av_open()
        endpoint = source.endpoint(tx_size=_OUTSTANDING * batch, cq=queue, av=peers)
        heard, known = target.cq_open(), target.av_open()
        servers = [target.endpoint(cq=heard, av=known) for _ in range(2)]
        several = np.array([peers.insert(server.getname()) for server in servers])[rng.integers(0, 2, batch)]
        peer, key = int(several[0]), region.key
        operands, compare, result = local
        index = rng.integers(0, len(memory), batch)
        addr, one, old = region.address + 8 * index.astype(np.uint64), operands[:1], result[:1]
        to = (peer, region.address, key)
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object] | None]] = {
            "write": (
                lambda: endpoint.write_batch(operands, peer, addr, key),
                lambda: endpoint.write(one, *to),
            ),
            "read": (
                lambda: endpoint.read_batch(result, peer, addr, key, desc=desc),
                lambda: endpoint.read(old, *to, desc=desc),
            ),
            "atomic": (
                lambda: endpoint.atomic_batch(operands, peer, addr, key, Op.FI_SUM),
                lambda: endpoint.atomic(one, *to, Op.FI_SUM),
            ),
            "fetch_atomic": (
                lambda: endpoint.fetch_atomic_batch(operands, result, peer, addr, key, Op.FI_SUM, result_desc=desc),
                lambda: endpoint.fetch_atomic(one, old, *to, Op.FI_SUM, result_desc=desc),
            ),
            "compare_atomic": (
                lambda: endpoint.compare_atomic_batch(
                    operands, compare, result, peer, addr, key, Op.FI_CSWAP, result_desc=desc
                ),
                lambda: endpoint.compare_atomic(one, compare[:1], old, *to, Op.FI_CSWAP, result_desc=desc),
            ),
            "atomic, by index": (
                lambda: endpoint.atomic_batch(operands, *to, Op.FI_SUM, index=index),
                None,
            ),
            "atomic, two peers": (lambda: endpoint.atomic_batch(operands, several, addr, key, Op.FI_SUM), None),
        }
        for name, (post, post_one) in pairs.items():
            nanoseconds = {}
            posting, completing = _seconds(fabric, source.nic.device, queue, post, _OUTSTANDING)
            nanoseconds["post"], nanoseconds["complete"] = posting / batch * 1e9, completing / batch * 1e9
            if post_one is not None:
                nanoseconds["single"] = sum(_seconds(fabric, source.nic.device, queue, post_one, batch)) * 1e9
            calls[name] = {what: round(each, 1) for what, each in nanoseconds.items()}
        endpoint.close()
    return {"batch": batch, "outstanding": _OUTSTANDING, "calls": calls}


def batches_grid(measured: dict[str, Any]) -> Grid:
    rows = []
    for name, call in measured["calls"].items():
        both = call["post"] + call["complete"]
        single = call.get("single")
        rows.append(
            (
                name,
                round(call["post"]),
                round(call["complete"]),
                round(both),
                "" if single is None else f"{single:,.0f}",
                "" if single is None else f"{single / both:.0f}",
            )
        )
    return Grid(
        f"nanoseconds of the driver per operation, in batches of {measured['batch']:,}",
        ("operation", "posting", "completing", "together", "one by one", "times as much"),
        rows,
    )


def misses(measured: dict[str, Any]) -> list[str]:
    """List the calls that take more than :data:`LIMIT`, in words."""
    return [
        f"{name} takes {both:.0f} ns instead of {LIMIT}"
        for name, call in measured["calls"].items()
        if (both := call["post"] + call["complete"]) > LIMIT
    ]
