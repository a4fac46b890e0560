"""Shared transmit contexts: fi_stx_context of fi_endpoint(3)."""

import contextlib
from typing import TYPE_CHECKING

from amoeba_model.device import DeviceClosedError

from amoeba.core.lifetime import FabricObject
from amoeba.transport.context import Context
from amoeba.transport.transmit_rings import TransmitRings

if TYPE_CHECKING:
    from amoeba.libfabric.objects.domain_base import DomainBase

__all__ = ["SharedTransmitContext"]


class SharedTransmitContext(FabricObject):
    """A context of the NIC that the endpoints bound to it post into; each has its own queue, counters and peers.

    ``tx_size``: outstanding descriptors of all of them, a power of two. Peers identify packets by the address of
    the endpoint. Raises FI_ENOSPC if the NIC has no free context.
    """

    def __init__(self, domain: "DomainBase", tx_size: int) -> None:
        domain._check_open()
        self.tx_size = tx_size
        self._context = Context(domain.protection, domain.nic.contexts.take_last())
        self._ring = self._context.open_rings(tx_size)
        self._context.enable()
        super().__init__(domain)

    def _share_rings(self, context: Context) -> TransmitRings:
        """Let another endpoint's context post here."""
        return context.share_rings(self._context)

    def _release(self) -> None:
        with contextlib.suppress(DeviceClosedError):
            self._context.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._ring.outstanding} of {self.tx_size} descriptors in flight"
        return f"<SharedTransmitContext {self._context.number} {state}>"
