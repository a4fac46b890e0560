"""The NIC as a function on PCI Express: its configuration space, in the words of the specification and of Linux."""

import enum

__all__ = [
    "CAPABILITIES",
    "CLASS_CODE",
    "CONFIG_SIZE",
    "DEVICE_ID",
    "MSIX_BAR",
    "MSIX_BAR_SIZE",
    "MSIX_ENTRY_SIZE",
    "MSIX_PBA_OFFSET",
    "REFUSED_OFFSET",
    "REGISTER_BAR",
    "REVISION",
    "VENDOR_ID",
    "CapabilityId",
    "Command",
    "Config",
    "DeviceControl",
    "MsixControl",
    "PciExpress",
]

VENDOR_ID = 0x1234
"""Nobody's: QEMU's own devices have it, too."""
DEVICE_ID = 0xA0EB
REVISION = 0x10
CLASS_CODE = 0x02_00_00
"""Network controller, Ethernet."""

REGISTER_BAR = 0
"""The BAR of :mod:`amoeba_model.registers`: 64-bit memory."""
MSIX_BAR = 2
"""The BAR with MSI-X table and pending bits."""
MSIX_BAR_SIZE = 0x1000
MSIX_PBA_OFFSET = 0x800
MSIX_ENTRY_SIZE = 16
REFUSED_OFFSET = 0xC00
"""In the same BAR, read only: the number of writes to BARs that were dropped, since they were not of whole 32-bit
words, too long or poisoned. Posted writes have no other report. A function level reset leaves it."""

CONFIG_SIZE = 4096
CAPABILITIES = 0x40
"""Where the list of capabilities begins."""


class Config(enum.IntEnum):
    """Offsets in the header."""

    VENDOR = 0x00
    DEVICE = 0x02
    COMMAND = 0x04
    STATUS = 0x06
    REVISION = 0x08
    CLASS = 0x09
    BAR0 = 0x10
    SUBSYSTEM_VENDOR = 0x2C
    SUBSYSTEM = 0x2E
    CAPABILITY_POINTER = 0x34
    INTERRUPT_LINE = 0x3C


class Command(enum.IntFlag):
    MEMORY = 1 << 1
    """BARs are decoded."""
    MASTER = 1 << 2
    """The function may read and write host memory, interrupts included."""
    INTX_DISABLE = 1 << 10


class CapabilityId(enum.IntEnum):
    POWER_MANAGEMENT = 0x01
    EXPRESS = 0x10
    MSIX = 0x11


class PciExpress(enum.IntEnum):
    """Offsets in the PCI Express capability."""

    FLAGS = 0x02
    DEVICE_CAPABILITIES = 0x04
    DEVICE_CONTROL = 0x08
    LINK_CAPABILITIES = 0x0C
    LINK_CONTROL = 0x10
    LINK_STATUS = 0x12
    DEVICE_CONTROL_2 = 0x28


class DeviceControl(enum.IntFlag):
    INITIATE_FLR = 1 << 15


class MsixControl(enum.IntFlag):
    FUNCTION_MASK = 1 << 14
    ENABLE = 1 << 15
