"""The two ends of a connection, each with everything an application opens."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from amoeba import (
    AddressVector,
    BindFlags,
    Caps,
    CompletionQueue,
    CqErrEntry,
    CqFormat,
    CqTaggedEntry,
    Domain,
    Endpoint,
    ErrorAvailableError,
    Fabric,
    FabricError,
    MrAccess,
)
from amoeba.core.buffers import allocate

BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
ALL_ACCESS = MrAccess.FI_READ | MrAccess.FI_WRITE | MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE

ON_MODEL = pytest.mark.parametrize("fabric", ["model"], indirect=True)
"""For what costs too many cycles on the RTL, or does not depend on the NIC."""


def aligned(size):
    """So many zeroed bytes, at an address that is a multiple of 4,096."""
    return allocate(size)[:size]


def refused(number, words=""):
    """A context in which a FabricError of this number is expected, whose message has these words."""
    return pytest.raises(FabricError, match=rf"^{number.name}: .*{words}")


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
        """The entry of the operation in flight; it must succeed."""
        (entry,) = self.queue.sread(timeout=30)
        return entry

    def failure(self, *, last: bool = True) -> CqErrEntry:
        """The error entry of the operation in flight, or of the first of several; it must fail.

        ``last``: no other has failed by now.
        """
        with pytest.raises(ErrorAvailableError):
            self.queue.sread(timeout=30)
        entry = self.queue.readerr()
        assert entry is not None
        if last:
            assert self.queue.readerr() is None
        return entry

    def pass_silently(self, until: Callable[[], bool]) -> None:
        """Let time pass until something is so; nothing may be reported before, nor soon after."""
        deadline = time.monotonic() + 30
        while not until():
            assert time.monotonic() < deadline, "it did not come about in 30 s"
            assert self.queue.sread(timeout=0.05) == []
        assert self.queue.sread(timeout=0.05) == []


def make_side(domain: Domain, *, tx_size: int = 16) -> Side:
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG), domain.av_open()
    return Side(domain, queue, peers, domain.endpoint(tx_size=tx_size, cq=queue, av=peers))


def connect(client: Side, server: Side) -> None:
    client.peer = client.peers.insert(server.endpoint.getname())
    server.peer = server.peers.insert(client.endpoint.getname())


def make_talker(
    domain: Domain, *, tx_size: int = 64, rx_size: int = 64, cq_flags: BindFlags = BOTH, caps: Caps | None = None
) -> Side:
    """A side that sends and receives messages, with one queue for both."""
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED), domain.av_open()
    endpoint = domain.endpoint(tx_size=tx_size, rx_size=rx_size, cq=queue, av=peers, cq_flags=cq_flags, caps=caps)
    return Side(domain, queue, peers, endpoint)


def make_talkers(fabric: Fabric, **options) -> tuple[Side, Side]:
    """(one, other), connected."""
    one, other = make_talker(fabric.domain(0), **options), make_talker(fabric.domain(1), **options)
    connect(one, other)
    return one, other


def make_counted_talker(domain: Domain, keep):
    """(endpoint, its queue, its peers, counter of its receives, that of its sends)."""
    queue, peers = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)), keep(domain.av_open())
    receives, sends = keep(domain.cntr_open()), keep(domain.cntr_open())
    endpoint = keep(domain.endpoint())
    endpoint.bind(queue, BOTH)
    endpoint.bind(peers)
    endpoint.bind(receives, BindFlags.FI_RECV)
    endpoint.bind(sends, BindFlags.FI_SEND)
    endpoint.enable()
    return endpoint, queue, peers, receives, sends


def entries(queue: CompletionQueue, count: int) -> list[CqTaggedEntry]:
    """The next ``count`` entries of a queue; they must be there within seconds."""
    found: list[CqTaggedEntry] = []
    while len(found) < count:
        more = queue.sread(count - len(found), timeout=30)
        assert more, f"{len(found)} of {count} entries came: {found}"
        found += more
    return found


def idle(side: Side, reads: int = 20) -> list[CqTaggedEntry]:
    """Let time pass until what has been begun is over; what comes meanwhile."""
    found = []
    for _ in range(reads):
        found += side.queue.read(8)
    return found
