"""Datatypes: the meaning of (buffer, count, datatype) in bytes.

A datatype is a number, as in C: its lowest three bits are its class (:class:`ucp_dt_type`). Contiguous elements have
their size above the class. The buffer of IOV is a list of ``count`` :class:`ucp_dt_iov_t`. A generic datatype has the
number under which :func:`ucp_dt_create_generic` has filed the application's functions.

:func:`source` and :func:`destination` make a :class:`Layout` of the three. It has ``view``, all bytes in place, if
they are in one piece; ``views``, if they are in several; and ``read``, ``write`` for any, in chunks. Its maker calls
``finish`` at its end, on whatever path: ``finish`` of a generic datatype is called exactly once.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy import ndarray

from amoeba.core.buffers import DATATYPES, Buffer, line_aligned, view_of
from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.constants import ucp_dt_type
from amoeba.openucx.ucp.handles import ucp_datatype_t
from amoeba.openucx.ucp.kinds import SIZE, unsigned
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, status_of, wrong_type

__all__ = [
    "ucp_dt_create_generic",
    "ucp_dt_destroy",
    "ucp_dt_iov_t",
    "ucp_dt_make_contig",
    "ucp_dt_make_iov",
    "ucp_generic_dt_ops_t",
]

_SHIFT = int(ucp_dt_type.UCP_DATATYPE_SHIFT)
_CLASS = int(ucp_dt_type.UCP_DATATYPE_CLASS_MASK)
_CONTIG = int(ucp_dt_type.UCP_DATATYPE_CONTIG)
_IOV = int(ucp_dt_type.UCP_DATATYPE_IOV)
_GENERIC = int(ucp_dt_type.UCP_DATATYPE_GENERIC)
_ELEMENT_SIZE = unsigned(64 - _SHIFT)
_DATATYPE = unsigned(64)
_EMPTY = memoryview(b"")
_PLAIN_BYTES = (bytes, bytearray)
_ITEM_SIZES = {dtype: dtype.itemsize for dtype in DATATYPES}
_number = int.from_bytes
_view: Callable[[Any], memoryview] = memoryview

BYTES: ucp_datatype_t = 1 << _SHIFT
"""The datatype of operations that name none."""


@dataclass
class ucp_dt_iov_t:
    """One piece of scattered memory. Without ``length`` it is the whole buffer; with 0 no buffer is needed."""

    buffer: Buffer | None = None
    length: int | None = None
    """Bytes."""


@dataclass(kw_only=True)
class ucp_generic_dt_ops_t:
    """Functions by which an application packs and unpacks its own datatype. All six are required.

    ``dest`` and ``src`` are valid in the call alone. Offsets begin at 0 and rise without gaps. ``unpack`` returns a
    status, or None for UCS_OK, or raises: the receive ends with that status, UCS_ERR_IO_ERROR for another exception.
    The driver asks for ``packed_size`` once, of either state; of a receive it is the maximum that fits.
    """

    start_pack: Callable[[Any, Any, int], Any] | None = None
    """``(context, buffer, count)``, returning the state that the others are given."""
    start_unpack: Callable[[Any, Any, int], Any] | None = None
    """``(context, buffer, count)``, returning the state."""
    packed_size: Callable[[Any], int] | None = None
    """``(state)``, returning bytes."""
    pack: Callable[[Any, int, memoryview, int], int] | None = None
    """``(state, offset, dest, max_length)``, returning how many bytes were written to ``dest``."""
    unpack: Callable[[Any, int, memoryview, int], int | None] | None = None
    """``(state, offset, src, length)``."""
    finish: Callable[[Any], None] | None = None
    """``(state)``: once for every state."""


class _Generic:
    """A generic datatype: all its functions, and their context."""

    def __init__(self, ops: ucp_generic_dt_ops_t, context: Any) -> None:
        self.ops: Any = ops
        self.context = context


_generics: dict[int, _Generic] = {}
_numbers = itertools.count(1)


def ucp_dt_make_contig(elem_size: int) -> ucp_datatype_t:
    """Return the datatype of consecutive elements of ``elem_size`` bytes (ucp.h, group DATATYPE)."""
    return int(_ELEMENT_SIZE("elem_size", elem_size)) << _SHIFT | _CONTIG


def ucp_dt_make_iov() -> ucp_datatype_t:
    """Return the datatype of a list of :class:`ucp_dt_iov_t` (ucp.h, group DATATYPE)."""
    return _IOV


def ucp_dt_create_generic(ops: ucp_generic_dt_ops_t, context: Any = None) -> ucp_datatype_t:
    """Make a datatype that the application packs and unpacks; ``context`` is given to its start functions.

    The datatype stays until :func:`ucp_dt_destroy`. Raises UCS_ERR_INVALID_PARAM if one of the functions is missing
    (ucp.h, group DATATYPE).
    """
    if not isinstance(ops, ucp_generic_dt_ops_t):
        raise wrong_type("ops", "a ucp_generic_dt_ops_t", ops)
    for each in fields(ops):
        if not callable(getattr(ops, each.name)):
            raise wrong_type(f"ops.{each.name}", "a function", getattr(ops, each.name))
    datatype = next(_numbers) << _SHIFT | _GENERIC
    _generics[datatype] = _Generic(replace(ops), context)
    return datatype


def ucp_dt_destroy(datatype: ucp_datatype_t) -> None:
    """Destroy a generic datatype; outstanding operations keep their part of it. Others stay as they are.

    Raises UCS_ERR_INVALID_PARAM for a generic datatype that does not exist (ucp.h, group DATATYPE).
    """
    number = _DATATYPE("datatype", datatype)
    if number & _CLASS == _GENERIC and _generics.pop(number, None) is None:
        raise invalid_param(f"datatype: {number:#x} is no generic datatype, or is destroyed")


def bytes_of(buffer: Buffer | None, length: int, *, writable: bool = False, name: str = "buffer") -> memoryview:
    """Return a view of the first ``length`` bytes of a buffer, in place. With length 0 the buffer does not matter.

    Raises UCS_ERR_INVALID_PARAM if the buffer is shorter, has gaps, is no buffer, or is read-only and to be written.
    """
    if not length:
        return _EMPTY
    if buffer is None:
        raise invalid_param(f"{name}: expected a buffer of {length} bytes, got None")
    try:
        view = view_of(buffer, writable=writable, name=name)
    except FabricError as error:
        raise invalid_param(str(error.strerror)) from error
    if view.nbytes < length:
        raise invalid_param(f"{name}: expected at least {length} bytes, got {view.nbytes}")
    if view.format != "B" or view.ndim != 1:
        try:
            view = view.cast("B")
        except (TypeError, ValueError):  # a format that views do not cast, or no bytes
            view = np.frombuffer(view, np.uint8).data
    return view if view.nbytes == length else view[:length]


def number_in(buffer: Buffer, size: int) -> int | None:
    """Return the number in a buffer of ``size`` bytes as most programs have it: in bytes, or in an array of one.

    Return None where the buffer needs the complete check.
    """
    if buffer.__class__ is not ndarray:
        plain = buffer.__class__ in _PLAIN_BYTES and len(buffer) == size
        return _number(buffer, "little") if plain else None
    if _ITEM_SIZES.get(buffer.dtype) != size:
        return None
    try:
        number: int = buffer.item()  # or a float
    except ValueError:  # several
        return None
    return number if number.__class__ is int and number >= 0 else _number(buffer, "little")


def place_of(buffer: Buffer, size: int) -> Any:
    """Return the ``size`` writable bytes of a buffer as most programs have them: a whole array, or a view of bytes.

    Return None where the buffer needs the complete check.
    """
    if buffer.__class__ is ndarray:
        plain = buffer.nbytes == size and buffer.dtype in DATATYPES and buffer.flags.carray
        return buffer if plain else None
    if buffer.__class__ is memoryview:
        if buffer.shape != (size,) or buffer.nbytes != size or not buffer.c_contiguous:
            return None
    elif buffer.__class__ is not bytearray or len(buffer) != size:
        return None
    view: memoryview = _view(buffer)
    return None if view.readonly else view


class Layout:
    """The bytes of an operation in local memory: in pieces, one behind the other."""

    __slots__ = ("length", "views")

    def __init__(self, views: tuple[memoryview, ...], length: int) -> None:
        self.views = views
        """All bytes in place, in pieces that are not empty; no pieces for a generic datatype."""
        self.length = length
        """Bytes in all."""

    @property
    def view(self) -> memoryview | None:
        """All bytes in place, if they are in one piece, as no bytes are."""
        if len(self.views) == 1:
            return self.views[0]
        return None if self.length else _EMPTY

    def packed(self) -> memoryview:
        """Return all bytes in one piece: in place if they are, else copied."""
        view = self.view
        if view is None:
            copy = line_aligned(self.length)
            self.read(0, copy)
            view = copy
        return view

    def read(self, offset: int, dest: memoryview) -> None:
        """Copy the bytes from ``offset`` on to ``dest``, as many as it has."""
        done = 0
        for piece in self._pieces(offset, dest.nbytes):
            dest[done : done + piece.nbytes] = piece
            done += piece.nbytes

    def write(self, offset: int, src: memoryview) -> UcsStatus:
        """Copy all bytes of ``src`` to ``offset``; always UCS_OK, but for a generic datatype."""
        done = 0
        for piece in self._pieces(offset, src.nbytes):
            piece[:] = src[done : done + piece.nbytes]
            done += piece.nbytes
        return UcsStatus.UCS_OK

    def finish(self) -> None:
        """End the operation. Idempotent."""

    def _pieces(self, offset: int, length: int) -> list[memoryview]:
        self._check(offset, length)
        pieces = []
        for view in self.views:
            if offset < view.nbytes and length:
                piece = view[offset : offset + length]
                pieces.append(piece)
                length -= piece.nbytes
            offset = max(offset - view.nbytes, 0)
        return pieces

    def _check(self, offset: int, length: int) -> None:
        if not 0 <= offset <= offset + length <= self.length:
            raise ValueError(f"expected a range within {self.length} bytes, got {length} from {offset} on")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finish()


class GenericLayout(Layout):
    """Bytes that an application packs or unpacks: never in place, and in chunks that follow each other."""

    __slots__ = ("_done", "_finished", "_ops", "_state", "error", "status")

    def __init__(self, datatype: _Generic, buffer: Any, count: int, *, writable: bool) -> None:
        super().__init__((), 0)
        self._ops = datatype.ops
        start = self._ops.start_unpack if writable else self._ops.start_pack
        self._state = start(datatype.context, buffer, count)
        self._finished = False
        self._done = 0
        self.status = UcsStatus.UCS_OK
        """Status of unpacking: the first error stays, and nothing is unpacked after it."""
        self.error: Exception | None = None
        """The exception of ``unpack``."""
        try:
            self.length = SIZE("packed_size()", self._ops.packed_size(self._state))
        except BaseException:
            self.finish()
            raise

    @property
    def view(self) -> memoryview | None:
        """None: only the application knows where the bytes are. An empty view of no bytes."""
        return None if self.length else _EMPTY

    def read(self, offset: int, dest: memoryview) -> None:
        """Pack the next bytes. Raises UCS_ERR_INVALID_PARAM if the application packs too much, or nothing."""
        self._follow(offset, dest.nbytes)
        done = 0
        while done < dest.nbytes:
            space = dest[done:]
            packed = self._ops.pack(self._state, self._done, space, space.nbytes)
            if not isinstance(packed, int) or not 0 < packed <= space.nbytes:
                raise invalid_param(f"pack(): expected 1 to {space.nbytes} bytes at {self._done}, got {packed!r}")
            done += packed
            self._done += packed

    def write(self, offset: int, src: memoryview) -> UcsStatus:
        """Unpack the next bytes; return the status of the first chunk that failed."""
        self._follow(offset, src.nbytes)
        self._done += src.nbytes
        if self.status == UcsStatus.UCS_OK and src.nbytes:
            self.status = self._unpack(offset, src.toreadonly())
        return self.status

    def _unpack(self, offset: int, src: memoryview) -> UcsStatus:
        try:
            status = UcsStatus(self._ops.unpack(self._state, offset, src, src.nbytes) or 0)
        except Exception as error:
            self.error = error
            return status_of(error)
        return status if status <= 0 else UcsStatus.UCS_ERR_IO_ERROR

    def finish(self) -> None:
        """Call the application's ``finish``, once."""
        if not self._finished:
            self._finished = True
            self._ops.finish(self._state)

    def _follow(self, offset: int, length: int) -> None:
        self._check(offset, length)
        if self._finished or offset != self._done:
            raise ValueError(f"expected what follows byte {self._done}, before finish(), got byte {offset}")


