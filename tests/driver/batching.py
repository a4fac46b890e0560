"""An endpoint that posts batches, and peers with memory for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from amoeba import CqFormat, MrAccess, open_cluster
from amoeba_model.parameters import NicParameters

from tests.driver.endpoints import Side

KINDS = ("model,model,model", "rtl,rtl,rtl", "model,rtl,model", "rtl,model,rtl")
"""Of the NIC that posts, and of the two whose memory is reached."""
WORDS = 64


@dataclass
class Scene(Side):
    """The side that posts; the other two have memory for it."""

    targets: list[int] = field(default_factory=list)
    """Their numbers."""
    memories: list[np.ndarray] = field(default_factory=list)
    """The memory of the targets, 64-bit words; ``expected`` is its required content."""
    expected: list[np.ndarray] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    others: list = field(default_factory=list)

    @property
    def to(self) -> tuple[int, int, int]:
        """(peer, address, key) of the first one's memory."""
        return self.targets[0], self.addresses[0], self.keys[0]

    def check(self) -> None:
        """All memory is as it should be."""
        for memory, expected in zip(self.memories, self.expected, strict=True):
            np.testing.assert_array_equal(memory, expected)


def scene_on(fabric, *, tx_size: int = 64, dtype=np.uint64) -> Scene:
    """On a fabric of three NICs."""
    domain = fabric.domain(0)
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG), domain.av_open()
    scene = Scene(domain, queue, peers, domain.endpoint(tx_size=tx_size, cq=queue, av=peers))
    for number in (1, 2):
        there = fabric.domain(number)
        memory = np.arange(1000 * number, 1000 * number + WORDS).astype(dtype)
        region = there.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        vector, completions = there.av_open(), there.cq_open()
        endpoint = there.endpoint(cq=completions, av=vector)
        scene.others += [region, endpoint, vector, completions]
        scene.targets.append(peers.insert(endpoint.getname()))
        scene.memories.append(memory)
        scene.expected.append(memory.copy())
        scene.addresses.append(region.address)
        scene.keys.append(region.key)
    scene.peer = scene.targets[0]
    return scene


@contextmanager
def opened(kinds: str, parameters: NicParameters | None = None, **options) -> Iterator[Scene]:
    """On NICs of these kinds; no DMA access of theirs has been refused at the end."""
    with open_cluster(kinds.split(","), parameters, rtl_options={"host_latency": 40}) as fabric:
        yield scene_on(fabric, **options)
        assert [fault for device in fabric.devices for fault in device.faults()] == []
