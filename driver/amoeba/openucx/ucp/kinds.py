"""Values of structures' fields and of arguments: one check per kind of C's types.

A :data:`Kind` takes the name of an argument and the given value, and returns the value as the driver uses it: numbers
as members of their enumeration, everything else unchanged. It raises UCS_ERR_INVALID_PARAM for an impossible value.
None is C's NULL: pointers may be None, numbers may not. Unknown bits of flags are dropped, because newer programs set
them.
"""

import enum
import operator
from collections.abc import Callable, Set
from typing import Any, TypeAlias, TypeVar

from amoeba.core.buffers import view_of
from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.constants import ucp_am_cb_flags
from amoeba.openucx.ucp.status import invalid_param, wrong_type

__all__ = [
    "INT",
    "NAME",
    "SIZE",
    "UINT32",
    "UINT64",
    "Kind",
    "am_handler_flags",
    "anything",
    "bits_of",
    "callback",
    "cpu_set",
    "handler",
    "instance_of",
    "integer",
    "known_bits",
    "memory_address",
    "one_of",
    "optional",
    "packed_address",
    "real",
    "refuse_other",
    "signed",
    "socket_address",
    "text",
    "unsigned",
]

Kind: TypeAlias = Callable[[str, Any], Any]
"""``(name, given)``, returning the value to use."""
_Member = TypeVar("_Member", bound=enum.IntEnum)
_IPV4_FIELDS = 2
_IPV6_FIELDS = 4
_PORTS = 1 << 16


def integer(name: str, given: Any) -> int:
    """Check for any whole number, also one of NumPy's; not a float, nor text."""
    try:
        return operator.index(given)
    except TypeError:
        raise wrong_type(name, "an integer", given) from None


def unsigned(bits: int) -> Kind:
    """Make the check of C's unsigned integers."""
    end = 1 << bits

    def check(name: str, given: Any) -> int:
        number = given if type(given) is int else integer(name, given)
        if not 0 <= number < end:
            raise invalid_param(f"{name}: expected 0 to 2^{bits} - 1, got {_number(number)}")
        return number

    return check


def signed(bits: int) -> Kind:
    """Make the check of C's signed integers."""
    end = 1 << bits - 1

    def check(name: str, given: Any) -> int:
        number = integer(name, given)
        if not -end <= number < end:
            raise invalid_param(f"{name}: expected -2^{bits - 1} to 2^{bits - 1} - 1, got {_number(number)}")
        return number

    return check


def _number(number: int) -> str:
    """Print a number in an error; not one of many digits, which Python may refuse to do."""
    return str(number) if number.bit_length() <= 128 else f"an integer of {number.bit_length()} bits"


INT = signed(32)
UINT32 = unsigned(32)
UINT64 = unsigned(64)
SIZE = unsigned(64)
"""``size_t``, in bytes unless another unit is named."""


def refuse_other(name: str, given: Any, expected: type[enum.Enum]) -> None:
    """Raise UCS_ERR_INVALID_PARAM for a member of another enumeration, whose number means something else."""
    if isinstance(given, enum.Enum) and not isinstance(given, expected):
        raise invalid_param(f"{name}: expected a {expected.__name__}, got {type(given).__name__}.{given.name}")


def known_bits(flags: type[enum.IntFlag]) -> int:
    """Return all bits that have a name. The complement of no flags may have others."""
    known = 0
    for each in flags:
        known |= each
    return int(known)


def bits_of(flags: type[enum.IntFlag], bits: int) -> Kind:
    """Make the check of flags in an unsigned integer of ``bits``, which drops unknown flags."""
    known = known_bits(flags)
    number = unsigned(bits)

    def check(name: str, given: Any) -> enum.IntFlag:
        refuse_other(name, given, flags)
        return flags(number(name, given) & known)

    return check


def one_of(members: type[_Member], end: _Member | None = None) -> Kind:
    """Make the check of a member of an enumeration; ``end`` is C's marker of its end, which is no member."""
    valid = {int(member): member for member in members if end is None or member < end}

    def check(name: str, given: Any) -> _Member:
        refuse_other(name, given, members)
        member = valid.get(given if type(given) is int else integer(name, given))
        if member is None:
            names = ", ".join(f"{each.name} ({number})" for number, each in valid.items())
            raise invalid_param(f"{name}: expected one of {names}, got {_number(int(given))}")
        return member

    return check


