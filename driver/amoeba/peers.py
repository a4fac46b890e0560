"""Which entry of the NIC's peer table an endpoint uses for which address."""

from amoeba.address import EndpointAddress
from amoeba.rings import ContextRings

__all__ = ["PeerMap"]


class PeerMap:
    """The peers of one endpoint, kept in step with its address vector."""

    def __init__(self, rings: ContextRings) -> None:
        self._rings = rings
        self.index: dict[int, int] = {}
        """Entry of the peer table by number in the address vector."""

    def add(self, number: int, address: EndpointAddress) -> None:
        """Open an entry for a peer. Raises FI_ENOSPC when the NIC's peer table is full."""
        self.index[number] = self._rings.nic.open_peer(self._rings.context, address)

    def busy(self, number: int) -> bool:
        """Whether operations to this peer are under way."""
        return self._rings.busy_with(number)

    def remove(self, number: int) -> None:
        self._rings.nic.close_peer(self.index.pop(number))

    def clear(self) -> None:
        for number in tuple(self.index):
            self.remove(number)
