"""The accounts of a soak: operations on each other's memory, and whether each was performed exactly once."""

import functools
import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ADDED", "FETCHED", "LANES", "SWAPPED", "XORED", "Peer", "Report", "digest", "mixed", "verify"]

Report = dict[str, Any]
"""Operations and findings of a rank; travels as JSON."""

FETCHED, ADDED, SWAPPED, XORED = 4, 4, 2, 32
"""Words of a rank's shared memory: counters of fetching sums, of sums and of swaps, and a table for XOR."""

LANES = 3
"""Streams of messages from a rank to another, each received in order: one without a tag, and of two tags."""

_MASK = (1 << 64) - 1
_SHARED = ("added", "swapped", "xored", "steps")


def mixed(value: int) -> int:
    """Return a pseudo-random number for every number (splitmix64)."""
    value = value + 0x9E37_79B9_7F4A_7C15 & _MASK
    value = (value ^ value >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return value ^ value >> 31


def digest(data: bytes | bytearray) -> str:
    """Return a short digest of memory."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass
class Peer:
    """A rank's knowledge of a peer, and the rank's operations on that peer."""

    address: int
    key: int
    slab: bytearray
    """Content of the rank's own slab after all posted operations."""
    told: int = 0
    messages: list[int] = field(default_factory=lambda: [0] * LANES)
    """How many were sent to it, by lane."""
    added: list[int] = field(default_factory=lambda: [0] * ADDED)
    xored: list[int] = field(default_factory=lambda: [0] * XORED)
    swapped: list[int] = field(default_factory=lambda: [0] * SWAPPED)
    guesses: list[int] = field(default_factory=lambda: [0] * SWAPPED)
    least: list[int] = field(default_factory=lambda: [0] * FETCHED)
    """Lower bound of the next fetched value."""
    steps: list[int] = field(default_factory=lambda: [0] * FETCHED)
    """Sum of ``mixed(after) - mixed(before)``: of a sequence without gap and repetition, that of its ends."""

    def report(self) -> Report:
        return {
            "slab": digest(self.slab),
            "told": self.told,
            "messages": self.messages,
            "added": self.added,
            "xored": self.xored,
            "swapped": self.swapped,
            "steps": self.steps,
        }


def verify(reports: Sequence[Report]) -> list[str]:
    """Return all errors in the reports of all ranks, in order; an empty list if all is right.

    Memory is checked only if no rank has found a problem, since a problem ends the rank with outstanding operations.
    """
    problems = [problem for report in reports for problem in report["problems"]]
    if problems:
        return problems
    for owner in reports:
        to = [report["sent"][owner["rank"]] for report in reports]
        columns = {name: list(zip(*(sent[name] for sent in to), strict=True)) for name in _SHARED}
        expected = {
            "added": [sum(steps) & _MASK for steps in columns["added"]],
            "swapped": [sum(swaps) for swaps in columns["swapped"]],
            "xored": [functools.reduce(operator.xor, values) for values in columns["xored"]],
            "slabs": [sent["slab"] for sent in to],
            "heard": [sent["told"] for sent in to],
            "received": [sent["messages"] for sent in to],
        }
        for name, values in expected.items():
            problems += [
                f"{name}[{index}] of rank {owner['rank']} is {found}, expected {value}"
                for index, (found, value) in enumerate(zip(owner[name], values, strict=True))
                if found != value
            ]
        problems += [
            f"what was fetched from counter {index} of rank {owner['rank']}, now {left}, is no sequence of additions"
            for index, (left, steps) in enumerate(zip(owner["fetched"], columns["steps"], strict=True))
            if (mixed(left) - mixed(0) - sum(steps)) & _MASK
        ]
    return problems
