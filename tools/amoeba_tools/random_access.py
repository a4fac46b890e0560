"""HPC Challenge RandomAccess (GUPS): random XOR updates of a table spread over the memories of all ranks.

The benchmark, as its reference implementation defines it: a table of 2**n 64-bit words, T[i] = i; a stream of
64-bit numbers, each the last one times x in GF(2)[x] modulo x**64 + x**2 + x + 1; every number a updates
T[a mod 2**n] ^= a; four updates per word. Rank r owns consecutive words, and generates the part of the stream
that belongs to them by position; no rank may hold back more than 1024 updates. Applying the stream again must
restore the table; up to 1 % of the words may be wrong in the benchmark, none with real atomics.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from amoeba.core.buffers import allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, fabric_error
from amoeba.devices.bootstrap import Rendezvous, understood
from amoeba.libfabric.objects.constants import Datatype, MrAccess, Op
from amoeba.libfabric.objects.fabric import Fabric
from amoeba_model.device import DmaFault

from amoeba_tools.departures import departures

__all__ = ["MAX_LOOKAHEAD", "PERIOD", "POLYNOMIAL", "GupsResult", "apply_stream", "run_gups", "starts", "stream"]

POLYNOMIAL = 0x7
"""x**2 + x + 1: what x**64 is reduced to."""
PERIOD = 1317624576693539401
"""Numbers until the stream repeats."""
MAX_LOOKAHEAD = 1024
"""Maximum number of updates that the rules allow a rank to generate ahead of their application."""

Words = npt.NDArray[np.uint64]

_LANES = 1024
_CHUNK = 1 << 16
_TOP = 1 << 63
_MASK = (1 << 64) - 1
_PORTIONS = 8
"""Batches that make up a window."""
_PATIENCE = 60.0
"""Seconds of host time without a completion after which the other ranks count as unreachable."""


def _times_x(value: int) -> int:
    return (value << 1 & _MASK) ^ (POLYNOMIAL if value & _TOP else 0)


def _multiply(left: int, right: int) -> int:
    """Product of two polynomials over GF(2), bit i being the coefficient of x**i, modulo the stream's."""
    product = 0
    while right:
        if right & 1:
            product ^= left
        left = _times_x(left)
        right >>= 1
    return product


def starts(position: int) -> int:
    """Return number ``position`` of the stream, x**position: the reference implementation's ``HPCC_starts``."""
    power, result, exponent = 2, 1, position % PERIOD
    while exponent:
        if exponent & 1:
            result = _multiply(result, power)
        power = _multiply(power, power)
        exponent >>= 1
    return result


