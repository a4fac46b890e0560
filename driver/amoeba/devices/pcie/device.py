"""A NIC on PCI Express as a device."""

import contextlib
import os
import select

from amoeba_model.device import Device, DeviceClosedError, DeviceError, DmaFault
from amoeba_model.forking import own
from amoeba_model.interruptions import uninterrupted
from amoeba_model.pci import Command

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.waiting import LONGEST_POLL
from amoeba.devices.pcie.binding import full_address
from amoeba.devices.pcie.kernel import Kernel, LinuxKernel, Words
from amoeba.devices.pcie.maps import PageMaps
from amoeba.devices.pcie.vfio import VfioFunction
from amoeba.nic.clock import Clock

__all__ = ["PcieDevice"]

_ONES = 0xFFFF_FFFF
_left_alone: list[object] = []
"""A forked child's copies of its parent's devices: releasing one would unmap memory that the child lacks."""


class PcieDevice(Device):
    """A NIC that vfio-pci hands to this process, for it alone.

    I/O virtual addresses are those of the process, unless a grant says otherwise. The NIC runs by itself. The kernel
    reports DMA that the IOMMU refuses (``dmesg``), so :meth:`faults` lists none.

    Parameters
    ----------
    address : str
        ``0000:01:00.0``, or ``01:00.0``.
    kernel : Kernel, optional
        Default: Linux.

    Raises FabricError as :class:`VfioFunction`, and FI_EINVAL for an invalid address.
    """

    def __init__(self, address: str, kernel: Kernel | None = None) -> None:
        self._address = full_address(address)
        self._kernel = kernel or LinuxKernel()
        self._closed = False
        with contextlib.ExitStack() as opened:
            self._function = function = VfioFunction(self._address, self._kernel)
            opened.callback(function.close)
            if function.can_reset:
                function.reset()
            self._words: Words = function.map_registers()
            opened.callback(lambda: function.unmap_registers(self._words))
            self._maps = PageMaps(function.map, function.unmap, function.iova_ranges)
            self._connect(opened)
            function.command |= Command.MEMORY | Command.MASTER
            opened.callback(self._silence)
            self._clock = Clock(self)
            self._opened = opened.pop_all()
        own(self)

    def _connect(self, opened: contextlib.ExitStack) -> None:
        """Make an eventfd for each vector, and one descriptor for all."""
        self._interrupts = select.epoll()
        opened.callback(self._interrupts.close)
        self._events = [
            os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(min(self._function.vectors, 64))
        ]
        self._vectors = {event: vector for vector, event in enumerate(self._events)}
        for event in self._events:
            opened.callback(os.close, event)
            self._interrupts.register(event, select.EPOLLIN)
        if self._events:
            self._function.connect_interrupts(self._events)

    def _silence(self) -> None:
        """Stop DMA and interrupts, whatever the NIC still has outstanding."""
        with contextlib.suppress(OSError):  # one that is gone makes none
            self._function.command &= ~Command.MASTER
            self._maps.clear()
            self._function.connect_interrupts(())

    @property
    def name(self) -> str:
        return f"pcie:{self._address}"

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceClosedError(f"{self.name} is closed")

    # Registers

    def read(self, offset: int) -> int:
        """Read one 32-bit register. Raises DeviceError on an unaligned or outside offset, or if the NIC is gone."""
        self._check_open()
        if offset & 3 or not 0 <= offset >> 2 < len(self._words):
            raise DeviceError(f"expected a multiple of 4 below {4 * len(self._words):#x} as offset, got {offset:#x}")
        value = self._words[offset >> 2]
        if value == _ONES and self._words[0] == _ONES:
            raise DeviceError(f"{self.name} is gone: its registers read as ones, as where nobody answers")
        return value

    def write(self, offset: int, value: int) -> None:
        """Write one 32-bit register by one store. Raises DeviceError on a bad offset or value."""
        self._check_open()
        if offset & 3 or not 0 <= offset >> 2 < len(self._words):
            raise DeviceError(f"expected a multiple of 4 below {4 * len(self._words):#x} as offset, got {offset:#x}")
        if not 0 <= value <= _ONES:
            raise DeviceError(f"expected a value of 32 bits for register offset {offset:#x}, got {value:#x}")
        self._words[offset >> 2] = value

    @property
    def cycles(self) -> int:
        self._check_open()
        return self._clock.read()

    # Memory

    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        """Map the pages of a range that are not mapped yet, for all contexts: VFIO's type 1 container has no PASID.

        Raises DeviceError as :class:`PageMaps`. Raises FI_ENOMEM if this much memory may not be pinned, FI_ENOSPC if
        there are too many maps, and FI_EFAULT for addresses outside the memory of the process.
        """
        self._check_open()
        address = iova if host_address is None else host_address
        try:
            uninterrupted(self._maps.grant, iova, length, writable=writable, address=address)
        except FabricError:
            raise
        except OSError as error:
            raise self._function.explain_map(error, length, self._maps.pinned) from error

    def revoke(self, iova: int, length: int, *, context: int | None = None) -> None:
        self._check_open()
        uninterrupted(self._maps.revoke, iova, length)

    @property
    def pinned(self) -> int:
        return self._maps.pinned

    def faults(self) -> list[DmaFault]:
        self._check_open()
        return []

    # Time

    def advance(self) -> None:
        """Let others run: the NIC runs by itself."""
        self._check_open()
        os.sched_yield()

    def wait(self, timeout: float) -> int:
        self._check_open()
        vectors = 0
        for event, _ in self._interrupts.poll(min(max(timeout, 0), LONGEST_POLL)):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(event)
                vectors |= 1 << self._vectors[event]
        return vectors

    def fileno(self) -> int:
        self._check_open()
        return self._interrupts.fileno()

    # Life

    def reset(self) -> None:
        """Perform a function level reset: the NIC forgets everything at once; grants of memory stay.

        Raises FI_EOPNOTSUPP if the function has no reset.
        """
        self._check_open()
        if not self._function.can_reset:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"{self.name} cannot be reset")
        self._function.reset()
        self._function.command |= Command.MEMORY | Command.MASTER
        self.wait(0)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._opened.close()

    def forked(self) -> None:
        """Close the descriptors in a child, which would keep the NIC from others; the parent owns all else."""
        if not self._closed:
            self._closed = True
            _left_alone.append((self._words, self._opened.pop_all()))
            self._interrupts.close()
            for event in self._events:
                os.close(event)
            self._function.forked()
