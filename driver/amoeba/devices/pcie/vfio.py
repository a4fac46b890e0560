"""VFIO's container, group and device, as calls: one function of a PCI device in an IOMMU domain of its own.

``linux/vfio.h``; errors say what is wrong with the machine, and what to do about it.
"""

import contextlib
import errno
import os
import resource
import struct
from collections.abc import Iterator, Sequence

from amoeba_model.pci import Command, Config
from amoeba_model.vfio import (
    DEVICE_INFO,
    DMA_MAP,
    DMA_UNMAP,
    IRQ_INFO,
    IRQ_SET,
    REGION_INFO,
    DeviceFlags,
    Irq,
    IrqSetFlags,
    MapFlags,
    Region,
)

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.devices.pcie.binding import driver_of, group_of, ids_of, neighbours_of
from amoeba.devices.pcie.kernel import Kernel, Words

__all__ = ["Request", "VfioFunction"]

_BASE = 0x3B64


class Request:
    """Numbers of ioctls."""

    GET_API_VERSION = _BASE + 0
    CHECK_EXTENSION = _BASE + 1
    SET_IOMMU = _BASE + 2
    GROUP_GET_STATUS = _BASE + 3
    GROUP_SET_CONTAINER = _BASE + 4
    GROUP_UNSET_CONTAINER = _BASE + 5
    GROUP_GET_DEVICE_FD = _BASE + 6
    DEVICE_GET_INFO = _BASE + 7
    DEVICE_GET_REGION_INFO = _BASE + 8
    DEVICE_GET_IRQ_INFO = _BASE + 9
    DEVICE_SET_IRQS = _BASE + 10
    DEVICE_RESET = _BASE + 11
    IOMMU_GET_INFO = _BASE + 12
    IOMMU_MAP_DMA = _BASE + 13
    IOMMU_UNMAP_DMA = _BASE + 14


_API_VERSION = 0
_TYPE1_V2 = 3
_GROUP_VIABLE = 1
_GROUP_STATUS = struct.Struct("<II")
_IOMMU_INFO = struct.Struct("<IIQII")
"""argsz, flags, page sizes, offset of the first capability, padding."""
_CAPABILITY = struct.Struct("<HHI")
"""Identifier, version, offset of the next."""
_HAS_CAPABILITIES = 1 << 1
_IOVA_RANGES, _DMA_AVAILABLE = 1, 3
_ALL_ADDRESSES = ((0, (1 << 64) - 1),)


