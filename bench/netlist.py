"""The speed of the node's netlist in Verilator, beside that of its RTL in the same run.

Seconds are CPU time. A model NIC writes, reads and fetch-adds 8 bytes of the node's memory, one operation at a time.
"""

import time

import amoeba
import numpy as np
from amoeba import MrAccess, Op
from amoeba_model.parameters import BUILDS

__all__ = ["KINDS", "netlist_speed"]

KINDS = {"RTL": "rtl", "netlist": "netlist:node"}
_ROUNDS = 20
_IDLE = 2000
"""Cycles."""


def _speeds(kind: str) -> tuple[float, float]:
    """Return the cycles per second of a node that has nothing to do, and of one in use."""
    with amoeba.open_cluster(("model", kind), (BUILDS["tiny"], BUILDS["node"])) as fabric:
        device = fabric.nics[1].device
        host, node = fabric.domain(0), fabric.domain(1)
        memory, buffer = np.zeros(1, np.uint64), bytearray(8)
        with (
            node.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE) as region,
            node.cq_open() as unused, node.av_open() as nobody, node.endpoint(cq=unused, av=nobody) as passive,
            host.cq_open() as queue, host.av_open() as addresses, host.endpoint(cq=queue, av=addresses) as endpoint,
        ):  # fmt: skip
            place = addresses.insert(passive.getname()), region.address, region.key
            busy = time.process_time(), device.cycles
            for number in range(_ROUNDS):
                endpoint.write(number.to_bytes(8, "little"), *place)
                queue.sread(1)
                endpoint.fetch_atomic(np.ones(1, np.uint64), np.zeros(1, np.uint64), *place, Op.FI_SUM)
                queue.sread(1)
                endpoint.read(buffer, *place)
                queue.sread(1)
                assert int.from_bytes(buffer, "little") == number + 1
            idle = time.process_time(), device.cycles
            for _ in range(_IDLE // 50):
                device.advance()
            end = time.process_time(), device.cycles
        node.close(), host.close()
    return _rate(idle, end), _rate(busy, idle)


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])


def netlist_speed() -> dict[str, float]:
    """Measure simulated cycles per second of RTL and netlist."""
    figures = {}
    for name, kind in KINDS.items():
        idle, busy = _speeds(kind)
        figures |= {f"node, {name}, idle": idle, f"node, {name}, in use": busy}
    return figures
