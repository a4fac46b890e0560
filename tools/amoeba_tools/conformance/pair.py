"""Two endpoints that can reach each other, and what checks open beside them."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, FabricError, fabric_error
from amoeba.devices.bootstrap import Rendezvous
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.cluster import join_cluster, open_cluster
from amoeba.libfabric.objects.constants import (
    BindFlags,
    Caps,
    CqFormat,
    Datatype,
    EpType,
    MrAccess,
    MrMode,
    Op,
    OpFlags,
    Progress,
    WaitObj,
)
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.endpoints.scalable import ScalableEndpoint
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.structures import EpAttr, Info
from amoeba.nic.nic import Retransmission
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.switch import Switch

from amoeba_tools.conformance.expectations import CheckFailedError, expect_equal
from amoeba_tools.conformance.remote import RemoteTarget, serve
from amoeba_tools.conformance.target import Exposed, Heard, Target, TargetSide

__all__ = [
    "CONNECTED",
    "REMOTE",
    "Initiator",
    "Listener",
    "Pair",
    "RemoteMemory",
    "RemoteReceive",
    "Talker",
    "join_pair",
    "open_pair",
]

REMOTE = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
"""Default access of peers to memory that checks expose."""
CONNECTED = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))
"""Hints for connected endpoints."""
PATIENCE = 60.0
"""Seconds of host time in which any operation ends."""
_TX_SIZE = 16
_NO_BIND_FLAGS = BindFlags(0)
_CAPABILITIES = {
    "rma": Caps.FI_RMA,
    "atomic": Caps.FI_ATOMIC,
    "messages": Caps.FI_MSG,
    "tagged": Caps.FI_TAGGED,
    "triggered": Caps.FI_TRIGGER,
    "fence": Caps.FI_FENCE,
    "source": Caps.FI_SOURCE,
    "persistent": Caps.FI_RMA_PMEM,
}
_GIVES_UP_SOON = Retransmission(timeout=2000, limit=1)


class _Closable(Protocol):
    def close(self) -> object: ...


T = TypeVar("T", bound=_Closable)


@dataclass
class Listener:
    """Reads a queue of the initiator's domain."""

    queue: CompletionQueue[Any]
    patience: float

    def finish(self) -> Any:
        """Return the entry of the next reported operation; raises CheckFailedError if the operation failed."""
        return self.finish_all(1)[0]

    def finish_all(self, count: int) -> list[Any]:
        """Return the entries of the next reported operations, all of which must have succeeded."""
        entries: list[Any] = []
        deadline = time.monotonic() + self.patience
        while len(entries) < count:
            try:
                entries += self._next(count - len(entries), deadline)
            except ErrorAvailableError:
                raise CheckFailedError(f"expected a success, got {self.queue.readerr()}") from None
            if len(entries) < count and time.monotonic() >= deadline:
                raise CheckFailedError(f"expected {count} entries in {self.patience:g} s, got {len(entries)}")
        return entries

    def failure(self, *errors: Errno) -> Any:
        """Return the error entry of the next reported operation, which must have failed with one of these errors."""
        try:
            entries = self._next(1, time.monotonic() + self.patience)
        except ErrorAvailableError:
            entry = self.queue.readerr()
            if entry is None:
                raise CheckFailedError("FI_EAVAIL was raised, but readerr() has no entry") from None
            if errors and entry.err not in errors:
                names = " or ".join(error.name for error in errors)
                raise CheckFailedError(f"expected an operation to fail with {names}, got {entry}") from None
            return entry
        raise CheckFailedError(f"expected an operation to fail, got {entries or 'nothing'}")

    def nothing_more(self) -> None:
        """Raise CheckFailedError if there is an entry left."""
        try:
            expect_equal("entries that are left", self.queue.read(16), [])
        except ErrorAvailableError:
            raise CheckFailedError(f"expected nothing more, got {self.queue.readerr()}") from None

    def _next(self, count: int, deadline: float) -> Sequence[Any]:
        if self.queue.wait_obj is not WaitObj.FI_WAIT_NONE:
            return self.queue.sread(count, max(deadline - time.monotonic(), 0.0))
        while not (entries := self.queue.read(count)) and time.monotonic() < deadline:
            pass
        return entries


@dataclass
class Initiator(Listener):
    """An endpoint of the initiator's domain, and the queue that reports its operations."""

    endpoint: Endpoint


