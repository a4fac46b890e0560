"""Messages of UCP checks when a call does not fail as it should."""

import contextlib
from collections.abc import Iterator

from amoeba.ucp import UcsError, UcsStatus

from amoeba_tools.conformance.expectations import CheckFailedError

__all__ = ["expect_status"]


@contextlib.contextmanager
def expect_status(what: str, *statuses: UcsStatus) -> Iterator[None]:
    """Raise CheckFailedError unless the block raises a UcsError of one of these statuses; none given: of any."""
    names = " or ".join(status.name for status in statuses) or "an error"
    try:
        yield
    except UcsError as error:
        if statuses and error.status not in statuses:
            raise CheckFailedError(f"{what}: expected {names}, got {error.status.name}") from error
        return
    raise CheckFailedError(f"{what}: expected {names}, but it succeeded")
