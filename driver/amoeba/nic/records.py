"""Records in host memory that the driver and the NIC exchange."""

import struct

from amoeba_model.layout import Record

__all__ = ["MAX_MESSAGE", "record_struct"]

MAX_MESSAGE = 1 << 30
"""Maximum bytes of one descriptor, and so of one operation."""


def record_struct(record: Record, *names: str) -> struct.Struct:
    """Return the :mod:`struct` format of a host-memory record; packing it is several times faster than with NumPy.

    ``names``: the wanted fields, by default all; the format skips the others.
    """
    record.dtype()  # insists on naturally aligned integers, so that "<" places every field where it belongs
    letters = {8: "B", 16: "H", 32: "I", 64: "Q"}
    return struct.Struct(
        "<"
        + "".join(
            letters[field.width] if not names or field.name in names else f"{field.width // 8}x"
            for field in record.fields
        )
    )
