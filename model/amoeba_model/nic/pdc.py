"""PdcTable: the packet delivery contexts of initiators elsewhere, and the order of their packets."""

from amoeba_model.registers import Counter
from amoeba_model.wire.codec import FrameHeader

__all__ = ["PdcTable"]


class PdcTable:
    """Target PDCs, numbered from 0 in the order in which they are first opened; none is ever closed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._numbers: dict[tuple[int, int], int] = {}
        """Number of the PDC that belongs to (sender's IP address, sender's PDC)."""
        self._expected: list[int] = []
        """Next packet sequence number of each open PDC."""

    def accept(self, header: FrameHeader) -> int | Counter:
        """PdcTable: the request's PDC, which then expects the next packet; or what counts the request's drop."""
        number = self._numbers.get((header.ip, header.spdcid))
        if header.syn and header.dpdcid == 0:
            if number is None:
                if len(self._expected) == self._size:
                    return Counter.DROPPED_PDC
                number = len(self._expected)
                self._numbers[header.ip, header.spdcid] = number
                self._expected.append(0)
            self._expected[number] = header.psn
        elif number is None or (not header.syn and header.dpdcid != number):
            return Counter.DROPPED_PDC
        if header.psn != self._expected[number]:
            return Counter.DROPPED_SEQUENCE
        self._expected[number] = (header.psn + 1) & 0xFFFF_FFFF
        return number
