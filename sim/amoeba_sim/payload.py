"""Payloads between Python values and bits, as an Amaranth shape lays them out."""

import enum
from collections.abc import Mapping

from amaranth.hdl import Shape
from amaranth.lib import data

__all__ = ["pack", "unpack"]


def _layout(shape):
    """Return the layout of a structured shape, or None for a plain one."""
    if isinstance(shape, type) and issubclass(shape, enum.Enum):
        return None
    try:
        return data.Layout.cast(shape)
    except TypeError:
        return None


def pack(shape, value):
    """Return the bits of ``value`` as an int.

    A structure takes a mapping from field names (fields left out are 0), an array a sequence, both also an int
    that holds all bits; a plain shape takes an int, a bool or an enum member. Raises ValueError for a value
    that does not fit and KeyError for an unknown field.
    """
    return _known(shape)[1](value)


def unpack(shape, bits):
    """Invert :func:`pack`: dictionaries for structures, lists for arrays, enum members, ints."""
    return _known(shape)[2](bits)


_all_known = {}
"""Shapes, kept alive, with their two functions, by the identity of a shape: layouts have no hash."""


def _known(shape):
    """Return (shape, packer, unpacker): benches use both in every cycle, and layouts are slow to query."""
    known = _all_known.get(id(shape))
    if known is None:
        known = _all_known[id(shape)] = shape, _packer(shape), _unpacker(shape)
    return known


def _plain_packer(shape):
    width, mask = shape.width, (1 << shape.width) - 1
    lowest = -(1 << (width - 1)) if shape.signed else 0

    def packed(value):
        number = int(value.value if isinstance(value, enum.Enum) else value)
        if not lowest <= number <= lowest + mask:
            raise ValueError(f"Expected a value that fits {shape!r}, got {number}")
        return number & mask

    return packed


def _packer(shape):
    """Make a function from values to bits."""
    layout = _layout(shape)
    if layout is None:
        return _plain_packer(Shape.cast(shape))
    whole = _plain_packer(Shape.cast(layout.size))
    fields = {key: (_packer(field.shape), field.offset) for key, field in layout}

    def packed(value):
        if isinstance(value, int):
            return whole(value)
        bits = 0
        for key, element in value.items() if isinstance(value, Mapping) else enumerate(value):
            part, offset = fields[key]
            bits |= part(element) << offset
        return bits

    return packed


def _unpacker(shape):
    """Make a function from bits to values."""
    layout = _layout(shape)
    if layout is None:
        plain = Shape.cast(shape)
        mask, sign = (1 << plain.width) - 1, 1 << plain.width - 1 if plain.signed and plain.width else 0
        if isinstance(shape, type) and issubclass(shape, enum.Enum):
            return lambda bits: shape(((bits & mask) ^ sign) - sign)
        if sign:
            return lambda bits: ((bits & mask) ^ sign) - sign
        return lambda bits: bits & mask
    fields = [(key, field.offset, _unpacker(field.shape)) for key, field in layout]
    if isinstance(layout, data.ArrayLayout):
        return lambda bits: [part(bits >> offset) for _, offset, part in fields]
    return lambda bits: {key: part(bits >> offset) for key, offset, part in fields}
