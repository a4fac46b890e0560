"""LineTable: which lines of host memory are on their way to the memory engine."""

from amoeba_model.nic.timing import HOST_READ

__all__ = ["LineTable"]

_SINGLES = 256
"""Lines asked for one by one that are remembered before those at hand are sorted out."""


_Run = tuple[int, int, int]
"""Lines that were asked for one after the other, a line per cycle: (first, end, phase); line n of them is at hand in
cycle ``n + phase``."""


class LineTable:
    """Has a line fetched once while it is on its way: until it is at hand, those who need it share it.

    A line is never forgotten on its way. Lines are numbered from address 0. Cycles of requests never decrease.

    A request looks at a line per cycle, and its lines come at hand a line per cycle. So of the lines that two
    requests have in common, either all are still on their way when the second one looks at them, or none is: long
    requests need not be looked at line by line.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._singles: dict[int, int] = {}
        """Cycle at which a line is at hand that was asked for alone."""

    def fetch(self, first: int, count: int, cycle: int) -> tuple[int, tuple[range, ...]]:
        """Look at ``count`` lines from ``first`` on, at least one, beginning in ``cycle``.

        Returns the cycle at which all are at hand, and which of them have to be read from the host, in order.
        """
        runs = self._runs
        if runs and runs[0][1] + runs[0][2] <= cycle:
            self._runs = runs = [run for run in runs if run[1] + run[2] > cycle]
        if count == 1:
            return self._fetch_single(first, cycle)
        end, since = first + count, cycle - first
        shared = [
            (max(begin, first), min(stop, end), phase)
            for begin, stop, phase in runs
            if begin < end and first < stop and phase >= since
        ]
        if self._singles:
            shared += [
                (line, line + 1, at_hand - line)
                for line, at_hand in self._singles.items()
                if first <= line < end and at_hand >= line + since
            ]
        if not shared:
            runs.append((first, end, since + HOST_READ))
            return end - 1 + since + HOST_READ, (range(first, end),)
        shared.sort()
        missing, position = [], first
        for begin, stop, _ in shared:
            if begin > position:
                missing.append(range(position, begin))
            position = max(position, stop)
        if position < end:
            missing.append(range(position, end))
        at_hand = max(stop - 1 + phase for _, stop, phase in shared)
        read_at_hand, read = self._read(missing, since)
        return max(at_hand, read_at_hand), read

    def _fetch_single(self, line: int, cycle: int) -> tuple[int, tuple[range, ...]]:
        singles = self._singles
        at_hand = singles.get(line, -1)
        for begin, stop, phase in self._runs:
            if begin <= line < stop:
                at_hand = max(at_hand, line + phase)
        if at_hand >= cycle:
            return at_hand, ()
        if len(singles) >= _SINGLES:
            self._singles = singles = {other: at_hand for other, at_hand in singles.items() if at_hand >= cycle}
        singles[line] = at_hand = cycle + HOST_READ
        return at_hand, (range(line, line + 1),)

    def _read(self, missing: list[range], since: int) -> tuple[int, tuple[range, ...]]:
        """Read lines from the host, line n in cycle ``n + since``; returns as :meth:`fetch`."""
        phase = since + HOST_READ
        self._runs += [(lines.start, lines.stop, phase) for lines in missing]
        return missing[-1].stop - 1 + phase if missing else 0, tuple(missing)