@dataclass
class Talker(Initiator):
    """An endpoint that also receives messages; one queue reports operations and receives."""

    number: int
    """By which the target's endpoint knows it."""
    target: Target

    def get(self, *messages: bytes, tag: int | None = None, data: int | None = None) -> None:
        """Let the target send these, one after the other; they have come when this returns.

        Not for messages of more than a packet, which end when they are received.
        """
        for message in messages:
            self.target.send(self.number, message, tag, data)
        heard = self.target.hear(len(messages), self.patience)
        expect_equal("messages sent by the target", [entry.err for entry in heard], [0] * len(messages))


class RemoteMemory:
    """Memory that the target has registered, as the initiator knows it."""

    def __init__(self, pair: "Pair", exposed: Exposed, size: int, peer: int) -> None:
        self._pair = pair
        self._exposed = exposed
        self.size = size
        self.peer = peer
        self.address = exposed.address
        self.key = exposed.key

    def at(self, offset: int = 0) -> tuple[int, int, int]:
        """(dest_addr, addr, key) of a byte, as the calls take them."""
        return self.peer, self.address + offset, self.key

    def load(self, offset: int = 0, length: int | None = None) -> bytes:
        """Return the memory's content, as the target's program sees it."""
        return self._pair.target.load(self._exposed.handle, offset, self.size if length is None else length)

    def store(self, content: bytes, offset: int = 0) -> None:
        self._pair.target.store(self._exposed.handle, offset, content)

    def withdraw(self) -> None:
        """Close the region."""
        self._pair.target.withdraw(self._exposed.handle)


class RemoteReceive:
    """A receive of the target's."""

    def __init__(self, pair: "Pair", handle: int, size: int) -> None:
        self._pair = pair
        self.handle = handle
        self.size = size

    def load(self) -> bytes:
        """Return the current content of the receive's buffers."""
        return self._pair.target.load(self.handle, 0, self.size)

    def finish(self) -> Heard:
        """Return the next entry of the target's queue, which must report this receive, without error."""
        heard = self._pair.target.hear(1, self._pair.patience)
        if [(entry.handle, entry.err) for entry in heard] != [(self.handle, 0)]:
            raise CheckFailedError(f"expected the target's receive {self.handle} to end, got {heard or 'nothing'}")
        return heard[0]


