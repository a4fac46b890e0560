"""The base of domains, for their queues and counters."""

from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.deferral import DeferralQueue
from amoeba.nic.nic import Nic

__all__ = ["QueueOwner"]


class QueueOwner(FabricObject):
    """The NIC of a domain, its number there, and the operations in it that wait for counters."""

    def __init__(self, fabric: FabricObject, nic: Nic, number: int) -> None:
        self.nic = nic
        self.number = number
        self._deferrals = DeferralQueue()
        super().__init__(fabric)
