"""Records in host memory that the driver and the NIC hand each other."""

import struct

from amoeba_model.layout import Record

__all__ = ["MAX_MESSAGE", "record_struct"]

MAX_MESSAGE = 1 << 30
"""Most bytes of one descriptor, and so of one operation."""


def record_struct(record: Record) -> struct.Struct:
    """The :mod:`struct` format of a host-memory record; packing one is several times faster than NumPy's way."""
    record.dtype()  # insists on naturally aligned integers, so that "<" places every field where it belongs
    return struct.Struct("<" + "".join({8: "B", 16: "H", 32: "I", 64: "Q"}[field.width] for field in record.fields))
