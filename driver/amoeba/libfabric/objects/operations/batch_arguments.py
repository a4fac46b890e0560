"""Arguments of batches: arrays with a number, or a row of bytes, for every operation.

All of them are checked for the whole batch before anything is posted; an error says which operation it is about.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from amoeba_model.descriptors import DescriptorOpcode

from amoeba.core.buffers import Buffer, address_of, check_datatype, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error
from amoeba.core.operands import operand_of
from amoeba.libfabric.objects.checks import check_number
from amoeba.libfabric.objects.constants import Datatype, MrAccess, Op
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.local_buffers import check_region, check_unregistered
from amoeba.transport.batches import BATCH_STATUS, Numbers
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.requests import Grant

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = [
    "BatchCall",
    "Rows",
    "check_report",
    "common_count",
    "count_of",
    "numbers_of",
    "places_of",
    "results_of",
    "sources_of",
]

_U64 = 2**64 - 1
_NUMBERS = (int, float, complex, np.number)
_READ = int(MrAccess.FI_READ)
_WRITE = int(MrAccess.FI_WRITE)


@dataclass(slots=True)
class BatchCall:
    """The arguments of a batch, as :class:`amoeba.Endpoint` says what they are, and what the batch does.

    ``buf`` is None for what only reads, whose memory is ``result``; ``op`` and ``datatype`` are None for RMA.
    """

    opcode: DescriptorOpcode
    dest_addr: Any
    addr: Any
    key: Any
    index: Any = None
    op: Op | None = None
    datatype: Datatype | None = None
    buf: Buffer | None = None
    compare: Buffer | None = None
    result: Buffer | None = None
    desc: MemoryRegion | None = None
    result_desc: MemoryRegion | None = None
    report: npt.NDArray[Any] | None = None
    """Where to say what became of each operation: ``status`` of the calls."""

    @property
    def reads_only(self) -> bool:
        """Whether it fetches without operands."""
        return self.op is Op.FI_ATOMIC_READ and self.opcode == DescriptorOpcode.FETCH_ATOMIC


class Rows:
    """Local memory of a batch: a row of ``size`` bytes for each operation, or one for all.

    ``keep``: what must stay until the batch is over. ``grants``: device access that it takes.
    """

    __slots__ = ("count", "grants", "keep", "local", "size")

    def __init__(
        self, local: Numbers, size: int, count: int | None, keep: Any = None, grants: tuple[Grant, ...] = ()
    ) -> None:
        self.local = local
        """The descriptors' field for this memory: addresses, or the bytes themselves."""
        self.size = size
        self.count = count
        """Operations that there are rows for; None: one row for as many as there are."""
        self.keep = keep
        self.grants = grants


def numbers_of(name: str, value: Any) -> Numbers:
    """Numbers of 64 bits: one for all operations, or a one-dimensional array with one for each.

    Raises ArgumentTypeError for what is no integer, FI_EINVAL for what is negative, or has more bits.
    """
    if not isinstance(value, np.ndarray | list | tuple | range):
        return check_number(name, value)
    if not isinstance(value, np.ndarray):  # NumPy would take booleans, and make floating point of large numbers
        return np.array([check_number(f"{name}[{index}]", each) for index, each in enumerate(value)], np.uint64)
    if value.dtype.kind not in "iu":
        raise type_error(name, "an integer, or an array of integers", value)
    if value.ndim != 1:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected one dimension, got an array of shape {value.shape}")
    if value.dtype.kind == "i" and value.size and value.min() < 0:
        first = int(np.argmax(value < 0))
        raise fabric_error(Errno.FI_EINVAL, f"{name}[{first}]: expected 0 or more, got {int(value[first])}")
    return value.astype(np.uint64, copy=False)


def places_of(addr: Any, index: Any, size: int) -> Numbers:
    """Remote addresses: ``addr``, or ``index`` rows of ``size`` bytes behind it. Raises FI_EINVAL."""
    base = numbers_of("addr", addr)
    if index is None:
        return base
    rows = numbers_of("index", index)
    if isinstance(rows, int):
        rows = np.array([rows], np.uint64) if isinstance(base, int) else np.full(len(base), rows, np.uint64)
        if isinstance(base, int):
            return int(_places(np.array([base], np.uint64), rows, size)[0])
    if not isinstance(base, int) and len(base) != len(rows):
        raise fabric_error(Errno.FI_EINVAL, f"addr has {len(base)} numbers, index has {len(rows)}")
    return _places(base, rows, size)


