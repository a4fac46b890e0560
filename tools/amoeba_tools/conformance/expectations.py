"""Messages of checks that find a difference from the manual."""

import contextlib
from collections.abc import Iterator
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError

__all__ = ["CheckFailedError", "expect", "expect_equal", "expect_error"]

_SHOWN = 96
"""Characters of a value that a message shows."""


class CheckFailedError(AssertionError):
    """A sentence of the manual does not hold."""


def expect(condition: object, what: str) -> None:
    """Raise CheckFailedError unless something is so. ``what`` says what was expected, and what came."""
    if not condition:
        raise CheckFailedError(what)


def expect_equal(what: str, got: Any, expected: Any) -> None:
    """Raise CheckFailedError, which shows both values, unless they are equal."""
    if got != expected:
        raise CheckFailedError(f"{what}: expected {_shown(expected)}, got {_shown(got)}{_where(got, expected)}")


@contextlib.contextmanager
def expect_error(what: str, *errors: Errno) -> Iterator[None]:
    """Raise CheckFailedError unless the block fails with one of these error numbers; none given: with any."""
    names = " or ".join(error.name for error in errors) or "an error"
    try:
        yield
    except FabricError as error:
        if errors and error.fi_errno not in errors:
            raise CheckFailedError(f"{what}: expected {names}, got {error}") from error
        return
    raise CheckFailedError(f"{what}: expected {names}, but it succeeded")


def _shown(value: Any) -> str:
    text = f"{len(value)} bytes {value.hex()}" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _where(got: Any, expected: Any) -> str:
    """Return the place of the first difference of two byte strings of equal length."""
    if not (isinstance(got, bytes) and isinstance(expected, bytes) and len(got) == len(expected)):
        return ""
    first = next(index for index in range(len(got)) if got[index] != expected[index])
    return f", first at byte {first}"
