"""How fast the model is, beside the model of an earlier state of the project in the same run.

All time is CPU time. Each state runs in a process of its own, in turn, several times; what counts is the best.
"""

import json
from pathlib import Path

from bench import history
from bench.report import Grid

__all__ = ["LIMITS", "OPERATIONS", "measure", "misses", "speed_grid"]

_PROGRAM = Path(__file__).with_name("model_program.py")
_KINDS = ("write", "read", "sum", "fetched sum", "sum of doubles")
_LONG = 1 << 16
OPERATIONS = [f"{kind}, {size} bytes" for size in (8, _LONG) for kind in _KINDS]
LIMITS = {f"{kind}, 8 bytes": 1.5 for kind in _KINDS} | {f"read, {_LONG} bytes": 20.0}
"""How many times as fast as before the devices and the network are to be at least."""

Rates = dict[str, dict[str, float]]
"""Rates of each operation, ``whole`` and ``model``, as in :mod:`bench.model_program`."""


def measure(
    operations: list[str] | None = None, *, seconds: float = 0.5, rounds: int = 4, commit: str = history.BASELINE
) -> tuple[Rates, Rates | None]:
    """Rates of the present state and of ``commit``; of that none where there is no history."""
    roots = [history.PRESENT]
    earlier = history.checkout(commit)
    if earlier is not None:
        roots.append(earlier)
    best: list[Rates] = [{} for _ in roots]
    for _ in range(rounds):
        for root, rates in zip(roots, best, strict=True):
            printed = history.run(root, _PROGRAM, str(seconds), *(operations or OPERATIONS))
            for name, found in json.loads(printed).items():
                known = rates.setdefault(name, found)
                rates[name] = {part: max(rate, known[part]) for part, rate in found.items()}
    return best[0], best[1] if earlier is not None else None


def misses(present: Rates, earlier: Rates | None) -> list[str]:
    """Operations that are not as many times as fast as they are to be."""
    if earlier is None:
        return []
    return [name for name in present if present[name]["model"] < LIMITS.get(name, 0) * earlier[name]["model"]]


def speed_grid(present: Rates, earlier: Rates | None, commit: str = history.BASELINE) -> Grid:
    """Return a table of both states side by side."""

    def ratio(name: str, part: str) -> float | str:
        return "no history" if earlier is None else present[name][part] / earlier[name][part]

    rows = []
    for name, rates in present.items():
        size = int(name.split()[-2])
        limit = f"at least {LIMITS[name]:g}" if name in LIMITS else ""
        pace = rates["whole"] * size / 1e6 if size >= _LONG else ""
        rows.append((name, round(rates["whole"]), pace, ratio(name, "whole"), ratio(name, "model"), limit))
    header = (
        "operation",
        "per CPU second",
        "MB per CPU second",
        f"ratio to {commit}",
        "ratio without the driver",
        "limit of that",
    )
    return Grid("two model NICs and their driver, in one process", header, rows)
