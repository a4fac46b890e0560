"""Which entry of the NIC's peer table an endpoint uses for which address."""

import functools

from amoeba.address import EndpointAddress
from amoeba.constants import Errno
from amoeba.errors import fabric_error
from amoeba.rings import ContextRings

__all__ = ["PeerMap"]


class PeerMap:
    """The peers of one endpoint, kept in step with its address vector.

    An entry is idle until it is used first, then open, and failed from the moment an operation ends because the NIC
    has given the peer up. A failed one is opened anew for the first operation after all others have ended.
    """

    def __init__(self, rings: ContextRings) -> None:
        self._rings = rings
        rings.peer_failed = self._fail
        self._entries: dict[int, tuple[int, EndpointAddress]] = {}
        """(entry of the peer table, address) by number in the address vector."""
        self._failed: set[int] = set()
        self.open: dict[int, int] = {}
        """Entry of the peer table of those that can be sent to at once; the others take a :meth:`find`."""

    def add(self, number: int, address: EndpointAddress) -> None:
        """Store an entry for a peer. Raises FI_ENOSPC when the NIC's peer table is full."""
        self._entries[number] = self._rings.nic.open_peer(self._rings.context, address), address

    def find(self, number: int) -> int:
        """The entry of a peer, ready to be used.

        Raises FI_EINVAL for an unknown one, FI_EAGAIN while operations to a failed one have not ended.
        """
        if number not in self._entries:
            raise fabric_error(Errno.FI_EINVAL, f"the address vector has no address {number}")
        entry, address = self._entries[number]
        if number in self._failed:
            if self.busy(number):
                raise fabric_error(
                    Errno.FI_EAGAIN,
                    f"{address} was given up, and operations to it are under way: read completions, then repeat",
                )
            self._rings.nic.reopen_peer(entry, self._rings.context, address)
            self._failed.discard(number)
        self.open[number] = entry
        return entry

    def _fail(self, number: int) -> None:
        if self.open.pop(number, None) is not None:
            self._failed.add(number)

    def busy(self, number: int) -> bool:
        """Whether operations to this peer are under way."""
        return self._rings.busy_with(number)

    def remove(self, number: int, deadline: float) -> None:
        """Close a peer, to which no operation is under way, and give its entry back."""
        self._close([number], deadline)

    def clear(self, deadline: float) -> None:
        """The same with all peers."""
        self._close(list(self._entries), deadline)

    def _close(self, numbers: list[int], deadline: float) -> None:
        """Forget peers. Where there is something to close at the peer, wait for that, at most until ``deadline``.

        The entry of one that does not answer by then is given back when the NIC has given it up.
        """
        nic, rings = self._rings.nic, self._rings
        waiting: set[int] = set()

        def done(entry: int, status: int) -> None:
            waiting.discard(entry)
            nic.close_peer(entry)

        for number in numbers:
            entry, _ = self._entries.pop(number)
            self._failed.discard(number)
            is_open = self.open.pop(number, None) is not None
            if is_open and rings.wait_until(rings.has_space, deadline):
                waiting.add(entry)
                rings.post_close(entry, functools.partial(done, entry))
            else:
                nic.close_peer(entry)
        rings.wait_until(lambda: not waiting, deadline)
