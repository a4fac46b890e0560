"""Which memory a NIC may access on whose behalf."""

from amoeba_model.device import Device

__all__ = ["DmaMap"]


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

    def grant(self, address: int, length: int, *, writable: bool) -> None:
        users, was_writable = self._users.get((address, length), (0, False))
        if users and writable and not was_writable:
            self._device.revoke(address, length)
        if not users or (writable and not was_writable):
            self._device.grant(address, length, writable=writable)
        self._users[address, length] = (users + 1, writable or was_writable)

    def revoke(self, address: int, length: int) -> None:
        """End one use that :meth:`grant` began."""
        users, writable = self._users.pop((address, length))
        if users > 1:
            self._users[address, length] = (users - 1, writable)
        else:
            self._device.revoke(address, length)
