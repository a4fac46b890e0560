"""Numbers of NIC resources whose use the driver manages."""

from collections.abc import Iterable

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["FreeNumbers"]


class FreeNumbers:
    """Free numbers: the one unused longest is taken first.

    ``what``: the numbered resources, in the plural, for the error message.
    """

    def __init__(self, numbers: Iterable[int], what: str) -> None:
        self.free = list(numbers)
        """Free numbers in the order of their use."""
        self._total = len(self.free)
        self._what = what

    def take(self) -> int:
        """Take a number. Raises FI_ENOSPC when all are in use."""
        if not self.free:
            raise fabric_error(Errno.FI_ENOSPC, f"all {self._total} {self._what} are in use")
        return self.free.pop(0)

    def release(self, number: int) -> None:
        """Free a number."""
        self.free.append(number)
