"""Checks of arguments that are numbers, enumerations and flags.

An enumeration or a set of flags is given as a member of its own class, or as a plain number, as in C. A member of
another class is a mistake, such as swapped arguments, although Python would take it for a number.
"""

import array
import enum
import math
import operator
from collections.abc import Sequence
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, shown, type_error
from amoeba.libfabric.objects import constants
from amoeba.libfabric.objects.constants import Datatype, Op, OpFlags

__all__ = [
    "check_datatype_argument",
    "check_enum",
    "check_flags",
    "check_instance",
    "check_number",
    "check_op",
    "check_op_flags",
    "check_timeout",
    "check_vector",
]

E = TypeVar("E", bound=enum.IntEnum)
F = TypeVar("F", bound=enum.IntFlag)

_NO_NUMBERS = frozenset([bool, *(kind for kind in vars(constants).values() if isinstance(kind, enum.EnumType))])
"""Types that Python takes for numbers: libfabric's enumerations and flags are neither counts nor indexes."""
_NO_VECTORS = (bytes, bytearray, memoryview, str, array.array)
"""Sequences that are buffers, or text."""
_OPS = {int(op): op for op in Op}
_DATATYPES = {int(datatype): datatype for datatype in Datatype}


def check_number(name: str, value: Any, bits: int = 64) -> int:
    """Return ``value`` as an int, if it is an integer from 0 to 2**bits - 1 of any type with __index__.

    Raises ArgumentTypeError for other types: a float, a boolean, bytes, a member of libfabric's enumerations. Raises
    FI_EINVAL for a negative or too large integer.
    """
    number = value if type(value) is int else _integer(name, value, f"a number of {bits} bits")
    if number < 0 or number >> bits:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected a number of {bits} bits, got {shown(number)}")
    return number


def check_op(op: Any, name: str = "op") -> Op:
    """Return an operation, or its plain number, as an Op.

    Raises ArgumentTypeError for other types, such as a Datatype, FI_EOPNOTSUPP for an unknown number.
    """
    if type(op) is Op:
        return op
    try:
        return _OPS[_plain(name, op, Op)]
    except KeyError:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"{name}: there is no operation {op}") from None


def check_datatype_argument(datatype: Any, name: str = "datatype") -> Datatype:
    """Return a datatype, or its plain number, as a Datatype. Raises as :func:`check_op`."""
    if type(datatype) is Datatype:
        return datatype
    try:
        return _DATATYPES[_plain(name, datatype, Datatype)]
    except KeyError:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"{name}: there is no datatype {datatype}") from None


def check_op_flags(flags: Any, name: str = "flags") -> int:
    """Return the bits of OpFlags, or of a plain number."""
    return int(flags) if type(flags) is OpFlags else _plain(name, flags, OpFlags)


def check_flags(kind: type[F], flags: Any, name: str = "flags") -> F:
    """Return flags of this class, or a plain number, as flags of this class.

    Raises ArgumentTypeError for flags of another class. The caller checks which flags are allowed.
    """
    return flags if type(flags) is kind else kind(_plain(name, flags, kind))


def check_enum(kind: type[E], value: Any, name: str) -> E:
    """Return a member of this class, or its plain number, as a member of this class.

    Raises ArgumentTypeError for a member of another class, FI_EINVAL for an unknown number.
    """
    if type(value) is kind:
        return value
    try:
        return kind(_plain(name, value, kind))
    except ValueError:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected one of {kind.__name__}, got {value}") from None


def check_instance(name: str, value: object, *kinds: type) -> None:
    """Raise ArgumentTypeError unless ``value`` is of one of these classes."""
    if not isinstance(value, kinds):
        raise type_error(name, " or ".join(kind.__name__.removesuffix("Type") for kind in kinds), value)


def check_vector(name: str, vector: Any) -> None:
    """Raise ArgumentTypeError unless ``vector`` is a sequence of buffers: a list, a tuple, the rows of an array."""
    if isinstance(vector, list | tuple):
        return
    if getattr(vector, "ndim", 0) < 2 and (isinstance(vector, _NO_VECTORS) or not isinstance(vector, Sequence)):
        raise type_error(name, "a sequence of buffers", vector)


def check_timeout(timeout: Any, name: str = "timeout") -> float | None:
    """Return seconds of 0 or more, or None for no limit and for infinity.

    Raises ArgumentTypeError for an object that is no number. Raises FI_EINVAL for a negative number (in C, a wait
    without a limit) and for NaN.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool | enum.Enum) or not hasattr(timeout, "__float__"):
        raise type_error(name, "seconds, or None for no limit", timeout)
    seconds = float(timeout)
    if not seconds >= 0:
        raise fabric_error(
            Errno.FI_EINVAL, f"{name}: expected 0 or more seconds, or None for no limit, got {timeout}"
        )
    return None if math.isinf(seconds) else seconds


def _integer(name: str, value: Any, expected: str) -> int:
    """Return an integer. Raises ArgumentTypeError for other types."""
    if type(value) is int:
        return value
    if type(value) in _NO_NUMBERS:
        raise type_error(name, expected, value)
    try:
        return operator.index(value)
    except TypeError:
        raise type_error(name, expected, value) from None


def _plain(name: str, value: Any, kind: type[enum.IntEnum] | type[enum.IntFlag]) -> int:
    """Return a plain number. Raises ArgumentTypeError for other types."""
    return _integer(name, value, f"{kind.__name__} or its plain number")
