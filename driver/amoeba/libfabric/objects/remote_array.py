"""A peer's memory as a NumPy array: slices to read and write, and atomic updates."""

import itertools
import math
import operator
from types import EllipsisType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from amoeba_model.descriptors import DescriptorOpcode

from amoeba.core.buffers import DATATYPES, Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.constants import Op
from amoeba.libfabric.objects.remote_value import InPlaceOperators, Place, RemoteValue

__all__ = ["Batching", "RemoteArray", "RemotePlace"]

_UFUNCS = {
    np.minimum: Op.FI_MIN,
    np.maximum: Op.FI_MAX,
    np.add: Op.FI_SUM,
    np.multiply: Op.FI_PROD,
    np.logical_or: Op.FI_LOR,
    np.logical_and: Op.FI_LAND,
    np.bitwise_or: Op.FI_BOR,
    np.bitwise_and: Op.FI_BAND,
    np.logical_xor: Op.FI_LXOR,
    np.bitwise_xor: Op.FI_BXOR,
    np.subtract: Op.FI_DIFF,
}
"""Operations by the NumPy functions that do the same."""
_WRITE = DescriptorOpcode.WRITE
_READ = DescriptorOpcode.READ
_ATOMIC = DescriptorOpcode.ATOMIC
_FETCH = DescriptorOpcode.FETCH_ATOMIC
_COMPARE = DescriptorOpcode.COMPARE_ATOMIC

Key = Any
"""An index: integers, slices, ``...``, ``None``; or arrays of integers, or a boolean one."""


class RemotePlace(Protocol):
    """The place of a peer's memory: a memory region, or the peer's description of one."""

    @property
    def address(self) -> int: ...

    @property
    def key(self) -> int: ...


class Batching(Protocol):
    """The endpoint through which an array is reached."""

    def _execute(
        self,
        opcode: DescriptorOpcode,
        array: "RemoteArray",
        offsets: npt.NDArray[np.uint64],
        *,
        op: Op | None = None,
        buf: Buffer | None = None,
        compare: Buffer | None = None,
        result: Buffer | None = None,
    ) -> None:
        """Execute a batch on an array, and wait until it is over; ``offsets`` are in bytes.

        Raises the error of the first operation that failed.
        """


