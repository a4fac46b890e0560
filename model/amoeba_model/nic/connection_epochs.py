"""``ConnectionEpochs``: remembers past connection epochs of PDCs, whose first requests then open nothing again."""

__all__ = ["REMEMBERED", "ConnectionEpochs"]

REMEMBERED = 4
"""Past connection epochs that are remembered, for each target PDC."""


class ConnectionEpochs:
    """A place for each value of a hash, with the last connection epoch that has it.

    Another epoch replaces it only once a request of that epoch was executed.
    """

    def __init__(self, pdcs: int) -> None:
        """``pdcs``: the size of their table, a power of two."""
        self._places: list[tuple[int, int, int] | None] = [None] * (REMEMBERED * pdcs)

    def remember(self, ip: int, spdcid: int, start_psn: int) -> None:
        """Remember a connection epoch whose requests were executed, before its PDC goes to another initiator."""
        self._places[self._place(ip, spdcid, start_psn)] = ip, spdcid, start_psn

    def knows(self, ip: int, spdcid: int, start_psn: int) -> bool:
        return self._places[self._place(ip, spdcid, start_psn)] == (ip, spdcid, start_psn)

    def _place(self, ip: int, spdcid: int, start_psn: int) -> int:
        folded = (ip ^ ip >> 16 ^ spdcid ^ start_psn ^ start_psn >> 16) & 0xFFFF
        return (folded ^ folded >> 8) & (len(self._places) - 1)
