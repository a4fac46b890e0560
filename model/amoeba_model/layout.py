"""How every binary layout of Amoeba is declared: once, in plain Python.

A :class:`Record` is a fixed-size structure (descriptor, completion, wire header, trace event); a
:class:`RegisterBlock` is a piece of the BAR. Adapters turn them into NumPy dtypes, C headers, Markdown pages
and Wireshark dissectors (:mod:`amoeba_model.generate`) and into Amaranth layouts (:mod:`amoeba_hw.layout`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum
from typing import Any, Literal

import numpy as np

__all__ = ["Access", "Field", "LayoutError", "Record", "Register", "RegisterBlock"]


class LayoutError(ValueError):
    """A layout was declared or used inconsistently."""


@dataclass(frozen=True)
class Field:
    """One field: ``width`` in bits; ``enum`` names its values, for people and for generated files."""

    name: str
    width: int
    doc: str
    enum: type[IntEnum] | type[IntFlag] | None = None


@dataclass(frozen=True)
class Record:
    """A structure of fields without gaps.

    ``order="little"``: the first field holds the least significant bits of the little-endian integer that the
    bytes form (host memory). ``order="big"``: the first field holds the most significant bits of the
    big-endian integer (network headers, as RFCs draw them).

    ``size`` is stated in bytes, and checked against the fields: reserved bits are fields, too.
    """

    name: str
    size: int
    fields: tuple[Field, ...]
    doc: str
    order: Literal["little", "big"] = "little"
    _shifts: dict[str, tuple[int, int]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        bits = sum(f.width for f in self.fields)
        if bits != 8 * self.size:
            raise LayoutError(f"{self.name} is declared as {self.size} bytes, but its fields have {bits} bits")
        position = 0
        for f in self.fields:
            if f.name in self._shifts:
                raise LayoutError(f"{self.name} declares the field {f.name!r} twice")
            shift = position if self.order == "little" else bits - position - f.width
            self._shifts[f.name] = (shift, (1 << f.width) - 1)
            position += f.width

    def bit_offset(self, name: str) -> int:
        """Position of a field's least significant bit in the record's integer (see ``order``)."""
        return self._shifts[name][0]

    def field_named(self, name: str) -> Field:
        for f in self.fields:
            if f.name == name:
                return f
        raise LayoutError(f"{self.name} has no field {name!r}; it has {', '.join(self._shifts)}")

    def pack(self, **values: int) -> bytes:
        """Bytes of the record; fields not named are zero. Raises LayoutError on unknown fields or overflow."""
        word = 0
        for name, value in values.items():
            try:
                shift, mask = self._shifts[name]
            except KeyError:
                self.field_named(name)
                raise
            if not 0 <= value <= mask:
                raise LayoutError(f"{self.name}.{name} holds {mask.bit_length()} bits, which {value:#x} does not fit")
            word |= int(value) << shift
        return word.to_bytes(self.size, self.order)

    def unpack(self, data: bytes | memoryview) -> dict[str, int]:
        """Values of all fields from the first ``size`` bytes. Raises LayoutError if there are fewer."""
        if len(data) < self.size:
            raise LayoutError(f"{self.name} needs {self.size} bytes, got {len(data)}")
        word = int.from_bytes(data[: self.size], self.order)
        return {name: (word >> shift) & mask for name, (shift, mask) in self._shifts.items()}

    def dtype(self) -> np.dtype[Any]:
        """NumPy structured dtype of a little-endian record whose fields are naturally aligned integers."""
        if self.order != "little":
            raise LayoutError(f"{self.name} is big-endian; only host-memory records have a dtype")
        names, formats, offsets = [], [], []
        for f in self.fields:
            offset = self._shifts[f.name][0]
            if f.width not in (8, 16, 32, 64) or offset % f.width:
                raise LayoutError(f"{self.name}.{f.name} ({f.width} bits at bit {offset}) is not naturally aligned")
            names.append(f.name)
            formats.append(f"<u{f.width // 8}")
            offsets.append(offset // 8)
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size})


class Access(StrEnum):
    """Accesses of software to a register."""

    R = "r"
    """Read: the hardware's value."""
    RW = "rw"
    """Read and write: storage, reset to the declared value."""
    W = "w"
    """Write: an event for the hardware; reads as zero."""


@dataclass(frozen=True)
class Register:
    """One 32-bit register, or an array of ``count`` registers ``stride`` bytes apart.

    ``offset`` is in bytes from the start of the block. Fields are optional: without them the register is one
    number. Bits below ``multiple_of``, a power of two, stay zero whatever is written.
    """

    name: str
    offset: int
    access: Access
    doc: str
    reset: int = 0
    count: int = 1
    stride: int = 4
    fields: tuple[Field, ...] = ()
    multiple_of: int = 1

    def kept(self, value: int) -> int:
        """Return what the register holds once ``value`` is written."""
        return value & -self.multiple_of

    def address(self, index: int = 0) -> int:
        """Byte offset in the block of element ``index``. Raises LayoutError outside the array."""
        if not 0 <= index < self.count:
            raise LayoutError(f"{self.name} has {self.count} elements, index {index} is outside")
        return self.offset + index * self.stride


HEADER_LENGTH = 16


@dataclass(frozen=True)
class RegisterBlock:
    """A self-describing part of the BAR: four header registers (type, version, length, next), then its own.

    ``length`` is in bytes. ``kind`` is the 32-bit type number that drivers look for.
    """

    name: str
    kind: int
    version: int
    length: int
    registers: tuple[Register, ...]
    doc: str

    def __post_init__(self) -> None:
        taken: dict[int, str] = dict.fromkeys(range(0, HEADER_LENGTH, 4), "header")
        for register in self.registers:
            for index in range(register.count):
                address = register.address(index)
                if address % 4 or address >= self.length:
                    raise LayoutError(f"{self.name}.{register.name}[{index}] at {address:#x} is unaligned or outside")
                if address in taken:
                    raise LayoutError(f"{self.name}.{register.name}[{index}] collides with {taken[address]}")
                taken[address] = register.name

    def __getitem__(self, name: str) -> Register:
        for register in self.registers:
            if register.name == name:
                return register
        raise LayoutError(f"block {self.name} has no register {name!r}")

    def header(self, following: int) -> Mapping[int, int]:
        """Values of the header registers by offset; ``following`` is the BAR offset of the next block, or 0."""
        return {0: self.kind, 4: self.version, 8: self.length, 12: following}
