"""Time of the driver's calls, beside those of an earlier state of the project in the same run.

CPU time. Each state runs in a process of its own, in turn, several times; the best counts.
"""

import json
from pathlib import Path

from bench import history
from bench.report import Grid

__all__ = ["LIMITS", "UCP", "UCP_BASELINE", "UCP_LIMITS", "calls_grid", "measure", "misses"]

_PROGRAM = Path(__file__).with_name("calls_program.py")
LIMITS = {
    "fetch_atomic": 0.5,
    "write": 0.5,
    "tsend": 0.5,
    "trecv": 0.5,
    "reading a received entry": 0.5,
    "cq.read of an entry": 0.7,
}
"""The most that each is to take, as a part of what it took before."""
UCP = Path(__file__).with_name("ucp_calls_program.py")
"""Times the calls of UCX's API."""
UCP_BASELINE = "3136471e"
"""The commit that their cost is compared with."""
UCP_LIMITS = dict.fromkeys(
    (
        "ucp_put_nbx",
        "ucp_get_nbx",
        "ucp_atomic_op_nbx",
        "ucp_atomic_op_nbx with a reply",
        "ucp_atomic_post",
        "ucp_atomic_fetch_nb",
    ),
    1.1,
)
"""Maximum cost of UCX's calls, as a part of their cost at ``UCP_BASELINE``."""

Costs = dict[str, float]
"""Microseconds by what is done."""


def measure(
    program: Path = _PROGRAM, *, windows: int = 40, rounds: int = 5, commit: str = history.BASELINE
) -> tuple[Costs, Costs | None]:
    """Return what a program measures of the present state and of ``commit``; None of that without history."""
    roots = [history.PRESENT]
    earlier = history.checkout(commit)
    if earlier is not None:
        roots.append(earlier)
    best: list[Costs] = [{} for _ in roots]
    for _ in range(rounds):
        for root, costs in zip(roots, best, strict=True):
            for name, cost in json.loads(history.run(root, program, str(windows))).items():
                costs[name] = min(cost, costs.get(name, cost))
    return best[0], best[1] if earlier is not None else None


def misses(present: Costs, earlier: Costs | None, limits: Costs = LIMITS) -> list[str]:
    """List the calls that take more than their limits."""
    return [] if earlier is None else [name for name in limits if present[name] > limits[name] * earlier[name]]


def calls_grid(
    present: Costs, earlier: Costs | None, commit: str = history.BASELINE, limits: Costs = LIMITS
) -> Grid:
    """Return a table of both states side by side."""
    rows = [
        (
            name,
            round(present[name], 2),
            "no history" if earlier is None else round(earlier[name], 2),
            "no history" if earlier is None else round(present[name] / earlier[name], 2),
            f"at most {limit:g}",
        )
        for name, limit in limits.items()
    ]
    header = ("call", "us", f"us at {commit}", "ratio", "limit of that")
    title = "a call of the driver" if limits is LIMITS else "an operation of UCX's API, posted and taken"
    return Grid(f"CPU time of {title}, two model NICs, 8 bytes", header, rows)
