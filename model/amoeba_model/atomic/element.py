"""One element at a time: the same results as :func:`execute`, without the cost of setting up arrays.

The NIC model executes most requests on one element of a few bytes, where NumPy's fixed cost per call would be
nearly all of the time. Integers are computed on Python's own, single and double precision on Python floats
wherever the outcome is defined to the bit; the rest goes to :func:`execute`.
"""

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import float_format, is_integer, is_signed
from amoeba_model.atomic.matrix import COMPARE_OPS, is_valid
from amoeba_model.opcodes import Datatype, Form, Op

__all__ = ["execute_element"]

_Executor = Callable[[bytes, bytes | None, bytes | None], bytes | None]
"""(target, operand, compare) to the new target; None where only :func:`execute` knows the answer or error."""

_Function = Callable[[Any, Any], Any]

_MODULAR: dict[Op, _Function] = {
    Op.FI_SUM: operator.add,
    Op.FI_DIFF: operator.sub,
    Op.FI_PROD: operator.mul,
    Op.FI_LOR: lambda target, operand: 1 if target or operand else 0,
    Op.FI_LAND: lambda target, operand: 1 if target and operand else 0,
    Op.FI_LXOR: lambda target, operand: 1 if (not target) is not (not operand) else 0,
    Op.FI_BOR: operator.or_,
    Op.FI_BAND: operator.and_,
    Op.FI_BXOR: operator.xor,
}
"""Results for unsigned integers of any width, before they are reduced modulo 2**bits."""

_STORES: dict[Op, _Function] = {
    Op.FI_MIN: operator.lt,
    Op.FI_MAX: operator.gt,
    Op.FI_CSWAP: operator.eq,
    Op.FI_CSWAP_NE: operator.ne,
    Op.FI_CSWAP_LE: operator.le,
    Op.FI_CSWAP_LT: operator.lt,
    Op.FI_CSWAP_GE: operator.ge,
    Op.FI_CSWAP_GT: operator.gt,
}
"""Whether ``left op target`` stores the operand; left is the operand itself in FI_MIN and FI_MAX.

The comparisons of Python's floats are those of C: none but ``!=`` holds with a NaN.
"""

_FLOATING: dict[Op, _Function] = {
    Op.FI_SUM: operator.add,
    Op.FI_DIFF: operator.sub,
    Op.FI_PROD: operator.mul,
}


def execute_element(
    op: Op,
    datatype: Datatype,
    target: bytes,
    operand: bytes | None,
    compare: bytes | None = None,
    *,
    cswap_by_bits: bool = False,
) -> bytes:
    """Execute one operation on one element, and return its bytes.

    Arguments, result and errors are those of :func:`execute`, with ``bytes`` of ``datatype.size`` in place of
    arrays.
    """
    executor = (_BY_BITS if cswap_by_bits else _BY_VALUE)[datatype][op]
    if executor is not None:
        result = executor(target, operand, compare)
        if result is not None:
            return result
    arrays = (_row(target), _optional_row(operand), _optional_row(compare))
    return execute(op, datatype, *arrays, cswap_by_bits=cswap_by_bits).tobytes()


