"""Adapts the model's layout declarations to Amaranth."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data
from amoeba_model.layout import Record

__all__ = ["bytes_swapped", "pack_wire", "struct_layout", "unpack_wire"]


def struct_layout(record: Record) -> data.StructLayout:
    """Layout of a little-endian record: host memory, beats and trace events."""
    if record.order != "little":
        raise ValueError(f"{record.name} is big-endian; use pack_wire and unpack_wire")
    return data.StructLayout({field.name: field.width for field in record.fields})


def bytes_swapped(value: Value) -> Value:
    """Reverse the order of a value's bytes. Raises ValueError unless it has whole bytes."""
    if len(value) % 8:
        raise ValueError(f"expected whole bytes, got {len(value)} bits")
    return Cat(*reversed([value[i : i + 8] for i in range(0, len(value), 8)]))


def pack_wire(record: Record, values: Mapping[str, Value | int]) -> Value:
    """Pack a big-endian record as it travels: its first byte in bits 0 to 7. Fields not named are zero.

    Raises LayoutError on unknown fields; values are truncated or zero-extended to their field.
    """
    for name in values:
        record.field_named(name)
    fields = []
    for field in reversed(record.fields):
        value = values.get(field.name, 0)
        if isinstance(value, int):
            value = Const(value, field.width)
        value = Value.cast(value)
        fields.append(Cat(value[: field.width], Const(0, max(0, field.width - len(value)))))
    return bytes_swapped(Cat(*fields))


def unpack_wire(record: Record, travelled: Value) -> dict[str, Value]:
    """Fields of a big-endian record from its bytes as they travelled, first byte in bits 0 to 7."""
    if len(travelled) != 8 * record.size:
        raise ValueError(f"{record.name} has {8 * record.size} bits, got {len(travelled)}")
    word = bytes_swapped(travelled)
    return {
        field.name: word[record.bit_offset(field.name) : record.bit_offset(field.name) + field.width]
        for field in record.fields
    }
