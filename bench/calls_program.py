"""Time of the driver's calls, on the state of the project that this runs with: CPU microseconds, as JSON.

Two model NICs, 8 bytes, windows of 64 operations. Posting: a call that does not ring the doorbell (FI_MORE), so that
the device does no work. Reading: the call that reads a window whose completions have all come, per entry.
"""

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from amoeba import BindFlags, CompletionQueue, Domain, MrAccess, Op, OpFlags, open_cluster

_WINDOW = 64
_TAG = 7
_ROUNDS = 400
"""Network latencies after which everything posted has completed."""


class _Best:
    """The least time of each timed call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, function: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = function()
        spent = time.process_time() - begin
        self.seconds[name] = min(spent, self.seconds.get(name, spent))
        return result


def _rest(queue: CompletionQueue, taken: int) -> None:
    """Read what is left of a window."""
    while taken < _WINDOW:
        taken += len(queue.read(_WINDOW - taken))


def _wait(domain: Domain) -> None:
    """Let everything complete, without reading it."""
    for _ in range(_ROUNDS):
        domain.nic.device.advance()


def measure(windows: int) -> dict[str, float]:
    """Microseconds by what was done."""
    best = _Best()
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, local, inbox = (np.zeros(_WINDOW, np.uint64) for _ in range(3))
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        desc = source.mr_reg(local, MrAccess.FI_READ | MrAccess.FI_WRITE)
        taking = target.mr_reg(inbox, MrAccess.FI_RECV)
        queue, peers = source.cq_open(), source.av_open()
        endpoint = source.endpoint(tx_size=_WINDOW, cq=queue, av=peers)
        heard, known = target.cq_open(), target.av_open()
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        server = target.endpoint(rx_size=4 * _WINDOW, cq=heard, av=known, cq_flags=both)
        known.insert(endpoint.getname())
        peer = peers.insert(server.getname())
        operand, result, places = local[:1], local[1:2], [inbox[n : n + 1] for n in range(_WINDOW)]
        more = OpFlags.FI_MORE
        address, key, add = region.address, region.key, Op.FI_SUM

        # written out: whatever stood between the loop and the call would count as the call's
        def fetch_atomics(count: int, flags: OpFlags) -> None:
            for _ in range(count):
                endpoint.fetch_atomic(operand, result, peer, address, key, add, result_desc=desc, flags=flags)

        def writes(count: int, flags: OpFlags) -> None:
            for _ in range(count):
                endpoint.write(operand, peer, address, key, flags=flags)

        def tsends(count: int, flags: OpFlags) -> None:
            for _ in range(count):
                endpoint.tsend(operand, peer, _TAG, flags=flags)

        posts = {"fetch_atomic": fetch_atomics, "write": writes, "tsend": tsends}

        def receive() -> None:
            for place in places:
                server.trecv(place, _TAG, desc=taking, flags=more)

        for name, post in posts.items():
            for _ in range(windows):
                if name == "tsend":
                    best.time("trecv", receive)
                    heard.read(1)  # announces them
                best.time(name, functools.partial(post, _WINDOW - 1, more))
                post(1, OpFlags(0))
                _wait(source)
                taken = best.time("cq.read of an entry", lambda: queue.read(_WINDOW))
                _rest(queue, len(taken))
                if name == "tsend":
                    taken = best.time("reading a received entry", lambda: heard.read(_WINDOW))
                    _rest(heard, len(taken))
    calls = dict.fromkeys(posts, _WINDOW - 1)
    return {name: 1e6 * spent / calls.get(name, _WINDOW) for name, spent in best.seconds.items()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
