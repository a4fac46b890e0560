"""Handles: numbers by which C names Python's objects; each is unique, never reused, and checked."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["Handles"]

T = TypeVar("T")

_FIRST = 0x0A0E_BA00_0000_0000
"""An address that no processor has: a C program that follows such a pointer faults at once."""
_STEP = 16
"""Aligned as memory is: some programs keep bits of their own in the lowest bits of pointers."""


class Handles:
    """The handle table: numbers that fit a pointer, by which C names objects that it can neither see nor hold.

    A handle that was removed, or never given, raises FI_EBADF, or the error ``errno``.
    """

    def __init__(self, errno: Errno = Errno.FI_EBADF) -> None:
        self._errno = errno
        self._objects: dict[int, object] = {}
        self._numbers = itertools.count(_FIRST, _STEP)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[object]:
        return iter(list(self._objects.values()))

    def add(self, subject: object) -> int:
        """Return a new number for an object, which is kept until :meth:`remove`."""
        number = next(self._numbers)
        self._objects[number] = subject
        return number

    def get(self, number: int, kind: type[T]) -> T:
        """Return the object of this kind with the number. Raises FI_EBADF for an unknown number or another kind."""
        found = self._objects.get(number)
        if isinstance(found, kind):
            return found
        raise fabric_error(self._errno, f"expected a handle of a {kind.__name__}, got {_shown(number, found)}")

    def find(self, number: int) -> object | None:
        """Return the object of any kind with the number, or None."""
        return self._objects.get(number)

    def remove(self, number: int, kind: type[T]) -> T:
        """Remove the object of this kind with the number, and return it. Raises as :meth:`get`."""
        found = self.get(number, kind)
        del self._objects[number]
        return found


def _shown(number: Any, found: object) -> str:
    if found is not None:
        return f"that of a {type(found).__name__}"
    return f"{number:#x}, which is none" if isinstance(number, int) else repr(number)
