"""Payloads between Python values and bits, as an Amaranth shape lays them out."""

import enum
from collections.abc import Mapping

from amaranth.hdl import Shape
from amaranth.lib import data

__all__ = ["pack", "unpack"]


def _layout(shape):
    """The layout of a structured shape, or None for a plain one."""
    if isinstance(shape, type) and issubclass(shape, enum.Enum):
        return None
    try:
        return data.Layout.cast(shape)
    except TypeError:
        return None


def pack(shape, value):
    """The bits of ``value`` as an int.

    A structure takes a mapping from field names (fields left out are 0), an array a sequence, both also an int
    that holds all bits; a plain shape takes an int, a bool or an enum member. Raises ValueError for a value
    that does not fit and KeyError for an unknown field.
    """
    layout = _layout(shape)
    if layout is None:
        plain = Shape.cast(shape)
        number = int(value.value if isinstance(value, enum.Enum) else value)
        lowest = -(1 << (plain.width - 1)) if plain.signed else 0
        if not lowest <= number < lowest + (1 << plain.width):
            raise ValueError(f"Expected a value that fits {plain!r}, got {number}")
        return number & ((1 << plain.width) - 1)
    if isinstance(value, int):
        return pack(layout.size, value)
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    bits = 0
    for key, element in items:
        field = layout[key]
        bits |= pack(field.shape, element) << field.offset
    return bits


def unpack(shape, bits):
    """The inverse of :func:`pack`: dictionaries for structures, lists for arrays, enum members, ints."""
    known = _unpackers.get(id(shape))
    if known is None:
        known = _unpackers[id(shape)] = shape, _unpacker(shape)
    return known[1](bits)


_unpackers = {}
"""By the identity of a shape, since layouts have no hash: the shape, which lives as long, and what unpacks it."""


def _unpacker(shape):
    """A function of the bits: benches unpack what passes in every cycle, and layouts are slow to ask."""
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
