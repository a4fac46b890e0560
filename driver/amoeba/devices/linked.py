"""One simulated NIC of this process, and its link to other processes' NICs, which need no introduction.

=====================  ===========================================================================================
``AMOEBA_HOST``        the address of this host at which others reach the NIC
``AMOEBA_NETWORK``     ``udp`` (the default): simulated NICs alone, with an envelope around each frame.
                       ``uet``: bare UET on the host's own UDP, understood by boards and other endpoints
``AMOEBA_MTU``         bytes of an IP packet on that network; the default is that of the host's interface
=====================  ===========================================================================================
"""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from amoeba_model.device import Device, DeviceError
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.link_addresses import ip_of_link, mac_of_link
from amoeba_model.network import Network
from amoeba_model.outside_network import OutsideNetwork
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import RETRANSMIT_LIMIT
from amoeba_model.udp_network import UdpNetwork
from amoeba_model.uet_network import MAX_HEADERS, UetNetwork, mtu_of
from amoeba_model.wire.uet import UDP_PORT

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.devices import (
    NETLIST_KINDS,
    SIMULATED_KINDS,
    attach,
    default_parameters,
    environment_set,
    open_device,
)
from amoeba.nic.nic import Nic, Retransmission

__all__ = [
    "LOOPBACK", "NETWORKS", "Linked", "default_network", "linked_parameters", "network_setting", "open_linked",
    "open_network", "own_host", "patient", "set_link_address",
]  # fmt: skip

LOOPBACK = "127.0.0.1"
NETWORKS = ("udp", "uet")
"""Networks that join NICs of several processes, by their names."""
_HOST, _NETWORK, _MTU = "AMOEBA_HOST", "AMOEBA_NETWORK", "AMOEBA_MTU"
_LEAST_PAYLOAD = 64
_MAX_TIMEOUTS = 255


def own_host(default: str = LOOPBACK, environment: Mapping[str, str] = os.environ) -> str:
    """Return the IPv4 address of this host for NICs of others. Raises FI_EINVAL for an unknown host."""
    host = environment.get(_HOST) or default
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise fabric_error(
            Errno.FI_EINVAL, f"{_HOST}: expected an IPv4 address of this host, got {host!r}"
        ) from error


def network_setting(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the network between processes. Raises FI_EINVAL for an unknown one."""
    name = environment.get(_NETWORK) or NETWORKS[0]
    if name not in NETWORKS:
        raise fabric_error(Errno.FI_EINVAL, f"{_NETWORK}: expected {' or '.join(NETWORKS)}, got {name[:40]!r}")
    return name


@contextlib.contextmanager
def default_network(name: str) -> Iterator[None]:
    """Join NICs of several processes by this network meanwhile, in this process and those that it starts."""
    with environment_set(_NETWORK, name):
        yield


def open_network(
    kind: str,
    host: str,
    port: int = 0,
    *,
    latency: int = Network.DEFAULT_LATENCY,
    impairments: Impairments = PERFECT,
    arithmetic: bool = True,
) -> OutsideNetwork:
    """Open the network between processes that the environment names, at an address of this host.

    ``kind``: of the NIC; one that is no simulation has a network of its own. ``port``: 0 takes a free one, or the UET
    port, 4793. ``arithmetic`` is as in :class:`UdpNetwork`. Raises FI_EINVAL for an invalid environment, and
    DeviceError if the address cannot be listened at.
    """
    if network_setting() == "uet" and kind in SIMULATED_KINDS + NETLIST_KINDS:
        try:
            return UetNetwork(host, port or UDP_PORT, latency=latency, impairments=impairments)
        except DeviceError as error:
            raise DeviceError(f"{error}; {_HOST} chooses another address, each of which has one UET port") from error
    return UdpNetwork(host, port, latency=latency, impairments=impairments, arithmetic=arithmetic)


def linked_parameters(kind: str, host: str, parameters: NicParameters | None = None) -> NicParameters | None:
    """Return the parameters of a NIC that is linked at ``host``: its packets fit the network.

    Frames of bare UET are packets of the host's IP, which are never fragmented: the payload is the largest power of
    two that fits the MTU, up to that of the parameters. Both ends of a link need the same. The result is None for a
    NIC that is no simulation. Raises FI_EINVAL for an invalid environment or an MTU below 188.
    """
    if kind not in SIMULATED_KINDS:
        return parameters
    parameters = parameters or default_parameters()
    if network_setting() != "uet":
        return parameters
    mtu = _mtu(host)
    payload = min(parameters.payload, 1 << (mtu - MAX_HEADERS).bit_length() - 1)
    return replace(parameters, payload=payload)


def _mtu(host: str) -> int:
    given = os.environ.get(_MTU)
    if given and not (given.isascii() and given.isdecimal() and len(given) <= 5):
        raise fabric_error(Errno.FI_EINVAL, f"{_MTU}: expected a number of bytes, got {given[:40]!r}")
    mtu = int(given) if given else mtu_of(host)
    if mtu < MAX_HEADERS + _LEAST_PAYLOAD:
        raise fabric_error(
            Errno.FI_EINVAL, f"the MTU at {host} must be at least {MAX_HEADERS + _LEAST_PAYLOAD} bytes, got {mtu}"
        )
    return mtu


class Linked(NamedTuple):
    """The result of :func:`open_linked`."""

    device: Device
    network: OutsideNetwork
    """Has no NIC if the device is no simulation: a real NIC has a network of its own."""

    def name(self, nic: Nic) -> None:
        """Give the device, driven by ``nic``, the link's addresses and timeouts.

        A device with addresses of its own keeps them; the timeouts suit the link's clock.
        """
        if self.network.devices or not any(nic.mac):
            set_link_address(nic, self.network)
        for device in self.network.devices:
            nic.retransmission = patient(device.idle_hz)

    def close(self) -> None:
        """Close both. Idempotent."""
        self.device.close()
        self.network.close()


def set_link_address(nic: Nic, network: OutsideNetwork) -> None:
    """Give a NIC the addresses that follow from where its network is reached."""
    link = network.address
    nic.set_address(mac_of_link(*link), ip_of_link(*link))


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

    ``port`` is as in :func:`open_network`, ``parameters`` as in :func:`linked_parameters`, ``rtl_options`` as in
    :func:`open_device`. Raises what these raise.
    """
    parameters = linked_parameters(kind, host, parameters)
    with contextlib.ExitStack() as opened:
        device = opened.enter_context(open_device(kind, parameters, rtl_options=rtl_options))
        network = opened.enter_context(open_network(kind, host, port))
        attach(device, network, mac_of_link(*network.address))
        opened.pop_all()
    return Linked(device, network)
