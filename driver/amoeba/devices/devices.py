"""Opening devices, by their kind."""

from collections.abc import Mapping
from typing import Any, cast

from amoeba_model.device import Device
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import NicParameters

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["DEVICE_KINDS", "has_waveforms", "network_of", "open_device"]

DEVICE_KINDS = ("model", "rtl")


def has_waveforms(kind: str) -> bool:
    """Whether devices of a kind can write waveforms, if they are opened with ``waves`` in ``rtl_options``."""
    return kind == "rtl"


def network_of(device: Device) -> Network | None:
    """The simulated network that joins a device with others; None if there is none."""
    return device.network if isinstance(device, SimulatedDevice) else None


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
