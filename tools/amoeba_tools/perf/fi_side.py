"""One side of a test of libfabric: an endpoint with its queue, its peers' addresses, and memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from amoeba.core.buffers import allocate
from amoeba.core.errors import ErrorAvailableError, TryAgainError, fabric_error
from amoeba.libfabric.objects.constants import BindFlags, CqFormat, MrAccess
from amoeba.libfabric.objects.fabric import Fabric

from amoeba_tools.perf.payloads import Findings, Payloads
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.sides import Steps

__all__ = ["FiMessages", "FiSide", "Peer"]

_MAX_ENTRIES = 64
_LEAST_RING = 256
_TAG = 0xA0EBA
_RIGHTS = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
_BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV


@dataclass(frozen=True)
class Peer:
    """Somebody on the other side."""

    fi_addr: int
    address: int
    """Address of the exposed memory."""
    key: int


class FiSide:
    """One side; :meth:`connect` gives it a peer. Closing it closes everything that it has opened."""

    def __init__(self, fabric: Fabric, nic: int, plan: PerfPlan, index: int = 0) -> None:
        self.plan, self.index = plan, index
        self.findings = Findings()
        self.places = plan.window
        """Messages that lie in memory side by side."""
        self.payloads = Payloads(plan.size, self.places * plan.peers)
        self.domain = fabric.domain(nic)
        self.cq = self.domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA)
        self._av = self.domain.av_open()
        self.ep = self.domain.endpoint(
            tx_size=max(plan.window, _LEAST_RING), rx_size=max(2 * plan.window, _LEAST_RING), cq=self.cq, av=self._av,
            cq_flags=_BOTH,
        )  # fmt: skip
        self.memory = allocate(max(plan.size * self.places, 16))
        np.frombuffer(self.memory, np.uint8)[:] = 0
        self._region = self.domain.mr_reg(self.memory, _RIGHTS) if self.one_sided else None
        self.peers: list[Peer] = []

    @property
    def one_sided(self) -> bool:
        """Whether the test is about memory."""
        return self.plan.command in ("rma", "atomic")

    def greeting(self) -> dict[str, Any]:
        """Return the facts that the other side needs, in a form that JSON can carry."""
        told: dict[str, Any] = {"name": self.ep.getname().hex()}
        if self._region is not None:
            told |= {"address": self._region.address, "key": self._region.key}
        return told

    def connect(self, told: dict[str, Any]) -> None:
        """Connect to the side with this greeting."""
        fi_addr = self._av.insert(bytes.fromhex(told["name"]))
        self.peers.append(Peer(fi_addr, told.get("address", 0), told.get("key", 0)))

    def progress(self) -> int:
        """Take completions: the context of each is what to call."""
        try:
            entries = self.cq.read(_MAX_ENTRIES)
        except ErrorAvailableError:
            failed = self.cq.readerr()
            assert failed is not None
            raise fabric_error(failed.err, f"an operation of {self.plan.test} has failed: {failed!r}") from None
        for entry in entries:
            if entry.op_context is not None:
                entry.op_context(entry)
        return len(entries)

    def posted(self, post: Callable[..., None], *arguments: Any, **named: Any) -> Steps:
        """Post an operation as soon as the endpoint accepts it."""
        while True:
            try:
                post(*arguments, **named)
                return
            except TryAgainError:
                yield

    def close(self) -> None:
        self.domain.close()


class FiMessages:
    """Messages, sent and received by number; at most a window of each is outstanding."""

    def __init__(self, side: FiSide) -> None:
        self._side = side
        self._window = side.plan.window
        self._tagged = side.plan.command == "tagged"
        self._sending = self._posted = self._here = 0
        self._buffers = [bytearray(side.plan.size) for _ in range(self._window)]

    def send(self, number: int, peer: int) -> Steps:
        while self._sending >= self._window:
            yield
        self._sending += 1
        side, content, to = self._side, self.content(number), self._side.peers[peer].fi_addr
        if self._tagged:
            yield from side.posted(side.ep.tsend, content, to, _TAG, context=self._sent)
        else:
            yield from side.posted(side.ep.send, content, to, context=self._sent)

    def content(self, number: int) -> bytes:
        """Return the content of message ``number``."""
        return self._side.payloads.of(number)

    def _sent(self, entry: Any) -> None:
        self._sending -= 1

    def receive_next(self, number: int, peer: int) -> Steps:
        while self._posted - self._here >= self._window:
            yield
        buffer, side = self._buffers[self._posted % self._window], self._side
        self._posted += 1

        def here(entry: Any) -> None:
            self._here += 1
            if side.plan.verify:
                found = memoryview(buffer)[: entry.len]
                if found != (content := side.payloads.of(number)):
                    side.findings.expect(bytes(found), content, f"message {number}")

        if self._tagged:
            yield from side.posted(side.ep.trecv, buffer, _TAG, context=here)
        else:
            yield from side.posted(side.ep.recv, buffer, context=here)

    def received(self) -> Steps:
        while self._here < self._posted:
            yield

    def receive(self, number: int, peer: int) -> Steps:
        yield from self.receive_next(number, peer)
        yield from self.received()

    def finish(self) -> Steps:
        while self._sending:
            yield
