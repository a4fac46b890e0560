"""Functional coverage: points, their bins, and what hit them."""

import json
from collections.abc import Iterable, Mapping

__all__ = ["Cover"]


class Cover:
    """Counts hits of declared bins; a bin that was not declared cannot be hit.

    A point is one feature to cover, such as a cell of the atomic matrix; its bins are the situations it must have
    been in. Bins that cannot be hit are declared with the reason, and hitting one is an error: then the reason is
    wrong. The grade is the average over the points, so that a point with many bins does not hide one with few.
    """

    def __init__(self) -> None:
        self._bins: dict[str, dict[str, int]] = {}
        self._impossible: dict[str, dict[str, str]] = {}

    def declare(self, point: str, bins: Iterable[str], impossible: Mapping[str, str] | None = None) -> None:
        """Add a point.

        Raises
        ------
        ValueError
            The point exists, has no bins, or a bin is both possible and impossible.
        """
        declared = dict.fromkeys(bins, 0)
        impossible = dict(impossible or {})
        if point in self._bins:
            raise ValueError(f"Expected a new point, got {point!r} again")
        if not declared or declared.keys() & impossible.keys():
            raise ValueError(
                f"Expected bins of {point!r} that are either possible or impossible, got {list(declared)}"
            )
        self._bins[point] = declared
        self._impossible[point] = impossible

    def hit(self, point: str, name: str, count: int = 1) -> None:
        """Count ``count`` hits.

        Raises
        ------
        KeyError
            No such point or bin, or one that was declared impossible.
        """
        if name in self._impossible[point]:
            raise KeyError(f"{point}: {name} was hit, but declared impossible: {self._impossible[point][name]}")
        if name not in self._bins[point]:
            raise KeyError(f"{point} has no bin {name!r}")
        self._bins[point][name] += count

    def merge(self, other: "Cover") -> None:
        """Add the points and hits of another run.

        Raises
        ------
        ValueError
            A point of both has different bins.
        """
        for point, bins in other._bins.items():
            if point not in self._bins:
                self.declare(point, bins, other._impossible[point])
            if self._bins[point].keys() != bins.keys() or self._impossible[point] != other._impossible[point]:
                raise ValueError(f"Expected the same bins of {point!r} in both runs")
            for name, count in bins.items():
                self._bins[point][name] += count

    def points(self) -> list[str]:
        """All points, as declared."""
        return list(self._bins)

    def hits(self, point: str) -> dict[str, int]:
        """Hits of every possible bin."""
        return dict(self._bins[point])

    def holes(self) -> dict[str, list[str]]:
        """List the possible bins that nothing hit, by point; empty when all is covered."""
        empty = {point: [name for name, count in bins.items() if not count] for point, bins in self._bins.items()}
        return {point: names for point, names in empty.items() if names}

    def grade(self) -> float:
        """Average over the points of the share of their possible bins that was hit: 0 to 1."""
        shares = [sum(map(bool, bins.values())) / len(bins) for bins in self._bins.values()]
        return sum(shares) / len(shares) if shares else 1.0

    def to_json(self) -> str:
        """Everything, for :meth:`from_json`."""
        return json.dumps({"bins": self._bins, "impossible": self._impossible}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Cover":
        """Read the text that :meth:`to_json` wrote."""
        stored = json.loads(text)
        cover = cls()
        for point, bins in stored["bins"].items():
            cover.declare(point, bins, stored["impossible"][point])
            for name, count in bins.items():
                cover.hit(point, name, count)
        return cover

    def to_markdown(self) -> str:
        """Render a table with a row per point, then the holes, then the impossible bins with their reasons.

        Counts of hits are left out: they change with every seed, and the page would with them.
        """
        lines = ["| point | bins | hit |", "|---|---:|---:|"]
        for point, bins in self._bins.items():
            lines.append(f"| {point} | {len(bins)} | {sum(map(bool, bins.values()))} |")
        holes = self.holes()
        lines += ["", f"Grade: {100 * self.grade():.1f} %.", ""]
        lines += [f"- not hit: {point}: {', '.join(names)}" for point, names in holes.items()] or [
            "No possible bin was missed."
        ]
        reasons: dict[tuple[str, str], list[str]] = {}
        for point, impossible in self._impossible.items():
            for name, reason in impossible.items():
                reasons.setdefault((name, reason), []).append(point)
        if reasons:
            lines += ["", "| impossible | why | points |", "|---|---|---|"]
            for (name, reason), points in reasons.items():
                others = f" and {len(points) - 1} more" if len(points) > 1 else ""
                lines.append(f"| {name} | {reason} | {points[0]}{others} |")
        return "\n".join(lines) + "\n"
