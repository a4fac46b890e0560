"""Conversion of C's arguments to Python's form."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from amoeba.core.buffers import Buffer, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error
from amoeba.libfabric.objects.checks import check_number, check_timeout
from amoeba.libfabric.objects.operations.vectors import Descs

__all__ = ["first_bytes", "first_descs", "first_of", "no_flags", "seconds"]

T = TypeVar("T")


def first_bytes(buf: Buffer, length: int, name: str = "buf") -> Buffer:
    """Return the first ``length`` bytes of a buffer, in place; None is empty. Raises FI_EINVAL if it is shorter."""
    view = view_of(bytearray() if buf is None else buf, name=name)
    length = length if type(length) is int else check_number("len", length)
    if not 0 <= length <= view.nbytes:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected {length} bytes, the buffer has {view.nbytes}")
    return np.frombuffer(view, np.uint8)[:length] if length else bytearray()


def first_of(items: Sequence[T] | None, count: int, name: str) -> Sequence[T]:
    """Return the first ``count`` entries of an array; None has none. Raises FI_EINVAL for a shorter array."""
    items = () if items is None else items
    if isinstance(items, bytes | bytearray | memoryview | str) or not isinstance(items, Sequence | np.ndarray):
        raise type_error(name, "a sequence", items)
    count = count if type(count) is int else check_number("count", count)
    if not 0 <= count <= len(items):
        raise fabric_error(Errno.FI_EINVAL, f"expected {count} entries, {name} has {len(items)}")
    return items[:count]


def first_descs(desc: Descs, count: int) -> Descs:
    """Return the regions of the first ``count`` buffers; None if no buffer is registered."""
    return None if desc is None else first_of(desc, count, "desc")


def no_flags(flags: int, what: str) -> None:
    """Raise FI_EBADFLAGS for any flags, which are reserved."""
    if not isinstance(flags, int):
        raise type_error("flags", "0", flags)
    if flags:
        raise fabric_error(Errno.FI_EBADFLAGS, f"{what} has no flags, got {flags:#x}")


def seconds(timeout: int) -> float | None:
    """Convert a timeout in milliseconds to seconds; negative: None. Raises FI_EINVAL for NaN and non-numbers."""
    if isinstance(timeout, int | float) and timeout < 0:
        return None
    limit = check_timeout(timeout)
    return None if limit is None else limit / 1000