class Pair:
    """An initiator in this process and its target, here or in another process, on which checks run.

    Parameters
    ----------
    fabric : Fabric
        The initiator's.
    target : Target
        :class:`~amoeba_tools.conformance.target.TargetSide` or a stand-in for one in another process.
    nic : int
        Index of the initiator's NIC in the fabric.
    patience : float
        Maximum host time of an operation, in seconds.

    Raises the errors of opening a domain and an endpoint. The fabric closes what a pair opens.
    """

    def __init__(self, fabric: Fabric, target: Target, *, nic: int = 0, patience: float = PATIENCE) -> None:
        self.fabric = fabric
        self.target = target
        self.nic = nic
        self.patience = patience
        self.info = fabric.getinfo()[nic]
        self.domain = fabric.domain(nic)
        self.peers = self.domain.av_open()
        # never unwound: what is opened outside a check lasts as long as the domain
        self._opened = contextlib.ExitStack()
        self._strangers: int | None = None
        self.near = self.open()
        self.peer = self.peers.insert(target.name(0))
        target.meet(self.near.endpoint.getname())
        self.offers = frozenset(self._offers())
        """Names in :data:`~amoeba_tools.conformance.registry.NEEDS`."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices of this process."""
        return tuple(device.name for device in self.fabric.devices)

    def _offers(self) -> Iterator[str]:
        yield from (name for name, cap in _CAPABILITIES.items() if cap in self.info.caps)
        for name, datatype, size in (
            ("int128", Datatype.FI_INT128, 16),
            ("long_double", Datatype.FI_LONG_DOUBLE, np.dtype(np.longdouble).itemsize),
        ):
            with contextlib.suppress(FabricError):
                if self.domain.query_atomic(datatype, Op.FI_SUM).size == size:
                    yield name
        attributes = self.info.domain_attr
        if min(attributes.max_ep_tx_ctx, attributes.max_ep_rx_ctx) > 1:
            yield "scalable"
        if attributes.max_ep_stx_ctx:
            yield "shared_tx"
        if attributes.max_ep_srx_ctx:
            yield "shared_rx"
        with contextlib.suppress(FabricError):
            self.fabric.getinfo(CONNECTED)
            yield "connected"
        with contextlib.suppress(FabricError):
            self.domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD).close()
            yield "wait_fd"
        if self.fabric.network is not None:
            yield "cut"

    # What checks open

    @contextlib.contextmanager
    def check(self) -> Iterator[None]:
        """Close all objects that the block opens, and the memory that it exposes."""
        try:
            with contextlib.ExitStack() as self._opened:
                yield
        finally:
            self._strangers = None
            self.target.forget()

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Close all objects that the block opens within a check: a NIC has few contexts."""
        outer = self._opened
        try:
            with contextlib.ExitStack() as self._opened:
                yield
        finally:
            self._opened = outer

    def keep(self, thing: T) -> T:
        """Close this when the check is over."""
        self._opened.callback(thing.close)
        return thing

    def memory(
        self, content: bytes | int, access: MrAccess = REMOTE, *, key: int | None = None, domain: int = 0
    ) -> RemoteMemory:
        """Expose target memory with these bytes, or as many zeros. Memory of domain 1 is addressed by offset."""
        content = bytes(content) if isinstance(content, int) else content
        peer = self.peer if domain == 0 else self.second_peer()
        return RemoteMemory(self, self.target.expose(content, int(access), key, domain), len(content), peer)

    def second_peer(self) -> int:
        """Return the number of the endpoint in the target's second domain, a stranger to the target."""
        if self._strangers is None:
            self._strangers = number = self.peers.insert(self.target.name(1))
            self._opened.callback(self.peers.remove, number)
        return self._strangers

    def introduce(self, endpoint: Endpoint | ScalableEndpoint) -> int:
        """Return the number by which the initiator's other endpoints reach this endpoint, for this check."""
        number = self.peers.insert(endpoint.getname())
        self._opened.callback(self.peers.remove, number)
        return number

    def local(self, buffer: Any, access: MrAccess) -> Any:
        """Register memory of the initiator's."""
        return self.keep(self.domain.mr_reg(buffer, access))

    def other_domain(self, mr_mode: MrMode) -> Domain:
        """Open another domain on the initiator's NIC."""
        return self.keep(self.fabric.domain(self.nic, mr_mode=mr_mode))

    def open(
        self,
        *,
        cq_format: CqFormat = CqFormat.FI_CQ_FORMAT_DATA,
        wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC,
        bind: BindFlags = _NO_BIND_FLAGS,
        tx_size: int = _TX_SIZE,
        op_flags: OpFlags = NO_FLAGS,
        caps: Caps | None = None,
        queue: CompletionQueue[Any] | None = None,
        peers: AddressVector | None = None,
        counters: Mapping[BindFlags, Counter] | None = None,
    ) -> Initiator:
        """Open another endpoint of the initiator's domain, with the same peers and its own queue."""
        if queue is None:
            queue = self.keep(self.domain.cq_open(cq_format, wait_obj))
        endpoint = self.keep(self.domain.endpoint(tx_size=tx_size, op_flags=op_flags, caps=caps))
        endpoint.bind(queue, BindFlags.FI_TRANSMIT | bind)
        endpoint.bind(self.peers if peers is None else peers)
        for counted, counter in (counters or {}).items():
            endpoint.bind(counter, counted)
        endpoint.enable()
        return Initiator(queue, self.patience, endpoint)

    def ordered(self) -> Initiator:
        """Open an endpoint of the pair's Info, which keeps all orders that the Info claims."""
        queue = self.keep(self.domain.cq_open())
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        endpoint = self.keep(self.domain.endpoint(self.info, cq=queue, av=self.peers, cq_flags=both))
        return Initiator(queue, self.patience, endpoint)

    def met(self, endpoint: Endpoint | ScalableEndpoint) -> int:
        """Return the number by which the target knows an endpoint of the initiator's, for this check."""
        number = self.target.meet(endpoint.getname())
        self._opened.callback(self.target.part, number)
        return number

    def selective(self) -> Initiator:
        """Open an endpoint that reports successes only on request."""
        return self.open(bind=BindFlags.FI_SELECTIVE_COMPLETION)

    def talker(
        self,
        *,
        cq_format: CqFormat = CqFormat.FI_CQ_FORMAT_TAGGED,
        bind: BindFlags = _NO_BIND_FLAGS,
        tx_size: int = _TX_SIZE,
        op_flags: OpFlags = NO_FLAGS,
        caps: Caps | None = None,
        counters: Mapping[BindFlags, Counter] | None = None,
    ) -> Talker:
        """Open an endpoint that receives messages and that the target knows, with the arguments of :meth:`open`."""
        near = self.open(
            cq_format=cq_format,
            bind=BindFlags.FI_RECV | bind,
            tx_size=tx_size,
            op_flags=op_flags,
            caps=caps,
            counters=counters,
        )
        number = self.met(near.endpoint)
        return Talker(near.queue, self.patience, near.endpoint, number, self.target)

    def receive(self, content: bytes | int, tag: int | None = None, ignore: int = 0, *sizes: int) -> RemoteReceive:
        """Let the target post a receive into memory with these bytes, or so many zeros; of so many buffers."""
        content = bytes(content) if isinstance(content, int) else content
        handle = self.target.receive(content, list(sizes) or [len(content)], tag, ignore)
        return RemoteReceive(self, handle, len(content))

    # What checks do to the network

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Meanwhile nothing gets through, and the NIC gives up soon."""
        network, nic = self.fabric.network, self.fabric.nics[self.nic]
        assert network is not None  # checks that cut need "cut"
        device = network.devices[self.nic]
        with self.fabric.frozen():
            usual = nic.retransmission
            network.cut(device)
            nic.retransmission = _GIVES_UP_SOON
        try:
            yield
        finally:
            with self.fabric.frozen():
                nic.retransmission = usual
                network.restore(device)

    # What is done between checks

    def probe(self) -> None:
        """See that the pair's own endpoints work, and that no check has left anything in their queues.

        Raises CheckFailedError or FabricError if that is not so.
        """
        with self.check():
            if "rma" in self.offers:
                memory, back = self.memory(8), bytearray(8)
                self.near.endpoint.write(b"usable?!", *memory.at(), context="probing write")
                self.near.endpoint.read(back, *memory.at(), context="probing read")
                contexts = [entry.op_context for entry in self.near.finish_all(2)]
                expect_equal("entries afterwards", contexts, ["probing write", "probing read"])
                expect_equal("what was written and read afterwards", bytes(back), b"usable?!")
            # behind these two, all operations that the check left outstanding have ended
            self.near.nothing_more()
            expect_equal("entries left at the target", self.target.hear(1, 0.0), [])


@contextlib.contextmanager
def open_pair(
    kinds: Sequence[str] = ("model", "model"),
    *,
    impairments: Impairments = PERFECT,
    retransmission: Retransmission | None = None,
    patience: float = PATIENCE,
    rtl_options: Mapping[str, Any] | None = None,
    progress: Progress = Progress.FI_PROGRESS_UNSPEC,
    switch: Switch | None = None,
) -> Iterator[Pair]:
    """Open two simulated NICs, initiator and target, with the arguments of :func:`amoeba.open_cluster`.

    Raises the errors of that function, and FI_EINVAL unless there are two kinds.
    """
    if len(kinds) != 2:
        raise fabric_error(Errno.FI_EINVAL, f"a pair is an initiator and a target, got {kinds}")
    with open_cluster(
        kinds,
        impairments=impairments,
        retransmission=retransmission,
        rtl_options=rtl_options,
        progress=progress,
        switch=switch,
    ) as fabric:
        pair = Pair(fabric, TargetSide(fabric, 1), patience=patience)
        yield pair  # which lives here until the fabric closes what it opened


@contextlib.contextmanager
def join_pair(
    kind: str,
    rendezvous: Rendezvous,
    *,
    impairments: Impairments = PERFECT,
    retransmission: Retransmission | None = None,
    patience: float = PATIENCE,
    progress: Progress = Progress.FI_PROGRESS_UNSPEC,
) -> Iterator[Pair | None]:
    """Open a pair across two processes, with a NIC in each: rank 0 gets the pair, and rank 1 is its target.

    Rank 1 gets None when rank 0 is done. Raises the errors of :func:`amoeba.join_cluster`.
    """
    with join_cluster(
        kind, rendezvous, impairments=impairments, retransmission=retransmission, progress=progress
    ) as fabric:
        if rendezvous.rank:
            side = TargetSide(fabric, 0)
            serve(side, rendezvous)
            yield None
            return
        target = RemoteTarget(fabric, rendezvous)
        pair = Pair(fabric, target, patience=patience)
        yield pair
        pair.domain.close()  # while the target still answers
        target.dismiss()
