"""The target's side of a pair: what checks ask of it, in this process or another."""

import itertools
import time
from typing import Any, NamedTuple, Protocol

from amoeba.constants import BindFlags, CqFormat, MrAccess, MrMode
from amoeba.domain import Domain, MemoryRegion
from amoeba.endpoint import Endpoint
from amoeba.errors import ErrorAvailableError
from amoeba.fabric import Fabric
from amoeba.memory import allocate

__all__ = ["Exposed", "Heard", "Target", "TargetSide"]

OFFSETS = MrMode.FI_MR_ALLOCATED
"""The mode of the target's second domain: regions are addressed by offset, keys chosen by the application."""


class Exposed(NamedTuple):
    """Memory that the target has registered."""

    handle: int
    """Names it in later calls."""
    address: int
    key: int


class Heard(NamedTuple):
    """An entry of the target's completion queue, without what only its process understands."""

    anonymous: bool
    """Whether ``op_context`` is None, as it must be where the target posted nothing."""
    flags: int
    len: int
    data: int
    source: int
    """From ``readfrom``: the number of the peer in the target's address vector."""


class Target(Protocol):
    """What checks ask of the other end. Numbers and bytes only, so that it can be in another process.

    There are two domains at the target, each with an endpoint: number 0, the peer of the pair, whose address vector
    has the initiator and whose queue hears of data, and number 1, which knows nobody, hears nothing, and whose
    regions are addressed by offset.
    """

    def name(self, domain: int) -> bytes:
        """The address of a domain's endpoint."""

    def meet(self, name: bytes) -> None:
        """Enter the initiator in the first address vector."""

    def expose(self, content: bytes, access: int, key: int | None, domain: int) -> Exposed:
        """Register a copy of these bytes, on a page of their own."""

    def load(self, handle: int, offset: int, length: int) -> bytes:
        """What the memory holds now."""

    def store(self, handle: int, offset: int, content: bytes) -> None:
        """Write into the memory, as the target's program would."""

    def withdraw(self, handle: int) -> None:
        """Close the region; the memory can still be looked at."""

    def forget(self) -> None:
        """Close all regions, and give their memory back."""

    def hear(self, count: int, timeout: float) -> list[Heard]:
        """Up to ``count`` entries about what peers did; waits for so many, ``timeout`` seconds at most."""


class TargetSide:
    """The target where its NIC is. Its fabric closes what is opened here.

    Raises what opening a domain and an endpoint raises.
    """

    def __init__(self, fabric: Fabric, nic: int) -> None:
        self._domains = [fabric.domain(nic)]
        self._fabric, self._nic = fabric, nic
        self._device = fabric.devices[nic]
        self._handles = itertools.count()
        self._exposed: dict[int, tuple[memoryview, MemoryRegion]] = {}
        self._queue = self._domains[0].cq_open(CqFormat.FI_CQ_FORMAT_DATA)
        self._peers = self._domains[0].av_open()
        flags = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        self._endpoints = [self._domains[0].endpoint(cq=self._queue, av=self._peers, cq_flags=flags)]

    def advance(self) -> None:
        """Let a simulated NIC serve its peers for a while."""
        self._device.advance()

    def name(self, domain: int) -> bytes:
        return self._endpoint(domain).getname()

    def meet(self, name: bytes) -> None:
        self._peers.insert(name)

    def expose(self, content: bytes, access: int, key: int | None, domain: int) -> Exposed:
        memory = allocate(len(content))[: len(content)]
        memory[:] = content
        region = self._domain(domain).mr_reg(memory, MrAccess(access), requested_key=key)
        handle = next(self._handles)
        self._exposed[handle] = memory, region
        return Exposed(handle, region.address, region.key)

    def load(self, handle: int, offset: int, length: int) -> bytes:
        return bytes(self._exposed[handle][0][offset : offset + length])

    def store(self, handle: int, offset: int, content: bytes) -> None:
        self._exposed[handle][0][offset : offset + len(content)] = content

    def withdraw(self, handle: int) -> None:
        self._exposed[handle][1].close()

    def forget(self) -> None:
        for _, region in self._exposed.values():
            region.close()
        self._exposed.clear()

    def hear(self, count: int, timeout: float) -> list[Heard]:
        heard: list[Heard] = []
        deadline = time.monotonic() + timeout
        while len(heard) < count:
            try:
                entries = self._queue.sreadfrom(count - len(heard), max(deadline - time.monotonic(), 0.0))
            except ErrorAvailableError:
                raise AssertionError(f"the target posted nothing, and yet failed: {self._queue.readerr()}") from None
            heard += [_told(entry, source) for entry, source in entries]
            if not entries and time.monotonic() >= deadline:
                break
        return heard

    def _domain(self, number: int) -> Domain:
        if number == len(self._domains):
            self._domains.append(self._fabric.domain(self._nic, mr_mode=OFFSETS))
        return self._domains[number]

    def _endpoint(self, number: int) -> Endpoint:
        domain = self._domain(number)
        if number == len(self._endpoints):
            self._endpoints.append(domain.endpoint(cq=domain.cq_open(), av=domain.av_open()))
        return self._endpoints[number]


def _told(entry: Any, source: int) -> Heard:
    return Heard(entry.op_context is None, entry.flags, entry.len, entry.data, source)
