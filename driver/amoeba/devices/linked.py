"""One simulated NIC of this process, and its link to other processes' NICs, which need no introduction."""

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from amoeba_model.device import Device
from amoeba_model.link_addresses import ip_of_link, mac_of_link
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import RETRANSMIT_LIMIT
from amoeba_model.udp_network import UdpNetwork

from amoeba.devices.devices import attach, open_device
from amoeba.nic.nic import Nic, Retransmission

__all__ = ["LOOPBACK", "Linked", "open_linked", "patient"]

LOOPBACK = "127.0.0.1"
_MAX_TIMEOUTS = 255


class Linked(NamedTuple):
    """The result of :func:`open_linked`."""

    device: Device
    network: UdpNetwork
    """Has no NIC if the device is no simulation: a real NIC has a network of its own."""

    def name(self, nic: Nic) -> None:
        """Give the device, driven by ``nic``, the link's addresses and timeouts.

        A device with addresses of its own keeps them; the timeouts suit the link's clock.
        """
        if self.network.devices or not any(nic.mac):
            link = self.network.address
            nic.set_address(mac_of_link(*link), ip_of_link(*link))
        for device in self.network.devices:
            nic.retransmission = patient(device.idle_hz)

    def close(self) -> None:
        """Close both. Idempotent."""
        self.device.close()
        self.network.close()


def patient(idle_hz: int, *, lossy: bool = False) -> Retransmission:
    """Return the timeouts of a NIC whose peers are simulated in other processes.

    ``lossy``: frames are lost on purpose, so the NIC retransmits at once like others, but gives up as late.
    ``idle_hz``: cycles per second at which the NIC's clock passes while it waits. Processes that are not scheduled,
    or compute meanwhile, answer late, though nothing was lost. So the first timeout is about a second, and a peer is
    given up after several minutes. The network reports a process that is gone within a second.
    """
    if lossy:
        return Retransmission(limit=_MAX_TIMEOUTS)
    return Retransmission(1 << idle_hz.bit_length(), RETRANSMIT_LIMIT)


def open_linked(
    kind: str = "model",
    host: str = LOOPBACK,
    port: int = 0,
    parameters: NicParameters | None = None,
    *,
    rtl_options: Mapping[str, Any] | None = None,
) -> Linked:
    """Open a NIC that reaches those of other processes, and is reached by them, at ``host``, an address of this host.

    ``port``: 0 takes a free one. Others as :func:`open_device` has them.
    Raises what that raises, and DeviceError if the address cannot be listened at.
    """
    with contextlib.ExitStack() as opened:
        device = opened.enter_context(open_device(kind, parameters, rtl_options=rtl_options))
        network = opened.enter_context(UdpNetwork(host, port, arithmetic=True))
        attach(device, network, mac_of_link(*network.address))
        opened.pop_all()
    return Linked(device, network)