def _row(memory: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(memory, np.uint8)[np.newaxis]


def _optional_row(memory: bytes | None) -> npt.NDArray[np.uint8] | None:
    return None if memory is None else _row(memory)


def _read(size: int) -> _Executor:
    def run(target: bytes, operand: bytes | None, compare: bytes | None) -> bytes | None:
        return None if compare is not None or len(target) != size else bytes(target)

    return run


def _write(size: int) -> _Executor:
    def run(target: bytes, operand: bytes | None, compare: bytes | None) -> bytes | None:
        if operand is None or compare is not None or len(operand) != size or len(target) != size:
            return None
        return bytes(operand)

    return run


def _modular(size: int, function: _Function) -> _Executor:
    mask = (1 << 8 * size) - 1
    load = int.from_bytes

    def run(target: bytes, operand: bytes | None, compare: bytes | None) -> bytes | None:
        if operand is None or compare is not None or len(operand) != size or len(target) != size:
            return None
        result: int = function(load(target, "little"), load(operand, "little")) & mask
        return result.to_bytes(size, "little")

    return run


def _mask_swap(size: int) -> _Executor:
    load = int.from_bytes

    def run(target: bytes, operand: bytes | None, compare: bytes | None) -> bytes | None:
        if operand is None or compare is None or not len(operand) == len(compare) == len(target) == size:
            return None
        old, new, mask = load(target, "little"), load(operand, "little"), load(compare, "little")
        return (old ^ ((old ^ new) & mask)).to_bytes(size, "little")

    return run


def _select(size: int, holds: _Function, load: Callable[[bytes], Any], compares: bool) -> _Executor:
    def run(target: bytes, operand: bytes | None, compare: bytes | None) -> bytes | None:
        left = compare if compares else operand
        if operand is None or left is None or (compare is not None) is not compares:
            return None
        if not len(operand) == len(left) == len(target) == size:
            return None
        return bytes(operand) if holds(load(left), load(target)) else bytes(target)

    return run


def _floating(code: struct.Struct, function: _Function) -> _Executor:
    """Sum or product in double precision.

    Rounding a double on to single precision gives what rounding once would have: 53 bits are more than twice
    24 plus one.
    """
    size, unpack, pack = code.size, code.unpack, code.pack

    def run(target: bytes, operand: bytes | None, compare: bytes | None) -> bytes | None:
        if operand is None or compare is not None or len(operand) != size or len(target) != size:
            return None
        result = function(unpack(target)[0], unpack(operand)[0])
        if math.isnan(result):
            return None  # which NaN is not Python's to say
        try:
            return pack(result)
        except OverflowError:
            return None  # the pack of a finite double that is infinite in single precision

    return run


def _loader(datatype: Datatype) -> Callable[[bytes], Any] | None:
    """Memory to a Python value whose comparisons are the datatype's, where there is one."""
    if is_integer(datatype):
        if is_signed(datatype):
            return lambda memory: int.from_bytes(memory, "little", signed=True)
        return lambda memory: int.from_bytes(memory, "little")
    if datatype in _STRUCTS:
        unpack = _STRUCTS[datatype].unpack
        return lambda memory: unpack(memory)[0]
    return None


def _executor(op: Op, datatype: Datatype, cswap_by_bits: bool) -> _Executor | None:
    """Make the fast path of one (operation, datatype); None for those without a fast path."""
    size, load = datatype.size, _loader(datatype)
    padded = not is_integer(datatype) and float_format(datatype).is_padded
    if not any(is_valid(op, datatype, form) for form in Form):
        return None
    if op is Op.FI_ATOMIC_READ:
        return _read(size)
    if op is Op.FI_ATOMIC_WRITE and not padded:
        return _write(size)
    if op is Op.FI_CSWAP and cswap_by_bits and not padded:
        return _select(size, operator.eq, bytes, True)
    if load is not None and op in _STORES:
        return _select(size, _STORES[op], load, op in COMPARE_OPS)
    if datatype in _STRUCTS and op in _FLOATING:
        return _floating(_STRUCTS[datatype], _FLOATING[op])
    if is_integer(datatype):
        return _mask_swap(size) if op is Op.FI_MSWAP else _modular(size, _MODULAR[op])
    return None


_STRUCTS = {Datatype.FI_FLOAT: struct.Struct("<f"), Datatype.FI_DOUBLE: struct.Struct("<d")}
_BY_VALUE, _BY_BITS = (
    [[_executor(op, datatype, by_bits) for op in Op] for datatype in Datatype] for by_bits in (False, True)
)
"""Indexed by datatype and operation number, both of which count from 0 without gaps."""
