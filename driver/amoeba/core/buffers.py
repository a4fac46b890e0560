"""Application buffers as the NIC needs them: address and length, without copying."""

import array
import contextlib
import itertools
import mmap
import re
from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from amoeba_model.opcodes import Datatype

from amoeba.core.errno import Errno
from amoeba.core.errors import ArgumentTypeError, fabric_error, type_error

__all__ = [
    "DATATYPES",
    "Buffer",
    "Segment",
    "address_of",
    "allocate",
    "check_datatype",
    "cut",
    "datatype_of",
    "line_aligned",
    "named_by",
    "vector_datatype",
    "view_of",
]

Buffer: TypeAlias = Any
"""Any object with the buffer protocol (``collections.abc.Buffer`` from Python 3.12 on)."""

DATATYPES = {
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
"""Datatypes by NumPy's own dtypes: the fast path of :func:`named_by`."""
_EXTENSIONS = {
    "bfloat16": Datatype.FI_BFLOAT16,
    "float8_e4m3fn": Datatype.FI_FLOAT8_E4M3,
    "float8_e5m2": Datatype.FI_FLOAT8_E5M2,
}
"""Datatypes by the names that ml_dtypes gives its dtypes; ml_dtypes need not be installed."""
_HUGE_PAGE = 2 << 20
_LINE = 64
"""Bytes of the longest line that a NIC reads at a time."""
_KINDS = dict.fromkeys("bhilqn", "i") | dict.fromkeys("BHILQN", "u") | dict.fromkeys("efdg", "f")
_KINDS |= dict.fromkeys(("Zf", "Zd", "Zg"), "c")
"""NumPy's letter by the format of a view; the size follows the letter."""
_PLAIN = frozenset(f"{order}{kind}" for order in ("", "<", ">") for kind in (*_KINDS, "c", "?", "P"))
"""Formats without references: the formats of most views."""
_FIELD_NAMES = re.compile(r":[^:]*:")
_REFERENCES = re.compile(r"[O&zX]|Z(?![fdg])")
"""In a format: an object, a typed pointer, a character pointer or a function pointer."""


def named_by(buffer: Buffer, name: str = "buf") -> Datatype | None:
    """Return the datatype that a buffer names; None for plain bytes, which may hold any datatype.

    Plain bytes are bytes, bytearray, mmap, views of single bytes, structures and NumPy's void. Raises
    ArgumentTypeError for an unknown type, such as another byte order, booleans or text, and for an object that is
    no buffer.
    """
    dtype = getattr(buffer, "dtype", None)
    if isinstance(dtype, np.dtype):
        found = DATATYPES.get(dtype)
        if found is None:
            found = _EXTENSIONS.get(dtype.name)
        if found is None and (dtype.type is not np.void or dtype.hasobject):
            raise ArgumentTypeError(
                Errno.FI_EINVAL,
                f"{name}: expected a dtype that libfabric has, in this host's byte order, got {dtype!r}",
            )
        return found
    view = view_of(buffer, name=name)
    kind = view.format.removeprefix("@").removeprefix("=").removeprefix("<")
    if kind == "B" and view.format == kind and not isinstance(buffer, array.array):
        return None
    if kind == "c" or kind.endswith(("x", "}")):
        return None
    found = DATATYPES.get(np.dtype(f"{_KINDS[kind]}{view.itemsize}")) if kind in _KINDS else None
    if found is None:
        raise type_error(name, f"numbers that libfabric has, not of format {view.format!r}", buffer)
    return found


def datatype_of(buffer: Buffer, name: str = "buf") -> Datatype:
    """Return the datatype that a buffer names. Raises FI_EINVAL for a buffer without a datatype, such as bytes."""
    try:
        return DATATYPES[buffer.dtype]
    except (AttributeError, KeyError, TypeError):
        found = named_by(buffer, name)
    if found is None:
        raise fabric_error(
            Errno.FI_EINVAL, f"{name}: expected a buffer that names its datatype, or datatype=, "
            f"got {type(buffer).__name__} without"
        )  # fmt: skip
    return found


def vector_datatype(buffers: Sequence[Buffer], name: str = "iov") -> Datatype:
    """Return the datatype of a vector: that of the first buffer with one.

    Raises FI_EINVAL if no buffer names a datatype, and as :func:`check_datatype` for the buffers that follow.
    """
    names = (named_by(buffer, f"{name}[{index}]") for index, buffer in enumerate(buffers))
    datatype = next((named for named in names if named is not None), None)
    if datatype is None:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected a buffer that names its datatype, or datatype=")
    for index, buffer in enumerate(buffers):
        check_datatype(buffer, datatype, f"{name}[{index}]")
    return datatype


def check_datatype(buffer: Buffer, datatype: int, name: str = "buf") -> None:
    """Raise FI_EINVAL if a buffer names another datatype. Plain bytes and uint8 may hold any datatype."""
    try:
        found: Datatype | None = DATATYPES[buffer.dtype]
    except (AttributeError, KeyError, TypeError):
        found = named_by(buffer, name)
    if found != datatype and found is not None and found is not Datatype.FI_UINT8:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected {Datatype(datatype).name}, got {found.name}")


def view_of(buffer: Buffer, *, writable: bool = False, name: str = "buf") -> memoryview:
    """Return a view of all bytes of ``buffer``, in place.

    Raises FI_EINVAL for a buffer with gaps, and for a read-only one if ``writable``. Raises ArgumentTypeError, also
    FI_EINVAL, for an object that is no buffer. A buffer of references raises it as well: peers would read or
    overwrite the references.
    """
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError) as error:
        view = _bytes_of(buffer, name, error)
    if view.format not in _PLAIN:
        _check_format(view, buffer, name)
    if not view.c_contiguous:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected a contiguous buffer, got one with gaps")
    if writable and view.readonly:
        raise fabric_error(
            Errno.FI_EINVAL, f"{name}: expected a writable buffer, got a read-only {type(buffer).__name__}"
        )
    return view


