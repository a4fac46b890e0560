"""A simulated NIC as a PCI function: configuration space, BARs, MSI-X, bus mastering and reset."""

import contextlib
import errno
import os
from collections.abc import Callable

from amoeba_model.device import DeviceError
from amoeba_model.network import SimulatedDevice
from amoeba_model.pci import (
    CAPABILITIES,
    CLASS_CODE,
    CONFIG_SIZE,
    DEVICE_ID,
    MSIX_BAR,
    MSIX_BAR_SIZE,
    MSIX_ENTRY_SIZE,
    MSIX_PBA_OFFSET,
    REFUSED_OFFSET,
    REGISTER_BAR,
    REVISION,
    VENDOR_ID,
    CapabilityId,
    Command,
    Config,
    DeviceControl,
    MsixControl,
    PciExpress,
)
from amoeba_model.registers import BAR_SIZE
from amoeba_model.vfio import Region

from amoeba_sim.vfio_user_memory import GuestMemory

__all__ = ["PciFunction"]

_POWER = CAPABILITIES
_MSIX = 0x50
_EXPRESS = 0x70
_HAS_CAPABILITIES = 1 << 4
_NO_SOFT_RESET = 1 << 3
_MEMORY_64 = 0x4
_FLR = 1 << 28
_ROLE_BASED_ERRORS = 1 << 15
_PAYLOAD_256 = 1
_GEN3_X16 = 0x103
_VECTORS = MSIX_PBA_OFFSET // MSIX_ENTRY_SIZE
_REFUSED = slice(REFUSED_OFFSET, REFUSED_OFFSET + 4)


