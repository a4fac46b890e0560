"""A host and a memory node: what tests do with the node's memory."""

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from amoeba import AddressVector, CompletionQueue, Domain, Endpoint, Fabric, MemoryRegion, MrAccess, open_cluster
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.opcodes import Form
from amoeba_model.parameters import BUILDS

T = TypeVar("T")
HOST, NODE = BUILDS["tiny"], BUILDS["node"]
DTYPES = {cell.datatype: np.dtype(cell.datatype.name.removeprefix("FI_").lower()) for cell in NODE.cells()}
WORDS = 64


@dataclass
class Pair:
    """A host, and a memory node with a region of WORDS 64-bit numbers."""

    fabric: Fabric
    memory: np.ndarray[Any, Any]
    region: MemoryRegion
    endpoint: Endpoint
    queue: CompletionQueue[Any]
    node: int
    domain: Domain
    """The node's own, of the region."""
    addresses: AddressVector
    """The node's own."""
    passive: Endpoint
    """The node's own."""
    keep: Callable[[T], T]
    """Holds what a test opens until the fabric has closed it."""


@contextlib.contextmanager
def pair_of(kind: str, impairments: Impairments = PERFECT) -> Iterator[Pair]:
    """``kind``: the node's; the host is a model."""
    with open_cluster(
        ("model", kind), (HOST, NODE), impairments=impairments, rtl_options={"host_latency": 40}
    ) as fabric:
        own, other = fabric.domain(0), fabric.domain(1)
        memory = np.zeros(WORDS, np.uint64)
        region = other.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        queue, addresses = own.cq_open(), own.av_open()
        endpoint = own.endpoint(cq=queue, av=addresses)
        passive_queue, passive_addresses = other.cq_open(), other.av_open()
        passive = other.endpoint(cq=passive_queue, av=passive_addresses)
        node = addresses.insert(passive.getname())
        kept: list[object] = [own, other, passive_queue]

        def keep(thing: T) -> T:
            kept.append(thing)
            return thing

        yield Pair(fabric, memory, region, endpoint, queue, node, other, passive_addresses, passive, keep)


def program(pair: Pair, seed: int) -> list[bytes]:
    """Random WRITEs, READs and atomics of every cell; returns all that came back, then the node's memory."""
    generator = random.Random(seed)
    found: list[bytes] = []
    cells = [cell for cell in NODE.cells() if cell.form is not Form.BASE or cell.op not in COMPARE_OPS]
    generator.shuffle(cells)
    for cell in cells:
        offset = 8 * generator.randrange(WORDS - 4)
        place = pair.node, pair.region.address + offset, pair.region.key
        data, expected = (np.frombuffer(generator.randbytes(32), DTYPES[cell.datatype]) for _ in range(2))
        result = np.zeros_like(data)
        if cell.form is Form.BASE:
            pair.endpoint.atomic(data, *place, cell.op)
        elif cell.form is Form.FETCH:
            pair.endpoint.fetch_atomic(data, result, *place, cell.op)
        else:
            pair.endpoint.compare_atomic(data, expected, result, *place, cell.op)
        pair.queue.sread(1)
        found.append(result.tobytes())
        length = generator.randrange(1, 33)
        buffer = bytearray(length)
        if generator.randrange(2):
            pair.endpoint.write(generator.randbytes(length), *place)
        else:
            pair.endpoint.read(buffer, *place)
        pair.queue.sread(1)
        found.append(bytes(buffer))
    return [*found, pair.memory.tobytes()]
