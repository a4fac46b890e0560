"""Byte order of atomics: operands and results are little-endian in host memory, and in network order on the wire."""

from amoeba_model.atomic.formats import is_complex
from amoeba_model.opcodes import Datatype

__all__ = ["NUMBER_SIZES", "number_size", "swap_bytes"]


def number_size(datatype: Datatype) -> int:
    """Return the bytes of a number: an element, or the real or imaginary part of a complex one."""
    return datatype.size // 2 if is_complex(datatype) else datatype.size


NUMBER_SIZES = tuple(number_size(datatype) for datatype in Datatype)
""":func:`number_size` of every datatype, by libfabric's number."""


def swap_bytes(data: bytes, size: int) -> bytes:
    """Reverse the bytes of each number of ``size`` bytes, of which ``data`` holds a whole number."""
    if size == 1:
        return data
    if len(data) == size:
        return data[::-1]
    swapped = bytearray(len(data))
    for place in range(size):
        swapped[place::size] = data[size - 1 - place :: size]
    return bytes(swapped)
