"""Messages of UCP checks when a call does not fail as it should."""

from amoeba.ucp import UcsError, UcsStatus

from amoeba_tools.conformance.expectations import ExpectedFailure

__all__ = ["expect_status"]


def expect_status(what: str, *statuses: UcsStatus) -> ExpectedFailure[UcsError]:
    """Raise CheckFailedError unless the block raises a UcsError of one of these statuses; none given: of any."""
    names = " or ".join(status.name for status in statuses)
    return ExpectedFailure(
        what, UcsError, names, lambda error: not statuses or error.status in statuses, lambda error: error.status.name
    )
