"""Lines per cycle of the memory engine alone, with a host memory as slow as a real one. Exact, as bench.engine."""

import random

import numpy as np
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim.memory_bench import MemoryBench, MemoryRequest

from bench.nic import HOST_LATENCY

__all__ = ["ENGINE", "memory_rates"]

ENGINE = NicParameters(
    lines=256,
    datatypes=(Datatype.FI_INT8, Datatype.FI_UINT16, Datatype.FI_INT32, Datatype.FI_UINT64),
)
"""Parameters of the measured engine: few datatypes, since the operation does not matter here."""

_SIZE = 1 << 17
_PACKET = 4096


def _requests(base: int) -> dict[str, list[MemoryRequest]]:
    """Back-to-back requests of each kind, by name."""
    lines = _SIZE // ENGINE.beat_bytes
    order = random.Random(1).sample(range(lines), lines)
    packets = range(0, _SIZE - _PACKET, _PACKET)
    requests = {}
    for name, offset in (("aligned", 0), ("misaligned", 1)):
        starts = [base + start + offset for start in packets]
        requests[f"read 4 KiB, {name}"] = [MemoryRequest.read(start, _PACKET) for start in starts]
        requests[f"write 4 KiB, {name}"] = [MemoryRequest.write(start, bytes(_PACKET)) for start in starts]
    for name, numbers in (("one after the other", range(lines)), ("in random order", order)):
        requests[f"FI_SUM on 32 bytes, lines {name}"] = [
            MemoryRequest.atomic(Op.FI_SUM, Datatype.FI_UINT64, base + 32 * number, bytes(32), fetch=True)
            for number in numbers
        ]
    return requests


def memory_rates() -> dict[str, float]:
    """Payload bytes per cycle in the last two thirds of each kind of request."""
    bench = MemoryBench(ENGINE)
    rates = {}
    for name, requests in _requests(bench.base).items():
        outcome = bench.run(requests, np.zeros(_SIZE, np.uint8), latency=HOST_LATENCY)
        ends = [cycle for _, _, cycle in outcome.packets][len(requests) // 3 :]
        rates[name] = requests[0].length * (len(ends) - 1) / (ends[-1] - ends[0])
    return rates
