"""The IOMMU of a simulated device: which host memory a NIC may access, and where that lies."""

from collections.abc import Iterator

from amoeba_model.device import DeviceError
from amoeba_model.ranges import CountedRanges, ShiftError

__all__ = ["MemoryGrants"]

_ADDRESSES = 1 << 64


class MemoryGrants:
    """What a device has been granted, found in O(log n).

    Grants may overlap if they translate alike; each is revoked by the (iova, length) it was made with, of equal ones
    the oldest. An access is allowed if grants cover all its bytes.
    """

    def __init__(self) -> None:
        self._grants: dict[tuple[int, int], list[tuple[bool, int, int | None]]] = {}
        """(writable, host address, context) of each grant by (iova, length), the oldest first."""
        self._readable = CountedRanges()
        self._writable = CountedRanges()
        self._translated = 0
        self._news: list[tuple[int, int]] | None = None

    def __iter__(self) -> Iterator[tuple[int, int, bool, int]]:
        """(iova, length, writable, host address) of each grant."""
        for (iova, length), alike in self._grants.items():
            for writable, host_address, _ in alike:
                yield iova, length, writable, host_address

    def add(
        self,
        iova: int,
        length: int,
        writable: bool,
        *,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        """As :meth:`amoeba_model.device.Device.grant`.

        Raises DeviceError for no bytes, for what no 64 bits can address, and for a ``host_address`` by which bytes
        that are granted already would lie in two places.
        """
        host = iova if host_address is None else host_address
        if length <= 0:
            raise DeviceError(f"a grant needs a positive length, got {length}")
        if iova < 0 or host < 0 or iova + length > _ADDRESSES or host + length > _ADDRESSES:
            raise DeviceError(f"expected addresses of 64 bits, got {length} bytes at {iova:#x}, host {host:#x}")
        try:
            self._readable.add(iova, iova + length, host - iova)
        except ShiftError as error:
            raise DeviceError(
                f"{error.address:#x} is granted already, and lies at {error.address + error.shift:#x} in the host: "
                f"it cannot also lie at {error.address + host - iova:#x}"
            ) from None
        if writable:
            self._writable.add(iova, iova + length, host - iova)
        self._translated += host != iova
        if self._news is not None:
            self._news.append((host, host + length))
        alike = self._grants.get((iova, length))
        if alike is None:
            self._grants[iova, length] = [(writable, host, context)]
        else:
            alike.append((writable, host, context))

    def remove(self, iova: int, length: int) -> None:
        alike = self._grants.get((iova, length))
        if alike is None:
            raise DeviceError(f"expected a granted range, got {length} bytes at {iova:#x}, which was never granted")
        if len(alike) > 1:
            writable, host, _ = alike.pop(0)
        else:
            writable, host, _ = alike[0]
            del self._grants[iova, length]
        self._translated -= host != iova
        self._readable.remove(iova, iova + length)
        if writable:
            self._writable.remove(iova, iova + length)

    def contexts(self, iova: int, size: int) -> set[int | None]:
        """The contexts that grants which cover all of [iova, iova + size) name; None: all of the NIC's."""
        return {
            context
            for (start, length), alike in self._grants.items()
            if start <= iova and iova + size <= start + length
            for _, _, context in alike
        }

    @property
    def translates(self) -> bool:
        """Whether any grant lies elsewhere in the host than at its I/O virtual address."""
        return self._translated > 0

    def watch(self) -> None:
        """From now on keep for :meth:`news` what is granted, beginning with what is granted already."""
        self._news = [(host, host + length) for _, length, _, host in self]

    def news(self) -> list[tuple[int, int]]:
        """(start, end) in the host of what has been granted since the last call."""
        news = self._news
        if not news:
            return []
        self._news = []
        return news

    def written(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(start, end) of the parts of [start, end) that may be written, by grants that do not translate."""
        return ((part, part_end) for part, part_end, _ in self._writable.held(start, end))

    def touches(self, start: int, end: int) -> bool:
        """Whether any byte of [start, end) may be accessed, by grants that do not translate."""
        return next(self._readable.held(start, end), None) is not None

    def locate(self, iova: int, size: int, write: bool) -> list[tuple[int, int]] | None:
        """(host address, bytes) of the pieces of an access, in order; None if it is not allowed, or of no bytes."""
        return (self._writable if write else self._readable).locate(iova, iova + size)

    def allows(self, iova: int, size: int, write: bool) -> bool:
        """Whether grants cover all of [iova, iova + size), whatever their contexts."""
        return self.locate(iova, size, write) is not None
