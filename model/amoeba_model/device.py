"""Interface of every NIC to the host: the boundary below which model, RTL and board differ.

Everything above this interface (the driver, the tests, the conformance checks) is the same for all devices.
An I/O virtual address is the process virtual address unless a grant says otherwise; a device reaches host memory
only where :meth:`Device.grant` allows it.
"""

import abc
from dataclasses import dataclass
from typing import Self

from amoeba_model.tlp import LinkPacket
from amoeba_model.trace import NO_CONTEXT, BusEvent, TraceEvent

__all__ = ["Device", "DeviceClosedError", "DeviceError", "DmaFault"]


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
    context: int | None = None
    """Number of the context that caused the access; :data:`amoeba_model.trace.NO_CONTEXT` if no context did. None
    where the host bus does not carry it.
    """

    def __str__(self) -> str:
        kind = "write" if self.write else "read"
        if self.context is None:
            whose = ""
        else:
            whose = " for no context" if self.context == NO_CONTEXT else f" for context {self.context}"
        return f"{self.requester} {kind} of {self.size} bytes at {self.address:#x}{whose} is outside granted memory"


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
    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        """Let the device access process memory at the I/O virtual address ``iova``.

        ``host_address``: where that lies in the process; None: at ``iova``. ``context``: the only context of the NIC
        that may access it; None: all. :data:`amoeba_model.trace.NO_CONTEXT`: accesses that no context's descriptor
        names, which are those of peers by a key, the answer memory's and the event counters'. Devices that do not
        tell contexts apart (:attr:`isolates_contexts`) let all of them.
        Raises DeviceError for another ``host_address`` than ``iova`` if the device does not translate addresses.
        """

    @abc.abstractmethod
    def revoke(self, iova: int, length: int, *, context: int | None = None) -> None:
        """Withdraw a grant made with the same address, length and context, of several the oldest."""

    @property
    def isolates_contexts(self) -> bool:
        """Whether what one context was granted is out of reach of the others."""
        return False

    @abc.abstractmethod
    def advance(self) -> None:
        """Let a little time pass: one network step on a simulated device, nothing on a board."""

    @abc.abstractmethod
    def wait(self, timeout: float) -> int:
        """Let time pass until an interrupt arrives; returns the set of vectors as a bit mask, 0 on timeout.

        ``timeout`` is in seconds of host time. Vectors reported are thereby acknowledged.
        """

    @abc.abstractmethod
    def fileno(self) -> int:
        """Return a file descriptor that is readable while :meth:`wait` has an interrupt to report."""

    @property
    def stepped(self) -> bool:
        """Whether time passes in calls alone: :meth:`advance`, :meth:`wait`, and those of the network that joins it.

        Else it passes by itself, and :meth:`fileno` tells of interrupts whatever the driver does.
        """
        return False

    def new_epoch(self) -> int | None:
        """Return a number that no call before returned to any NIC that this one can reach.

        The number is the same whenever the program runs again. None if peers may live longer than the program: then
        everything that must differ from what they saw of a NIC at this address has to be random.
        """
        return None

    @property
    def pinned(self) -> int:
        """Bytes of host memory that cannot be paged out because the device may access them."""
        return 0

    @property
    def traces(self) -> bool:
        """Whether events can be recorded."""
        return False

    @property
    def tracing(self) -> bool:
        """Whether events are recorded; can be set at any time. Setting it raises DeviceError if they cannot be."""
        return False

    @tracing.setter
    def tracing(self, enabled: bool) -> None:
        raise DeviceError(f"{self.name} records no events")

    def trace_events(self) -> list[TraceEvent]:
        """Events recorded since the last call, by cycle and, within a cycle, by stage."""
        return []

    def bus_events(self) -> list[BusEvent]:
        """Return the events of the buses since the last call, while :attr:`tracing` was set, by cycle.

        The model has no buses.
        """
        return []

    def link_packets(self) -> list[LinkPacket]:
        """Packets on PCI Express since the last call, while :attr:`tracing` was set, by cycle; only RTL has some."""
        return []

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
