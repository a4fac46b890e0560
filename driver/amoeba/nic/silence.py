"""Whoever waits looks whether the NIC still knows of it: one that was reset has forgotten all, and tells nobody."""

import time
from typing import Protocol

from amoeba_model.device import Device

__all__ = ["Mourner", "Silence"]

_CYCLES = 1 << 15
"""Two of the NIC's timeouts, so that nothing is asked of one that merely sends again now and then."""
_SECONDS = 0.25


class Mourner(Protocol):
    """Who has to end something when the NIC was reset."""

    def nic_lost(self) -> None:
        """The NIC has forgotten everything. Called in the middle of somebody's wait."""


class Silence:
    """Says when nothing has come for so long that it is time to look.

    Time is the NIC's where it passes in calls alone, so that a program does the same in every run; else the host's.
    Looking costs a register access, so nobody looks while anything comes.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stepped = device.stepped
        self._seen = -1
        self._due = 0.0

    def is_long(self, progress: int) -> bool:
        """Whether nothing has come for long. ``progress``: what changes when something does."""
        now = self._device.cycles if self._stepped else time.monotonic()
        if progress == self._seen and now < self._due:
            return False
        quiet = progress == self._seen
        self._seen = progress
        self._due = now + (_CYCLES if self._stepped else _SECONDS)
        return quiet
