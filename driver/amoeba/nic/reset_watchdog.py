"""Reset watchdog: finds a NIC that was reset, and so forgot all outstanding operations without an event."""

import time
from typing import Protocol

from amoeba_model.device import Device

__all__ = ["ResetListener", "ResetWatchdog"]

_CYCLES = 1 << 15
"""Two of the NIC's timeouts, so that a NIC that merely retransmits is not queried."""
_SECONDS = 0.25


class ResetListener(Protocol):
    """An object that ends its operations when the NIC was reset."""

    def nic_lost(self) -> None:
        """End operations of a NIC that lost its state. Called in the middle of a wait."""


class ResetWatchdog:
    """Decides when nothing has arrived for so long that the NIC should be queried.

    Where time passes in calls alone, the time is the NIC's, so that every run of a program is the same; else the
    host's. A query costs a register access, so the driver makes no query while anything arrives.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stepped = device.stepped
        self._seen = -1
        self._due = 0.0

    def is_long(self, progress: int) -> bool:
        """Return whether nothing has arrived for long. ``progress``: a value that changes with every arrival."""
        now = self._device.cycles if self._stepped else time.monotonic()
        if progress == self._seen and now < self._due:
            return False
        quiet = progress == self._seen
        self._seen = progress
        self._due = now + (_CYCLES if self._stepped else _SECONDS)
        return quiet
