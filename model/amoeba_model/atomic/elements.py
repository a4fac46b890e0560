"""Elements side by side in memory: the same results as :func:`execute`, without the cost of setting up its arrays.

The host's integers and its single and double precision compute most operations to the bit, all elements in one go.
:func:`execute` does the rest.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import is_complex, is_integer, is_signed
from amoeba_model.atomic.matrix import COMPARE_OPS, is_valid
from amoeba_model.opcodes import Datatype, Form, Op

__all__ = ["execute_elements"]

_Array = npt.NDArray[Any]
_Executor = Callable[[_Array, _Array, _Array | None], _Array | None]
"""(target, operand, compare) to the new target; None where only :func:`execute` knows the answer."""

_FLOATS: dict[Datatype, np.dtype[Any]] = {
    Datatype.FI_FLOAT: np.dtype("<f4"),
    Datatype.FI_DOUBLE: np.dtype("<f8"),
    Datatype.FI_FLOAT_COMPLEX: np.dtype("<f4"),
    Datatype.FI_DOUBLE_COMPLEX: np.dtype("<f8"),
}
"""Of a number, or of either part of a complex one."""
_ARITHMETIC: dict[Op, np.ufunc] = {Op.FI_SUM: np.add, Op.FI_DIFF: np.subtract, Op.FI_PROD: np.multiply}
_BITWISE: dict[Op, np.ufunc] = {Op.FI_BOR: np.bitwise_or, Op.FI_BAND: np.bitwise_and, Op.FI_BXOR: np.bitwise_xor}
_LOGICAL: dict[Op, np.ufunc] = {Op.FI_LOR: np.logical_or, Op.FI_LAND: np.logical_and, Op.FI_LXOR: np.logical_xor}
_STORES: dict[Op, np.ufunc] = {
    Op.FI_MIN: np.less,
    Op.FI_MAX: np.greater,
    Op.FI_CSWAP: np.equal,
    Op.FI_CSWAP_NE: np.not_equal,
    Op.FI_CSWAP_LE: np.less_equal,
    Op.FI_CSWAP_LT: np.less,
    Op.FI_CSWAP_GE: np.greater_equal,
    Op.FI_CSWAP_GT: np.greater,
}
"""Whether ``left op target`` stores the operand; left is the operand itself in FI_MIN and FI_MAX."""


def execute_elements(
    op: Op,
    datatype: Datatype,
    target: bytes,
    operand: bytes,
    compare: bytes | None = None,
    *,
    cswap_by_bits: bool = False,
) -> bytes:
    """Execute one operation on each of several elements, and return their bytes.

    Arguments, result and errors are those of :func:`execute`, with ``bytes`` of a multiple of ``datatype.size`` in
    place of arrays; FI_ATOMIC_READ is not for this function.
    """
    size = datatype.size
    entry = _EXECUTORS[datatype][op]
    # NumPy would repeat a single element for all others.
    fits = len(operand) == len(target) and (compare is None or len(compare) == len(target))
    if entry is not None and fits and not cswap_by_bits and (compare is not None) is (op in COMPARE_OPS):
        dtype, executor = entry
        compares = None if compare is None else np.frombuffer(compare, dtype)
        result = executor(np.frombuffer(target, dtype), np.frombuffer(operand, dtype), compares)
        if result is not None:
            return result.tobytes()
    rows = (_rows(target, size), _rows(operand, size), None if compare is None else _rows(compare, size))
    return execute(op, datatype, *rows, cswap_by_bits=cswap_by_bits).tobytes()


def _rows(memory: bytes, size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(memory, np.uint8).reshape(-1, size)


def _plain(function: np.ufunc) -> _Executor:
    def run(target: _Array, operand: _Array, compare: _Array | None) -> _Array | None:
        result: _Array = function(target, operand)
        return result

    return run


def _floating(function: np.ufunc) -> _Executor:
    def run(target: _Array, operand: _Array, compare: _Array | None) -> _Array | None:
        with np.errstate(all="ignore"):
            result: _Array = function(target, operand)
            # The host does not choose among NaNs as the NIC does.
            return None if np.count_nonzero(result != result) else result

    return run


def _logical(function: np.ufunc) -> _Executor:
    def run(target: _Array, operand: _Array, compare: _Array | None) -> _Array | None:
        result: _Array = function(target, operand)
        return result.astype(target.dtype)

    return run


def _select(holds: np.ufunc, dtype: np.dtype[Any]) -> _Executor:
    bits = np.dtype(f"<u{dtype.itemsize}")

    def run(target: _Array, operand: _Array, compare: _Array | None) -> _Array | None:
        stores = holds(operand if compare is None else compare, target)
        # Moved as bits: a NaN must not change on the way.
        return np.where(stores, operand.view(bits), target.view(bits))

    return run


def _write(target: _Array, operand: _Array, compare: _Array | None) -> _Array | None:
    return operand


def _mask_swap(target: _Array, operand: _Array, compare: _Array | None) -> _Array | None:
    result: _Array = target ^ ((target ^ operand) & np.asarray(compare))
    return result


def _executor(op: Op, datatype: Datatype) -> tuple[np.dtype[Any], _Executor] | None:
    """Make the fast path of one (operation, datatype), with NumPy's type of its memory; None without a fast path."""
    if not any(is_valid(op, datatype, form) for form in Form):
        return None
    if datatype in _FLOATS:
        dtype = _FLOATS[datatype]
        if op in _ARITHMETIC and not (is_complex(datatype) and op is Op.FI_PROD):
            return dtype, _floating(_ARITHMETIC[op])
        if op in _STORES and not is_complex(datatype):
            return dtype, _select(_STORES[op], dtype)
        return (dtype, _write) if op is Op.FI_ATOMIC_WRITE else None
    if not is_integer(datatype) or datatype.size > 8:
        return None
    # Modulo 2**bits the sign does not matter.
    matters = is_signed(datatype) and op in _STORES
    dtype = np.dtype(f"<{'i' if matters else 'u'}{datatype.size}")
    if op in _ARITHMETIC or op in _BITWISE:
        return dtype, _plain(_ARITHMETIC.get(op) or _BITWISE[op])
    if op in _LOGICAL:
        return dtype, _logical(_LOGICAL[op])
    if op in _STORES:
        return dtype, _select(_STORES[op], dtype)
    if op is Op.FI_ATOMIC_WRITE:
        return dtype, _write
    return (dtype, _mask_swap) if op is Op.FI_MSWAP else None


_EXECUTORS = [[_executor(op, datatype) for op in Op] for datatype in Datatype]
"""Indexed by datatype and operation number, both of which count from 0 without gaps."""
