"""Common parts of UCP's structures: a mask that says which of their fields count.

A C program sets fields and their bits in ``field_mask``; UCX ignores fields without their bit. Here a field that is
not None counts. If a mask is given, it alone says which fields count: a masked field that is None is NULL for a
pointer, and UCS_ERR_INVALID_PARAM for a number. Unknown bits are ignored.

:class:`Parameters` go into a call, which first checks them with :meth:`Parameters.taken`. :class:`Attributes` come
out of it: the call fills the fields of the mask; without a mask, all of them.
"""

import enum
import inspect
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from amoeba.openucx.ucp.constants import ucp_op_attr_t
from amoeba.openucx.ucp.kinds import Kind, known_bits, refuse_other, unsigned
from amoeba.openucx.ucp.status import wrong_type

__all__ = ["Attributes", "Counted", "Masked", "OperationParameters", "Parameters"]


@dataclass(frozen=True, eq=False)
class Counted:
    """Annotation of a field: the bit with which it counts, and the values it may hold.

    Annotations are never equal, though their numbers may be: ``Annotated`` would take one for the other.
    """

    bit: enum.IntFlag
    kind: Kind


class _Field(NamedTuple):
    name: str
    bit: int
    kind: Kind


class Masked:
    """A structure of which only some fields count."""

    MASK: ClassVar[str] = "field_mask"
    """The field that holds the mask."""
    MASK_BITS: ClassVar[int] = 64
    _counted: ClassVar[tuple[_Field, ...]] = ()
    _all_bits: ClassVar[int] = 0
    _enumeration: ClassVar[type[enum.IntFlag]] = enum.IntFlag

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        notes = [
            (name, note)
            for name, annotation in inspect.get_annotations(cls).items()
            for note in getattr(annotation, "__metadata__", ())
            if isinstance(note, Counted)
        ]
        cls._counted = tuple(_Field(name, int(note.bit), note.kind) for name, note in notes)
        if notes:
            cls._enumeration = type(notes[0][1].bit)
        cls._all_bits = sum({each.bit for each in cls._counted})

    @classmethod
    def fields_by_bit(cls) -> dict[str, int]:
        """Return the bit of every field that has one, in C's order."""
        return {each.name: each.bit for each in cls._counted}

    def given_mask(self) -> int | None:
        """Return the given mask without unknown bits; None if the fields tell.

        Raises UCS_ERR_INVALID_PARAM for anything but a mask.
        """
        given = getattr(self, self.MASK)
        if given is None:
            return None
        return self._mask_number(given) & self._all_bits

    def _mask_number(self, given: Any) -> int:
        name = f"{type(self).__name__}.{self.MASK}"
        refuse_other(name, given, self._enumeration)
        return int(unsigned(self.MASK_BITS)(name, given))

    def set_mask(self) -> int:
        """Return the bits of fields that are not None."""
        mask = 0
        for each in self._counted:
            if getattr(self, each.name) is not None:
                mask |= each.bit
        return mask


class Parameters(Masked):
    """The parameters of a call."""

    @property
    def mask(self) -> int:
        """The bits of the fields that count."""
        given = self.given_mask()
        return self.set_mask() if given is None else given

    @classmethod
    def taken(cls, given: Any, name: str = "params") -> Self:
        """Return a checked copy: fields that do not count are None, and the mask is set.

        Raises UCS_ERR_INVALID_PARAM, naming the field, for a wrong value, and for another structure.
        """
        if not isinstance(given, cls):
            raise wrong_type(name, f"a {cls.__name__}", given)
        mask = given.mask
        values: dict[str, Any] = {cls.MASK: mask}
        for each in cls._counted:
            if mask & each.bit:
                values[each.name] = each.kind(f"{name}.{each.name}", getattr(given, each.name))
        return cls(**values)


class OperationParameters(Parameters):
    """The parameters of an operation: their mask has flags, too, above the bits of the fields."""

    MASK: ClassVar[str] = "op_attr_mask"
    MASK_BITS: ClassVar[int] = 32
    op_attr_mask: int | None

    @property
    def mask(self) -> int:
        """The bits of the fields that count, and the flags."""
        mask = self.op_attr_mask
        if mask is None:
            return self.set_mask()
        if type(mask) is not int or not 0 <= mask < 1 << self.MASK_BITS:
            mask = self._mask_number(mask)
        if not mask or mask & _OP_FIELDS:
            return mask & _OP_BITS
        return mask & _OP_BITS | self.set_mask()


_OP_BITS = known_bits(ucp_op_attr_t)
_OP_FIELDS = _OP_BITS & 0xFFFF


class Attributes(Masked):
    """A structure that a call fills."""

    @property
    def mask(self) -> int:
        """The bits of the fields that are asked for."""
        given = self.given_mask()
        return self._all_bits if given is None else given

    def asks(self, name: str) -> bool:
        """Return whether the mask asks for a field."""
        return bool(self.mask & self.fields_by_bit()[name])

    def fill(self, **values: Any) -> Self:
        """Set the fields of these that the mask asks for, and return the structure."""
        for name, value in values.items():
            if self.asks(name):
                setattr(self, name, value)
        return self

    @classmethod
    def expected(cls, given: Any, name: str = "attr") -> Self:
        """Return the structure if it is one of these with a valid mask. Raises UCS_ERR_INVALID_PARAM."""
        if not isinstance(given, cls):
            raise wrong_type(name, f"a {cls.__name__}", given)
        given.given_mask()
        return given
