"""Fabric: the network, with the NICs through which this process can reach it."""

from collections.abc import Sequence

from amoeba_model.device import Device
from amoeba_model.network import Network, SimulatedDevice

from amoeba.constants import Errno, MrMode
from amoeba.domain import DEFAULT_MR_MODE, Domain
from amoeba.errors import fabric_error
from amoeba.lifetime import FabricObject
from amoeba.nic import Nic, Retransmission

__all__ = ["Fabric"]


class Fabric(FabricObject):
    """NICs of one network, opened; closing the fabric closes everything opened through it, the NICs and the network.

    Parameters
    ----------
    devices : sequence of Device
        From :func:`amoeba.open_device`, or use :func:`amoeba.open_cluster`.
    retransmission : Retransmission, optional
        When the NICs send again, and when they give a peer up; otherwise what their registers say. A NIC's own can be
        read and changed at any time as ``fabric.nics[n].retransmission``.

    Raises FabricError with FI_ENODEV or FI_ENOSYS for a device that this driver cannot drive.
    """

    def __init__(self, devices: Sequence[Device], *, retransmission: Retransmission | None = None) -> None:
        if not devices:
            raise fabric_error(Errno.FI_EINVAL, "a fabric has at least one NIC")
        self.nics = tuple(Nic(device) for device in devices)
        if retransmission is not None:
            for nic in self.nics:
                nic.retransmission = retransmission
        super().__init__()

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(nic.device for nic in self.nics)

    @property
    def network(self) -> Network | None:
        """The simulated network that joins the NICs; None if they are real, or not attached."""
        device = self.nics[0].device
        return device.network if isinstance(device, SimulatedDevice) else None

    def domain(
        self,
        nic: int = 0,
        *,
        mr_mode: MrMode = DEFAULT_MR_MODE,
        job_id: int = 1,
        pid_on_fep: int = 1,
        cswap_by_bits: bool = False,
    ) -> Domain:
        """Open a NIC: see :class:`Domain`. Raises FI_ENODEV if there is no NIC of that index."""
        self._check_open()
        if not 0 <= nic < len(self.nics):
            raise fabric_error(Errno.FI_ENODEV, f"the fabric has {len(self.nics)} NICs, there is no number {nic}")
        return Domain(
            self,
            self.nics[nic],
            mr_mode=mr_mode,
            job_id=job_id,
            pid_on_fep=pid_on_fep,
            cswap_by_bits=cswap_by_bits,
        )

    def settle(self) -> None:
        """Let simulated time pass until the clocks of all NICs agree; nothing on real ones.

        A register read takes time on the NIC that is asked, so after set-up their clocks differ.
        """
        self._check_open()
        network = self.network
        if network is not None:
            latest = max(device.cycles for device in self.devices)
            while network.now < latest:
                network.step()

    def _release(self) -> None:
        network = self.network
        for nic in self.nics:
            nic.close()
        if network is not None:
            network.close()

    def __repr__(self) -> str:
        names = ", ".join(nic.device.name for nic in self.nics)
        return f"<Fabric {names}{' closed' if self.closed else ''}>"
