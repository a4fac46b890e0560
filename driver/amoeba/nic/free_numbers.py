"""Numbers of things that a NIC has several of, and who uses which is the driver's business."""

from collections.abc import Iterable

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["FreeNumbers"]


class FreeNumbers:
    """Numbers that nobody uses: the one unused longest is taken first.

    ``what``: of what they are numbers, in the plural, for those who find none left.
    """

    def __init__(self, numbers: Iterable[int], what: str) -> None:
        self.free = list(numbers)
        """In the order in which they are taken."""
        self._total = len(self.free)
        self._what = what

    def take(self) -> int:
        """Raises FI_ENOSPC when there is none."""
        if not self.free:
            raise fabric_error(Errno.FI_ENOSPC, f"all {self._total} {self._what} are in use")
        return self.free.pop(0)

    def give_back(self, number: int) -> None:
        """Nobody uses this one any more."""
        self.free.append(number)
