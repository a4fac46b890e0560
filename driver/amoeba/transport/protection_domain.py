"""Protection domains: who may reach which memory through a NIC, and by which names its contexts are known."""

from amoeba.nic.address import EndpointAddress
from amoeba.nic.nic import Nic

__all__ = ["ProtectionDomain"]


class ProtectionDomain:
    """A protection domain of a NIC that nobody else has, and the UET identity of the contexts in it.

    ``job_id`` and ``pid_on_fep`` have 24 and 12 bits. ``relative``: ``pid_on_fep`` counts within the job, else within
    the NIC (UET's relative and absolute addressing). ``cswap_by_bits``: FI_CSWAP that the contexts send compares
    floating point by bits, else by value. Raises FI_ENOSPC if the NIC has none left.
    """

    def __init__(
        self, nic: Nic, *, job_id: int, pid_on_fep: int, relative: bool = False, cswap_by_bits: bool = False
    ) -> None:
        self.nic = nic
        self.job_id = job_id
        self.pid_on_fep = pid_on_fep
        self.relative = relative
        self.cswap_by_bits = cswap_by_bits
        self.number = nic.domains.take()

    def address_of(self, context: int, contexts: int = 1) -> EndpointAddress:
        """By which peers reach a context of the NIC, or so many side by side from this one on."""
        nic = self.nic
        return EndpointAddress(nic.mac, nic.ip, self.job_id, self.pid_on_fep, context, contexts, self.relative)

    def release(self) -> None:
        """Give it back: no context and no region of it is left."""
        self.nic.domains.release(self.number)

    def __repr__(self) -> str:
        return f"<ProtectionDomain {self.number} of {self.nic.device.name}>"
