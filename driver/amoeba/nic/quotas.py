"""Shares of a NIC's table: limits on each user, so that some entries are left for every other user."""

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["Quota"]

_FEW = 4
"""In a table with fewer entries for each context nothing is reserved."""


class Quota:
    """Shares of ``total`` entries among parties: contexts, or protection domains.

    Each of ``contexts`` parties can always have :attr:`reserve` entries, at least one. All reserves together are one
    part in ``share`` of the table. Any party may take the remaining entries. ``what`` and ``party`` are names for
    error messages, such as "peer table entries" and "context".
    """

    def __init__(self, what: str, party: str, total: int, contexts: int, share: int = 8) -> None:
        self._what = what
        self._party = party
        self._total = total
        self.reserve = max(total // (share * contexts), int(total // contexts >= _FEW))
        """Entries that are reserved for every party."""
        self._reserved = contexts * self.reserve
        self._used: dict[int, int] = {}
        self._in_use = 0
        self._covered = 0
        """Entries in use that count against reserves."""
        self._owners: dict[int, int] = {}
        """The party of every assigned entry."""

    def used(self, party: int) -> int:
        """Return the entries that a party has."""
        return self._used.get(party, 0)

    def space(self, party: int) -> int:
        """Return the entries that a party could take now, one after the other."""
        free = self._total - self._in_use
        own = max(0, self.reserve - self.used(party))
        return max(free - self._kept(own), min(own, free))

    def _kept(self, own: int) -> int:
        """Return the free entries for others; ``own``: reserved entries of the party that asks."""
        return max(0, self._reserved - self._covered - own)

    def require(self, party: int) -> None:
        """Raise FI_ENOSPC when all entries are in use, or the free ones are reserved for other parties."""
        if not self.space(party):
            raise fabric_error(Errno.FI_ENOSPC, self.refusal(party))

    def assign(self, entry: int, party: int) -> None:
        """Take this entry, and remember its party until :meth:`release`."""
        self.take(party)
        self._owners[entry] = party

    def release(self, entry: int) -> None:
        """Return an entry that was assigned."""
        self.put_back(self._owners.pop(entry))

    def take(self, party: int) -> None:
        """Count one more. Raises as :meth:`require`."""
        self.require(party)
        used = self._used[party] = self.used(party) + 1
        self._in_use += 1
        self._covered += used <= self.reserve

    def refusal(self, party: int) -> str:
        """Describe why a party gets no entry."""
        if self._in_use == self._total:
            return f"all {self._total} {self._what} are in use"
        return (
            f"{self._party} {party} has {self.used(party)} of {self._total} {self._what}, and may have no more: "
            f"{self._in_use} are in use, {self._total - self._in_use} are kept, {self.reserve} for every "
            f"{self._party}"
        )

    def put_back(self, party: int) -> None:
        """Count one less."""
        self._covered -= self._used[party] <= self.reserve
        self._in_use -= 1
        self._used[party] -= 1
        if not self._used[party]:
            del self._used[party]