class RemoteArray(InPlaceOperators):
    """An array in C order in the memory of a peer, made by ``Endpoint.array``.

    ``array[key]`` reads, and ``array[key] = values`` writes, with integers, slices, ``...`` and ``None`` as in NumPy:
    each stretch of consecutive memory is one operation. So are arrays of integers, or boolean ones, for the first
    dimensions. Elements are exchanged as they lie in memory; only updates are atomic, each of one
    element.

    Reading gives a :class:`RemoteValue`: a read-only NumPy array of the values read.
    ``array[key] += values`` is a read and an atomic update of each element, and so are ``-=``, ``*=``, ``&=``, ``|=``
    and ``^=``; ``array += values`` reads nothing. The other in-place operators have no atomic operation, and raise
    TypeError. ``array[key] = array[key] + values`` is a read and a write, between which others may update.

    Every call waits for its end. Other completions stay in the endpoint's queue, and the array's own operations
    write no entries there.

    Raises IndexError as NumPy does, before anything is done, and the error of the first operation that failed.
    """

    def __init__(
        self,
        endpoint: Batching,
        peer: int,
        address: int,
        key: int,
        dtype: npt.DTypeLike,
        shape: int | tuple[int, ...],
    ) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        lengths = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        self.shape: tuple[int, ...] = tuple(operator.index(length) for length in lengths)
        if self.dtype.hasobject or not self.dtype.itemsize:
            raise fabric_error(Errno.FI_EINVAL, f"dtype: expected numbers or bytes, got {self.dtype!r}")
        if any(length < 0 for length in self.shape):
            raise fabric_error(Errno.FI_EINVAL, f"shape: expected lengths of 0 or more, got {self.shape}")
        self.peer = peer
        self.address = address
        self.key = key
        self._endpoint = endpoint
        strides = list(itertools.accumulate(self.shape[:0:-1], operator.mul, initial=self.dtype.itemsize))
        self._strides = tuple(reversed(strides)) if self.shape else ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<RemoteArray {self.dtype} {self.shape} of peer {self.peer} at {self.address:#x}>"

    # Reading and writing

    def __getitem__(self, key: Key) -> Any:
        place = self._place(key)
        out = np.empty(place.shape, self.dtype)
        if out.size:
            self._execute(_READ, place.offsets, result=out.reshape(len(place.offsets), place.run))
        return RemoteValue.of(out, place=place)

    def __setitem__(self, key: Key, values: npt.ArrayLike) -> None:
        place = self._place(key)
        update = values._update if isinstance(values, RemoteValue) else None
        if update is not None and update.place.is_at(place):
            self._update(place, update.function, update.sign, update.operand)
            values._update = None  # type: ignore[union-attr]
            return
        data = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), place.shape))
        if data.size:
            self._execute(_WRITE, place.offsets, buf=data.reshape(len(place.offsets), place.run))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Read the whole array now. Raises ValueError if NumPy wants no copy."""
        if copy is False:
            raise ValueError("a remote array is always copied: expected copy=True or copy=None, got copy=False")
        out = np.empty(self.shape, self.dtype)
        out[...] = self[...]
        return out if dtype is None else out.astype(dtype)

    # Updates

    def at(self, op: "Op | np.ufunc", indices: Key, values: npt.ArrayLike) -> None:
        """``op.at(array, indices, values)``: every update takes effect, also those of one element.

        ``op``: a function of NumPy's, such as ``np.add``, or an operation, such as ``Op.FI_SUM``.
        Raises FI_EOPNOTSUPP for what the NIC does not execute.
        """
        offsets, shape = self._elements(indices)
        operands = self._values(values, shape)
        if offsets.size:
            self._execute(_ATOMIC, offsets, op=_op_of(op), buf=operands)

    def add_at(self, indices: Key, values: npt.ArrayLike) -> None:
        """``np.add.at(array, indices, values)``."""
        self.at(Op.FI_SUM, indices, values)

    def fetch_at(self, op: "Op | np.ufunc", indices: Key, values: npt.ArrayLike) -> Any:
        """:meth:`at` that returns what each element was before its update."""
        offsets, shape = self._elements(indices)
        operands, old = self._values(values, shape), np.empty(shape, self.dtype)
        if offsets.size:
            self._execute(_FETCH, offsets, op=_op_of(op), buf=operands, result=old.reshape(-1))
        return old[()]

    def fetch_add(self, indices: Key, values: npt.ArrayLike) -> Any:
        """:meth:`add_at` that returns what each element was before."""
        return self.fetch_at(Op.FI_SUM, indices, values)

    def compare_and_swap(self, indices: Key, expected: npt.ArrayLike, values: npt.ArrayLike) -> Any:
        """Set each element to its value if it is as expected; returns what it was before, either way."""
        offsets, shape = self._elements(indices)
        compare, operands = self._values(expected, shape), self._values(values, shape)
        old = np.empty(shape, self.dtype)
        if offsets.size:
            self._execute(
                _COMPARE, offsets, op=Op.FI_CSWAP, buf=operands, compare=compare, result=old.reshape(-1)
            )
        return old[()]

    def _in_place(self, function: np.ufunc, sign: str, operand: Any) -> "RemoteArray":
        self._update(self._place(...), function, sign, operand)
        return self

    def _update(self, place: Place, function: np.ufunc, sign: str, operand: Any) -> None:
        """Update each element of a place atomically, as the in-place operator ``sign`` does.

        As in NumPy, an element that the place has several times gets its last operand alone.
        Raises TypeError where no atomic operation does what the operator does.
        """
        if function not in _UFUNCS or self.dtype not in DATATYPES:
            raise TypeError(
                f"no atomic operation does {sign} on {self.dtype}. at(), add_at(), fetch_at() and the operators "
                f"+= -= *= &= |= ^= are atomic on numbers; compare_and_swap() builds others; "
                f"array[key] = array[key] {sign[:-1]} values reads and writes, which is not atomic"
            )
        function(np.ones((), self.dtype), np.ones((), self.dtype))  # TypeError for what NumPy has not, as & of floats
        if not place.shape and np.ndim(operand) == 0 and np.asarray(operand).dtype.kind in "iu":
            operand = operator.index(operand)  # any integer that fits, as for an element in NumPy
        operands = self._values(operand, place.shape)
        offsets = self._each(place)
        distinct, last = np.unique(offsets[::-1], return_index=True)
        if len(distinct) < len(offsets):
            offsets, operands = distinct, operands[::-1][last]
        if offsets.size:
            self._execute(_ATOMIC, offsets, op=_UFUNCS[function], buf=operands)

    def _execute(self, opcode: DescriptorOpcode, offsets: npt.NDArray[np.uint64], **buffers: Any) -> None:
        self._endpoint._execute(opcode, self, offsets, **buffers)

    def _values(self, values: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Operands, one for each element. Raises TypeError for others than NumPy would convert."""
        array = np.asarray(values)
        if array.dtype != self.dtype:
            is_number = not isinstance(values, np.ndarray | np.generic) and array.dtype.kind in "iu"
            array = np.asarray(values, self.dtype) if is_number else array.astype(self.dtype, casting="same_kind")
        return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1)

    # Indices

    def _place(self, key: Key) -> Place:
        """Return the elements that ``key`` names. Raises IndexError."""
        return Place(self, *self._places(key))

    def _places(self, key: Key) -> tuple[npt.NDArray[np.uint64], tuple[int, ...], int]:
        """Return (offsets in bytes of stretches, shape of ``key``, elements of a stretch). Raises IndexError."""
        keys = key if isinstance(key, tuple) else (key,)
        named = sum(np.ndim(each) if _is_mask(each) else each is not None and each is not Ellipsis for each in keys)
        if named > self.ndim:
            raise IndexError(
                f"too many indices for array: array is {self.ndim}-dimensional, but {named} were indexed"
            )
        if not all(_is_basic(each) for each in keys):
            return self._chosen(keys)
        start, shape, strides = self._view(keys, named)
        run, axis = 1, len(shape)
        while axis and (shape[axis - 1] == 1 or strides[axis - 1] == run * self.dtype.itemsize):
            axis -= 1
            run *= shape[axis]
        offsets = np.full(shape[:axis], start, np.int64)
        for number in range(axis):
            steps = np.arange(shape[number], dtype=np.int64) * strides[number]
            offsets += steps.reshape([-1] + [1] * (axis - number - 1))
        return offsets.reshape(-1).astype(np.uint64), shape, run

    def _view(self, keys: tuple[Key, ...], named: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """(offset, shape, strides), in bytes, of a view that integers and slices name, so many dimensions."""
        dots = [at for at, each in enumerate(keys) if each is Ellipsis]
        if len(dots) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        at = dots[0] if dots else len(keys)
        keys = (*keys[:at], *[slice(None)] * (self.ndim - named), *keys[at + 1 :])
        start, shape, strides, axis = 0, [], [], 0
        for each in keys:
            if each is None:
                shape.append(1)
                strides.append(0)
                continue
            length, stride = self.shape[axis], self._strides[axis]
            if isinstance(each, slice):
                chosen = range(length)[each]
                shape.append(len(chosen))
                strides.append(chosen.step * stride)
                start += chosen.start * stride if chosen else 0
            else:
                start += int(_in_range(np.array(operator.index(each)), axis, length)) * stride
            axis += 1
        return start, tuple(shape), tuple(strides)

    def _chosen(self, keys: tuple[Key, ...]) -> tuple[npt.NDArray[np.uint64], tuple[int, ...], int]:
        """Return the same as :meth:`_places` for arrays that choose along the first dimensions."""
        arrays: list[npt.NDArray[Any]] = []
        for key in keys:
            if isinstance(key, slice | EllipsisType) or key is None:
                raise IndexError("arrays of indices stand alone here, not beside slices, '...' or None")
            if not _is_mask(key):
                arrays.append(np.asarray(key))
                continue
            mask = np.asarray(key)
            covered = self.shape[len(arrays) : len(arrays) + mask.ndim]
            if mask.shape != covered:
                raise IndexError(f"boolean index did not match indexed array: it covers {covered}, got {mask.shape}")
            arrays += np.nonzero(mask)
        offset = np.zeros((), np.int64)
        for axis, array in enumerate(arrays):
            if array.size and array.dtype.kind not in "iu":
                raise IndexError(f"arrays used as indices must be of integer (or boolean) type, got {array.dtype}")
            offset = offset + _in_range(array, axis, self.shape[axis]) * self._strides[axis]
        rest = self.shape[len(arrays) :]
        return offset.reshape(-1).astype(np.uint64), offset.shape + rest, math.prod(rest)

    def _elements(self, indices: Key) -> tuple[npt.NDArray[np.uint64], tuple[int, ...]]:
        """(offset in bytes of each element, shape) of what ``indices`` name. Raises IndexError."""
        place = self._place(indices)
        return self._each(place), place.shape

    def _each(self, place: Place) -> npt.NDArray[np.uint64]:
        """Return the offset in bytes of each element of a place."""
        within = np.arange(place.run, dtype=np.uint64) * np.uint64(self.dtype.itemsize)
        return (place.offsets[:, None] + within).reshape(-1)


def _is_mask(key: Key) -> bool:
    if isinstance(key, np.ndarray | list):
        return np.asarray(key).dtype == np.bool_
    return isinstance(key, bool | np.bool_)


def _is_basic(key: Key) -> bool:
    """Whether it names a view, not elements one by one."""
    return (
        key is None
        or isinstance(key, slice | EllipsisType)
        or (isinstance(key, int | np.integer) and not isinstance(key, bool))
    )


def _in_range(indices: npt.NDArray[Any], axis: int, length: int) -> npt.NDArray[np.int64]:
    """Return indices from 0 on, also for indices that count from the end. Raises IndexError."""
    if indices.size and (int(indices.min()) < -length or int(indices.max()) >= length):
        wrong = indices[(indices < -length) | (indices >= length)].reshape(-1)[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")
    found = indices.astype(np.int64)
    return np.where(found < 0, found + length, found)


def _op_of(op: "Op | np.ufunc") -> Op:
    if isinstance(op, np.ufunc):
        if op not in _UFUNCS:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"no operation does the same as {op}")
        return _UFUNCS[op]
    return Op(op)
