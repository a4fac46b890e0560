"""The memory of a rank of :mod:`amoeba_tools.workload`, its outstanding operations, and its messages."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amoeba.libfabric.objects.queues.completion import CqTaggedEntry

from amoeba_tools.exactly_once import ADDED, FETCHED, SWAPPED, XORED

__all__ = ["WORD", "Bytes", "Layout", "Posted", "PostedReceive", "message_of"]

Bytes = npt.NDArray[np.uint8]
WORD = 8
"""Bytes of a word of shared memory."""


class Layout:
    """Where what is in a rank's memory; bytes from its start."""

    def __init__(self, ranks: int, payload: int) -> None:
        self.fetched = 0
        self.added = self.fetched + WORD * FETCHED
        self.swapped = self.added + WORD * ADDED
        self.xored = self.swapped + WORD * SWAPPED
        self.slabs = self.xored + WORD * XORED
        self.slab = 3 * payload
        self.longest = 2 * payload + 100
        """Bytes of one operation: up to three frames."""
        self.size = self.slabs + ranks * self.slab

    def slab_of(self, rank: int) -> int:
        return self.slabs + rank * self.slab


@dataclass(eq=False)
class Posted:
    """An outstanding operation: its kind, its slot in local memory, and its expected results."""

    kind: str
    slot: int
    results: Bytes | None = None
    expected: bytes = b""
    examine: Callable[[int], str] | None = None
    """For a fetched word that is not known before: what is wrong with it."""

    def problem(self) -> str:
        """Return the error in the results; empty if the results are right."""
        if self.results is None:
            return ""
        if self.examine is not None:
            return self.examine(int.from_bytes(self.results.tobytes(), "little"))
        found = self.results.tobytes()
        if found == self.expected:
            return ""
        at = next(n for n, (one, other) in enumerate(zip(found, self.expected, strict=True)) if one != other)
        return f"byte {at} of {len(found)} is {found[at]:#04x}, expected {self.expected[at]:#04x}"


@dataclass(eq=False)
class PostedReceive:
    """A receive that is posted, and what it has met."""

    lane: int
    buffer: Bytes
    kind: str = "receive"
    entry: CqTaggedEntry | None = None
    source: int = 0


def message_of(source: int, target: int, lane: int, number: int, length: int) -> bytes:
    """Return message ``number`` of a lane from one rank to another; another length gives another message."""
    return random.Random(f"{source}/{target}/{lane}/{number}/{length}").randbytes(length)