def source(buffer: Any, count: int, datatype: ucp_datatype_t = BYTES, *, name: str = "buffer") -> Layout:
    """Return the layout that an operation reads. A generic datatype has begun to pack when this returns.

    Raises UCS_ERR_INVALID_PARAM for a datatype that does not exist, and for an unsuitable buffer; then nothing has
    begun. An exception of the application's functions goes to the caller, after ``finish``.
    """
    return _layout(buffer, count, datatype, False, name)


def destination(buffer: Any, count: int, datatype: ucp_datatype_t = BYTES, *, name: str = "buffer") -> Layout:
    """Return the layout that an operation writes: as :func:`source`, of writable memory."""
    return _layout(buffer, count, datatype, True, name)


def _layout(buffer: Any, count: int, datatype: ucp_datatype_t, writable: bool, name: str) -> Layout:
    count = SIZE("count", count)
    datatype = _DATATYPE("datatype", datatype)
    kind = datatype & _CLASS
    if kind == _CONTIG:
        length = count * (datatype >> _SHIFT)
        return Layout((bytes_of(buffer, length, writable=writable, name=name),) if length else (), length)
    if kind == _IOV:
        views = _entries(buffer, count, writable, name)
        return Layout(views, sum(view.nbytes for view in views))
    if kind != _GENERIC:
        raise invalid_param(f"datatype: expected one of class CONTIG, IOV or GENERIC, got {datatype:#x}")
    generic = _generics.get(datatype)
    if generic is None:
        raise invalid_param(f"datatype: {datatype:#x} is no generic datatype, or is destroyed")
    return GenericLayout(generic, buffer, count, writable=writable)


def _entries(buffer: Any, count: int, writable: bool, name: str) -> tuple[memoryview, ...]:
    """Return the entries of an IOV that are not empty."""
    if not count:
        return ()
    if not isinstance(buffer, Sequence) or isinstance(buffer, str | bytes | bytearray | memoryview):
        raise wrong_type(name, "a list of ucp_dt_iov_t", buffer)
    if len(buffer) < count:
        raise invalid_param(f"{name}: expected {count} entries, got {len(buffer)}")
    views = []
    for index, entry in enumerate(buffer[:count]):
        where = f"{name}[{index}]"
        if not isinstance(entry, ucp_dt_iov_t):
            raise wrong_type(where, "a ucp_dt_iov_t", entry)
        length = _length_of(entry, where)
        if length:
            views.append(bytes_of(entry.buffer, length, writable=writable, name=f"{where}.buffer"))
    return tuple(views)


def _length_of(entry: ucp_dt_iov_t, where: str) -> int:
    if entry.length is not None:
        return int(SIZE(f"{where}.length", entry.length))
    if entry.buffer is None:
        return 0
    try:
        return view_of(entry.buffer, name=f"{where}.buffer").nbytes
    except FabricError as error:
        raise invalid_param(str(error.strerror)) from error