def stream(position: int, count: int) -> Words:
    """Return the ``count`` numbers that follow number ``position``."""
    lanes = min(_LANES, max(count, 1))
    steps = -(-count // lanes)
    stride = starts(steps)
    first = np.empty(lanes, np.uint64)
    value = starts(position)
    for lane in range(lanes):
        first[lane] = value
        value = _multiply(value, stride)
    numbers = np.empty((steps, lanes), np.uint64)
    current = first
    for step in range(steps):
        current = (current << np.uint64(1)) ^ ((current >> np.uint64(63)) * np.uint64(POLYNOMIAL))
        numbers[step] = current
    return numbers.T.reshape(-1)[:count]


def apply_stream(table: Words, position: int, updates: int) -> None:
    """XOR ``updates`` numbers after number ``position`` into a table of 2**n words, on the host."""
    for done in range(0, updates, _CHUNK):
        numbers = stream(position + done, min(_CHUNK, updates - done))
        np.bitwise_xor.at(table, numbers & np.uint64(len(table) - 1), numbers)


@dataclass(frozen=True)
class GupsResult:
    """Outcome of one run."""

    devices: tuple[str, ...]
    table_words: int
    updates: int
    window: int
    errors: int
    """Words that differ from the expected table."""
    faults: tuple[DmaFault, ...]
    """DMA accesses that a device refused; empty in a correct run."""
    cycles: int
    """NIC clock cycles from the first update to the last completion; of rank 0, if clocks are independent."""
    clock_hz: int
    seconds: float
    """Host time for the updates."""
    distributed: bool = False
    """Whether each rank was a process, with an independent clock that also ran while the rank waited for others."""

    @property
    def passed(self) -> bool:
        return not self.errors and not self.faults

    @property
    def cycles_per_update(self) -> float:
        return self.cycles / self.updates

    @property
    def gups(self) -> float:
        """Giga-updates per second of all ranks together, at the NICs' clock."""
        return self.updates / (self.cycles / self.clock_hz) / 1e9


def _table(begin: int, end: int) -> Words:
    """Return a rank's words, page-aligned, so that cache lines and cycles are the same in every run."""
    table = np.frombuffer(allocate(8 * (end - begin)), np.uint64)[: end - begin]
    table[:] = np.arange(begin, end, dtype=np.uint64)
    return table


@dataclass(frozen=True)
class _Part:
    """A rank's part of the table, as the others reach it. Travels as JSON."""

    endpoint: str
    """Address of the rank's endpoint, in hexadecimal."""
    address: int
    key: int
    job: tuple[int, ...]
    """Values that all ranks must share: words, updates, position."""


class _Updates(NamedTuple):
    """Updates of the table, one behind the other."""

    numbers: Words
    owners: npt.NDArray[np.intp]
    """Ranks that have the words."""
    addresses: Words
    keys: Words

    def part(self, begin: int, end: int | None) -> "_Updates":
        numbers, owners, addresses, keys = self
        return _Updates(numbers[begin:end], owners[begin:end], addresses[begin:end], keys[begin:end])


_NOTHING = _Updates(np.zeros(0, np.uint64), np.zeros(0, np.intp), np.zeros(0, np.uint64), np.zeros(0, np.uint64))


class _Rank:
    """One rank: its part of the table, its endpoint, and its part of the stream."""

    def __init__(self, fabric: Fabric, nic: int, table: Words, window: int, exits: contextlib.ExitStack) -> None:
        domain = exits.enter_context(fabric.domain(nic))
        self.region = exits.enter_context(domain.mr_reg(table, MrAccess.FI_REMOTE_WRITE))
        self.queue = exits.enter_context(domain.cq_open())
        self.peers = exits.enter_context(domain.av_open())
        self.endpoint = exits.enter_context(domain.endpoint(tx_size=window, cq=self.queue, av=self.peers))
        self.table = table
        self.window = window
        self.portion = -(-window // _PORTIONS)
        self.outstanding = 0
        self.chunks: Iterator[_Updates] = iter(())
        self.rest = _NOTHING
        self.exhausted = False

    def part(self, job: tuple[int, ...]) -> _Part:
        return _Part(self.endpoint.getname().hex(), self.region.address, self.region.key, job)

    def generate(self, parts: list[_Part], bounds: Words, position: int, count: int) -> None:
        """Prepare the updates, in chunks that a cache can hold."""
        words, firsts = bounds[-1] - np.uint64(1), bounds[:-1]
        bases = np.array([part.address for part in parts], np.uint64)
        keys = np.array([part.key for part in parts], np.uint64)

        def chunks() -> Iterator[_Updates]:
            for done in range(0, count, _CHUNK):
                numbers = stream(position + done, min(_CHUNK, count - done))
                index = numbers & words
                owners = np.searchsorted(firsts, index, side="right") - 1
                addresses = bases[owners] + (index - firsts[owners]) * np.uint64(8)
                yield _Updates(numbers, owners, addresses, keys[owners])

        self.chunks = chunks()

    def post(self) -> None:
        """Fill the window, a portion at a time: each completed portion frees space before the others end."""
        while not self.exhausted and self.window - self.outstanding >= self.portion:
            if not len(self.rest.numbers):
                self.rest = next(self.chunks, _NOTHING)
                self.exhausted = not len(self.rest.numbers)
                continue
            batch, self.rest = self.rest.part(0, self.portion), self.rest.part(self.portion, None)
            count = len(batch.numbers)
            self.endpoint.atomic_batch(*batch, Op.FI_BXOR, Datatype.FI_UINT64, context=count)
            self.outstanding += count

    def reap(self) -> int:
        """Take the completed updates. Raises the error of a failed update."""
        try:
            done: int = sum(entry.op_context for entry in self.queue.read(self.window))
        except ErrorAvailableError:
            failed = self.queue.readerr()
            assert failed is not None  # the queue has just said so
            raise failed.error() from None
        self.outstanding -= done
        return done


def run_gups(
    fabric: Fabric,
    *,
    table_bits: int = 12,
    updates: int | None = None,
    window: int = 64,
    position: int = 0,
    rendezvous: Rendezvous | None = None,
    progress: Callable[[int], object] | None = None,
) -> GupsResult:
    """Run the benchmark with one rank per NIC of the fabric, or one per process of a rendezvous, and verify it.

    Parameters
    ----------
    table_bits : int
        log2 of the table's 64-bit words, all ranks together.
    updates : int, optional
        Number of updates; four per word by default.
    window : int
        Outstanding updates per rank, 1 to 1024.
    position : int
        Start in the stream; the benchmark starts at 0.
    rendezvous : Rendezvous, optional
        The processes that run the benchmark together, each with the NIC of :func:`amoeba.join_cluster`. All pass the
        same arguments except ``window``, and get the same result except ``window`` and ``seconds``.
    progress : callable, optional
        Called with the number of updates of this process that completed since its last call.

    Raises FI_EINVAL for invalid sizes, and for sizes that differ between ranks; the error of a failed update;
    FI_ETIMEDOUT when no update completes for a minute; and FI_ECONNABORTED when another process is gone.
    """
    words, count = 1 << table_bits, len(fabric.nics) if rendezvous is None else rendezvous.ranks
    updates = 4 * words if updates is None else updates
    if words < count or updates < 1 or not 1 <= window <= MAX_LOOKAHEAD:
        raise fabric_error(
            Errno.FI_EINVAL,
            f"expected a word per rank, an update and a window of 1 to {MAX_LOOKAHEAD}, "
            f"got {words} words for {count} ranks, {updates} updates and a window of {window}",
        )
    # the first (words mod count) ranks own one word more, as in the reference implementation
    bounds = np.array([rank * (words // count) + min(rank, words % count) for rank in range(count + 1)], np.uint64)
    mine = range(count) if rendezvous is None else range(rendezvous.rank, rendezvous.rank + 1)
    with contextlib.ExitStack() as exits:
        tables = [_table(int(bounds[rank]), int(bounds[rank + 1])) for rank in mine]
        ranks = [_Rank(fabric, nic, table, window, exits) for nic, table in enumerate(tables)]
        parts = _meet(fabric, ranks, rendezvous, (words, updates, position))
        quota = 0
        for number, rank in zip(mine, ranks, strict=True):
            for part in parts:
                rank.peers.insert(bytes.fromhex(part.endpoint))
            begin, end = (updates * int(bounds[n]) // words for n in (number, number + 1))
            rank.generate(parts, bounds, position + begin, end - begin)
            quota += end - begin
        fabric.settle()
        cycles, seconds = fabric.nics[0].device.cycles, time.perf_counter()
        with departures(rendezvous):
            _update(ranks, quota, rendezvous, progress)
        seconds = time.perf_counter() - seconds
        cycles = fabric.nics[0].device.cycles - cycles
        _finish(fabric, rendezvous)
    own = slice(int(bounds[mine[0]]), int(bounds[mine[-1] + 1]))
    expected = np.arange(words, dtype=np.uint64)
    apply_stream(expected, position, updates)
    result = GupsResult(
        devices=tuple(device.name for device in fabric.devices),
        table_words=words,
        updates=updates,
        window=window,
        errors=int(np.count_nonzero(np.concatenate(tables) != expected[own])),
        faults=tuple(fault for device in fabric.devices for fault in device.faults()),
        cycles=cycles,
        clock_hz=fabric.nics[0].parameters.clock_hz,
        seconds=seconds,
    )
    return result if rendezvous is None else _combined(result, rendezvous)


def _meet(fabric: Fabric, ranks: list[_Rank], rendezvous: Rendezvous | None, job: tuple[int, ...]) -> list[_Part]:
    """Return every rank's part of the table. Raises FI_EINVAL if the parts belong to different tables."""
    parts = [rank.part(job) for rank in ranks]
    if rendezvous is None:
        return parts
    told = rendezvous.exchange(dataclasses.asdict(parts[0]))
    with understood():
        parts = [_Part(**{**part, "job": tuple(part["job"])}) for part in told]
    for rank, part in enumerate(parts):
        if part.job != job:
            raise fabric_error(
                Errno.FI_EINVAL,
                f"all ranks need the same words, updates and position: "
                f"rank {rank} has {part.job}, rank {rendezvous.rank} has {job}",
            )
    return parts


def _update(
    ranks: list[_Rank],
    quota: int,
    rendezvous: Rendezvous | None,
    progress: Callable[[int], object] | None,
) -> None:
    """Let the ranks make all their updates, ``quota`` of them together."""
    completed, since = 0, time.monotonic()
    while completed < quota:
        for rank in ranks:
            if not rank.exhausted:
                rank.post()
        done = sum(rank.reap() for rank in ranks)
        completed += done
        if done:
            since = time.monotonic()
            if progress is not None:
                progress(done)
            continue
        if rendezvous is not None:
            rendezvous.check()
        if time.monotonic() - since > _PATIENCE:
            raise fabric_error(
                Errno.FI_ETIMEDOUT, f"no update has completed for {_PATIENCE:g} s, {quota - completed} are missing"
            )


def _finish(fabric: Fabric, rendezvous: Rendezvous | None) -> None:
    """Serve the other processes until they have made their updates, too."""
    if rendezvous is not None:
        rendezvous.exchange(None, idle=fabric.devices[0].advance)


def _combined(result: GupsResult, rendezvous: Rendezvous) -> GupsResult:
    """Combine the results of all processes into one."""
    told: list[dict[str, Any]] = rendezvous.exchange(dataclasses.asdict(result))
    with understood():
        return dataclasses.replace(
            result,
            devices=tuple(str(device) for one in told for device in one["devices"]),
            errors=sum(one["errors"] for one in told),
            faults=tuple(DmaFault(**fault) for one in told for fault in one["faults"]),
            cycles=int(told[0]["cycles"]),
            distributed=True,
        )
