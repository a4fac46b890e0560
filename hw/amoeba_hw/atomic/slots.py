"""Where the floating-point units of a beat sit."""

from dataclasses import dataclass

from amoeba_model.atomic.formats import FloatFormat, float_format, is_float

__all__ = ["SLOT_BITS", "Slot", "slots_of"]

SLOT_BITS = 16
"""A unit per 16 bits of a beat, as wide as the widest number that begins there. Two 8-bit numbers share one."""


@dataclass(frozen=True)
class Slot:
    """One floating-point unit: it takes numbers that begin at bit ``first`` of a beat, in these formats."""

    index: int
    formats: tuple[FloatFormat, ...]

    @property
    def first(self) -> int:
        """Position of the lowest bit of its numbers."""
        return SLOT_BITS * self.index

    @property
    def width(self) -> int:
        """Bits of its widest number."""
        return max(float_format.width for float_format in self.formats)


def slots_of(data_width, datatypes) -> list[Slot]:
    """List the units that a beat of ``data_width`` bits needs for the floating-point ones of the datatypes."""
    formats = {float_format(datatype).name: float_format(datatype) for datatype in datatypes if is_float(datatype)}
    slots = []
    for index in range(data_width // SLOT_BITS):
        begins = tuple(f for f in formats.values() if index % max(f.storage_bytes * 8 // SLOT_BITS, 1) == 0)
        if begins:
            slots.append(Slot(index, begins))
    return slots
