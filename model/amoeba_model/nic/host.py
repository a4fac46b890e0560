"""ReadHub and WriteHub: the NIC's way to host memory, past the IOMMU."""

import ctypes

from amoeba_model.device import DmaFault, MemoryGrants
from amoeba_model.nic.core import Core
from amoeba_model.registers import Counter
from amoeba_model.trace import Requester

__all__ = ["HostMemory"]

_REMEMBERED = 1 << 14


class HostMemory:
    """Process memory, where it is granted. Refused accesses are counted and listed in :attr:`faults`."""

    def __init__(self, core: Core) -> None:
        self.faults: list[DmaFault] = []
        self._core = core
        self._grants = MemoryGrants()
        # Rings and hot counters are accessed over and over: remember the answers until the grants change.
        self._allowed: set[tuple[int, int, bool]] = set()

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
        self._grants.add(address, length, writable, host_address=host_address, context=context)

    def revoke(self, address: int, length: int) -> None:
        self._grants.remove(address, length)
        self._allowed.clear()

    def allows(self, address: int, size: int, write: bool) -> bool:
        """Whether an access of at least one byte would be performed."""
        access = (address, size, write)
        if access in self._allowed:
            return True
        if not self._grants.allows(address, size, write):
            return False
        if len(self._allowed) >= _REMEMBERED:
            self._allowed.clear()
        self._allowed.add(access)
        return True

    def read(self, address: int, size: int, requester: Requester) -> bytes | None:
        """``size`` bytes, at least one; None if the host refuses."""
        if not self.allows(address, size, False):
            self.refuse(address, size, False, requester)
            return None
        return ctypes.string_at(address, size)

    def write(self, address: int, data: bytes, requester: Requester) -> None:
        """Write at least one byte. Writes are posted: the NIC does not learn that one was refused in time."""
        if self.allows(address, len(data), True):
            ctypes.memmove(address, data, len(data))
        else:
            self.refuse(address, len(data), True, requester)

    def refuse(self, address: int, size: int, write: bool, requester: Requester) -> None:
        self.faults.append(DmaFault(address, size, write, requester.name))
        self._core.counters[Counter.DMA_WRITE_ERRORS if write else Counter.DMA_READ_ERRORS] += 1
