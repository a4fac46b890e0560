"""Contexts that were closed while operations of theirs had not ended: they are used again when that is so.

A context that was disabled does not hear of the end of what it has begun. So it is enabled once more, where nobody
reaches anything through it: without events and receives, in a protection domain without keys. There it closes the
peer entries that were in use: CLOSE goes to a peer behind everything else, so when it has completed, or the NIC has
given the peer up, no answer can come any more.
"""

import contextlib
import functools
from collections.abc import Callable, Collection

from amoeba.core.errors import ResourceError
from amoeba.nic.context_table import ContextSettings
from amoeba.nic.nic import Nic
from amoeba.transport.rings import ContextRings

__all__ = ["retire"]

_ENTRIES = 16
"""Of the rings: so many peers are closed at a time."""


def retire(nic: Nic, context: int, peers: Collection[int], back: Callable[[], object]) -> None:
    """Call ``back`` when a context that has been disabled can be used again: at a later ``nic.contexts.reclaim()``.

    ``peers``: its entries of the peer table, which are given back, too. If the NIC has no protection domain left to
    do that in, nothing of it is used again.
    """
    with contextlib.suppress(ResourceError):
        nic.contexts.retired.append(_Retirement(nic, context, peers, back).is_over)


class _Retirement:
    def __init__(self, nic: Nic, context: int, peers: Collection[int], back: Callable[[], object]) -> None:
        self._nic = nic
        self._context = context
        self._back = back
        self._waiting = list(peers)
        self._domain = nic.domains.take()
        self._rings = rings = ContextRings(nic, context, _ENTRIES)
        nic.contexts.enable(
            context,
            ContextSettings(
                transmit_base=rings.transmit_base,
                transmit_size=rings.size_log2,
                completion_base=rings.completion_base,
                completion_size=rings.size_log2,
                domain=self._domain,
                job_id=0,
                pid_on_fep=0,
            ),
        )
        self._close_peers()

    def is_over(self) -> bool:
        """Whether all has ended; then everything has been given back."""
        self._rings.absorb()
        self._close_peers()
        if self._rings.under_way:
            return False
        self._nic.contexts.disable(self._context)
        self._rings.release()
        self._nic.domains.give_back(self._domain)
        self._back()
        return True

    def _close_peers(self) -> None:
        while self._waiting and self._rings.has_space():
            peer = self._waiting.pop()
            self._rings.post_close(peer, functools.partial(self._closed, peer))
        self._rings.announce()

    def _closed(self, peer: int, status: int) -> None:
        self._nic.peers.close(peer)
