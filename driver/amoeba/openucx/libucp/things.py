"""Objects of the driver as C knows them: numbers that fit a pointer, checked with their kind."""

from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.embed import Handles

__all__ = ["Things"]

T = TypeVar("T")


class Things(Handles):
    """Handles, found by their objects as well: what a callback is told of C knows already."""

    def __init__(self) -> None:
        super().__init__(Errno.FI_EINVAL)
        self._numbers_of: dict[int, int] = {}
        """By ``id`` of what they stand for."""
        self._owned: dict[int, set[int]] = {}
        """By the number of what an object was made from: those that end with it."""
        self._owners: dict[int, int] = {}
        """The same, the other way round."""

    def add(self, thing: object, owner: object = None) -> int:
        """A number for an object, until :meth:`remove`, of it or its owner."""
        number = self._numbers_of[id(thing)] = super().add(thing)
        if owner is not None:
            its = self._owners[number] = self._numbers_of[id(owner)]
            self._owned.setdefault(its, set()).add(number)
        return number

    def of(self, thing: object, owner: object = None) -> int:
        """The number of an object, which gets one if it has none."""
        number = self._numbers_of.get(id(thing))
        return self.add(thing, owner) if number is None else number

    def has(self, number: int, kind: type[Any]) -> bool:
        """Whether this is the number of an object of this kind."""
        return isinstance(self.find(number), kind)

    def remove(self, number: int, kind: type[T]) -> T:
        """The object, which has no number from now on, and neither have those that were made from it."""
        thing = super().remove(number, kind)
        del self._numbers_of[id(thing)]
        owner = self._owners.pop(number, None)
        if owner is not None:
            self._owned[owner].discard(number)
        for owned in list(self._owned.get(number, ())):
            self.remove(owned, object)
        self._owned.pop(number, None)
        return thing
