"""The IOMMU of a simulated device: which host memory a NIC may access, and where that lies."""

from collections.abc import Iterator

from amoeba_model.device import DeviceError
from amoeba_model.ranges import CountedRanges, ShiftError
from amoeba_model.trace import NO_CONTEXT

__all__ = ["MemoryGrants"]

_ADDRESSES = 1 << 64


class _View:
    """Memory that one context may access."""

    def __init__(self) -> None:
        self.readable = CountedRanges()
        self.writable = CountedRanges()
        self.own = 0
        """Grants to this context alone."""

    def add(self, iova: int, length: int, writable: bool, host: int) -> None:
        self.readable.add(iova, iova + length, host - iova)
        if writable:
            self.writable.add(iova, iova + length, host - iova)

    def remove(self, iova: int, length: int, writable: bool) -> None:
        self.readable.remove(iova, iova + length)
        if writable:
            self.writable.remove(iova, iova + length)


class MemoryGrants:
    """Memory that a device has been granted, found in O(log n).

    A grant is for one context (a number; :data:`amoeba_model.trace.NO_CONTEXT` is that of accesses which belong to
    none), or for all. Grants may overlap if they translate alike; each is revoked by the (iova, length, context) it
    was made with, of equal ones the oldest. An access is allowed if grants to its context cover all its bytes.
    """

    def __init__(self) -> None:
        self._grants: dict[tuple[int, int, int | None], list[tuple[bool, int]]] = {}
        """(writable, host address) of each grant by (iova, length, context), the oldest first."""
        self._common = _View()
        """Memory granted to all contexts."""
        self._views: dict[int | None, _View] = {None: self._common}
        """Besides that, what is granted to a context, together with what is granted to all."""
        self._translated = 0
        self._news: list[tuple[int, int]] | None = None

    def __iter__(self) -> Iterator[tuple[int, int, bool, int]]:
        """(iova, length, writable, host address) of each grant."""
        for (iova, length, _), alike in self._grants.items():
            for writable, host_address in alike:
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

        Raises DeviceError for no bytes, for what no 64 bits can address, for a number that is no context's, and for
        a ``host_address`` by which bytes that are granted already, be it to another context, would lie in two places.
        """
        host = iova if host_address is None else host_address
        if length <= 0:
            raise DeviceError(f"a grant needs a positive length, got {length}")
        if iova < 0 or host < 0 or iova + length > _ADDRESSES or host + length > _ADDRESSES:
            raise DeviceError(f"expected addresses of 64 bits, got {length} bytes at {iova:#x}, host {host:#x}")
        if context is not None and not 0 <= context <= NO_CONTEXT:
            raise DeviceError(f"expected a context, 0 to {NO_CONTEXT}, or None for all, got {context}")
        if host != iova or self._translated:
            self._check_places(iova, length, host)
        if context is None:
            for view in self._views.values():
                view.add(iova, length, writable, host)
        else:
            view = self._views.get(context) or self._new_view(context)
            view.own += 1
            view.add(iova, length, writable, host)
        self._translated += host != iova
        if self._news is not None:
            self._news.append((host, host + length))
        alike = self._grants.get((iova, length, context))
        if alike is None:
            self._grants[iova, length, context] = [(writable, host)]
        else:
            alike.append((writable, host))

    def _check_places(self, iova: int, length: int, host: int) -> None:
        try:
            for view in self._views.values():
                view.readable.check(iova, iova + length, host - iova)
        except ShiftError as error:
            raise DeviceError(
                f"{error.address:#x} is granted already, and lies at {error.address + error.shift:#x} in the host: "
                f"it cannot also lie at {error.address + host - iova:#x}"
            ) from None

    def _new_view(self, context: int) -> _View:
        """Make the view of a context to which nothing was granted alone."""
        view = _View()
        for (iova, length, whose), alike in self._grants.items():
            if whose is None:
                for writable, host in alike:
                    view.add(iova, length, writable, host)
        self._views[context] = view
        return view

    def remove(self, iova: int, length: int, context: int | None = None) -> None:
        """As :meth:`amoeba_model.device.Device.revoke`."""
        alike = self._grants.get((iova, length, context))
        if alike is None:
            whose = "" if context is None else f" to context {context}"
            raise DeviceError(
                f"expected a granted range, got {length} bytes at {iova:#x}, which was never granted{whose}"
            )
        if len(alike) > 1:
            writable, host = alike.pop(0)
        else:
            writable, host = alike[0]
            del self._grants[iova, length, context]
        self._translated -= host != iova
        if context is None:
            for view in self._views.values():
                view.remove(iova, length, writable)
            return
        view = self._views[context]
        view.own -= 1
        if view.own:
            view.remove(iova, length, writable)
        else:
            del self._views[context]

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
        """Yield (start, end) of the parts of [start, end) that any context may write without translation.

        A part may come several times.
        """
        for view in self._views.values():
            for part, part_end, _ in view.writable.held(start, end):
                yield part, part_end

    def touches(self, start: int, end: int) -> bool:
        """Whether any byte of [start, end) may be accessed, by grants that do not translate."""
        return any(next(view.readable.held(start, end), None) is not None for view in self._views.values())

    def locate(
        self, iova: int, size: int, write: bool, context: int | None = None
    ) -> list[tuple[int, int]] | None:
        """(host address, bytes) of the pieces of an access, in order; None if it is not allowed, or of no bytes.

        ``context``: whose access it is; None: nobody's in particular, who may access what all may.
        """
        view = self._views.get(context, self._common)
        return (view.writable if write else view.readable).locate(iova, iova + size)

    def allows(self, iova: int, size: int, write: bool, context: int | None = None) -> bool:
        """Whether grants cover all of [iova, iova + size); arguments as of :meth:`locate`."""
        return self.locate(iova, size, write, context) is not None
