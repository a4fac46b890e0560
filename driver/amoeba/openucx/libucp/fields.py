"""Structures with masks, from C to the driver and back: unknown bits are ignored, fields without a bit not read."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from amoeba.embed import Memory
from amoeba.openucx.ucp.field_masks import Attributes, Parameters

__all__ = ["Reader", "Writer", "read_params", "write_attributes"]

Reader = Callable[[Any], Any]
"""Converts a field of C for the driver."""
Writer = Callable[[Any, Any], None]
"""Sets a field: ``(structure of C's, value of the driver's)``."""
P = TypeVar("P", bound=Parameters)


def read_params(
    memory: Memory, given: Any, kind: type[P], readers: Mapping[str, Reader] = {}, name: str = "params"
) -> P:
    """Read a structure of C's: the fields that its mask names.

    ``readers``: conversions of some fields; the others are numbers. Raises FI_EINVAL for NULL.
    """
    memory.require(given, name)
    mask = given.field_mask
    values: dict[str, Any] = {kind.MASK: 0}
    for field, bit in kind.fields_by_bit().items():
        if mask & bit:
            values[kind.MASK] |= bit
            read = readers.get(field)
            value = getattr(given, field)
            values[field] = value if read is None else read(value)
    return kind(**values)


def write_attributes(memory: Memory, given: Any, filled: Attributes, writers: Mapping[str, Writer] = {}) -> None:
    """Write the filled fields to a structure of C's, and nothing else.

    ``writers``: for fields that are no plain numbers.
    """
    mask = filled.mask
    for field, bit in filled.fields_by_bit().items():
        if mask & bit:
            value = getattr(filled, field)
            writer = writers.get(field)
            if writer is not None:
                writer(given, value)
            elif value is not None:
                setattr(given, field, value)