def _places(base: Numbers, rows: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    highest = base if isinstance(base, int) else int(base.max(initial=0))
    if highest + int(rows.max(initial=0)) * size > _U64:
        bases = np.broadcast_to(np.asarray(base, np.uint64), rows.shape).tolist()
        for first, (start, row) in enumerate(zip(bases, rows.tolist(), strict=True)):
            if start + row * size > _U64:
                raise fabric_error(Errno.FI_EINVAL, f"operation {first}: index {row} is beyond all addresses")
    places: npt.NDArray[Any] = rows * np.uint64(size) + (np.uint64(base) if isinstance(base, int) else base)
    return places


def sources_of(
    domain: "DomainBase",
    name: str,
    buf: Buffer,
    datatype: Datatype | None,
    desc: MemoryRegion | None,
    *,
    copied: bool,
    size: int | None = None,
) -> Rows:
    """Operands or data: a row for each operation along the first axis, or only one, for all of them.

    ``datatype``: what they are to be, None: anything. ``copied``: they may be changed at once. ``size``: bytes that a
    row must have. Raises FI_EINVAL and FI_EACCES, ArgumentTypeError for what is no buffer, and no number either.
    """
    if datatype is not None and isinstance(buf, _NUMBERS):
        view, _ = operand_of(buf, datatype, name)
        array = np.frombuffer(view, np.uint8).reshape(1, -1)
    else:
        array = _array_of(name, buf, datatype)
    rows = array.shape[0] if array.ndim else 1
    count = None if rows == 1 else rows
    length = array.nbytes // rows if rows else array.itemsize
    _check_size(name, length, size)
    if desc is not None:
        view = view_of(array, name=name)
        check_region(domain, desc, address_of(view), view.nbytes, _WRITE)
    if length <= INLINE_SIZE:
        return Rows(_inline(array, rows, length), length, count)
    if copied or not array.flags.c_contiguous:
        array, desc = array.copy(order="C"), None
    elif desc is None:
        check_unregistered(domain, name)
    start = array.ctypes.data
    local = start if count is None else np.uint64(start) + np.arange(rows, dtype=np.uint64) * np.uint64(length)
    grants = ((start, array.nbytes, False),) if desc is None else ()
    return Rows(local, length, count, (array, desc), grants)


def results_of(
    domain: "DomainBase",
    name: str,
    buf: Buffer,
    datatype: Datatype | None,
    desc: MemoryRegion | None,
    size: int | None = None,
) -> Rows:
    """Memory that is written: a row for each operation. Raises FI_EINVAL and FI_EACCES, and ArgumentTypeError."""
    array = _array_of(name, buf, datatype)
    view = view_of(buf, writable=True, name=name)
    rows = array.shape[0] if array.ndim else 1
    length = view.nbytes // rows if rows else array.itemsize
    _check_size(name, length, size)
    start = address_of(view)
    if desc is not None:
        check_region(domain, desc, start, view.nbytes, _READ)
    elif view.nbytes:
        check_unregistered(domain, name)
    local = start if rows == 1 else np.uint64(start) + np.arange(rows, dtype=np.uint64) * np.uint64(length)
    grants = ((start, view.nbytes, True),) if desc is None and view.nbytes else ()
    return Rows(local, length, rows, (view, desc), grants)


def _array_of(name: str, buf: Buffer, datatype: Datatype | None) -> npt.NDArray[Any]:
    """Return a buffer as an array, in place. Raises ArgumentTypeError, and FI_EINVAL if it has another datatype."""
    if datatype is not None:
        check_datatype(buf, datatype, name)
    if not isinstance(buf, np.ndarray | np.generic):
        return np.asarray(view_of(buf, name=name))
    array = np.asarray(buf)
    if array.dtype.hasobject:
        raise type_error(name, "a buffer of numbers or bytes, not of references", buf)
    return array


def _check_size(name: str, length: int, size: int | None) -> None:
    if not length:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected rows of one byte at least, got empty ones")
    if size is not None and length != size:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected rows of {size} bytes, got {length} bytes each")


def _inline(array: npt.NDArray[Any], rows: int, length: int) -> Numbers:
    """Rows of at most 8 bytes as the little-endian numbers that they are in a descriptor."""
    if length in (1, 2, 4, 8):
        numbers = np.ascontiguousarray(array).reshape(-1).view(f"<u{length}")
    else:
        padded = np.zeros((rows, INLINE_SIZE), np.uint8)
        padded[:, :length] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(rows, length)
        numbers = padded.reshape(-1).view("<u8")
    # a copy, as the memory may be changed at once
    return int(numbers[0]) if rows == 1 else numbers.astype(np.uint64)


def count_of(value: Any) -> int | None:
    """Operations that an argument speaks of; None: of any number."""
    return None if isinstance(value, int) else len(value)


def common_count(counts: dict[str, int | None]) -> int:
    """Operations of a batch, on which all arguments must agree. Raises FI_EINVAL."""
    known = {name: count for name, count in counts.items() if count is not None}
    if len(set(known.values())) > 1:
        said = ", ".join(f"{name} for {count}" for name, count in known.items())
        raise fabric_error(Errno.FI_EINVAL, f"arguments are for different numbers of operations: {said}")
    return next(iter(known.values()), 1)


def check_report(report: Any, count: int) -> None:
    """Raise FI_EINVAL unless ``report`` can store the results of ``count`` operations."""
    fits = isinstance(report, np.ndarray) and report.dtype == BATCH_STATUS and report.shape == (count,)
    if not fits or not report.flags.writeable:
        raise fabric_error(
            Errno.FI_EINVAL, f"status: expected a writable array of {count} BATCH_STATUS, got {report!r}"
        )
