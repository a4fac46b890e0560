"""Which memory a NIC may access on whose behalf."""

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from amoeba_model.device import Device

__all__ = ["DmaMap", "Grant", "Holder"]

Grant = tuple[int, int, bool]
"""Device access: address, length, writable."""


class Holder(Protocol):
    """Operations under way, whose memory may be accessible by somebody else's grant."""

    def hold(self, keeper: object, export: Any, address: int, length: int, writable: bool) -> int:
        """Let each operation whose memory ``keeper`` keeps accessible have such a grant of its own until it ends, and
        keep ``export`` alive as long; returns how many there are."""


class DmaMap:
    """Counts the users of every range, so that one user's end does not take away another's access.

    A device knows a grant by address and length only; a registered region and an operation on the very same
    buffer would otherwise share one without knowing. A range that any user needs writable stays so until the
    last one is gone.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._users: dict[tuple[int, int], tuple[int, bool]] = {}
        """(number of users, writable) by (address, length)."""
        self.holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        """All that may have operations under way."""

    def grant(self, address: int, length: int, *, writable: bool) -> None:
        users, was_writable = self._users.get((address, length), (0, False))
        if not users or (writable and not was_writable):
            self._device.grant(address, length, writable=writable)
        if users and writable and not was_writable:
            # The older of two, and only now: operations under way have the range all the time.
            self._device.revoke(address, length)
        self._users[address, length] = (users + 1, writable or was_writable)

    def revoke(self, address: int, length: int) -> None:
        """End one use that :meth:`grant` began."""
        users, writable = self._users.pop((address, length))
        if users > 1:
            self._users[address, length] = (users - 1, writable)
        else:
            self._device.revoke(address, length)

    def grant_all(self, grants: Sequence[Grant]) -> None:
        """Begin a use of each of these; if that fails, of none."""
        granted = 0
        try:
            for address, length, writable in grants:
                self.grant(address, length, writable=writable)
                granted += 1
        except BaseException:
            self.revoke_all(grants[:granted])
            raise

    def revoke_all(self, grants: Sequence[Grant]) -> None:
        """End one use of each that :meth:`grant_all` began."""
        for address, length, _ in grants:
            self.revoke(address, length)

    def hand_over(self, keeper: object, export: Any, address: int, length: int, writable: bool) -> bool:
        """:meth:`revoke` of a grant of ``keeper``'s; operations under way that rely on it get it for themselves.

        ``export``: what holds the memory, which they keep until they end. Returns whether there are any.
        """
        using = [holder.hold(keeper, export, address, length, writable) for holder in list(self.holders)]
        self.revoke(address, length)
        return any(using)