def _bytes_of(buffer: Buffer, name: str, error: Exception) -> memoryview:
    """Return a view of an array or scalar whose dtype has no buffer protocol format, such as those of ml_dtypes."""
    if not isinstance(buffer, np.ndarray | np.generic) or buffer.dtype.hasobject:
        raise type_error(name, "a buffer", buffer) from error
    array_of = np.asarray(buffer)
    if not array_of.flags.c_contiguous:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected a contiguous buffer, got one with gaps") from None
    return array_of.reshape(-1).view(np.uint8).data


def _check_format(view: memoryview, buffer: Buffer, name: str) -> None:
    """Raise ArgumentTypeError if a view holds references, or structures with references."""
    dtype = getattr(view.obj, "dtype", None)
    if isinstance(dtype, np.dtype):
        refers = dtype.hasobject
    else:
        refers = _REFERENCES.search(_FIELD_NAMES.sub("", view.format)) is not None
    if refers:
        raise type_error(name, "a buffer of numbers or bytes, not of references", buffer)


def address_of(view: memoryview) -> int:
    """Return the virtual address of the first byte; 0 for an empty buffer."""
    if not view.nbytes:
        return 0
    if view.readonly:
        return np.frombuffer(view, np.uint8).ctypes.data
    return addressof(c_char.from_buffer(view))


def allocate(size: int) -> memoryview:
    """Return zeroed, page-aligned memory in whole pages, at least ``size`` bytes, private also after a fork.

    From 2 MiB on, the memory begins at a multiple of 2 MiB and may consist of huge pages, which a device maps faster.
    """
    size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    if size < _HUGE_PAGE:
        return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE))
    memory = mmap.mmap(-1, size + _HUGE_PAGE, mmap.MAP_PRIVATE)
    with contextlib.suppress(OSError):  # kernels without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(memory)
    start = -address_of(view) % _HUGE_PAGE
    return view[start : start + size]


def line_aligned(size: int) -> memoryview:
    """Return ``size`` zeroed bytes for a copy that the NIC reads or writes: they begin with a line of host memory.

    So an operation on them takes as many cycles in every run, wherever Python's heap has space.
    """
    view = memoryview(bytearray(size + _LINE - 1))
    start = -address_of(view) % _LINE
    return view[start : start + size]


class Segment(NamedTuple):
    """Consecutive bytes of local or remote memory."""

    address: int
    length: int
    key: int = 0


def cut(vectors: Sequence[Sequence[Segment]]) -> list[tuple[Segment, ...]]:
    """Cut vectors of the same total length wherever a segment of one of them ends.

    Returns the pieces: each has one segment per vector, all of the same length. Empty vectors give one piece of no
    bytes.
    """
    ends = sorted({end for vector in vectors for end in itertools.accumulate(segment.length for segment in vector)})
    if not ends or not ends[-1]:
        return [tuple(vector[0]._replace(length=0) if vector else Segment(0, 0) for vector in vectors)]
    ends = ends[1:] if not ends[0] else ends
    return list(zip(*(_pieces(vector, ends) for vector in vectors), strict=True))


def _pieces(vector: Sequence[Segment], ends: Sequence[int]) -> Iterator[Segment]:
    """Yield the segments of one vector, cut at ``ends``, which include the ends of the vector's own segments."""
    rest = iter(segment for segment in vector if segment.length)
    address = length = key = begin = 0
    for end in ends:
        if not length:
            address, length, key = next(rest)
        yield Segment(address, end - begin, key)
        address, length, begin = address + end - begin, length - (end - begin), end
