"""Arguments that are numbers, enumerations and flags: what each may be, and what an error says of another.

An enumeration or a set of flags is given as a member of its own class, or as a plain number, as in C. A member of
another class is a mistake, of arguments in another order most of all, although Python would take it for a number.
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
"""What Python takes for numbers: libfabric's enumerations and flags say neither how many nor where."""
_NO_VECTORS = (bytes, bytearray, memoryview, str, array.array)
"""Sequences that are buffers, or text."""
_OPS = {int(op): op for op in Op}
_DATATYPES = {int(datatype): datatype for datatype in Datatype}


def check_number(name: str, value: Any, bits: int = 64) -> int:
    """``value`` as an int, if it is an integer from 0 to 2**bits - 1: of Python, of NumPy, or another's __index__.

    Raises ArgumentTypeError for what is none: a float, a boolean, bytes, a member of libfabric's enumerations;
    FI_EINVAL for one that is too large, or negative.
    """
    number = value if type(value) is int else _integer(name, value, f"a number of {bits} bits")
    if number < 0 or number >> bits:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected a number of {bits} bits, got {shown(number)}")
    return number


def check_op(op: Any, name: str = "op") -> Op:
    """An operation, or its plain number, as an Op.

    Raises ArgumentTypeError for what is neither, as a Datatype, FI_EOPNOTSUPP for a number that no operation has.
    """
    if type(op) is Op:
        return op
    try:
        return _OPS[_plain(name, op, Op)]
    except KeyError:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"{name}: there is no operation {op}") from None


def check_datatype_argument(datatype: Any, name: str = "datatype") -> Datatype:
    """A datatype, or its plain number, as a Datatype. Raises the same as :func:`check_op`."""
    if type(datatype) is Datatype:
        return datatype
    try:
        return _DATATYPES[_plain(name, datatype, Datatype)]
    except KeyError:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"{name}: there is no datatype {datatype}") from None


def check_op_flags(flags: Any, name: str = "flags") -> int:
    """The bits of OpFlags, or of a plain number."""
    return int(flags) if type(flags) is OpFlags else _plain(name, flags, OpFlags)


def check_flags(kind: type[F], flags: Any, name: str = "flags") -> F:
    """Flags of this class, or a plain number, as flags of this class.

    Raises ArgumentTypeError for flags of another class. Which of them are allowed says the call.
    """
    return flags if type(flags) is kind else kind(_plain(name, flags, kind))


def check_enum(kind: type[E], value: Any, name: str) -> E:
    """A member of this class, or its plain number, as a member of this class.

    Raises ArgumentTypeError for a member of another class, FI_EINVAL for a number that none has.
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
    """Seconds of 0 or more, or None for no limit, which is also what infinitely many are.

    Raises ArgumentTypeError for what is no number, FI_EINVAL for a negative one (in C, a wait without a limit) and
    for NaN, which no time ever reaches.
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
    """Raises ArgumentTypeError for what is no integer."""
    if type(value) is int:
        return value
    if type(value) in _NO_NUMBERS:
        raise type_error(name, expected, value)
    try:
        return operator.index(value)
    except TypeError:
        raise type_error(name, expected, value) from None


def _plain(name: str, value: Any, kind: type[enum.IntEnum] | type[enum.IntFlag]) -> int:
    """Raises ArgumentTypeError for what is no plain number."""
    return _integer(name, value, f"{kind.__name__} or its plain number")
