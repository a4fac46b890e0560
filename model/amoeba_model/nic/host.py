"""ReadHub and WriteHub: the NIC's way to host memory, past the IOMMU."""

import ctypes
import sys
from typing import TypeAlias

from amoeba_model.device import DmaFault
from amoeba_model.grants import MemoryGrants
from amoeba_model.nic.core import Core
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester

__all__ = ["HostMemory"]

_PROCESS = memoryview((ctypes.c_char * sys.maxsize).from_address(0)).cast("B")
"""All addresses of the process. Slices of it are read and written in a third of the time of ctypes' functions."""
_REMEMBERED = 1 << 12
"""Accesses."""


class HostMemory:
    """Process memory, where it is granted. Refused accesses are counted and listed in :attr:`faults`.

    ``context``: whose access it is; NO_CONTEXT: one that no context's descriptor names.

    ``grants``: what has been granted already, before a reset.
    """

    def __init__(self, core: Core, grants: MemoryGrants | None = None) -> None:
        self.faults: list[DmaFault] = []
        self.grants = MemoryGrants() if grants is None else grants
        self._core = core
        # Rings and hot counters are accessed over and over: remember what was found until the grants change.
        self._found: dict[tuple[int, int, bool, int], _Bytes] = {}

    def grant(
        self,
        address: int,
        length: int,
        writable: bool,
        *,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        """As :meth:`amoeba_model.device.Device.grant`."""
        self.grants.add(address, length, writable, host_address=host_address, context=context)

    def revoke(self, address: int, length: int, context: int | None) -> None:
        self.grants.remove(address, length, context)
        self._found.clear()

    def allows(self, address: int, size: int, write: bool, context: int) -> bool:
        """Whether an access of at least one byte would be performed."""
        return self._find(address, size, write, context) is not None

    def look(self, address: int, size: int, context: int) -> bytes | None:
        """``size`` bytes, at least one; None if the host does not let the NIC read them, of which nobody hears."""
        view = self._found.get((address, size, False, context)) or self._find(address, size, False, context)
        return None if view is None else view.tobytes()

    def read(self, address: int, size: int, requester: Requester, context: int) -> bytes | None:
        """``size`` bytes, at least one; None if the host refuses."""
        view = self._found.get((address, size, False, context)) or self._find(address, size, False, context)
        if view is None:
            self.refuse(address, size, False, requester, context)
            return None
        return view.tobytes()

    def write(self, address: int, data: bytes, requester: Requester, context: int) -> None:
        """Write at least one byte. Writes are posted: the NIC does not learn that one was refused in time."""
        view = self._found.get((address, len(data), True, context)) or self._find(address, len(data), True, context)
        if view is None:
            self.refuse(address, len(data), True, requester, context)
        else:
            view[:] = data

    def _find(self, address: int, size: int, write: bool, context: int) -> "_Bytes | None":
        """Find the bytes that an access concerns; None if the host refuses it."""
        access = (address, size, write, context)
        found = self._found.get(access)
        if found is None:
            pieces = self.grants.locate(*access)
            if pieces is None:
                return None
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            views = [_PROCESS[start : start + length] for start, length in pieces]
            self._found[access] = found = views[0] if len(views) == 1 else _Scattered(views)
        return found

    def refuse(self, address: int, size: int, write: bool, requester: Requester, context: int) -> None:
        self.faults.append(DmaFault(address, size, write, requester.name, context))
        self._core.counters[Counter.DMA_WRITE_ERRORS if write else Counter.DMA_READ_ERRORS] += 1


class _Scattered:
    """Bytes that do not lie together in the process, to be used as a view of such that do."""

    def __init__(self, views: list[memoryview]) -> None:
        self._views = views

    def tobytes(self) -> bytes:
        return b"".join(self._views)

    def __setitem__(self, every: slice, data: bytes) -> None:
        start = 0
        for view in self._views:
            view[:] = data[start : start + len(view)]
            start += len(view)


_Bytes: TypeAlias = memoryview | _Scattered
