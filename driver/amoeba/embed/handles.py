"""Objects that C has only a number of: one of its own for each, never given twice, and no other is taken."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["Handles"]

T = TypeVar("T")

_FIRST = 0x0A0E_BA00_0000_0000
"""No address that a processor has: C that follows such a pointer is stopped at once."""
_STEP = 16
"""As memory is aligned: some programs keep bits of their own in the lowest bits of pointers."""


class Handles:
    """Numbers, which fit a pointer, for objects: by them C names what it may neither see nor keep alive.

    A handle that was removed, or never given, raises FI_EBADF, or what ``errno`` says.
    """

    def __init__(self, errno: Errno = Errno.FI_EBADF) -> None:
        self._errno = errno
        self._objects: dict[int, object] = {}
        self._numbers = itertools.count(_FIRST, _STEP)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[object]:
        return iter(list(self._objects.values()))

    def add(self, thing: object) -> int:
        """A number for an object, which is kept until :meth:`remove`."""
        number = next(self._numbers)
        self._objects[number] = thing
        return number

    def get(self, number: int, kind: type[T]) -> T:
        """The object of this kind that has the number. Raises FI_EBADF if there is none."""
        found = self._objects.get(number)
        if isinstance(found, kind):
            return found
        raise fabric_error(self._errno, f"expected a handle of a {kind.__name__}, got {_shown(number, found)}")

    def find(self, number: int) -> object | None:
        """The object of any kind that has the number; None if there is none."""
        return self._objects.get(number)

    def remove(self, number: int, kind: type[T]) -> T:
        """The same, and the number is nobody's from now on."""
        found = self.get(number, kind)
        del self._objects[number]
        return found


def _shown(number: Any, found: object) -> str:
    if found is not None:
        return f"that of a {type(found).__name__}"
    return f"{number:#x}, which is none" if isinstance(number, int) else repr(number)
