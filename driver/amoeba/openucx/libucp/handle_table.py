"""The handle table: numbers that fit a pointer, by which C names objects of the driver, checked with their kind."""

from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.embed import Handles

__all__ = ["HandleTable"]

T = TypeVar("T")


class HandleTable(Handles):
    """Handles, found by their objects as well: C knows the numbers of a callback's arguments already."""

    def __init__(self) -> None:
        super().__init__(Errno.FI_EINVAL)
        self._numbers_of: dict[int, int] = {}
        """Numbers by ``id`` of their objects."""
        self._owned: dict[int, set[int]] = {}
        """Numbers that end with an owner's number, by the owner's."""
        self._owners: dict[int, int] = {}
        """The owner's number by number."""

    def add(self, subject: object, owner: object = None) -> int:
        """Return a new number for an object, valid until :meth:`remove` of the object or its owner."""
        number = self._numbers_of[id(subject)] = super().add(subject)
        if owner is not None:
            its = self._owners[number] = self._numbers_of[id(owner)]
            self._owned.setdefault(its, set()).add(number)
        return number

    def of(self, subject: object, owner: object = None) -> int:
        """Return the number of an object, a new one if necessary."""
        number = self._numbers_of.get(id(subject))
        return self.add(subject, owner) if number is None else number

    def made_from(self, owner: object, kind: type[T]) -> list[T]:
        """Return the objects of this kind whose numbers end with the owner's."""
        found = map(self.find, self._owned.get(self._numbers_of.get(id(owner), 0), ()))
        return [subject for subject in found if isinstance(subject, kind)]

    def has(self, number: int, kind: type[Any]) -> bool:
        """Return whether this is the number of an object of this kind."""
        return isinstance(self.find(number), kind)

    def remove(self, number: int, kind: type[T]) -> T:
        """Remove an object's number, and those of objects made from it; returns the object."""
        subject = super().remove(number, kind)
        del self._numbers_of[id(subject)]
        owner = self._owners.pop(number, None)
        if owner is not None:
            self._owned[owner].discard(number)
        for owned in list(self._owned.get(number, ())):
            self.remove(owned, object)
        self._owned.pop(number, None)
        return subject
