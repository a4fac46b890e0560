"""The target's side of a pair: what checks ask of it, in this process or another."""

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from amoeba.core.buffers import allocate
from amoeba.core.errors import ErrorAvailableError
from amoeba.libfabric.objects.constants import (
    FI_ADDR_UNSPEC,
    BindFlags,
    CqFormat,
    MrAccess,
    MrMode,
    OpFlags,
    Progress,
)
from amoeba.libfabric.objects.domain import Domain, MemoryRegion
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.operations.vectors import Msg, TaggedMsg
from amoeba.libfabric.objects.queues.completion import CqErrEntry

__all__ = ["Exposed", "Heard", "Target", "TargetSide"]

OFFSETS = MrMode.FI_MR_ALLOCATED
"""The mode of the target's second domain: regions are addressed by offset, keys chosen by the application."""
_SETTLES = 8
"""Network latencies in which a NIC has fetched what was posted."""


class Exposed(NamedTuple):
    """Memory that the target has registered."""

    handle: int
    """Names it in later calls."""
    address: int
    key: int


class Heard(NamedTuple):
    """An entry of the target's completion queue, without what only its process understands."""

    anonymous: bool
    """Whether ``op_context`` is None, as required where the target posted no receive with a handle."""
    flags: int
    len: int
    data: int
    source: int
    """From ``readfrom``: the number of the peer in the target's address vector; FI_ADDR_UNSPEC for an error."""
    handle: int
    """Handle of the reported receive; -1 without one."""
    tag: int
    err: int
    """Field of an error entry; otherwise 0."""
    olen: int
    """Field of an error entry; otherwise 0."""


class Target(Protocol):
    """Interface of the target to checks. Arguments are numbers and bytes, so that another process can implement it.

    The target has two domains, each with an endpoint. Number 0 is the peer of the pair: its address vector has the
    initiator, and its queue receives data. Number 1 knows no peer and receives nothing; its regions are addressed by
    offset.
    """

    def name(self, domain: int) -> bytes:
        """Return the address of a domain's endpoint."""

    def meet(self, name: bytes) -> int:
        """Enter an endpoint of the initiator's in the first address vector, and return its number there."""

    def part(self, number: int) -> None:
        """Remove it."""

    def expose(self, content: bytes, access: int, key: int | None, domain: int) -> Exposed:
        """Register a copy of these bytes, on a page of their own."""

    def load(self, handle: int, offset: int, length: int) -> bytes:
        """Return the current content of the memory."""

    def store(self, handle: int, offset: int, content: bytes) -> None:
        """Write into the memory, as the target's program would."""

    def withdraw(self, handle: int) -> None:
        """Close the region; the memory can still be looked at."""

    def forget(self) -> None:
        """Close all regions, and give their memory back, and that of receives."""

    def send(self, number: int, content: bytes, tag: int | None, data: int | None) -> None:
        """Send a copy of these bytes as a message, tagged if there is a tag, to a peer met under this number."""

    def receive(self, content: bytes, sizes: list[int], tag: int | None, ignore: int) -> int:
        """Post a receive into memory that holds these bytes, cut into buffers of these sizes. Returns its handle.

        The NIC has it when this returns, if it is not further from its host than usual.
        """

    def hear(self, count: int, timeout: float) -> list[Heard]:
        """Up to ``count`` entries about sends, receives and what peers did; waits for so many, ``timeout`` seconds at
        most.
        """


class TargetSide:
    """The target in the process of its NIC. The fabric closes what the target opens.

    Raises the errors of opening a domain and an endpoint.
    """

    def __init__(self, fabric: Fabric, nic: int) -> None:
        self._domains = [fabric.domain(nic)]
        self._fabric, self._nic = fabric, nic
        self._handles = itertools.count()
        self._exposed: dict[int, tuple[memoryview, MemoryRegion | None]] = {}
        self._queue = self._domains[0].cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
        self._peers = self._domains[0].av_open()
        flags = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        self._endpoints = [self._domains[0].endpoint(cq=self._queue, av=self._peers, cq_flags=flags)]

    @property
    def idle(self) -> Callable[[], None] | None:
        """Function that lets a simulated NIC serve its peers for a while; None if the NIC runs by itself."""
        return idle(self._fabric)

    def name(self, domain: int) -> bytes:
        return self._endpoint(domain).getname()

    def meet(self, name: bytes) -> int:
        return self._peers.insert(name)

    def part(self, number: int) -> None:
        self._peers.remove(number)

    def expose(self, content: bytes, access: int, key: int | None, domain: int) -> Exposed:
        memory = _copy(content)
        region = self._domain(domain).mr_reg(memory, MrAccess(access), requested_key=key)
        handle = next(self._handles)
        self._exposed[handle] = memory, region
        return Exposed(handle, region.address, region.key)

    def load(self, handle: int, offset: int, length: int) -> bytes:
        return bytes(self._exposed[handle][0][offset : offset + length])

    def store(self, handle: int, offset: int, content: bytes) -> None:
        self._exposed[handle][0][offset : offset + len(content)] = content

    def withdraw(self, handle: int) -> None:
        region = self._exposed[handle][1]
        if region is not None:
            region.close()

    def forget(self) -> None:
        for handle in self._exposed:
            self.withdraw(handle)
        self._exposed.clear()

    def send(self, number: int, content: bytes, tag: int | None, data: int | None) -> None:
        flags = OpFlags(0) if data is None else OpFlags.FI_REMOTE_CQ_DATA
        if tag is None:
            self._endpoints[0].sendmsg(Msg([content], number, data=data or 0), flags)
        else:
            self._endpoints[0].tsendmsg(TaggedMsg([content], number, tag, data=data or 0), flags)

    def receive(self, content: bytes, sizes: list[int], tag: int | None, ignore: int) -> int:
        memory, handle = _copy(content), next(self._handles)
        ends = list(itertools.accumulate(sizes))
        buffers = [memory[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        if tag is None:
            self._endpoints[0].recvv(buffers, context=handle)
        else:
            self._endpoints[0].trecvv(buffers, tag, ignore, context=handle)
        self._exposed[handle] = memory, None
        for _ in range(_SETTLES):
            self._fabric.advance()
        return handle

    def hear(self, count: int, timeout: float) -> list[Heard]:
        heard: list[Heard] = []
        deadline = time.monotonic() + timeout
        while len(heard) < count:
            try:
                entries = self._queue.sreadfrom(count - len(heard), max(deadline - time.monotonic(), 0.0))
            except ErrorAvailableError:
                heard.append(_failed(self._queue.readerr()))
                continue
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


def idle(fabric: Fabric) -> Callable[[], None] | None:
    """Return the function to call repeatedly while a program waits for another process; None if none is needed."""
    return None if fabric.progress is Progress.FI_PROGRESS_AUTO else fabric.advance


def _copy(content: bytes) -> memoryview:
    memory = allocate(max(len(content), 1))[: len(content)]
    memory[:] = content
    return memory


def _told(entry: Any, source: int, err: int = 0, olen: int = 0) -> Heard:
    handle = -1 if entry.op_context is None else entry.op_context
    return Heard(handle < 0, entry.flags, entry.len, entry.data, source, handle, entry.tag, err, olen)


def _failed(entry: CqErrEntry | None) -> Heard:
    assert entry is not None  # FI_EAVAIL said so
    return _told(entry, FI_ADDR_UNSPEC, int(entry.err), entry.olen)
