"""HPC Challenge RandomAccess (GUPS): random XOR updates of a table spread over the memories of all ranks.

The benchmark, as its reference implementation defines it: a table of 2**n 64-bit words, T[i] = i; a stream of
64-bit numbers, each the last one times x in GF(2)[x] modulo x**64 + x**2 + x + 1; every number a updates
T[a mod 2**n] ^= a; four updates per word. Rank r owns consecutive words, and generates the part of the stream
that belongs to them by position; no rank may hold back more than 1024 updates. Applying the stream again must
restore the table; up to 1 % of the words may be wrong in the benchmark, none with real atomics.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amoeba_model.device import DmaFault

from amoeba.constants import Datatype, Errno, MrAccess, Op, OpFlags
from amoeba.errors import ErrorAvailableError, fabric_error
from amoeba.fabric import Fabric
from amoeba.memory import allocate

__all__ = ["MOST_LOOKAHEAD", "PERIOD", "POLYNOMIAL", "GupsResult", "apply_stream", "run_gups", "starts", "stream"]

POLYNOMIAL = 0x7
"""x**2 + x + 1: what x**64 is reduced to."""
PERIOD = 1317624576693539401
"""Numbers until the stream repeats."""
MOST_LOOKAHEAD = 1024
"""Updates that the rules allow a rank to have generated and not yet applied."""

Words = npt.NDArray[np.uint64]

_LANES = 1024
_CHUNK = 1 << 16
_TOP = 1 << 63
_MASK = (1 << 64) - 1
_NO_FLAGS = OpFlags(0)


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
    """Number ``position`` of the stream, x**position: the reference implementation's ``HPCC_starts``."""
    power, result, exponent = 2, 1, position % PERIOD
    while exponent:
        if exponent & 1:
            result = _multiply(result, power)
        power = _multiply(power, power)
        exponent >>= 1
    return result


def stream(position: int, count: int) -> Words:
    """The ``count`` numbers that follow number ``position``."""
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
    """Words that differ from what the stream makes of the table."""
    faults: tuple[DmaFault, ...]
    """DMA accesses that a device refused; none in a right run."""
    cycles: int
    """NIC clock cycles from the first update to the last completion."""
    clock_hz: int
    seconds: float
    """Host time for the updates."""

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
    """A rank's words, page-aligned: so the words that share a line, and with them the cycles, are always the same."""
    table = np.frombuffer(allocate(8 * (end - begin)), np.uint64)[: end - begin]
    table[:] = np.arange(begin, end, dtype=np.uint64)
    return table


class _Rank:
    """One rank: its part of the table, its endpoint, and its part of the stream."""

    def __init__(self, fabric: Fabric, number: int, table: Words, window: int, exits: contextlib.ExitStack) -> None:
        domain = exits.enter_context(fabric.domain(number))
        self.region = exits.enter_context(domain.mr_reg(table, MrAccess.FI_REMOTE_WRITE))
        self.queue = exits.enter_context(domain.cq_open())
        self.peers = exits.enter_context(domain.av_open())
        self.endpoint = exits.enter_context(domain.endpoint(tx_size=window, cq=self.queue, av=self.peers))
        self.table = table
        self.window = window
        self.under_way = 0
        self.updates: Iterator[tuple[Words, int, int]] = iter(())
        self.exhausted = False

    def generate(self, ranks: "list[_Rank]", bounds: Words, position: int, count: int) -> None:
        """Prepare the updates: (operand, owner's rank, remote address), in chunks that a cache can hold."""
        words = np.uint64(sum(len(rank.table) for rank in ranks) - 1)
        bases = np.array([rank.region.address for rank in ranks], np.uint64)

        def updates() -> Iterator[tuple[Words, int, int]]:
            for done in range(0, count, _CHUNK):
                numbers = stream(position + done, min(_CHUNK, count - done))
                index = numbers & words
                owners = np.searchsorted(bounds, index, side="right") - 1
                addresses = bases[owners] + (index - bounds[owners]) * np.uint64(8)
                for at, (owner, address) in enumerate(zip(owners.tolist(), addresses.tolist(), strict=True)):
                    yield numbers[at : at + 1], owner, address

        self.updates = updates()

    def post(self, keys: list[int]) -> None:
        """Fill the window; the last update of the batch rings the doorbell."""
        room = self.window - self.under_way
        batch = [update for _, update in zip(range(room), self.updates, strict=False)]
        self.exhausted = len(batch) < room
        last = len(batch) - 1
        for at, (operand, owner, address) in enumerate(batch):
            self.endpoint.atomic(
                operand,
                owner,
                address,
                keys[owner],
                Op.FI_BXOR,
                Datatype.FI_UINT64,
                flags=OpFlags.FI_MORE if at < last else _NO_FLAGS,
            )
        self.under_way += len(batch)

    def reap(self) -> int:
        """Take what has completed. Raises the error of an update that failed."""
        try:
            done = len(self.queue.read(self.window))
        except ErrorAvailableError:
            failed = self.queue.readerr()
            assert failed is not None  # the queue has just said so
            raise failed.error() from None
        self.under_way -= done
        return done


