"""What every NIC looks like from the host: the boundary below which model, RTL and board differ.

Everything above this interface (the driver, the tests, the conformance checks) is the same for all devices.
An I/O virtual address equals the process virtual address, as VFIO allows; a device reaches host memory only
where :meth:`Device.grant` allows it.
"""

import abc
from dataclasses import dataclass
from typing import Self

__all__ = ["Device", "DeviceClosedError", "DeviceError", "DmaFault", "MemoryGrants"]


class DeviceError(Exception):
    """A device could not do what was asked of it."""


class DeviceClosedError(DeviceError):
    """The device was used after :meth:`Device.close`."""


@dataclass(frozen=True)
class DmaFault:
    """One DMA access outside granted memory, refused by the device's IOMMU."""

    address: int
    size: int
    write: bool
    requester: str
    """Component of the NIC that asked: a name from :class:`amoeba_model.trace.Requester`."""

    def __str__(self) -> str:
        kind = "write" if self.write else "read"
        return f"{self.requester} {kind} of {self.size} bytes at {self.address:#x} is outside granted memory"


class MemoryGrants:
    """The IOMMU of a simulated device: which address ranges it may read and write.

    Overlapping grants are allowed; each grant is revoked by the (address, length) it was made with.
    """

    def __init__(self) -> None:
        self._grants: list[tuple[int, int, bool]] = []

    def add(self, address: int, length: int, writable: bool) -> None:
        if length <= 0:
            raise DeviceError(f"a grant needs a positive length, got {length}")
        self._grants.append((address, length, writable))

    def remove(self, address: int, length: int) -> None:
        for index, (start, size, _) in enumerate(self._grants):
            if (start, size) == (address, length):
                del self._grants[index]
                return
        raise DeviceError(f"expected a granted range, got {length} bytes at {address:#x}, which was never granted")

    def allows(self, address: int, size: int, write: bool) -> bool:
        """Whether one grant covers all of [address, address + size)."""
        end = address + size
        for start, length, writable in self._grants:
            if start <= address and end <= start + length and (writable or not write):
                return True
        return False


class Device(abc.ABC):
    """A NIC as its driver sees it. Offsets are bytes into BAR 0; registers are 32 bits wide."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Short description for people, such as ``rtl (256-bit, 4 contexts)``."""

    @abc.abstractmethod
    def read(self, offset: int) -> int:
        """Read one 32-bit register. Raises DeviceError on an unaligned or outside offset."""

    @abc.abstractmethod
    def write(self, offset: int, value: int) -> None:
        """Write one 32-bit register. Writes are posted, and performed in order with later reads."""

    @abc.abstractmethod
    def grant(self, address: int, length: int, *, writable: bool = True) -> int:
        """Let the device access process memory; returns the I/O virtual address (equal to ``address``)."""

    @abc.abstractmethod
    def revoke(self, address: int, length: int) -> None:
        """Withdraw a grant made with the same address and length."""

    @abc.abstractmethod
    def advance(self) -> None:
        """Let a little time pass: one network step on a simulated device, nothing on a board."""

    @abc.abstractmethod
    def wait(self, timeout: float) -> int:
        """Let time pass until an interrupt arrives; returns the set of vectors as a bit mask, 0 on timeout.

        ``timeout`` is in seconds of host time. Vectors reported are thereby acknowledged.
        """

    @property
    @abc.abstractmethod
    def cycles(self) -> int:
        """The device's clock, in cycles since reset."""

    @abc.abstractmethod
    def faults(self) -> list[DmaFault]:
        """DMA accesses refused since the last call."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the device. Idempotent; every other call then raises DeviceClosedError."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
