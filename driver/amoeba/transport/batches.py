"""Batches: thousands of requests posted at once, their descriptors written by NumPy.

A batch is one request for its caller, and many for the NIC. The requests to one peer are cut into stretches, and only
the last descriptor of a stretch asks for a completion: the NIC completes the requests to a peer in their order, so
that this completion ends them all. A request that fails always writes a completion. Its batch identifies the request
by the context of the descriptor: the request's number in the batch, above the token of its stretch.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from amoeba_model.descriptors import TX_DESCRIPTOR, DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import RETURN_CODE_ERRNO, fabric_error
from amoeba.nic.nic import Nic
from amoeba.transport.operation import Operation
from amoeba.transport.requests import Tally

__all__ = ["BATCH_FAILURE", "BATCH_STATUS", "Batch", "Batches", "Descriptors", "Numbers", "is_batched", "token_of"]

Numbers = int | npt.NDArray[Any]
"""The same number for all requests of a batch, or one for each."""

BATCH_STATUS = np.dtype([("done", "?"), ("prov_errno", "u1"), ("err", "<i4")])
"""Result of one request of a batch: whether it is over, the NIC's return code, and the error number."""
BATCH_FAILURE = np.dtype([("index", "<u4"), ("prov_errno", "u1"), ("err", "<i4")])
"""One request of a batch that has failed: its number there, the NIC's return code, and the error number."""

_DTYPE = TX_DESCRIPTOR.dtype()
_WORDS = TX_DESCRIPTOR.size // 8
_OK = int(ReturnCode.OK)
_NIC_RESET = int(ReturnCode.LOCAL_NIC_RESET)
_GIVEN_UP = int(ReturnCode.LOCAL_PDC_FAILED)
_COMPLETION = int(DescriptorFlags.COMPLETION)
_FENCE = int(DescriptorFlags.FENCE)
_NUMBER_SHIFT = 32
_TOKEN_MASK = (1 << _NUMBER_SHIFT) - 1
_STRETCHES = 16
"""Stretches that fill a ring: ring entries become free in steps, and a completion costs next to nothing."""
_CHUNKS = 4
"""One of so many parts of a ring, or entries for the whole rest of a batch, must be free before posting goes on."""
_FEW = 8
"""Up to so many peers are looked for one by one."""
_BLOCK = 4096
"""Descriptors that are written at a time, before they are copied into the ring."""
_NUMBERED = np.arange(1, _BLOCK + 1, dtype=np.uint64) << np.uint64(_NUMBER_SHIFT)
"""Contexts of the first requests of a batch, without tokens."""
_SEVERAL = -1
"""``peer`` of a batch, and its ``dest_addr`` if there are more."""


def is_batched(context: int) -> bool:
    """Whether a completion with this context is of a request in a batch."""
    return context >> _NUMBER_SHIFT != 0


def token_of(context: int) -> int:
    """Return the token of the stretch that a request of a batch belongs to, by the context of its descriptor."""
    return context & _TOKEN_MASK


@dataclass(slots=True)
class Descriptors:
    """The fields of all descriptors of a batch: one value, or an array with one for each."""

    opcode: int
    op: int
    datatype: int
    flags: int
    length: int
    peer: Numbers
    remote_address: Numbers
    remote_key: Numbers
    local: Numbers
    result: Numbers
    compare: Numbers

    def write(self, first: int, end: int, counter: int) -> npt.NDArray[Any]:
        """Return the descriptors from ``first`` to before ``end``; without contexts."""
        block = np.zeros(end - first, _DTYPE)
        block["counter"] = counter
        for name in self.__slots__:
            value = getattr(self, name)
            block[name] = value if isinstance(value, int) else value[first:end]
        return block


class Batch(Operation):
    """``count`` requests of one kind, which end as one.

    The caller that posts a batch sets ``buffers`` and ``grants``, if its requests need any.
    """

    counted = False
    """Its requests are, one by one."""

    def __init__(
        self,
        context: Any,
        kind: int,
        silent: int,
        count: int,
        descriptors: Descriptors,
        destinations: dict[int, int],
        *,
        fenced: bool = False,
        report: npt.NDArray[Any] | None = None,
    ) -> None:
        self.context = context
        self.kind = kind
        self.silent = silent
        self.dest_addr = next(iter(destinations.values())) if len(destinations) == 1 else _SEVERAL
        self.length = 0
        self.buffers = None
        self.grants = ()
        self.peer = _SEVERAL
        self.count = count
        self.descriptors = descriptors
        self.destinations = destinations
        """The number of each peer, by its entry of the peer table."""
        self.unfenced = set(destinations) if fenced else set()
        """Entries of peers whose first request is still to be posted, and is to wait for all before it."""
        self.report = report
        """Of :data:`BATCH_STATUS`."""
        self.posted = 0
        self.left = 0
        """Outstanding requests."""
        self.complete = False
        """No more will be posted."""
        self.over = False
        self.failures: dict[int, int] = {}
        """Status by number."""
        self.block = np.zeros(0, _DTYPE)
        self.block_first = 0

    @property
    def pieces(self) -> int:
        """Requests that were posted."""
        return self.posted

    @property
    def err_data(self) -> bytes:
        """An array of :data:`BATCH_FAILURE`, in the order of the requests."""
        numbers = sorted(self.failures)
        failed = np.zeros(len(numbers), BATCH_FAILURE)
        failed["index"] = numbers
        failed["prov_errno"] = [self.failures[number] for number in numbers]
        failed["err"] = [_errno(self.failures[number]) for number in numbers]
        return failed.tobytes()

    def next_block(self, counter: int) -> npt.NDArray[Any]:
        """Descriptors from the first that has not been posted on: some, at least one."""
        at = self.posted - self.block_first
        if at >= len(self.block):
            end = min(self.posted + _BLOCK, self.count)
            self.block, self.block_first, at = self.descriptors.write(self.posted, end, counter), self.posted, 0
        return self.block[at:]


