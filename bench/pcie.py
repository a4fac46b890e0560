"""Cycles of two whole RTL NICs on PCI Express, beside what packets of the usual sizes leave of the link. Exact."""

from typing import cast

import numpy as np
from amoeba.core.buffers import allocate
from amoeba.libfabric.objects.constants import MrAccess
from amoeba_model.network import SimulatedDevice
from amoeba_model.parameters import NicParameters

from bench import nic

__all__ = ["FLOOR", "HOSTS", "both_ways", "both_ways_rate", "link_rate"]

HOSTS = {"AXI4": "rtl", "PCI Express": "rtl+pcie"}
"""Kinds of bench.nic.cluster, by name."""

MAX_PAYLOAD, MAX_READ_REQUEST = 256, 512
_REQUEST, _COMPLETION = 24, 20
"""Bytes of a packet besides its payload.

Framing, sequence number and LCRC take 8 bytes (Base Specification 4.2.2, at 8 GT/s); the header is three or four DWs
(2.2.1).
"""
FLOOR = 0.85
"""Share of the link's rate that has to be reached."""


def link_rate(written: int = 1, read: int = 0) -> float:
    """Payload bytes per cycle of a transfer, if a NIC's link carries it so often to the host, and from it.

    A link carries a beat's bytes per cycle each way. Requests of reads go the way of the writes.
    """
    beat = NicParameters().beat_bytes
    up = written * (MAX_PAYLOAD + _REQUEST) / MAX_PAYLOAD + read * _REQUEST / MAX_READ_REQUEST
    down = read * (MAX_PAYLOAD + _COMPLETION) / MAX_PAYLOAD
    return beat / max(up, down)


def both_ways_rate(operation: str) -> float:
    """Return the links' limit if each NIC transfers to, or from, the other: a "read"'s answers are also stored."""
    return link_rate(written=1 if operation == "write" else 2, read=1)


def both_ways(size: int = 1 << 16, count: int = 12, kind: str = "rtl+pcie") -> dict[str, float]:
    """Payload bytes per cycle of writes and reads of ``size`` bytes, of each of two endpoints at the same time."""
    rates = {}
    for name in ("write", "read"):
        with nic.cluster(kind) as fabric:
            domains = [fabric.domain(0), fabric.domain(1)]
            memories, results = ([np.frombuffer(allocate(size), np.uint8)[:size] for _ in domains] for _ in range(2))
            remote = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
            regions = [domain.mr_reg(memory, remote) for domain, memory in zip(domains, memories, strict=True)]
            owns = [
                domain.mr_reg(result, MrAccess.FI_READ | MrAccess.FI_WRITE)
                for domain, result in zip(domains, results, strict=True)
            ]
            queues = [domain.cq_open() for domain in domains]
            vectors = [domain.av_open() for domain in domains]
            endpoints = [
                domain.endpoint(tx_size=2 * count, cq=queue, av=vector)
                for domain, queue, vector in zip(domains, queues, vectors, strict=True)
            ]
            peers = [vectors[side].insert(endpoints[1 - side].getname()) for side in range(2)]
            fabric.settle()
            devices = [cast(SimulatedDevice, device) for device in fabric.devices]
            for side in range(2):
                source = results if name == "write" else memories
                source[side][:] = np.random.default_rng(side).integers(0, 256, size, np.uint8)
                devices[side].tracing = True
            for _ in range(count):
                for side in range(2):
                    call = endpoints[side].write if name == "write" else endpoints[side].read
                    region = regions[1 - side]
                    call(results[side], peers[side], region.address, region.key, desc=owns[side])
            done = [0, 0]
            while min(done) < count:
                done = [seen + len(queue.read(count)) for seen, queue in zip(done, queues, strict=True)]
            each = [size / nic.middle_half(device, count) for device in devices]
            for side in range(2):
                assert np.array_equal(results[side], memories[1 - side])
            rates[name] = min(each)
    return rates