class PciFunction:
    """NIC on PCI Express, as a host sees it.

    Parameters
    ----------
    device : SimulatedDevice
    vectors : int
        Interrupts of the NIC: its contexts. MSI-X has a vector for each.
    initialize : callable
        Writes into the device what a board would have kept over a reset: its network address.

    Accesses raise OSError with the error number that the host is told: it then reads ones, as where nobody answers.
    """

    def __init__(self, device: SimulatedDevice, vectors: int, initialize: Callable[[], object]) -> None:
        if not 1 <= vectors <= _VECTORS:
            raise DeviceError(f"expected 1 to {_VECTORS} vectors, got {vectors}")
        self.device = device
        self.vectors = vectors
        self.memory = GuestMemory(device)
        self._initialize = initialize
        self._eventfds: dict[int, int] = {}
        self._initial = bytearray(CONFIG_SIZE)
        self._writable = bytearray(CONFIG_SIZE)
        self._describe()
        self._config = bytearray(self._initial)
        self._msix = bytearray(MSIX_BAR_SIZE)
        initialize()

    # Configuration space

    def _declare(self, offset: int, size: int, value: int, writable: int = 0) -> None:
        self._initial[offset : offset + size] = value.to_bytes(size, "little")
        self._writable[offset : offset + size] = writable.to_bytes(size, "little")

    def _describe(self) -> None:
        declare = self._declare
        declare(Config.VENDOR, 2, VENDOR_ID)
        declare(Config.DEVICE, 2, DEVICE_ID)
        declare(Config.COMMAND, 2, 0, Command.MEMORY | Command.MASTER | Command.INTX_DISABLE)
        declare(Config.STATUS, 2, _HAS_CAPABILITIES)
        declare(Config.REVISION, 1, REVISION)
        declare(Config.CLASS, 3, CLASS_CODE)
        for bar, size in ((REGISTER_BAR, BAR_SIZE), (MSIX_BAR, MSIX_BAR_SIZE)):
            declare(Config.BAR0 + 4 * bar, 8, _MEMORY_64, (1 << 64) - size)
        declare(Config.SUBSYSTEM_VENDOR, 2, VENDOR_ID)
        declare(Config.SUBSYSTEM, 2, 1)
        declare(Config.CAPABILITY_POINTER, 1, _POWER)
        declare(Config.INTERRUPT_LINE, 1, 0, 0xFF)
        declare(_POWER, 2, CapabilityId.POWER_MANAGEMENT | _MSIX << 8)
        declare(_POWER + 2, 2, 3)
        declare(_POWER + 4, 2, _NO_SOFT_RESET, 3)
        declare(_MSIX, 2, CapabilityId.MSIX | _EXPRESS << 8)
        declare(_MSIX + 2, 2, self.vectors - 1, MsixControl.ENABLE | MsixControl.FUNCTION_MASK)
        declare(_MSIX + 4, 4, MSIX_BAR)
        declare(_MSIX + 8, 4, MSIX_PBA_OFFSET | MSIX_BAR)
        declare(_EXPRESS, 2, CapabilityId.EXPRESS)
        declare(_EXPRESS + PciExpress.FLAGS, 2, 2)
        declare(_EXPRESS + PciExpress.DEVICE_CAPABILITIES, 4, _FLR | _ROLE_BASED_ERRORS | _PAYLOAD_256)
        declare(_EXPRESS + PciExpress.DEVICE_CONTROL, 2, 0x2810, 0x7FFF)
        declare(_EXPRESS + PciExpress.LINK_CAPABILITIES, 4, _GEN3_X16)
        declare(_EXPRESS + PciExpress.LINK_CONTROL, 2, 0, 0x0FFB)
        declare(_EXPRESS + PciExpress.LINK_STATUS, 2, _GEN3_X16)
        declare(_EXPRESS + PciExpress.DEVICE_CONTROL_2, 2, 0, 0x041F)

    @property
    def command(self) -> Command:
        return Command(int.from_bytes(self._config[Config.COMMAND : Config.COMMAND + 2], "little"))

    def _write_config(self, offset: int, data: bytes) -> None:
        for at, value in enumerate(data, offset):
            mask = self._writable[at]
            self._config[at] = self._config[at] & ~mask | value & mask
        high = _EXPRESS + PciExpress.DEVICE_CONTROL + 1
        if offset <= high < offset + len(data) and data[high - offset] & DeviceControl.INITIATE_FLR >> 8:
            self.reset()
        self.memory.enable(bool(self.command & Command.MASTER))

    # Regions

    def size_of(self, region: int) -> int:
        """Return the bytes of a region, 0 without one."""
        return {Region.CONFIG: CONFIG_SIZE, REGISTER_BAR: BAR_SIZE, MSIX_BAR: MSIX_BAR_SIZE}.get(region, 0)

    def read(self, region: int, offset: int, size: int) -> bytes:
        self._check(region, offset, size)
        if region == Region.CONFIG:
            return bytes(self._config[offset : offset + size])
        if region == MSIX_BAR:
            return bytes(self._msix[offset : offset + size])
        with _answered():
            return b"".join(self.device.read(at).to_bytes(4, "little") for at in range(offset, offset + size, 4))

    def write(self, region: int, offset: int, data: bytes) -> None:
        try:
            self._check(region, offset, len(data))
        except OSError:
            if region == REGISTER_BAR and self.command & Command.MEMORY:
                self._count_refused()
            raise
        if region == Region.CONFIG:
            self._write_config(offset, data)
        elif region == MSIX_BAR:
            # The pending bits are read only.
            end = min(offset + len(data), MSIX_PBA_OFFSET)
            if offset < end:
                self._msix[offset:end] = data[: end - offset]
        else:
            with _answered():
                for at in range(0, len(data), 4):
                    self.device.write(offset + at, int.from_bytes(data[at : at + 4], "little"))

    def _count_refused(self) -> None:
        count = int.from_bytes(self._msix[_REFUSED], "little") + 1
        self._msix[_REFUSED] = (count & 0xFFFF_FFFF).to_bytes(4, "little")

    def _check(self, region: int, offset: int, size: int) -> None:
        if not 0 <= offset <= offset + size <= self.size_of(region):
            raise OSError(errno.EINVAL, f"{size} bytes at {offset:#x} are outside region {region}")
        if region == Region.CONFIG:
            return
        if not self.command & Command.MEMORY:
            raise OSError(errno.EIO, "memory accesses are disabled")
        if region == REGISTER_BAR and (size not in (4, 8) or offset % size):
            raise OSError(errno.EINVAL, f"registers have 32 bits, got {size} bytes at {offset:#x}")

    # Interrupts

    def connect_vector(self, vector: int, descriptor: int | None) -> None:
        """Tell an eventfd of a vector from now on, and close the one before; None: nobody."""
        with contextlib.suppress(KeyError):
            os.close(self._eventfds.pop(vector))
        if descriptor is not None:
            self._eventfds[vector] = descriptor

    def disconnect_vectors(self) -> None:
        for vector in list(self._eventfds):
            self.connect_vector(vector, None)

    def trigger(self, vector: int) -> None:
        if vector in self._eventfds:
            with contextlib.suppress(BlockingIOError):  # it tells of so many that one more says nothing new
                os.eventfd_write(self._eventfds[vector], 1)

    def raise_interrupts(self) -> None:
        """Hand over what the NIC has raised: writes to host memory, so nothing while it may not make any."""
        pending = self.device.take_interrupts()
        if pending and self.command & Command.MASTER:
            for vector in range(self.vectors):
                if pending >> vector & 1:
                    self.trigger(vector)

    # Reset

    def reset(self) -> None:
        """Reset the function: everything as after power on, but for the host's maps and eventfds, and a count."""
        self.memory.enable(False)
        self.device.function_reset()
        self.device.take_interrupts()
        self._config[:] = self._initial
        refused = self._msix[_REFUSED]
        self._msix[:] = bytes(MSIX_BAR_SIZE)
        self._msix[_REFUSED] = refused
        self._initialize()

    def abandon(self) -> None:
        """Reset, and release everything that the host gave, since the host is gone."""
        self.reset()
        self.memory.clear()
        self.disconnect_vectors()


@contextlib.contextmanager
def _answered():
    """Turn a register access that the NIC refuses into one that nobody answers."""
    try:
        yield
    except DeviceError as error:
        raise OSError(errno.EIO, str(error)) from None
