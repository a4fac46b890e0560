"""Incarnations: which openings of PDCs there were, so that their first requests open nothing again."""

__all__ = ["REMEMBERED", "Incarnations"]

REMEMBERED = 4
"""Former openings that are remembered, for each target PDC."""


class Incarnations:
    """A place for each value of a hash, with the last opening that has it: nothing is forgotten but for another
    opening of which a request was executed."""

    def __init__(self, pdcs: int) -> None:
        """``pdcs``: the size of their table, a power of two."""
        self._places: list[tuple[int, int, int] | None] = [None] * (REMEMBERED * pdcs)

    def remember(self, ip: int, spdcid: int, start_psn: int) -> None:
        """Requests of this opening were executed, and its PDC is to be another's."""
        self._places[self._place(ip, spdcid, start_psn)] = ip, spdcid, start_psn

    def knows(self, ip: int, spdcid: int, start_psn: int) -> bool:
        return self._places[self._place(ip, spdcid, start_psn)] == (ip, spdcid, start_psn)

    def _place(self, ip: int, spdcid: int, start_psn: int) -> int:
        folded = (ip ^ ip >> 16 ^ spdcid ^ start_psn ^ start_psn >> 16) & 0xFFFF
        return (folded ^ folded >> 8) & (len(self._places) - 1)