class VfioFunction:
    """A PCI function that this process has for itself.

    Raises FI_ENODEV if VFIO has no such function to hand out, FI_EBUSY if another process has the function,
    FI_EACCES if this user may not use it, and FI_ENOSYS for a kernel without VFIO or an IOMMU.
    """

    def __init__(self, address: str, kernel: Kernel) -> None:
        self.address = address
        self._kernel = kernel
        with contextlib.ExitStack() as opened:
            group = self._find_group()
            self._container = self._open_container(opened)
            self._group = self._open_group(group, opened)
            name = bytearray(address.encode() + b"\0")
            with self._explained("cannot be had"):
                self._device = kernel.ioctl(self._group, Request.GROUP_GET_DEVICE_FD, name)
            opened.callback(kernel.close, self._device)
            with self._explained("does not say what it is"):
                info = self._ask(self._device, Request.DEVICE_GET_INFO, DEVICE_INFO, DEVICE_INFO.size, 0, 0, 0)
                self.can_reset = bool(info[1] & DeviceFlags.RESET)
                self._regions = {index: self._region(index) for index in (Region.BAR0, Region.CONFIG)}
                irqs = self._ask(self._device, Request.DEVICE_GET_IRQ_INFO, IRQ_INFO, IRQ_INFO.size, 0, Irq.MSIX, 0)
            self.vectors = irqs[3]
            self.iova_ranges, self.maps_available = self._iommu_info()
            self._opened = opened.pop_all()

    # Opening

    def _find_group(self) -> str:
        kernel, address = self._kernel, self.address
        if ids_of(kernel, address) is None:
            raise fabric_error(
                Errno.FI_ENODEV, f"there is no PCI device {address}: `amoeba pcie list` names those there are"
            )
        driver = driver_of(kernel, address)
        if driver != "vfio-pci":
            raise fabric_error(
                Errno.FI_ENODEV,
                f"{address} has {f'the driver {driver}' if driver else 'no driver'}, expected vfio-pci: "
                f"`amoeba pcie bind {address}` as root",
            )
        group = group_of(kernel, address)
        if group is None:
            raise fabric_error(
                Errno.FI_ENOSYS,
                f"{address} is behind no IOMMU: switch VT-d or AMD-Vi on in the firmware, and start the kernel "
                "with intel_iommu=on or amd_iommu=on",
            )
        return group

    def _open_container(self, opened: contextlib.ExitStack) -> int:
        kernel = self._kernel
        with self._explained("needs VFIO in the kernel: modprobe vfio-pci", Errno.FI_ENOSYS, "/dev/vfio/vfio"):
            container = kernel.open("/dev/vfio/vfio")
        opened.callback(kernel.close, container)
        with self._explained("needs a kernel with VFIO's type 1", Errno.FI_ENOSYS):
            version = kernel.ioctl(container, Request.GET_API_VERSION, 0)
            type_1 = kernel.ioctl(container, Request.CHECK_EXTENSION, _TYPE1_V2)
        if version != _API_VERSION or not type_1:
            raise fabric_error(
                Errno.FI_ENOSYS, f"expected VFIO {_API_VERSION} with type 1, version 2; got VFIO {version} without"
            )
        return container

    def _open_group(self, number: str, opened: contextlib.ExitStack) -> int:
        kernel, path = self._kernel, f"/dev/vfio/{number}"
        with self._explained("cannot be opened", Errno.FI_ENODEV, path):
            group = kernel.open(path)
        opened.callback(kernel.close, group)
        with self._explained(f"cannot use IOMMU group {number}"):
            status = self._ask(group, Request.GROUP_GET_STATUS, _GROUP_STATUS, _GROUP_STATUS.size, 0)
            if not status[1] & _GROUP_VIABLE:
                others = ", ".join(
                    f"{other} ({driver})" for other, driver in neighbours_of(kernel, self.address) if driver
                )
                raise fabric_error(
                    Errno.FI_EBUSY,
                    f"IOMMU group {number} of {self.address} is not viable: other drivers have "
                    f"{others or 'some of it'}; bind these to vfio-pci, too, or to nobody",
                )
            kernel.ioctl(group, Request.GROUP_SET_CONTAINER, bytearray(struct.pack("<i", self._container)))
            kernel.ioctl(self._container, Request.SET_IOMMU, _TYPE1_V2)
        return group

    @contextlib.contextmanager
    def _explained(self, what: str, otherwise: Errno = Errno.FI_EIO, path: str = "") -> Iterator[None]:
        """Convert errors of the kernel to errors that say what to do."""
        try:
            yield
        except FabricError:
            raise
        except OSError as error:
            name = f"{self.address}{': ' if path else ''}{path}"
            if error.errno == errno.EBUSY:
                found, advice = Errno.FI_EBUSY, "it is in use, by another process or by this one"
            elif error.errno in (errno.EACCES, errno.EPERM):
                user = os.environ.get("USER", "NAME")
                found = Errno.FI_EACCES
                advice = f"this user may not: `amoeba pcie bind {self.address} --user {user}` as root, or driver/udev"
            else:
                found, advice = otherwise, f"{what}: {error.strerror}"
            raise fabric_error(found, f"{name}: {advice}") from error

    def _ask(self, descriptor: int, request: int, layout: struct.Struct, *fields: int) -> tuple[int, ...]:
        """Return a structure that the kernel fills in."""
        asked = bytearray(layout.pack(*fields))
        self._kernel.ioctl(descriptor, request, asked)
        return layout.unpack(asked)

    def _region(self, index: int) -> tuple[int, int]:
        """Return (offset in the device's file, bytes)."""
        info = self._ask(
            self._device, Request.DEVICE_GET_REGION_INFO, REGION_INFO, REGION_INFO.size, 0, index, 0, 0, 0
        )
        return info[5], info[4]

    def _iommu_info(self) -> tuple[Sequence[tuple[int, int]], int | None]:
        """Return (ranges of addresses, maximum number of maps), as far as the kernel reports them."""
        info = bytearray(4096)
        _IOMMU_INFO.pack_into(info, 0, len(info), 0, 0, 0, 0)
        with self._explained("its IOMMU does not say what it can"):
            self._kernel.ioctl(self._container, Request.IOMMU_GET_INFO, info)
        _, flags, _, at, _ = _IOMMU_INFO.unpack_from(info)
        ranges: Sequence[tuple[int, int]] = _ALL_ADDRESSES
        available = None
        while flags & _HAS_CAPABILITIES and at:
            identifier, _, following = _CAPABILITY.unpack_from(info, at)
            begin = at + _CAPABILITY.size
            (count,) = struct.unpack_from("<I", info, begin)
            if identifier == _IOVA_RANGES:
                ranges = [struct.unpack_from("<QQ", info, begin + 8 + 16 * index) for index in range(count)]
            elif identifier == _DMA_AVAILABLE:
                available = count
            at = following
        return ranges, available

    # Memory

    def map(self, iova: int, address: int, size: int, writable: bool) -> None:
        """Map memory. Raises OSError as the kernel does."""
        flags = MapFlags.READ | (MapFlags.WRITE if writable else 0)
        request = bytearray(DMA_MAP.pack(DMA_MAP.size, flags, address, iova, size))
        self._kernel.ioctl(self._container, Request.IOMMU_MAP_DMA, request)

    def unmap(self, iova: int, size: int) -> None:
        """Unmap memory. Raises FI_EIO if the kernel unmaps another length: the NIC could reach other memory."""
        request = bytearray(DMA_UNMAP.pack(DMA_UNMAP.size, 0, iova, size))
        try:
            self._kernel.ioctl(self._container, Request.IOMMU_UNMAP_DMA, request)
        except OSError as error:
            raise fabric_error(Errno.FI_EIO, f"{self.address}: unmapping {iova:#x}: {error.strerror}") from error
        unmapped = DMA_UNMAP.unpack(request)[3]
        if unmapped != size:
            raise fabric_error(
                Errno.FI_EIO,
                f"{self.address}: expected {size:#x} bytes at {iova:#x} to be unmapped, got {unmapped:#x}",
            )

    def explain_map(self, error: OSError, length: int, pinned: int) -> FabricError:
        """Make the error for a refused map of ``length`` bytes beyond the ``pinned`` ones."""
        if error.errno == errno.ENOMEM:
            limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
            shown = "no limit" if limit == resource.RLIM_INFINITY else f"a limit of {limit} bytes"
            return fabric_error(
                Errno.FI_ENOMEM,
                f"{self.address}: cannot pin {length} bytes more than the {pinned} that are pinned, with {shown} of "
                f"locked memory: raise it to {pinned + length} at least (ulimit -l, /etc/security/limits.conf)",
            )
        if error.errno == errno.ENOSPC:
            return fabric_error(
                Errno.FI_ENOSPC,
                f"{self.address}: the kernel allows {self.maps_available} maps: register larger regions, or "
                "raise dma_entry_limit of vfio_iommu_type1",
            )
        if error.errno == errno.EFAULT:
            return fabric_error(
                Errno.FI_EFAULT, f"{self.address}: not all of {length} bytes are memory that this process may use so"
            )
        return fabric_error(Errno.FI_EIO, f"{self.address}: mapping {length} bytes: {error.strerror}")

    # The function

    def map_registers(self) -> Words:
        """Map BAR 0. Raises FI_ENODEV for a function without BAR 0."""
        offset, size = self._regions[Region.BAR0]
        if not size:
            raise fabric_error(Errno.FI_ENODEV, f"{self.address} has no BAR 0")
        with self._explained("BAR 0 cannot be mapped"):
            return self._kernel.map_words(self._device, size, offset)

    def unmap_registers(self, words: Words) -> None:
        self._kernel.unmap_words(words)

    @property
    def command(self) -> Command:
        """The command register of the configuration space."""
        offset, _ = self._regions[Region.CONFIG]
        return Command(int.from_bytes(self._kernel.pread(self._device, 2, offset + Config.COMMAND), "little"))

    @command.setter
    def command(self, value: Command) -> None:
        offset, _ = self._regions[Region.CONFIG]
        self._kernel.pwrite(self._device, int(value).to_bytes(2, "little"), offset + Config.COMMAND)

    def connect_interrupts(self, eventfds: Sequence[int]) -> None:
        """Connect vector n to eventfd n; an empty sequence disconnects all."""
        kind = IrqSetFlags.DATA_EVENTFD if eventfds else IrqSetFlags.DATA_NONE
        size = IRQ_SET.size + 4 * len(eventfds)
        request = IRQ_SET.pack(size, kind | IrqSetFlags.ACTION_TRIGGER, Irq.MSIX, 0, len(eventfds))
        with self._explained("its interrupts cannot be had"):
            descriptors = struct.pack(f"<{len(eventfds)}i", *eventfds)
            self._kernel.ioctl(self._device, Request.DEVICE_SET_IRQS, bytearray(request + descriptors))

    def reset(self) -> None:
        """Perform a function level reset. The kernel restores the configuration space."""
        with self._explained("cannot be reset"):
            self._kernel.ioctl(self._device, Request.DEVICE_RESET, 0)

    def forked(self) -> None:
        """Close a child's copies of the descriptors; the parent keeps its own."""
        self.close()

    def close(self) -> None:
        """Close device, group and container, in this order. The kernel removes all maps."""
        self._opened.close()
