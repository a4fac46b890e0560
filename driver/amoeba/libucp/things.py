"""Objects of the driver as C knows them: numbers that fit a pointer, checked with their kind."""

from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.embed import Handles

__all__ = ["Things"]

T = TypeVar("T")


class Things:
    """Handles, found by their objects as well: what a callback is told of C knows already."""

    def __init__(self) -> None:
        self._handles = Handles(Errno.FI_EINVAL)
        self._numbers: dict[int, int] = {}
        """By ``id`` of what they stand for."""
        self._owned: dict[int, set[int]] = {}
        """By the number of what an object was made from: those that end with it."""
        self._owners: dict[int, int] = {}
        """The same, the other way round."""

    def add(self, thing: object, owner: object = None) -> int:
        """A number for an object; without an owner that has one, until :meth:`remove`."""
        number = self._numbers[id(thing)] = self._handles.add(thing)
        if owner is not None:
            its = self._owners[number] = self._numbers[id(owner)]
            self._owned.setdefault(its, set()).add(number)
        return number

    def get(self, number: int, kind: type[T]) -> T:
        """The object of this kind. Raises FI_EINVAL if there is none of this number."""
        return self._handles.get(number, kind)

    def of(self, thing: object, owner: object = None) -> int:
        """The number of an object, which gets one if it has none."""
        number = self._numbers.get(id(thing))
        return self.add(thing, owner) if number is None else number

    def find(self, number: int, kind: type[T]) -> T | None:
        """The object, or None."""
        found: Any = self._handles.find(number)
        return found if isinstance(found, kind) else None

    def remove(self, number: int, kind: type[T]) -> T:
        """The object, which has no number from now on, and neither have those that were made from it."""
        thing = self._handles.remove(number, kind)
        del self._numbers[id(thing)]
        owner = self._owners.pop(number, None)
        if owner is not None:
            self._owned[owner].discard(number)
        for owned in list(self._owned.get(number, ())):
            self.remove(owned, object)
        self._owned.pop(number, None)
        return thing
