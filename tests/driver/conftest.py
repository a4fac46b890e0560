"""Two NICs, each with everything an application opens."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pytest
from amoeba import (
    AddressVector,
    CompletionQueue,
    CqErrEntry,
    CqFormat,
    Domain,
    Endpoint,
    ErrorAvailableError,
    Fabric,
    MrAccess,
    open_cluster,
)

T = TypeVar("T")

ALL_ACCESS = MrAccess.FI_READ | MrAccess.FI_WRITE | MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE


@dataclass
class Side:
    """One end of a connection."""

    domain: Domain
    queue: CompletionQueue
    peers: AddressVector
    endpoint: Endpoint
    peer: int = -1
    """Number of the other side in ``peers``."""

    def finish(self):
        """The entry of the operation under way; it must succeed."""
        (entry,) = self.queue.sread(timeout=30)
        return entry

    def failure(self) -> CqErrEntry:
        """The error entry of the operation under way; it must fail."""
        with pytest.raises(ErrorAvailableError):
            self.queue.sread(timeout=30)
        entry = self.queue.readerr()
        assert entry is not None
        assert self.queue.readerr() is None
        return entry


def make_side(domain: Domain, *, tx_size: int = 16) -> Side:
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG), domain.av_open()
    return Side(domain, queue, peers, domain.endpoint(tx_size=tx_size, cq=queue, av=peers))


def connect(client: Side, server: Side) -> None:
    client.peer = client.peers.insert(server.endpoint.getname())
    server.peer = server.peers.insert(client.endpoint.getname())


@pytest.fixture
def keep() -> Callable[[T], T]:
    """Holds what a test opens until the fabric has closed it; dropped open, it would warn."""
    kept = []

    def hold(thing: T) -> T:
        kept.append(thing)
        return thing

    return hold


@pytest.fixture
def fabric(keep) -> Iterator[Fabric]:
    with open_cluster(["model", "model"]) as opened:
        yield opened
        if not opened.closed:
            assert [fault for device in opened.devices for fault in device.faults()] == []


@pytest.fixture
def pair(fabric) -> tuple[Side, Side]:
    """(client, server), connected."""
    client, server = make_side(fabric.domain(0)), make_side(fabric.domain(1))
    connect(client, server)
    return client, server


@pytest.fixture
def target(pair):
    """(memory, region): 64 words of the server's, open to everything, memory[i] = i."""
    memory = np.arange(64, dtype=np.uint64)
    return memory, pair[1].domain.mr_reg(memory, ALL_ACCESS)
