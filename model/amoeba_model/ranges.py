"""Ranges of addresses that overlap, counted: which addresses any of them holds, and where those lie elsewhere."""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

__all__ = ["CountedRanges", "ShiftError"]


class ShiftError(ValueError):
    """An address would lie in two places."""

    def __init__(self, address: int, shift: int) -> None:
        super().__init__(address, shift)
        self.address = address
        self.shift = shift
        """Of the address, so far."""


class _Segment:
    """Consecutive addresses that the same ranges hold."""

    __slots__ = ("count", "end", "shift", "start")

    def __init__(self, start: int, end: int, shift: int, count: int) -> None:
        self.start = start
        self.end = end
        self.shift = shift
        self.count = count


_START = attrgetter("start")


class CountedRanges:
    """Half-open ranges [start, end), each with a shift: what is added to its addresses. Found in O(log n).

    Any number may hold an address, all with the same shift. A range is removed by the bounds that it was added with.
    A signal's handler that raises something in the midst of that takes nothing away from other ranges: at worst
    something stays held. So what makes one segment of two, or two of one, has no call of Python's own in between.
    """

    def __init__(self) -> None:
        # Side by side, in the order of addresses. No two are empty or overlap, and no two that touch could be one.
        self._segments: list[_Segment] = []

    def __len__(self) -> int:
        """Pieces into which all that is held falls: for those who must know what it costs."""
        return len(self._segments)

    def __bool__(self) -> bool:
        return bool(self._segments)

    def add(self, start: int, end: int, shift: int = 0) -> None:
        """Add a range. Raises ShiftError, and adds nothing, if an address of it has another shift."""
        segments = self._segments
        index = bisect_right(segments, start, key=_START)
        # Nothing of it is held yet, nor what touches it: so it is with most.
        before = index == 0 or segments[index - 1].end < start
        if before and (index == len(segments) or end < segments[index].start):
            segments.insert(index, _Segment(start, end, shift, 1))
            return
        index -= index > 0
        self._check_shift(index, start, end, shift)
        first = index = self._split(start)
        self._split(end)
        at = start
        while at < end:
            if index < len(segments) and segments[index].start == at:
                segments[index].count += 1
            else:
                following = segments[index].start if index < len(segments) else end
                segments.insert(index, _Segment(at, min(following, end), shift, 1))
            at = segments[index].end
            index += 1
        self._join(first, index)

    def check(self, start: int, end: int, shift: int) -> None:
        """Raise ShiftError if :meth:`add` would."""
        index = bisect_right(self._segments, start, key=_START) - 1
        self._check_shift(max(index, 0), start, end, shift)

    def remove(self, start: int, end: int) -> None:
        """Undo :meth:`add`. Addresses that nothing else holds are held no more."""
        segments = self._segments
        index = bisect_right(segments, start, key=_START) - 1
        if index >= 0:
            segment = segments[index]
            if segment.start == start and segment.end == end and segment.count == 1:
                del segments[index]  # those beside it do not touch each other
                return
        first = index = self._split(start)
        last = self._split(end)
        while index < last:
            segment = segments[index]
            if segment.count > 1:
                segment.count -= 1
                index += 1
            else:
                del segments[index]
                last -= 1
        self._join(first, last)

    def held(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, shift) of the parts of [start, end) that any range holds, in order.

        Ranges that touch may be two parts.
        """
        index = bisect_right(self._segments, start, key=_START) - 1
        index += index < 0
        while index < len(self._segments):
            segment = self._segments[index]
            if segment.start >= end:
                return
            if segment.end > start:
                yield max(segment.start, start), min(segment.end, end), segment.shift
            index += 1

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(start, end) of the parts of [start, end) that no range holds, in order."""
        at = start
        for part, part_end, _ in self.held(start, end):
            if at < part:
                yield at, part
            at = part_end
        if at < end:
            yield at, end

    def locate(self, start: int, end: int) -> list[tuple[int, int]] | None:
        """Find (shifted address, bytes) of the pieces of [start, end), as few as there can be.

        Returns None if any address of it is not held, or the range is empty.
        """
        index = bisect_right(self._segments, start, key=_START) - 1
        if index < 0:
            return None
        segment = self._segments[index]
        if end <= segment.end and start < end:
            return [(start + segment.shift, end - start)]
        pieces: list[tuple[int, int]] = []
        at = start
        for part, part_end, shift in self.held(start, end):
            if part != at:
                return None
            if pieces and sum(pieces[-1]) == part + shift:
                pieces[-1] = (pieces[-1][0], pieces[-1][1] + part_end - part)
            else:
                pieces.append((part + shift, part_end - part))
            at = part_end
        return pieces if at == end and pieces else None

    def _check_shift(self, index: int, start: int, end: int, shift: int) -> None:
        while index < len(self._segments) and self._segments[index].start < end:
            segment = self._segments[index]
            if segment.end > start and segment.shift != shift:
                raise ShiftError(max(segment.start, start), segment.shift)
            index += 1

    def _split(self, address: int) -> int:
        """Let no segment go across ``address``; the index of the first that does not begin before it."""
        index = bisect_right(self._segments, address, key=_START) - 1
        if index < 0:
            return 0
        segment = self._segments[index]
        if segment.start == address:
            return index
        if address < segment.end:
            rest = _Segment(address, segment.end, segment.shift, segment.count)
            segment.end = address
            self._segments.insert(index + 1, rest)
        return index + 1

    def _join(self, first: int, last: int) -> None:
        """Make one of those neighbours that could be, of the segments from the one before ``first`` to ``last``."""
        index = max(first, 1)
        while index <= last and index < len(self._segments):
            before, segment = self._segments[index - 1], self._segments[index]
            if before.end == segment.start and (before.count, before.shift) == (segment.count, segment.shift):
                before.end = segment.end
                del self._segments[index]
                last -= 1
            else:
                index += 1