def run_gups(
    fabric: Fabric,
    *,
    table_bits: int = 12,
    updates: int | None = None,
    window: int = 64,
    position: int = 0,
    progress: Callable[[int], object] | None = None,
) -> GupsResult:
    """Run the benchmark with one rank per NIC of the fabric, and verify it.

    Parameters
    ----------
    table_bits : int
        log2 of the table's 64-bit words, all ranks together.
    updates : int, optional
        How many; four per word by default.
    window : int
        Updates that each rank keeps under way, 1 to 1024.
    position : int
        Where in the stream to begin; 0 is the benchmark's own place.
    progress : callable, optional
        Called with the number of updates that completed since its last call.

    Raises FI_EINVAL for senseless sizes, and the error of any update that fails.
    """
    words, count = 1 << table_bits, len(fabric.nics)
    updates = 4 * words if updates is None else updates
    if words < count or updates < 1 or not 1 <= window <= MOST_LOOKAHEAD:
        raise fabric_error(
            Errno.FI_EINVAL,
            f"expected a word per rank, an update and a window of 1 to {MOST_LOOKAHEAD}, "
            f"got {words} words for {count} ranks, {updates} updates and a window of {window}",
        )
    # the first (words mod count) ranks own one word more, as in the reference implementation
    bounds = np.array([rank * (words // count) + min(rank, words % count) for rank in range(count + 1)], np.uint64)
    with contextlib.ExitStack() as exits:
        tables = [_table(int(bounds[rank]), int(bounds[rank + 1])) for rank in range(count)]
        ranks = [_Rank(fabric, number, table, window, exits) for number, table in enumerate(tables)]
        for rank in ranks:
            for other in ranks:
                rank.peers.insert(other.endpoint.getname())
        keys = [rank.region.key for rank in ranks]
        for number, rank in enumerate(ranks):
            begin, end = (updates * int(bounds[n]) // words for n in (number, number + 1))
            rank.generate(ranks, bounds[:-1], position + begin, end - begin)
        fabric.settle()
        cycles, seconds = fabric.nics[0].device.cycles, time.perf_counter()
        completed = 0
        while completed < updates:
            for rank in ranks:
                if not rank.exhausted:
                    rank.post(keys)
            done = sum(rank.reap() for rank in ranks)
            completed += done
            if progress is not None and done:
                progress(done)
        seconds = time.perf_counter() - seconds
        cycles = fabric.nics[0].device.cycles - cycles
    table = np.concatenate(tables)
    apply_stream(table, position, updates)
    return GupsResult(
        devices=tuple(device.name for device in fabric.devices),
        table_words=words,
        updates=updates,
        window=window,
        errors=int(np.count_nonzero(table != np.arange(words, dtype=np.uint64))),
        faults=tuple(fault for device in fabric.devices for fault in device.faults()),
        cycles=cycles,
        clock_hz=fabric.nics[0].parameters.clock_hz,
        seconds=seconds,
    )
