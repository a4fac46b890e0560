"""The two ends of a connection, each with everything an application opens."""

from dataclasses import dataclass

import pytest
from amoeba import (
    AddressVector,
    CompletionQueue,
    CqErrEntry,
    CqFormat,
    Domain,
    Endpoint,
    ErrorAvailableError,
    MrAccess,
)

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
