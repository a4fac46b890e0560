"""One side of a test of libfabric: an endpoint with its queue, the other side's address, and memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from amoeba.apps.perf.payloads import Findings, Payloads
from amoeba.apps.perf.plan import PerfPlan
from amoeba.apps.perf.sides import Steps
from amoeba.core.buffers import allocate
from amoeba.core.errors import ErrorAvailableError, TryAgainError, fabric_error
from amoeba.fabric.constants import BindFlags, CqFormat, MrAccess
from amoeba.fabric.fabric import Fabric

__all__ = ["FiMessages", "FiSide"]

_MOST_ENTRIES = 64
_LEAST_RING = 256
_TAG = 0xA0EBA
_RIGHTS = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
_BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV


class FiSide:
    """One side; :meth:`connect` gives it the other. Closing it closes everything that it has opened."""

    def __init__(self, fabric: Fabric, nic: int, plan: PerfPlan) -> None:
        self.plan = plan
        self.findings = Findings()
        self.places = plan.window
        """Messages that lie in memory side by side."""
        self.payloads = Payloads(plan.size, self.places)
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
        self.peer = self.remote = self.key = 0
        self._turns = 0

    @property
    def one_sided(self) -> bool:
        """Whether the test is about memory."""
        return self.plan.command in ("rma", "atomic")

    def greeting(self) -> dict[str, Any]:
        """What the other side has to know; JSON can carry it."""
        told: dict[str, Any] = {"name": self.ep.getname().hex()}
        if self._region is not None:
            told |= {"address": self._region.address, "key": self._region.key}
        return told

    def connect(self, told: dict[str, Any]) -> None:
        """Get to know the side that has told this."""
        self.peer = self._av.insert(bytes.fromhex(told["name"]))
        self.remote, self.key = told.get("address", 0), told.get("key", 0)

    def progress(self) -> int:
        """Take completions: the context of each is what to call."""
        try:
            entries = self.cq.read(_MOST_ENTRIES)
        except ErrorAvailableError:
            failed = self.cq.readerr()
            assert failed is not None
            raise fabric_error(failed.err, f"an operation of {self.plan.test} has failed: {failed!r}") from None
        for entry in entries:
            if entry.op_context is not None:
                entry.op_context(entry)
        return len(entries)

    def posted(self, post: Callable[..., None], *arguments: Any, **named: Any) -> Steps:
        """Post an operation as soon as there is room for it."""
        while True:
            try:
                post(*arguments, **named)
                return
            except TryAgainError:
                yield

    def close(self) -> None:
        self.domain.close()


class FiMessages:
    """Messages, sent and received by number; at most a window of each is under way."""

    def __init__(self, side: FiSide) -> None:
        self._side = side
        self._window = side.plan.window
        self._tagged = side.plan.command == "tagged"
        self._sending = self._posted = self._here = 0
        self._buffers = [bytearray(side.plan.size) for _ in range(self._window)]

    def send(self, number: int) -> Steps:
        while self._sending >= self._window:
            yield
        self._sending += 1
        side, content = self._side, self.content(number)
        if self._tagged:
            yield from side.posted(side.ep.tsend, content, side.peer, _TAG, context=self._sent)
        else:
            yield from side.posted(side.ep.send, content, side.peer, context=self._sent)

    def content(self, number: int) -> bytes:
        """What the message of this number holds."""
        return self._side.payloads.of(number)

    def _sent(self, entry: Any) -> None:
        self._sending -= 1

    def receive_next(self, number: int) -> Steps:
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

    def receive(self, number: int) -> Steps:
        yield from self.receive_next(number)
        yield from self.received()

    def finish(self) -> Steps:
        while self._sending:
            yield
