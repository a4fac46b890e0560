"""PCI devices, their drivers, and handing them to vfio-pci, by sysfs."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from amoeba_model.pci import DEVICE_ID, VENDOR_ID

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.pcie.kernel import Kernel, LinuxKernel

__all__ = [
    "PciDevice",
    "bind",
    "driver_of",
    "full_address",
    "group_of",
    "ids_of",
    "list_devices",
    "neighbours_of",
    "unbind",
]

VFIO_PCI = "vfio-pci"
_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)


@dataclass(frozen=True)
class PciDevice:
    """A function on the PCI bus."""

    address: str
    driver: str | None
    group: str | None
    """Its IOMMU group; None if there is no IOMMU."""
    is_amoeba: bool


def full_address(text: str) -> str:
    """Return ``0000:01:00.0`` for itself or for ``01:00.0``. Raises FI_EINVAL for other text."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise fabric_error(Errno.FI_EINVAL, f"expected a PCI address such as 0000:01:00.0, got {text!r}")
    return f"{found[1] or '0000'}:{found[2]}".lower()


def _folder(kernel: Kernel, address: str) -> Path:
    return kernel.sysfs / "bus" / "pci" / "devices" / address


def ids_of(kernel: Kernel, address: str) -> tuple[int, int] | None:
    """Return (vendor, device) of a PCI device; None if the device does not exist."""
    folder = _folder(kernel, address)
    try:
        vendor, device = (int((folder / name).read_text(), 16) for name in ("vendor", "device"))
    except (OSError, ValueError):
        return None
    return vendor, device


def driver_of(kernel: Kernel, address: str) -> str | None:
    return _linked(_folder(kernel, address) / "driver")


def group_of(kernel: Kernel, address: str) -> str | None:
    """Return the number of a device's IOMMU group."""
    return _linked(_folder(kernel, address) / "iommu_group")


def _linked(link: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(link))
    except OSError:
        return None


def neighbours_of(kernel: Kernel, address: str) -> Iterator[tuple[str, str | None]]:
    """Yield the other devices of a device's IOMMU group, and their drivers."""
    with contextlib.suppress(OSError):
        for other in sorted(os.listdir(_folder(kernel, address) / "iommu_group" / "devices")):
            if other != address:
                yield other, driver_of(kernel, other)


def list_devices(kernel: Kernel | None = None) -> list[PciDevice]:
    """List all PCI devices, Amoebas first."""
    kernel = kernel or LinuxKernel()
    try:
        addresses = sorted(os.listdir(kernel.sysfs / "bus" / "pci" / "devices"))
    except OSError:
        return []
    found = [
        PciDevice(
            address,
            driver_of(kernel, address),
            group_of(kernel, address),
            ids_of(kernel, address) == (VENDOR_ID, DEVICE_ID),
        )
        for address in addresses
    ]
    return sorted(found, key=lambda device: (not device.is_amoeba, device.address))


def bind(address: str, user: str | None = None, kernel: Kernel | None = None) -> PciDevice:
    """Hand a device to vfio-pci, and its group's file to ``user``. Needs root.

    Raises FI_ENODEV if there is no such device, FI_ENOSYS without IOMMU or vfio-pci, FI_EACCES without the right.
    """
    kernel = kernel or LinuxKernel()
    address = full_address(address)
    _check(kernel, address)
    if group_of(kernel, address) is None:
        raise fabric_error(
            Errno.FI_ENOSYS,
            f"{address} is behind no IOMMU: switch VT-d or AMD-Vi on in the firmware, and start the kernel with "
            "intel_iommu=on or amd_iommu=on",
        )
    drivers = kernel.sysfs / "bus" / "pci" / "drivers"
    if not (drivers / VFIO_PCI).exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["modprobe", VFIO_PCI], capture_output=True, check=True, timeout=60)
    if not (drivers / VFIO_PCI).exists():
        raise fabric_error(Errno.FI_ENOSYS, "the kernel has no vfio-pci: modprobe vfio-pci")
    if driver_of(kernel, address) != VFIO_PCI:
        _hand_over(kernel, address, VFIO_PCI)
    found = next(device for device in list_devices(kernel) if device.address == address)
    if found.driver != VFIO_PCI:
        raise fabric_error(Errno.FI_EIO, f"vfio-pci did not take {address}: dmesg says why")
    if user is not None:
        try:
            shutil.chown(f"/dev/vfio/{found.group}", user)
        except LookupError as error:
            raise fabric_error(Errno.FI_EINVAL, str(error)) from None
        except OSError as error:
            raise fabric_error(Errno.FI_EACCES, f"/dev/vfio/{found.group}: {error.strerror}") from error
    return found


def unbind(address: str, kernel: Kernel | None = None) -> PciDevice:
    """Take a device from vfio-pci, and let the kernel choose its driver. Needs root. Raises as :func:`bind`."""
    kernel = kernel or LinuxKernel()
    address = full_address(address)
    _check(kernel, address)
    if driver_of(kernel, address) == VFIO_PCI:
        _hand_over(kernel, address, "")
    return next(device for device in list_devices(kernel) if device.address == address)


def _check(kernel: Kernel, address: str) -> None:
    if ids_of(kernel, address) is None:
        raise fabric_error(Errno.FI_ENODEV, f"there is no PCI device {address}")


def _hand_over(kernel: Kernel, address: str, driver: str) -> None:
    """Let ``driver`` have a device, or the kernel's choice if that is empty."""
    folder = _folder(kernel, address)
    try:
        (folder / "driver_override").write_text(f"{driver}\n")
        if driver_of(kernel, address) is not None:
            (folder / "driver" / "unbind").write_text(address)
        (kernel.sysfs / "bus" / "pci" / "drivers_probe").write_text(address)
    except OSError as error:
        raise fabric_error(
            Errno.FI_EACCES, f"{address}: {error.filename}: {error.strerror}; only root may do this"
        ) from error