@dataclass(slots=True)
class _Stretch:
    """Requests of a batch to one peer, one behind the other."""

    batch: Batch
    peer: int
    places: list[int]
    """Tokens, of which the first stands for all."""
    last: int
    """Number of the request that asks for a completion."""
    first: int
    """Number of the request from which on ``rows`` counts."""
    rows: "slice | npt.NDArray[Any]"
    """Places of the requests in the batch, relative to ``first``."""
    position: int
    """Where the block of descriptors began that they were posted in, counted from the first one posted."""
    failed: int = 0


class Rings(Protocol):
    """The rings of a context, as far as batches need them."""

    nic: Nic
    context: int
    entries: int
    counters: list[int]
    tally: Tally | None
    peer_failed: Callable[[int], None]
    _transmit: memoryview
    _mask: int
    _tail: int
    _free: list[int]
    _to_peer: list[int]



class Batches:
    """The batches of one context's rings."""

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        self._ring = np.frombuffer(rings._transmit, np.uint64)[: rings.entries * _WORDS].reshape(-1, _WORDS)
        self._span = max(1, rings.entries // _STRETCHES)
        self._stretches: dict[int, _Stretch] = {}
        """By token."""
        self.live: set[Batch] = set()
        """Batches that have begun and are not over."""

    @property
    def least_space(self) -> int:
        """Entries that must be free before it is worth while to go on with a batch."""
        return self._rings.entries // _CHUNKS

    @property
    def peers(self) -> set[int]:
        """Peer table entries of outstanding requests."""
        return {stretch.peer for stretch in self._stretches.values()}

    def begin(self, batch: Batch) -> None:
        """Grant what a batch needs; raises what that raises, and then nothing is granted."""
        self._rings.nic.dma.grant_all(batch.grants, self._rings.context)
        self.live.add(batch)

    def post(self, batch: Batch) -> None:
        """Post as many of a batch as there are ring entries for, and one block has; without a doorbell."""
        rings = self._rings
        counter = rings.counters[batch.kind]
        block = batch.next_block(counter)[: len(rings._free)]
        count = len(block)
        if not count:
            return
        block["context"] = _NUMBERED[:count] + self._take_places(batch, block)
        words = block.view(np.uint64).reshape(count, _WORDS)
        at = rings._tail & rings._mask
        straight = min(count, rings.entries - at)
        self._ring[at : at + straight] = words[:straight]
        self._ring[: count - straight] = words[straight:]
        rings._tail += count
        batch.posted += count
        batch.left += count

    def _take_places(self, batch: Batch, block: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Cut descriptors into stretches, whose last ones ask for completions.

        Returns the context of each descriptor but for its place in ``block``.
        """
        rings, count, first = self._rings, len(block), batch.posted
        places = rings._free[-count:]
        del rings._free[-count:]
        order: npt.NDArray[Any] | None = None
        if len(batch.destinations) > 1:
            order, ends = self._cut(block["peer"], batch.destinations)
        else:
            ends = self._ends(0, count)
        begins = [0, *ends[:-1]]
        lasts = [end - 1 for end in ends] if order is None else order[np.array(ends) - 1].tolist()
        block["flags"][lasts] |= _COMPLETION
        peers = [next(iter(batch.destinations))] * len(ends) if order is None else block["peer"][lasts].tolist()
        contexts, sizes = [], []
        for peer, begin, end, last in zip(peers, begins, ends, lasts, strict=True):
            rows = slice(begin, end) if order is None else order[begin:end]
            token = places[begin]
            self._stretches[token] = _Stretch(batch, peer, places[begin:end], first + last, first, rows, rings._tail)
            contexts.append(token + (first << _NUMBER_SHIFT))
            sizes.append(end - begin)
            rings._to_peer[peer] += 1
            if batch.owner is not None:
                batch.owner.count(peer)
            if batch.unfenced and peer in batch.unfenced:
                batch.unfenced.discard(peer)
                block["flags"][begin if order is None else order[begin]] |= _FENCE
        ordered = np.repeat(np.array(contexts, np.uint64), sizes)
        if order is None:
            return ordered
        spread = np.empty_like(ordered)
        spread[order] = ordered
        return spread

    def _cut(self, peers: npt.NDArray[Any], chosen: Iterable[int]) -> tuple[npt.NDArray[Any], list[int]]:
        """Return an order that groups descriptors by their peer of ``chosen``, and where in it stretches end."""
        entries = list(chosen)
        if len(entries) <= _FEW:  # faster than to sort them
            parts = [np.flatnonzero(peers == entry) for entry in entries]
            order = np.concatenate(parts)
            changes = list(itertools.accumulate(map(len, parts), initial=0))
        else:
            order = np.argsort(peers, kind="stable")
            ordered = peers[order]
            changes = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(peers)]
        ends: list[int] = []
        for begin, end in itertools.pairwise(changes):
            if begin < end:
                ends += self._ends(begin, end)
        return order, ends

    def _ends(self, begin: int, end: int) -> list[int]:
        return [*range(begin + self._span, end, self._span), end]

    def finish_posting(self, batch: Batch) -> bool:
        """Note that no more of a batch will be posted: the batch is over when all its posted requests are.

        Returns whether the batch is over already, and there is something to report.
        """
        batch.length = batch.descriptors.length * batch.posted
        batch.complete = True
        if batch.left or batch not in self.live:
            return False
        self._end(batch)
        return batch.posted > 0

    def take(self, context: int, status: int) -> Batch | None:
        """Take a completion; the batch, if it is over with it. Raises FI_EIO if it is of none."""
        token, number = token_of(context), (context >> _NUMBER_SHIFT) - 1
        stretch = self._stretches.get(token)
        if stretch is None:
            raise fabric_error(Errno.FI_EIO, f"the NIC completed request {context:#x}, which was never posted")
        batch = stretch.batch
        owner = batch.owner or self._rings
        if status != _OK:
            stretch.failed += 1
            batch.failures[number] = status
            if status >= _GIVEN_UP:
                owner.peer_failed(batch.destinations[stretch.peer])
            self._count(batch, status, 1)
        if number != stretch.last:
            return None
        del self._stretches[token]
        self._rings._free += stretch.places
        self._rings._to_peer[stretch.peer] -= 1
        if batch.owner is not None:
            batch.owner.count(stretch.peer, -1)
        batch.left -= len(stretch.places)
        self._count(batch, _OK, len(stretch.places) - stretch.failed)
        if batch.report is not None:
            _report(batch, stretch)
        if batch.left or not batch.complete:
            return None
        self._end(batch)
        return batch

    def outstanding(self) -> list[tuple[int, Operation]]:
        """Return the batches with outstanding requests, by where these were posted: a batch once for each stretch."""
        return [(stretch.position, stretch.batch) for stretch in self._stretches.values()]

    def owed(self) -> list[tuple[int, int]]:
        """Return each outstanding request's position, that of its stretch, and its context; a stretch's in order."""
        return [
            (stretch.position, token + (stretch.first + row + 1 << _NUMBER_SHIFT))
            for token, stretch in self._stretches.items()
            for row in _indices(stretch.rows)
            if stretch.first + row not in stretch.batch.failures
        ]

    def _count(self, batch: Batch, status: int, times: int) -> None:
        """Count requests that have ended so; the NIC has counted those of rings that nobody shares."""
        tally = (batch.owner or self._rings).tally
        if tally is not None and times:
            by_nic = batch.owner is None and status != _NIC_RESET
            tally(batch.kind, status, status if by_nic else None, times)

    def _end(self, batch: Batch) -> None:
        self.live.discard(batch)
        self._rings.nic.dma.revoke_all(batch.grants, self._rings.context)
        batch.over = True
        batch.status = batch.failures[min(batch.failures)] if batch.failures else _OK
        if batch.ended is not None:
            batch.ended(batch.status)

    def release(self) -> None:
        """Withdraw the NIC's access to the buffers of batches that never ended."""
        for batch in self.live:
            self._rings.nic.dma.revoke_all(batch.grants, self._rings.context)
        self.live.clear()


def _indices(rows: "slice | npt.NDArray[Any]") -> Iterable[int]:
    return range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()


def _report(batch: Batch, stretch: _Stretch) -> None:
    """Store the result of each request of a stretch in the report of its batch."""
    assert batch.report is not None
    report, rows = batch.report[stretch.first :], stretch.rows
    report["prov_errno"][rows] = _OK
    report["err"][rows] = 0
    if stretch.failed:
        for row in np.arange(len(report))[rows].tolist():
            status = batch.failures.get(stretch.first + row, _OK)
            report["prov_errno"][row], report["err"][row] = status, _errno(status)
    report["done"][rows] = True


def _errno(status: int) -> int:
    return int(RETURN_CODE_ERRNO[ReturnCode(status)])
