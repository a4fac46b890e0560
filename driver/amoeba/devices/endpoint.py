"""Simulated NICs as PCI functions for virtual machines: what ``amoeba endpoint`` serves."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from amoeba_model.extras import installation
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import NicParameters

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.addresses import MAX_NICS, ip_of, mac_of
from amoeba.devices.devices import open_device
from amoeba.nic.nic import Nic

__all__ = ["open_endpoints"]


@contextlib.contextmanager
def open_endpoints(
    kinds: Sequence[str],
    folder: Path,
    parameters: NicParameters | None = None,
    *,
    latency: int = Network.DEFAULT_LATENCY,
    impairments: Impairments = PERFECT,
) -> Iterator[Any]:
    """Open NICs behind an ``amoeba_sim.vfio_user.EndpointServer``, to be :meth:`run`.

    Each NIC has a socket ``nic<n>.sock`` in ``folder``, n from 0 on. All are on one network; number n has the
    addresses that :func:`amoeba.open_cluster` gives number n, also after a reset.

    Raises what :func:`open_device` raises. Raises FI_EINVAL for none or more than 254 NICs, and for NICs that are no
    simulation; FI_ENOSYS when the simulation is not installed; OSError if a socket cannot be made.
    """
    try:
        from amoeba_sim.vfio_user import EndpointServer
    except ImportError as error:
        raise fabric_error(
            Errno.FI_ENOSYS, f"endpoints need the simulator: {installation('sim')} ({error})"
        ) from error
    if not 1 <= len(kinds) <= MAX_NICS:
        raise fabric_error(Errno.FI_EINVAL, f"a network has 1 to {MAX_NICS} NICs, got {len(kinds)}")
    network = Network(latency, impairments)
    served: dict[Path, tuple[SimulatedDevice, int, Any]] = {}
    with contextlib.ExitStack() as opened:
        for index, kind in enumerate(kinds):
            device = opened.enter_context(open_device(kind, parameters))
            if not isinstance(device, SimulatedDevice):
                raise fabric_error(Errno.FI_EINVAL, f"expected NICs to simulate, got {device.name}")
            nic = Nic(device)
            network.attach(device, mac_of(index))
            served[folder / f"nic{index}.sock"] = device, nic.parameters.contexts, _address(nic, index)
        folder.mkdir(parents=True, exist_ok=True)
        yield opened.enter_context(EndpointServer(network, served))


def _address(nic: Nic, index: int) -> Any:
    """Return a function that gives a NIC the addresses of its number, as a board's memory would."""
    return lambda: nic.set_address(mac_of(index), ip_of(index))
