"""Application buffers as the NIC needs them: address and length, without copying."""

import itertools
import mmap
from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from amoeba_model.opcodes import Datatype

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["Buffer", "Segment", "address_of", "allocate", "cut", "datatype_of", "view_of"]

Buffer: TypeAlias = Any
"""Any object with the buffer protocol (``collections.abc.Buffer`` from Python 3.12 on)."""

_DATATYPES = {
    np.dtype(kind): datatype
    for kind, datatype in (
        ("<i1", Datatype.FI_INT8),
        ("<u1", Datatype.FI_UINT8),
        ("<i2", Datatype.FI_INT16),
        ("<u2", Datatype.FI_UINT16),
        ("<i4", Datatype.FI_INT32),
        ("<u4", Datatype.FI_UINT32),
        ("<i8", Datatype.FI_INT64),
        ("<u8", Datatype.FI_UINT64),
        ("<f2", Datatype.FI_FLOAT16),
        ("<f4", Datatype.FI_FLOAT),
        ("<f8", Datatype.FI_DOUBLE),
        ("<c8", Datatype.FI_FLOAT_COMPLEX),
        ("<c16", Datatype.FI_DOUBLE_COMPLEX),
        ("g", Datatype.FI_LONG_DOUBLE),
        ("G", Datatype.FI_LONG_DOUBLE_COMPLEX),
    )
    if np.dtype(kind).itemsize == datatype.size  # long double is what libfabric means on x86-64 only
}


def datatype_of(buffer: Buffer) -> Datatype:
    """The datatype of a NumPy array or scalar. Raises FI_EINVAL for buffers that do not say, as bytes."""
    try:
        return _DATATYPES[buffer.dtype]
    except (AttributeError, KeyError):
        raise fabric_error(
            Errno.FI_EINVAL, f"give datatype=: {type(buffer).__name__} does not name one that libfabric has"
        ) from None


def view_of(buffer: Buffer, *, writable: bool = False) -> memoryview:
    """A view of all bytes of ``buffer``. Raises FI_EINVAL if it is no contiguous (or writable) buffer."""
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError) as error:
        raise fabric_error(Errno.FI_EINVAL, f"expected a buffer, got {type(buffer).__name__}: {error}") from None
    if not view.c_contiguous:
        raise fabric_error(Errno.FI_EINVAL, "expected a contiguous buffer, got one with gaps")
    if writable and view.readonly:
        raise fabric_error(Errno.FI_EINVAL, "expected a writable buffer, got a read-only one")
    return view


def address_of(view: memoryview) -> int:
    """Virtual address of the first byte; 0 for an empty buffer."""
    if not view.nbytes:
        return 0
    if view.readonly:
        return np.frombuffer(view, np.uint8).ctypes.data
    return addressof(c_char.from_buffer(view))


def allocate(size: int) -> memoryview:
    """Zeroed, page-aligned memory in whole pages, at least ``size`` bytes: this process' own, also after a fork."""
    return memoryview(mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.MAP_PRIVATE))


class Segment(NamedTuple):
    """Consecutive bytes of local or remote memory."""

    address: int
    length: int
    key: int = 0


def cut(vectors: Sequence[Sequence[Segment]]) -> list[tuple[Segment, ...]]:
    """Cut vectors of the same total length wherever a segment of one of them ends.

    Returns the pieces: of each as many segments of one length as there are vectors. Of nothing that is one piece, of
    no bytes.
    """
    ends = sorted({end for vector in vectors for end in itertools.accumulate(segment.length for segment in vector)})
    if not ends or not ends[-1]:
        return [tuple(vector[0]._replace(length=0) if vector else Segment(0, 0) for vector in vectors)]
    ends = ends[1:] if not ends[0] else ends
    return list(zip(*(_pieces(vector, ends) for vector in vectors), strict=True))


def _pieces(vector: Sequence[Segment], ends: Sequence[int]) -> Iterator[Segment]:
    """The segments of one vector, cut at ``ends``, which are those of its segments and others."""
    rest = iter(segment for segment in vector if segment.length)
    address = length = key = begin = 0
    for end in ends:
        if not length:
            address, length, key = next(rest)
        yield Segment(address, end - begin, key)
        address, length, begin = address + end - begin, length - (end - begin), end
