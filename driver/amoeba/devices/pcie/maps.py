"""Byte ranges that a NIC may use, as maps of the IOMMU: whole pages, counted, and none left behind.

VFIO's type 1 refuses maps that overlap, and removes a map only as a whole. A map that is left behind is dangerous:
when its address gets other memory, the map still names the old one. The NIC would then read and write memory that the
process no longer uses.
"""

import bisect
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from amoeba_model.device import DeviceError
from amoeba_model.ranges import CountedRanges, ShiftError

__all__ = ["PAGE", "PageMaps"]

PAGE = 4096
_REGION = 16 * PAGE
"""Size in bytes from which whole pages of one grant are mapped as one."""

MapCall = Callable[[int, int, int, bool], None]
"""(iova, address in the process, bytes, writable)."""
UnmapCall = Callable[[int, int], None]
"""(iova, bytes)."""


@dataclass(frozen=True)
class _Map:
    start: int
    end: int
    shift: int
    """Offset from I/O virtual address to address in the process."""
    writable: bool


class PageMaps:
    """The maps of one IOMMU domain.

    A map is one page, or as one map those pages of a large grant that are wholly its own. A grant may share its first
    and last page with others. A map is removed when no grant uses any of its pages. If new memory comes to lie in the
    map before that, the map is made again from the pages in use.

    Memory is mapped for writing wherever the process itself may write. To make a map writable later would remove the
    map for a moment, and outstanding operations on the same page would fail. The NIC checks the rights of peers.
    Parameters
    ----------
    map, unmap
        VFIO's calls; they raise OSError.
    ranges : sequence of (first, last)
        I/O virtual addresses that the IOMMU has, both included.
    """

    def __init__(self, map: MapCall, unmap: UnmapCall, ranges: Sequence[tuple[int, int]]) -> None:
        self._map = map
        self._unmap = unmap
        self._ranges = tuple(ranges)
        self._users = CountedRanges()
        self._grants: dict[tuple[int, int], int] = {}
        """Number of grants by (iova, length)."""
        self._starts: list[int] = []
        self._maps: list[_Map] = []
        """Maps in the order of addresses, beside :attr:`_starts`."""

    @property
    def pinned(self) -> int:
        """Bytes of host memory that are mapped, and cannot be paged out."""
        return sum(one.end - one.start for one in self._maps)

    def __len__(self) -> int:
        return len(self._maps)

    def grant(self, iova: int, length: int, *, writable: bool, address: int) -> None:
        """Let the NIC use ``length`` bytes at ``iova``, which lie at ``address`` in the process.

        Raises DeviceError for no bytes, for addresses outside the IOMMU's ranges, and for addresses that are mapped
        elsewhere. Raises OSError if the kernel refuses; then nothing has changed.
        """
        if length <= 0:
            raise DeviceError(f"a grant needs a positive length, got {length}")
        shift = address - iova
        if shift % PAGE:
            raise DeviceError(f"expected the same place in a page, got {iova:#x} for {address:#x}")
        start, end = iova // PAGE * PAGE, -(-(iova + length) // PAGE) * PAGE
        if not any(first <= start and end - 1 <= last for first, last in self._ranges):
            known = ", ".join(f"{first:#x} to {last:#x}" for first, last in self._ranges)
            raise DeviceError(f"{length} bytes at {iova:#x} are not among the IOMMU's addresses: {known}")
        try:
            self._users.add(start, end, shift)
        except ShiftError as error:
            raise DeviceError(
                f"{error.address:#x} is granted already, and lies at {error.address + error.shift:#x}: "
                f"it cannot also lie at {error.address + shift:#x}"
            ) from None
        self._users.remove(start, end)
        made: list[_Map] = []
        try:
            for stale in list(self._stale(start, end, writable)):
                self._renew(stale)
            if writable and not all(one.writable for one in self._overlapping(start, end)):
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            own = -(-iova // PAGE) * PAGE, (iova + length) // PAGE * PAGE
            for first, last in list(self._unmapped(start, end)):
                for piece in _pieces(first, last, *own):
                    made.append(self._add(*piece, shift, writable))
        except OSError:
            for one in made:
                self._remove(one)
            raise
        self._users.add(start, end, shift)
        self._grants[iova, length] = self._grants.get((iova, length), 0) + 1

    def revoke(self, iova: int, length: int) -> None:
        """End one grant. Raises DeviceError for a range that is not granted."""
        count = self._grants.get((iova, length), 0)
        if not count:
            raise DeviceError(f"expected a granted range, got {length} bytes at {iova:#x}, which was never granted")
        if count > 1:
            self._grants[iova, length] = count - 1
        else:
            del self._grants[iova, length]
        start, end = iova // PAGE * PAGE, -(-(iova + length) // PAGE) * PAGE
        self._users.remove(start, end)
        for one in list(self._overlapping(start, end)):
            if not any(self._users.held(one.start, one.end)):
                self._remove(one)

    def clear(self) -> None:
        """Remove all maps, used or not."""
        for one in list(self._maps):
            self._remove(one)
        self._users = CountedRanges()
        self._grants = {}

    def _overlapping(self, start: int, end: int) -> Iterator[_Map]:
        index = bisect.bisect_right(self._starts, start) - 1
        if index < 0 or self._maps[index].end <= start:
            index += 1
        while index < len(self._maps) and self._maps[index].start < end:
            yield self._maps[index]
            index += 1

    def _unmapped(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for one in self._overlapping(start, end):
            if start < one.start:
                yield start, one.start
            start = one.end
        if start < end:
            yield start, end

    def _stale(self, start: int, end: int, writable: bool) -> Iterator[_Map]:
        """Yield maps that do not name the memory now in [start, end), or are read-only against ``writable``."""
        for one in self._overlapping(start, end):
            unused = any(self._users.gaps(max(start, one.start), min(end, one.end)))
            if unused or (writable and not one.writable):
                yield one

    def _renew(self, stale: _Map) -> None:
        """Map only the pages of a map that are in use; writable if the process may write them."""
        self._remove(stale)
        for start, end, shift in list(self._users.held(stale.start, stale.end)):
            try:
                self._add(start, end, shift, True)
            except OSError as error:
                if error.errno != errno.EFAULT:
                    raise
                for page in range(start, end, PAGE):
                    self._add(page, page + PAGE, shift, False)

    def _add(self, start: int, end: int, shift: int, writable: bool) -> _Map:
        may_write = True
        try:
            self._map(start, start + shift, end - start, True)
        except OSError as error:
            # The process may not write these pages.
            if writable or error.errno != errno.EFAULT:
                raise
            may_write = False
            self._map(start, start + shift, end - start, False)
        one = _Map(start, end, shift, may_write)
        index = bisect.bisect_left(self._starts, start)
        self._starts.insert(index, start)
        self._maps.insert(index, one)
        return one

    def _remove(self, one: _Map) -> None:
        index = bisect.bisect_left(self._starts, one.start)
        del self._starts[index], self._maps[index]
        self._unmap(one.start, one.end - one.start)


def _pieces(start: int, end: int, own_start: int, own_end: int) -> Iterator[tuple[int, int]]:
    """Yield the maps of [start, end), of which [own_start, own_end) are pages that no other buffer can share."""
    first, last = max(start, own_start), min(end, own_end)
    if last - first < _REGION:
        first = last = end
    yield from ((page, page + PAGE) for page in range(start, min(first, end), PAGE))
    if first < last:
        yield first, last
    yield from ((page, page + PAGE) for page in range(last, end, PAGE))
