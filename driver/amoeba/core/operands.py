"""Operands of atomics: buffers that name their datatype, and numbers, encoded as their datatype."""

import math
from typing import Any, cast

import numpy as np
from amoeba_model.atomic.formats import float_format, is_complex, is_integer, is_signed
from amoeba_model.opcodes import Datatype

from amoeba.core.buffers import DATATYPES, Buffer, check_datatype, datatype_of, view_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, shown, type_error

__all__ = ["encoded", "operand_of"]

_DTYPES = {datatype: dtype for dtype, datatype in DATATYPES.items()}
_NUMBERS = (int, float, complex, np.number)


def operand_of(value: Buffer, datatype: Datatype | None = None, name: str = "buf") -> tuple[memoryview, Datatype]:
    """Return (bytes, datatype) of operands or compare values: a buffer in place, or one number.

    NumPy arrays and scalars name their datatype; so do :mod:`array` and :mod:`ctypes`. Python's numbers take
    ``datatype``, and so do NumPy's scalars of another datatype: scalars are values, not memory.

    Raises FI_EINVAL for a buffer that contradicts ``datatype``, for a buffer without a datatype if ``datatype`` is
    None, and for a number that the datatype cannot hold. Raises ArgumentTypeError for any other object.
    """
    try:
        named = DATATYPES[value.dtype]
        if datatype is None or named == datatype:
            return view_of(value, name=name), named
    except (AttributeError, KeyError, TypeError):
        pass
    if isinstance(value, _NUMBERS):
        if datatype is None:
            raise fabric_error(Errno.FI_EINVAL, f"{name}: expected datatype= with the number {shown(value)}")
        datatype = Datatype(datatype)
        return memoryview(encoded(value, datatype, name)), datatype
    view = view_of(value, name=name)
    if datatype is None:
        return view, datatype_of(value, name)
    check_datatype(value, datatype, name)
    return view, Datatype(datatype)


def encoded(value: Any, datatype: Datatype, name: str = "buf") -> bytes:
    """Encode a number as an element of ``datatype``; round floating point to nearest, ties to even.

    Raises ArgumentTypeError for a boolean, for a fraction if the datatype is an integer, and for a complex number if
    it is real. Raises FI_EINVAL for a number that the datatype cannot hold.
    """
    wanted: Any = int if is_integer(datatype) else (int, float, np.floating)
    if is_complex(datatype):
        wanted = (*wanted, complex, np.complexfloating)
    if isinstance(value, np.integer):
        value = int(value)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise type_error(name, f"a buffer, or a number for {datatype.name}", value)
    try:
        if is_integer(datatype):
            return cast(int, value).to_bytes(datatype.size, "little", signed=is_signed(datatype))
        return _float_encoded(value, datatype)
    except (OverflowError, ValueError):
        raise fabric_error(Errno.FI_EINVAL, f"{name}: {datatype.name} cannot hold {shown(value)}") from None


def _float_encoded(value: Any, datatype: Datatype) -> bytes:
    """Encode a floating-point number. Raises OverflowError for a finite number that becomes infinite."""
    dtype = _DTYPES.get(datatype)
    if dtype is None:
        return _narrow_encoded(float(value), datatype)
    with np.errstate(over="ignore"):
        found = dtype.type(value)
    if not np.isfinite(found) and (isinstance(value, int) or np.isfinite(value)):
        raise OverflowError
    memory = np.frombuffer(found.tobytes(), np.uint8).reshape(-1, float_format(datatype).storage_bytes).copy()
    memory[:, float_format(datatype).value_bytes :] = 0  # padding, which holds arbitrary bytes
    return memory.tobytes()


def _narrow_encoded(value: float, datatype: Datatype) -> bytes:
    """Encode a number in a format that NumPy lacks. Raises OverflowError beyond the format's largest number.

    The encoding is a count of units in the last place, plus the exponent's distance from the least exponent. A count
    that is rounded up to the next exponent carries into the exponent field.
    """
    fmt = float_format(datatype)
    sign = math.copysign(1.0, value) < 0
    if math.isnan(value) or (math.isinf(value) and fmt.has_infinity):
        significand = fmt.nan_significand if math.isnan(value) else fmt.infinity_significand
        return fmt.encode(sign, fmt.exponent_mask, significand).to_bytes(datatype.size, "little")
    if math.isinf(value):
        raise OverflowError
    least = 2 - fmt.bias - fmt.precision
    unit = max(math.frexp(value)[1] - fmt.precision, least) if value else least
    encoding = round(math.ldexp(abs(value), -unit)) + ((unit - least) << fmt.fraction_bits)
    if encoding > fmt.encode(0, fmt.largest_exponent, fmt.largest_significand):
        raise OverflowError
    return (sign << fmt.width - 1 | encoding).to_bytes(datatype.size, "little")
