"""Packet delivery contexts are closed when their targets ask for it. Only peers that are no Amoebas do."""

import time
from collections.abc import Callable

from amoeba.nic.peer_table import PeerTable

__all__ = ["INTERVAL", "CloseRequests"]

INTERVAL = 0.1
"""Seconds between two looks at the registers. The target waits for a second."""


class CloseRequests:
    """The peers of one ring that may ask for a CLOSE."""

    def __init__(self, peers: PeerTable, clock: Callable[[], float] = time.monotonic) -> None:
        self._peers = peers
        self._clock = clock
        self._next_look = 0.0
        self.closers: dict[int, Callable[[int], bool]] = {}
        """By entry of the peer table: posts a CLOSE, and returns whether it did. Called again while the peer asks."""

    def answer(self) -> bool:
        """Look which peers ask for a CLOSE, if it is time to look; return whether a CLOSE was posted."""
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + INTERVAL
        asking = self._peers.close_requests(self.closers)
        return sum(self.closers[peer](peer) for peer in asking) > 0
