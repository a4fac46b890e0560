"""Cycles of two whole RTL NICs, from their own trace ports. Exact: equal RTL gives equal figures."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import amoeba
import numpy as np
import numpy.typing as npt
from amoeba.core.buffers import allocate
from amoeba.libfabric.objects.constants import Datatype, MrAccess, Op, OpFlags
from amoeba.libfabric.objects.fabric import Fabric
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.network import SimulatedDevice
from amoeba_model.parameters import BUILDS, NicParameters
from amoeba_model.trace import Stage
from amoeba_model.wire.uet import (
    ATOMIC_EXTENSION,
    CRC_SIZE,
    ENCAPSULATION_SIZE,
    PDS_ACK,
    PDS_REQUEST,
    SES_REQUEST,
    SES_RESPONSE_DATA,
)
from amoeba_tools.tracing import trace_fetch_atomic

__all__ = [
    "HOST_LATENCY",
    "LINK_LATENCY",
    "Pair",
    "cluster",
    "fetching_atomics",
    "link_cycles",
    "link_rate",
    "middle_half",
    "open_pair",
    "small_writes",
    "transfers",
    "unloaded_latency",
]

HOST_LATENCY = 250
DRAM_LATENCY = 40
"""Cycles of the memory beside a memory node: 2 us at 20 MHz."""
LINK_LATENCY = 250
"""Cycles one way: a round trip of 500."""
RING = 1024
"""Operations that the endpoint keeps posted; as packets in flight, at most ``window`` for each peer."""
WORD = 8
NODE = "node"
"""Kind of NICs of which the second one is the build ``node`` in RTL, and the first one a model."""
_REQUEST_SIZE = ENCAPSULATION_SIZE + PDS_REQUEST.size + SES_REQUEST.size + CRC_SIZE
_DATA_ANSWER_SIZE = ENCAPSULATION_SIZE + PDS_ACK.size + SES_RESPONSE_DATA.size + CRC_SIZE

Words = npt.NDArray[np.uint64]


@dataclass
class Pair:
    """An endpoint, and memory behind another NIC. Buffers are page-aligned, so that lines are always the same."""

    fabric: Fabric
    endpoint: amoeba.Endpoint
    queue: amoeba.CompletionQueue
    peers: list[int]
    """Endpoints of the other NIC, each a PDC of its own."""
    memory: Words
    region: amoeba.MemoryRegion
    results: Words
    result_region: amoeba.MemoryRegion


def cluster(kind: str, impairments: Impairments = PERFECT) -> Fabric:
    """Open two NICs of a kind of device, or :data:`NODE`."""
    kinds: tuple[str, str] = (kind, kind)
    builds, host_latency = None, HOST_LATENCY
    if kind == NODE:
        node, host_latency = BUILDS["node"], DRAM_LATENCY
        host = replace(node, peers=node.target_pdcs, event_rings=True)
        kinds, builds = ("model", "rtl"), (host, node)
    return amoeba.open_cluster(
        kinds, builds, latency=LINK_LATENCY, impairments=impairments, rtl_options={"host_latency": host_latency}
    )


@contextlib.contextmanager
def open_pair(kind: str, words: int, peers: int = 1, impairments: Impairments = PERFECT) -> Iterator[Pair]:
    """Open a pair, with ``words`` of 64 bits at either end; its endpoints close with the pair."""
    with cluster(kind, impairments) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        memory, results = (np.frombuffer(allocate(8 * words), np.uint64)[:words] for _ in range(2))
        region = target.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        result_region = source.mr_reg(results, MrAccess.FI_READ | MrAccess.FI_WRITE)
        queue, addresses = source.cq_open(), source.av_open()
        endpoint = source.endpoint(tx_size=RING, cq=queue, av=addresses)
        served = [target.endpoint(cq=target.cq_open(), av=target.av_open()) for _ in range(peers)]
        numbers = [addresses.insert(server.getname()) for server in served]
        fabric.settle()
        yield Pair(fabric, endpoint, queue, numbers, memory, region, results, result_region)


def _cycles_each(pair: Pair, count: int, post: Callable[[int, OpFlags], None]) -> float:
    """Keep the ring full until ``count`` operations are done; cycles per operation in the middle half of them."""
    device = cast(SimulatedDevice, pair.fabric.devices[0])
    device.tracing = True
    posted = done = 0
    while done < count:
        space = min(RING - (posted - done), count - posted)
        for index in range(posted, posted + space):
            post(index, OpFlags(0) if index == posted + space - 1 else OpFlags.FI_MORE)
        posted += space
        done += len(pair.queue.read(RING))
    return middle_half(device, count)


def middle_half(device: SimulatedDevice, count: int) -> float:
    """Cycles per operation in the middle half of the ``count`` that a traced device has completed."""
    cycles = [event.cycle for event in device.trace_events() if event.stage is Stage.COMPLETION_WRITTEN]
    assert len(cycles) == count, f"{len(cycles)} completions of {count} operations"
    first, last = count // 4, count - count // 4
    return (cycles[last] - cycles[first]) / (last - first)


def link_cycles(operation: str) -> int:
    """Cycles that the link needs for the request of one 8-byte operation: "fetching atomic" or "write"."""
    extension = ATOMIC_EXTENSION.size if operation == "fetching atomic" else 0
    return -(-(_REQUEST_SIZE + extension + WORD) // NicParameters().beat_bytes)


def link_rate(operation: str) -> float:
    """Payload bytes per cycle that fit through the link in the frames of a long "write" or "read"."""
    parameters = NicParameters()
    headers = _REQUEST_SIZE if operation == "write" else _DATA_ANSWER_SIZE
    return parameters.payload / -(-(headers + parameters.payload) // parameters.beat_bytes)


def small_writes(count: int = 4096, kind: str = "rtl") -> dict[str, float]:
    """Cycles per 8-byte write of one endpoint to one peer: all to one word, and each to a line of its own."""
    rates = {}
    operand = np.ones(1, np.uint64)
    spread = 32 * np.random.default_rng(1).permutation(4 * count)[:count]
    for name, offsets in (("one address", np.zeros(count, int)), ("random addresses", spread)):
        with open_pair(kind, 16 * count) as pair:

            def post(
                index: int, flags: OpFlags, pair: Pair = pair, offsets: npt.NDArray[np.int_] = offsets
            ) -> None:
                address = pair.region.address + int(offsets[index])
                pair.endpoint.write(operand, pair.peers[0], address, pair.region.key, flags=flags)

            rates[f"{name}, 1 peer"] = _cycles_each(pair, count, post)
            assert pair.memory.sum() == len(set(offsets.tolist()))
    return rates


def fetching_atomics(count: int = 4096, kind: str = "rtl", most_peers: int = 4) -> dict[str, float]:
    """Cycles per 8-byte fetching sum of one endpoint, to one peer and to more, whose windows add up.

    All on one word, and each on a line of its own, in random order.
    """
    rates = {}
    operand = np.ones(1, np.uint64)
    spread = 32 * np.random.default_rng(1).permutation(4 * count)[:count]
    for peers in dict.fromkeys((1, most_peers)):
        label = "1 peer" if peers == 1 else f"{peers} peers"
        for name, offsets in (("one address", np.zeros(count, int)), ("random addresses", spread)):
            with open_pair(kind, 16 * count, peers) as pair:

                def post(
                    index: int, flags: OpFlags, pair: Pair = pair, offsets: npt.NDArray[np.int_] = offsets
                ) -> None:
                    address = pair.region.address + int(offsets[index])
                    pair.endpoint.fetch_atomic(
                        operand, pair.results[index : index + 1], pair.peers[index % len(pair.peers)], address,
                        pair.region.key, Op.FI_SUM, Datatype.FI_UINT64, result_desc=pair.result_region, flags=flags,
                    )  # fmt: skip

                rates[f"{name}, {label}"] = _cycles_each(pair, count, post)
                assert pair.memory.sum() == count
                found = np.arange(count) if name == "one address" else np.zeros(count)
                assert np.array_equal(np.sort(pair.results[:count]), found)
    return rates


def transfers(size: int = 1 << 16, count: int = 16, kind: str = "rtl") -> dict[str, float]:
    """Payload bytes per cycle of RMA writes and reads of ``size`` bytes, by one endpoint."""
    rates = {}
    for name in ("write", "read"):
        with open_pair(kind, size // 8) as pair:
            source, sink = (pair.results, pair.memory) if name == "write" else (pair.memory, pair.results)
            source[:] = np.arange(len(source))

            def post(index: int, flags: OpFlags, pair: Pair = pair, name: str = name) -> None:
                call = pair.endpoint.write if name == "write" else pair.endpoint.read
                (peer,), region = pair.peers, pair.region
                call(pair.results, peer, region.address, region.key, desc=pair.result_region, flags=flags)

            rates[name] = size / _cycles_each(pair, count, post)
            assert np.array_equal(source, sink)
    return rates


def unloaded_latency(kind: str = "rtl") -> list[tuple[str, str, int]]:
    """(NIC and component, stage, cycle since the doorbell) of one fetching atomic with nothing else going on."""
    with cluster(kind) as fabric:
        traced = trace_fetch_atomic(fabric)
    return [
        (f"NIC {step.nic}, {step.component}", step.event.stage.name.lower().replace("_", " "), step.cycle)
        for step in traced.steps
    ]
