"""The golden function of the atomic unit: the effect of every operation on every datatype.

Source: fi_atomic(3) of libfabric 1.14, Atomic Operations. Where the page leaves a case open, comments below say what
is decided.
"""

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic import floats, integers, softfloat
from amoeba_model.atomic.formats import float_format, is_complex, is_float
from amoeba_model.atomic.limbs import BoolArray
from amoeba_model.atomic.matrix import COMPARE_OPS, is_valid
from amoeba_model.opcodes import Datatype, Form, Op

__all__ = ["execute"]

Memory = npt.NDArray[np.uint8]

_ARITHMETIC = frozenset({Op.FI_SUM, Op.FI_DIFF, Op.FI_PROD})
_REAL = {Op.FI_SUM: floats.add, Op.FI_DIFF: floats.subtract, Op.FI_PROD: floats.multiply}
_COMPLEX = {
    Op.FI_SUM: floats.complex_add,
    Op.FI_DIFF: floats.complex_subtract,
    Op.FI_PROD: floats.complex_multiply,
}


def execute(
    op: Op,
    datatype: Datatype,
    target: Memory,
    operand: Memory | None,
    compare: Memory | None = None,
    *,
    cswap_by_bits: bool = False,
) -> Memory:
    """Execute one operation per row, and return the target memory after it.

    Parameters
    ----------
    target, operand, compare
        ``uint8[n, datatype.size]``, little-endian memory. ``operand`` is ignored by FI_ATOMIC_READ and may be
        None there; ``compare`` belongs to the operations of the compare form, and to no other.
    cswap_by_bits
        FI_CSWAP compares floating point by its bits (padding not counted), as libfabric built with compiler
        atomics does, instead of by value.

    Returns
    -------
    ndarray
        A new ``uint8[n, datatype.size]``. A row that the operation leaves alone (FI_ATOMIC_READ, a comparison
        that does not hold) keeps the target's bytes, padding included; wherever a value is stored, the upper
        six bytes of each LONG_DOUBLE are zero.

    Raises
    ------
    TypeError
        An argument is not a uint8 array, or is missing.
    ValueError
        The shapes do not fit, the matrix has no such cell, or ``compare`` is given to another form.
    """
    if not any(is_valid(op, datatype, form) for form in Form):
        raise ValueError(f"expected a cell of the atomic matrix, got {op.name} on {datatype.name}")
    target = _checked("target", target, datatype, None)
    if op in COMPARE_OPS:
        compare = _checked("compare", compare, datatype, len(target))
    elif compare is not None:
        raise ValueError(f"expected no compare for {op.name}, got an array")
    if op is Op.FI_ATOMIC_READ:
        return target.copy()
    operand = _checked("operand", operand, datatype, len(target))

    if op in _ARITHMETIC:
        return _calculate(op, datatype, target, operand)
    match op:
        case Op.FI_BOR:
            return target | operand
        case Op.FI_BAND:
            return target & operand
        case Op.FI_BXOR:
            return target ^ operand
        case Op.FI_LOR:
            return _booleans(datatype, _truth(datatype, target) | _truth(datatype, operand))
        case Op.FI_LAND:
            return _booleans(datatype, _truth(datatype, target) & _truth(datatype, operand))
        case Op.FI_LXOR:
            return _booleans(datatype, _truth(datatype, target) ^ _truth(datatype, operand))
        case Op.FI_ATOMIC_WRITE:
            return _without_padding(datatype, operand)
    left = operand if compare is None else compare
    if op is Op.FI_MSWAP:
        return (operand & left) | (target & ~left)
    if op is Op.FI_CSWAP and cswap_by_bits:
        stores = (_without_padding(datatype, left) == _without_padding(datatype, target)).all(axis=1)
    else:
        stores = _stores(op, *_order(datatype, left, target))
    return np.where(stores[:, None], _without_padding(datatype, operand), target)


def _checked(name: str, array: Memory | None, datatype: Datatype, rows: int | None) -> Memory:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: expected a uint8 array, got {type(array).__name__}")
    if array.dtype != np.uint8:
        raise TypeError(f"{name}: expected a uint8 array, got {array.dtype}")
    if array.ndim != 2 or array.shape[1] != datatype.size or (rows is not None and len(array) != rows):
        expected = f"({'n' if rows is None else rows}, {datatype.size})"
        raise ValueError(f"{name}: expected shape {expected} for {datatype.name}, got {array.shape}")
    return array


def _calculate(op: Op, datatype: Datatype, a: Memory, b: Memory) -> Memory:
    if not is_float(datatype):
        return integers.calculate(op, datatype.size, a, b)
    functions = _COMPLEX if is_complex(datatype) else _REAL
    return functions[op](float_format(datatype), a, b)


def _order(datatype: Datatype, left: Memory, right: Memory) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Whether left < right, left == right, left > right; of complex numbers only equality means anything."""
    if not is_float(datatype):
        return integers.order(datatype, left, right)
    fmt = float_format(datatype)
    left, right = (memory.reshape(-1, fmt.storage_bytes) for memory in (left, right))
    less, equal, greater = softfloat.order(fmt, softfloat.split(fmt, left), softfloat.split(fmt, right))
    if is_complex(datatype):
        less, equal, greater = (parts[0::2] & parts[1::2] for parts in (less, equal, greater))
    return less, equal, greater


def _stores(op: Op, less: BoolArray, equal: BoolArray, greater: BoolArray) -> BoolArray:
    """Whether ``left op target`` holds and the operand is stored; left is the operand of FI_MIN and FI_MAX.

    The comparisons are C's: an unordered pair satisfies none but the one for inequality. So NaN never
    replaces a number, and a NaN target stays.
    """
    match op:
        case Op.FI_MIN | Op.FI_CSWAP_LT:
            return less
        case Op.FI_MAX | Op.FI_CSWAP_GT:
            return greater
        case Op.FI_CSWAP_LE:
            return less | equal
        case Op.FI_CSWAP_GE:
            return greater | equal
        case Op.FI_CSWAP_NE:
            return ~equal
        case _:
            return equal


def _truth(datatype: Datatype, memory: Memory) -> BoolArray:
    """C's ``value != 0``: NaN and subnormal numbers are true, -0 is false, a complex needs one part."""
    if not is_float(datatype):
        return integers.is_nonzero(memory)
    fmt = float_format(datatype)
    parts = softfloat.unpack(fmt, softfloat.split(fmt, memory.reshape(-1, fmt.storage_bytes)))
    truth = np.logical_not(parts.zero)
    return np.logical_or(truth[0::2], truth[1::2]) if is_complex(datatype) else truth


def _booleans(datatype: Datatype, truth: BoolArray) -> Memory:
    """1 or 0 of the datatype; the 1 of a complex one is 1+0i."""
    one = float_format(datatype).one if is_float(datatype) else 1
    memory = np.frombuffer(one.to_bytes(datatype.size, "little"), np.uint8)
    return np.where(truth[:, None], memory, np.uint8(0))


def _without_padding(datatype: Datatype, memory: Memory) -> Memory:
    """Copy the memory, with every byte above a number's encoding zero."""
    memory = memory.copy()
    if is_float(datatype):
        fmt = float_format(datatype)
        memory.reshape(-1, fmt.storage_bytes)[:, fmt.value_bytes :] = 0
    return memory
