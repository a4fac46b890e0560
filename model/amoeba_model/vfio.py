"""Linux VFIO's structures and numbers: ``linux/vfio.h``. vfio-user sends the same in its messages."""

import enum
import struct

__all__ = [
    "DEVICE_INFO",
    "DMA_MAP",
    "DMA_UNMAP",
    "IRQ_INFO",
    "IRQ_SET",
    "REGION_INFO",
    "DeviceFlags",
    "Irq",
    "IrqInfoFlags",
    "IrqSetFlags",
    "MapFlags",
    "Region",
    "RegionFlags",
    "UnmapFlags",
]

DEVICE_INFO = struct.Struct("<IIII")
"""argsz, flags, num_regions, num_irqs."""
REGION_INFO = struct.Struct("<IIIIQQ")
"""argsz, flags, index, cap_offset, size, offset."""
IRQ_INFO = struct.Struct("<IIII")
"""argsz, flags, index, count."""
IRQ_SET = struct.Struct("<IIIII")
"""argsz, flags, index, start, count; then the data."""
DMA_MAP = struct.Struct("<IIQQQ")
"""argsz, flags, virtual address (vfio-user: offset in the file), iova, size."""
DMA_UNMAP = struct.Struct("<IIQQ")
"""argsz, flags, iova, size."""


class DeviceFlags(enum.IntFlag):
    RESET = 1 << 0
    PCI = 1 << 1


class Region(enum.IntEnum):
    """Regions of a PCI device."""

    BAR0 = 0
    BAR1 = 1
    BAR2 = 2
    BAR3 = 3
    BAR4 = 4
    BAR5 = 5
    ROM = 6
    CONFIG = 7
    VGA = 8


class RegionFlags(enum.IntFlag):
    READ = 1 << 0
    WRITE = 1 << 1
    MMAP = 1 << 2


class Irq(enum.IntEnum):
    """Interrupts of a PCI device, by their kinds."""

    INTX = 0
    MSI = 1
    MSIX = 2
    ERR = 3
    REQ = 4


class IrqInfoFlags(enum.IntFlag):
    EVENTFD = 1 << 0
    MASKABLE = 1 << 1
    AUTOMASKED = 1 << 2
    NORESIZE = 1 << 3


class IrqSetFlags(enum.IntFlag):
    DATA_NONE = 1 << 0
    DATA_BOOL = 1 << 1
    DATA_EVENTFD = 1 << 2
    ACTION_MASK = 1 << 3
    ACTION_UNMASK = 1 << 4
    ACTION_TRIGGER = 1 << 5


class MapFlags(enum.IntFlag):
    READ = 1 << 0
    WRITE = 1 << 1


class UnmapFlags(enum.IntFlag):
    GET_DIRTY_BITMAP = 1 << 0
    ALL = 1 << 1
