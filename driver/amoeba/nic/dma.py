"""The host memory that a NIC may access, and on whose behalf."""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from amoeba_model.device import Device
from amoeba_model.trace import NO_CONTEXT

__all__ = ["DmaMap", "Grant", "Holder", "OfDomain", "Whose"]

Grant = tuple[int, int, bool]
"""Device access: address, length, writable."""


class Holder(Protocol):
    """Outstanding operations, whose memory may be accessible by another holder's grant."""

    def hold(self, keeper: object, export: Any, address: int, length: int, writable: bool) -> int:
        """Give each operation on memory that ``keeper`` keeps accessible a grant of its own until the operation ends.

        ``export`` stays alive as long. Returns the number of such operations.
        """


class OfDomain(NamedTuple):
    """A region of a protection domain: all contexts of the domain, and peers by a key, may access it."""

    number: int


Whose = int | OfDomain | None
"""User of memory: a context by its number; NO_CONTEXT: peers by a key, and the NIC for itself; a domain; None: all of
these."""

_Place = tuple[int, int, int | None]
"""Address, length, context."""


class _Users:
    """The users of a range."""

    __slots__ = ("count", "writable")

    def __init__(self, writable: bool) -> None:
        self.count = 1
        self.writable = writable


class DmaMap:
    """Counts the users of every range, so that one user's end does not take away another's access.

    A device knows a grant by address, length and context only. A registered region and an operation on the same
    buffer would otherwise share one grant by accident. A range that any user needs writable stays writable until the
    last user is gone. Where the device does not distinguish contexts, all contexts share its grants.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._isolates = device.isolates_contexts
        self._users: dict[_Place, _Users] = {}
        self._domains: dict[int, int] = {}
        """The protection domain of each context that is in one."""
        self._regions: dict[int, dict[tuple[int, int], tuple[int, bool]]] = {}
        """By domain the grants of :class:`OfDomain`: (number of users, writable) by (address, length)."""
        self.holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        """All holders that may have outstanding operations."""

    def grant(self, address: int, length: int, *, writable: bool, whose: Whose) -> None:
        """Begin a use of a range."""
        if not self._isolates:
            self._grant(address, length, writable, None)
        elif isinstance(whose, OfDomain):
            self._grant_region(address, length, writable, whose.number)
        else:
            self._grant(address, length, writable, whose)

    def revoke(self, address: int, length: int, whose: Whose) -> None:
        """End one use that :meth:`grant` began."""
        if not self._isolates:
            self._revoke(address, length, None)
        elif isinstance(whose, OfDomain):
            self._revoke_region(address, length, whose.number)
        else:
            self._revoke(address, length, whose)

    def grant_all(self, grants: Sequence[Grant], context: int) -> None:
        """Begin a use of each of these by a context; if one fails, begin none."""
        user = context if self._isolates else None
        if len(grants) == 1:  # as of most operations
            address, length, writable = grants[0]
            self._grant(address, length, writable, user)
            return
        granted = 0
        try:
            for address, length, writable in grants:
                self._grant(address, length, writable, user)
                granted += 1
        except BaseException:
            self.revoke_all(grants[:granted], context)
            raise

    def revoke_all(self, grants: Sequence[Grant], context: int) -> None:
        """End one use of each that :meth:`grant_all` began."""
        user = context if self._isolates else None
        for address, length, _ in grants:
            self._revoke(address, length, user)

    def hand_over(self, keeper: object, export: Any, address: int, length: int, writable: bool, whose: Whose) -> bool:
        """Revoke a grant of ``keeper``; outstanding operations that rely on the grant get their own.

        ``export``: the object that holds the memory; operations keep it until they end. Returns whether any do.
        """
        using = [holder.hold(keeper, export, address, length, writable) for holder in list(self.holders)]
        self.revoke(address, length, whose)
        return any(using)

    # Contexts of domains

    def join(self, context: int, domain: int) -> None:
        """Add a context to this domain, its only one from now on: the context may access the domain's regions."""
        if not self._isolates or self._domains.get(context) == domain:
            return
        self.leave(context)
        done: list[tuple[int, int]] = []
        try:
            for (address, length), (users, writable) in self._regions.get(domain, {}).items():
                for _ in range(users):
                    self._grant(address, length, writable, context)
                    done.append((address, length))
        except BaseException:
            for address, length in done:
                self._revoke(address, length, context)
            raise
        self._domains[context] = domain

    def leave(self, context: int) -> None:
        """Remove a context from its domain."""
        domain = self._domains.pop(context, None)
        if domain is not None:
            for (address, length), (users, _) in self._regions.get(domain, {}).items():
                for _ in range(users):
                    self._revoke(address, length, context)

    def _members(self, domain: int) -> list[int]:
        return [NO_CONTEXT, *(context for context, its in self._domains.items() if its == domain)]

    def _grant_region(self, address: int, length: int, writable: bool, domain: int) -> None:
        done: list[int] = []
        try:
            for context in self._members(domain):
                self._grant(address, length, writable, context)
                done.append(context)
        except BaseException:
            for context in done:
                self._revoke(address, length, context)
            raise
        regions = self._regions.setdefault(domain, {})
        users, was_writable = regions.get((address, length), (0, False))
        regions[address, length] = (users + 1, writable or was_writable)

    def _revoke_region(self, address: int, length: int, domain: int) -> None:
        regions = self._regions[domain]
        users, writable = regions.pop((address, length))
        if users > 1:
            regions[address, length] = (users - 1, writable)
        for context in self._members(domain):
            self._revoke(address, length, context)

    # One context, or all where the device does not distinguish them

    def _grant(self, address: int, length: int, writable: bool, context: int | None) -> None:
        place = (address, length, context)
        users = self._users.get(place)
        if users is None:
            self._device.grant(address, length, writable=writable, context=context)
            self._users[place] = _Users(writable)
            return
        if writable and not users.writable:
            self._device.grant(address, length, writable=True, context=context)
            # The older of two, and only now: outstanding operations have the range all the time.
            self._device.revoke(address, length, context=context)
            users.writable = True
        users.count += 1

    def _revoke(self, address: int, length: int, context: int | None) -> None:
        place = (address, length, context)
        users = self._users[place]
        if users.count > 1:
            users.count -= 1
        else:
            del self._users[place]
            self._device.revoke(address, length, context=context)
