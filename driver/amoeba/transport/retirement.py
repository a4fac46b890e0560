"""Contexts that were closed with outstanding requests: they are used again when all their requests have ended.

A context that was disabled is not notified when its requests end. So it is enabled once more, where nobody reaches
anything through it: without events and receives, in a protection domain without keys. There it closes the peer
entries that were in use: CLOSE goes to a peer behind everything else. When CLOSE has completed, or the NIC has given
the peer up, no answer can come any more.
"""

import functools
from collections.abc import Callable, Collection

from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["RETIREMENT_ENTRIES", "Retirement"]

RETIREMENT_ENTRIES = 16
"""Entries of the rings: so many peers are closed at a time."""


class Retirement:
    """The end of a context, which has been enabled once more with these ``rings``.

    ``peers``: its entries of the peer table, which are released. ``over`` is called when all has ended.
    """

    def __init__(self, rings: TransmitRings, peers: Collection[int], over: Callable[[], object]) -> None:
        self._rings = rings
        self._waiting = list(peers)
        self._over = over
        self._close_peers()

    def is_over(self) -> bool:
        """Return whether all has ended; then everything has been released."""
        self._rings.absorb()
        self._close_peers()
        if self._rings.outstanding:
            return False
        self._over()
        return True

    def _close_peers(self) -> None:
        while self._waiting and self._rings.has_space():
            peer = self._waiting.pop()
            self._rings.post_close(peer, functools.partial(self._closed, peer))
        self._rings.announce()

    def _closed(self, peer: int, status: int) -> None:
        self._rings.nic.peers.close(peer)