def instance_of(kind: type) -> Kind:
    """Make the check of an object of the driver: a handle, or a structure inside a structure."""

    def check(name: str, given: Any) -> Any:
        if not isinstance(given, kind):
            raise wrong_type(name, f"a {kind.__name__}", given)
        return given

    return check


def optional(kind: Kind) -> Kind:
    """Make the check of a pointer that may be NULL: None, or ``kind``."""

    def check(name: str, given: Any) -> Any:
        return None if given is None else kind(name, given)

    return check


def anything(name: str, given: Any) -> Any:
    """Pass ``void *`` of the application, which the driver never reads."""
    return given


def callback(name: str, given: Any) -> Any:
    """Check for a function, or None."""
    if given is not None and not callable(given):
        raise wrong_type(name, "a function or None", given)
    return given


def handler(kind: type) -> Kind:
    """Make the check of a handler inside a structure: its function is checked, its argument is the application's."""
    structure = instance_of(kind)

    def check(name: str, given: Any) -> Any:
        callback(f"{name}.cb", structure(name, given).cb)
        return given

    return check


_AM_FLAGS = known_bits(ucp_am_cb_flags)
_AM_PRIVATE_FLAGS = 1 << 15


def am_handler_flags(name: str, given: Any) -> ucp_am_cb_flags:
    """Check flags of a handler of active messages; flags from bit 15 on are the library's (``ucp_am.c``)."""
    refuse_other(name, given, ucp_am_cb_flags)
    if UINT32(name, given) >= _AM_PRIVATE_FLAGS:
        raise invalid_param(f"{name}: expected flags below {_AM_PRIVATE_FLAGS:#x}, got {given:#x}")
    return ucp_am_cb_flags(given & _AM_FLAGS)


def text(name: str, given: Any) -> str:
    """Check for ``const char *``: a string without the character that ends C's."""
    if not isinstance(given, str):
        raise wrong_type(name, "a str", given)
    if "\0" in given:
        raise invalid_param(f"{name}: expected text without zero characters, got {given[:60]!r}")
    return given


NAME = optional(text)
"""A name, or NULL."""


def real(name: str, given: Any) -> float:
    """Check for ``double``."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise wrong_type(name, "a number", given)
    return float(given)


def memory_address(name: str, given: Any) -> Any:
    """Check for ``void *`` to memory: a buffer, an address in this process, or None."""
    if given is None:
        return None
    if isinstance(given, int):
        return SIZE(name, given)
    try:
        view_of(given, name=name)
    except FabricError as error:
        raise invalid_param(str(error.strerror)) from error
    return given


def packed_address(name: str, given: Any) -> bytes:
    """Check for a worker's address: any buffer of bytes."""
    try:
        return bytes(memoryview(given))
    except TypeError:
        raise wrong_type(name, "the bytes of a worker's address", given) from None


def socket_address(name: str, given: Any) -> tuple[Any, ...]:
    """Check for an address as :mod:`socket` has it: (host, port), with IPv6 also flow and scope."""
    form = "(host, port), as socket has it"
    if not isinstance(given, tuple | list) or len(given) not in (_IPV4_FIELDS, _IPV4_FIELDS + 1, _IPV6_FIELDS):
        raise wrong_type(name, form, given)
    if not isinstance(given[0], str) or any(
        isinstance(each, bool) or not isinstance(each, int) for each in given[1:]
    ):
        raise wrong_type(name, form, given)
    if not 0 <= given[1] < _PORTS:
        raise invalid_param(f"{name}: expected a port from 0 to {_PORTS - 1}, got {_number(given[1])}")
    return tuple(given)


def cpu_set(name: str, given: Any) -> frozenset[int]:
    """Check for numbers of processors."""
    if not isinstance(given, Set | list | tuple):
        raise wrong_type(name, "a set of processors", given)
    number = unsigned(32)
    return frozenset(number(name, each) for each in given)
