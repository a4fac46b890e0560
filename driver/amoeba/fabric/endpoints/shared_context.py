"""Shared transmit contexts: fi_stx_context of fi_endpoint(3)."""

import contextlib
import time
from typing import TYPE_CHECKING

from amoeba_model.device import DeviceClosedError

from amoeba.core.lifetime import FabricObject
from amoeba.transport.context import start_context
from amoeba.transport.rings import ContextRings
from amoeba.transport.sharing import RingShare
from amoeba.transport.transmit_rings import DRAIN_ROUNDS, DRAIN_TIME

if TYPE_CHECKING:
    from amoeba.fabric.domain_base import DomainBase

__all__ = ["SharedTransmitContext"]


class SharedTransmitContext(FabricObject):
    """A context of the NIC that the endpoints bound to it post into; each has its own queue, counters and peers.

    ``tx_size``: descriptors of all of them under way, a power of two. Peers know whatever is sent by the address of
    its endpoint. Raises FI_ENOSPC if the NIC has no context left.
    """

    def __init__(self, domain: "DomainBase", tx_size: int) -> None:
        domain._check_open()
        self.tx_size = tx_size
        self._nic = domain.nic
        self._context = self._nic.contexts.take()
        self._ring = ContextRings(self._nic, self._context, tx_size)
        start_context(domain.protection, self._context, self._ring)
        super().__init__(domain)

    def _share(self) -> RingShare:
        """The rings for one more endpoint."""
        return RingShare(self._ring)

    def _release(self) -> None:
        ring = self._ring
        with contextlib.suppress(DeviceClosedError):
            ring.wait_until(lambda: not ring.under_way, time.monotonic() + DRAIN_TIME, DRAIN_ROUNDS)
            self._nic.contexts.disable(self._context)
            if not ring.under_way:
                self._nic.contexts.give_back(self._context)
            ring.release()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._ring.under_way} of {self.tx_size} descriptors under way"
        return f"<SharedTransmitContext {self._context} {state}>"
