"""Operations of two model NICs per second of CPU time: a program of its own, for any state of the packages.

Prints JSON: by operation, ``whole`` (operations per CPU second, driver and network included) and ``model``
(operations per CPU second in devices and network, without the driver's calls). The arguments are the CPU seconds per
operation, and the operations: ``python model_program.py SECONDS [OPERATION...]``.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from amoeba import MrAccess, Op, OpFlags, open_cluster

_WINDOW = 64
_LONG = 1 << 16
_LONG_WINDOW = 4
"""Posted at a time; each is 16 packets."""


class Stopwatch:
    """CPU seconds within some functions, which it stands in for; calls within each other count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = False

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **keywords: Any) -> Any:
            if self._running:
                return function(*arguments, **keywords)
            self._running = True
            started = time.process_time()
            try:
                return function(*arguments, **keywords)
            finally:
                self.seconds += time.process_time() - started
                self._running = False

        return timed


def measure(seconds: float, only: list[str]) -> dict[str, dict[str, float]]:
    """Operations per CPU second, of those named in ``only``, or of all."""
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, local = np.zeros(2 * _LONG, np.uint8), np.zeros(2 * _LONG, np.uint8)
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        desc = source.mr_reg(local, MrAccess.FI_READ | MrAccess.FI_WRITE)
        queue, peers = source.cq_open(), source.av_open()
        endpoint = source.endpoint(tx_size=_WINDOW, cq=queue, av=peers)
        server = target.endpoint(cq=target.cq_open(), av=target.av_open())
        to = (peers.insert(server.getname()), region.address, region.key)

        def posts(size: int) -> dict[str, Callable[[OpFlags], None]]:
            data = local[:size]
            words, result = data.view(np.uint64), local[_LONG : _LONG + size].view(np.uint64)
            doubles = data.view(np.float64)
            return {
                "write": lambda flags: endpoint.write(data, *to, desc=desc, flags=flags),
                "read": lambda flags: endpoint.read(data, *to, desc=desc, flags=flags),
                "sum": lambda flags: endpoint.atomic(words, *to, Op.FI_SUM, desc=desc, flags=flags),
                "fetched sum": lambda flags: endpoint.fetch_atomic(
                    words, result, *to, Op.FI_SUM, desc=desc, result_desc=desc, flags=flags
                ),
                "sum of doubles": lambda flags: endpoint.atomic(doubles, *to, Op.FI_SUM, desc=desc, flags=flags),
            }

        watch = Stopwatch()
        for device in fabric.devices:
            device.write = watch.around(device.write)  # type: ignore[method-assign]
        network = fabric.network
        assert network is not None
        network.step = watch.around(network.step)  # type: ignore[method-assign]
        rates = {}
        for size, window in ((8, _WINDOW), (_LONG, _LONG_WINDOW)):
            for name, post in posts(size).items():
                what = f"{name}, {size} bytes"
                if only and what not in only:
                    continue
                _batch(post, queue, window)
                done, watch.seconds = 0, 0.0
                started = time.process_time()
                while (spent := time.process_time() - started) < seconds:
                    _batch(post, queue, window)
                    done += window
                rates[what] = {"whole": done / spent, "model": done / watch.seconds}
        return rates


def _batch(post: Callable[[OpFlags], None], queue: Any, window: int) -> None:
    """Post a window of operations behind one doorbell, and wait for all of them."""
    for _ in range(window - 1):
        post(OpFlags.FI_MORE)
    post(OpFlags(0))
    while window:
        window -= len(queue.read(window))


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]), sys.argv[2:])))
