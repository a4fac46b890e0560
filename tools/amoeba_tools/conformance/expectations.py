"""Messages of checks that find a difference from the manual."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError

__all__ = ["CheckFailedError", "ExpectedFailure", "expect", "expect_equal", "expect_error"]

Failure = TypeVar("Failure", bound=Exception)

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


class ExpectedFailure(Generic[Failure]):
    """Context manager: raise CheckFailedError unless the block raises an error of this kind that fits.

    The manager is a class. Since Python 3.12, a generator would keep the error in a reference cycle, and with it the
    frames of the call and their views of buffers.
    """

    def __init__(
        self,
        what: str,
        kind: type[Failure],
        names: str,
        fits: Callable[[Failure], bool],
        shown: Callable[[Failure], str],
    ) -> None:
        self._expected = f"{what}: expected {names or 'an error'}"
        self._kind, self._fits, self._told = kind, fits, shown

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if error is None:
            raise CheckFailedError(f"{self._expected}, but it succeeded")
        if not isinstance(error, self._kind):
            return False
        if not self._fits(error):
            raise CheckFailedError(f"{self._expected}, got {self._told(error)}") from error
        return True


def expect_error(what: str, *errors: Errno) -> ExpectedFailure[FabricError]:
    """Raise CheckFailedError unless the block fails with one of these error numbers; none given: with any."""
    names = " or ".join(error.name for error in errors)
    return ExpectedFailure(what, FabricError, names, lambda error: not errors or error.fi_errno in errors, str)


def _shown(value: Any) -> str:
    text = f"{len(value)} bytes {value.hex()}" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _where(got: Any, expected: Any) -> str:
    """Return the place of the first difference of two byte strings of equal length."""
    if not (isinstance(got, bytes) and isinstance(expected, bytes) and len(got) == len(expected)):
        return ""
    first = next(index for index in range(len(got)) if got[index] != expected[index])
    return f", first at byte {first}"
