"""Devices by their kind: known kinds, and the function that opens them."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from amoeba_model.device import Device
from amoeba_model.extras import installation
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import NicParameters, named_build

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error
from amoeba.nic import watching

__all__ = [
    "DEVICE_KINDS",
    "NETLIST_KINDS",
    "SIMULATED_KINDS",
    "attach",
    "default_build",
    "default_parameters",
    "environment_set",
    "has_waveforms",
    "is_kind",
    "known_kinds",
    "network_of",
    "open_device",
    "parameters_of_each",
    "rtl_defaults",
    "simulates_hardware",
    "speaks_packets",
]  # fmt: skip

DEVICE_KINDS = ("model", "rtl")
"""Kinds of simulated NICs that differ in how they execute operations: the specification and the hardware."""
_RTL_KINDS: dict[str, dict[str, str]] = {"rtl": {}, "rtl+pcie": {"host": "pcie"}}
"""Kinds of the hardware in Verilator, each with the arguments of open_rtl that make it."""
SIMULATED_KINDS = ("model", *_RTL_KINDS)
"""All kinds of simulated NICs. A NIC behind vfio-pci is named by its address: ``pcie:0000:01:00.0``."""
_NETLIST = "netlist:"
NETLIST_KINDS = (f"{_NETLIST}node",)
"""Kinds of netlists of an FPGA's cells in Verilator, each by the named build that is synthesized."""
_PCIE = "pcie:"


def is_kind(kind: str) -> bool:
    """Return whether :func:`open_device` takes a kind, as far as is known without opening the device."""
    return kind in SIMULATED_KINDS or kind in NETLIST_KINDS or kind.startswith(_PCIE)


def known_kinds() -> str:
    """List the kinds that :func:`is_kind` accepts, for messages and help."""
    return f"{', '.join((*SIMULATED_KINDS, *NETLIST_KINDS))} or pcie:ADDRESS"


def has_waveforms(kind: str) -> bool:
    """Return whether devices of a kind write waveforms of named signals, if ``rtl_options`` have ``waves``."""
    return kind in _RTL_KINDS


def simulates_hardware(kind: str) -> bool:
    """Return whether devices of a kind are built from the hardware's sources, as the simulator does."""
    return kind in _RTL_KINDS or kind in NETLIST_KINDS


def speaks_packets(kind: str) -> bool:
    """Return whether devices of a kind are simulated on PCI Express, and report packets (``Device.link_packets``)."""
    return _RTL_KINDS.get(kind, {}).get("host") == "pcie"


_rtl_defaults: dict[str, Any] = {}


@contextlib.contextmanager
def rtl_defaults(**options: Any) -> Iterator[None]:
    """Open RTL NICs with these options meanwhile, unless the caller of :func:`open_device` overrides them."""
    before = dict(_rtl_defaults)
    _rtl_defaults.update(options)
    try:
        yield
    finally:
        _rtl_defaults.clear()
        _rtl_defaults.update(before)


_BUILD = "AMOEBA_BUILD"
"""Environment variable that names the build of simulated NICs; processes inherit it from commands."""


def default_parameters() -> NicParameters:
    """Return the parameters of NICs that are opened without any: those of the build that ``AMOEBA_BUILD`` names.

    Raises FI_EINVAL for an unknown build.
    """
    try:
        return named_build(os.environ.get(_BUILD) or "full")
    except ValueError as error:
        raise fabric_error(Errno.FI_EINVAL, f"{_BUILD}: {error}") from None


def parameters_of_each(
    parameters: NicParameters | Sequence[NicParameters | None] | None, nics: int
) -> Sequence[NicParameters | None]:
    """Return the parameters of each of several NICs, given those of all or of each; None stands for the default.

    Raises ArgumentTypeError for anything else, and FI_EINVAL for parameters of another number of NICs.
    """
    if parameters is None or isinstance(parameters, NicParameters):
        return [parameters] * nics
    what = "NicParameters, or a sequence of them"
    if isinstance(parameters, str) or not isinstance(parameters, Sequence):
        raise type_error("parameters", what, parameters)
    for own in parameters:
        if own is not None and not isinstance(own, NicParameters):
            raise type_error("parameters", what, own)
    if len(parameters) != nics:
        raise fabric_error(Errno.FI_EINVAL, f"expected parameters of {nics} NICs, got {len(parameters)}")
    return parameters


@contextlib.contextmanager
def environment_set(variable: str, value: str) -> Iterator[None]:
    """Give an environment variable this value meanwhile, in this process and those that it starts."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


@contextlib.contextmanager
def default_build(name: str) -> Iterator[None]:
    """Open NICs of a named build meanwhile, in this process and those that it starts."""
    with environment_set(_BUILD, name):
        yield


def network_of(device: Device) -> Network | None:
    """Return the simulated network that joins a device with others; None for a device that is no simulation."""
    return device.network if isinstance(device, SimulatedDevice) else None


def attach(device: Device, network: Network, mac: bytes) -> bool:
    """Connect a NIC to a simulated network; return False for a real one, which has a network of its own."""
    if isinstance(device, SimulatedDevice):
        network.attach(device, mac)
        watching.attached(device, network)
        return True
    return False


def open_device(
    kind: str, parameters: NicParameters | None = None, *, rtl_options: Mapping[str, Any] | None = None
) -> Device:
    """Open one NIC, not attached to a network; a simulated one has no network address.

    Parameters
    ----------
    kind : str
        ``model``: the specification as a program. ``rtl``: the hardware in Verilator, which is built first if
        necessary; needs the extra ``sim``. ``rtl+pcie``: the same with its PCI Express
        endpoint, which speaks transaction layer packets with the simulated host. ``netlist:node``: the hardware
        synthesized for an Artix-7, its cells in Verilator; ``parameters`` are those of the build ``node``.
        ``pcie:0000:01:00.0``: the vfio-pci device at that address of the PCI bus; ``parameters`` are its own.
    parameters : NicParameters
        Default: the build that the environment variable ``AMOEBA_BUILD`` names, or the full one.
    rtl_options : mapping
        Keyword arguments for :func:`amoeba_sim.rtl.open_rtl`; the model and real NICs ignore them.

    Raises FI_EINVAL for an unknown kind, and FI_ENOSYS when the simulation is not installed. A NIC on PCI Express
    raises FI_ENODEV, FI_EBUSY, FI_EACCES or FI_ENOSYS; the message says what to do.
    """
    if kind == "model":
        from amoeba_model.nic.device import ModelDevice

        return ModelDevice(parameters or default_parameters())
    if kind in _RTL_KINDS:
        return _open_rtl(kind, parameters or default_parameters(), _rtl_defaults | dict(rtl_options or {}))
    if kind in NETLIST_KINDS:
        return _open_netlist(kind, parameters, _rtl_defaults | dict(rtl_options or {}))
    if kind.startswith(_PCIE):
        from amoeba.devices.pcie.device import PcieDevice

        return PcieDevice(kind.removeprefix(_PCIE))
    raise fabric_error(Errno.FI_EINVAL, f"a device is one of {known_kinds()}, got {kind!r}")


def _open_rtl(kind: str, parameters: NicParameters, options: dict[str, Any]) -> Device:
    for name, value in _RTL_KINDS[kind].items():
        if options.setdefault(name, value) != value:
            raise fabric_error(
                Errno.FI_EINVAL, f"the {name} of {kind} is {value}, rtl_options say {name}={options[name]!r}"
            )
    with _simulator_for(kind):
        from amoeba_sim.rtl import open_rtl

        return cast(SimulatedDevice, open_rtl(parameters, **options))


def _open_netlist(kind: str, parameters: NicParameters | None, options: dict[str, Any]) -> Device:
    build = kind.removeprefix(_NETLIST)
    own = named_build(build)
    if parameters not in (None, own):
        raise fabric_error(Errno.FI_EINVAL, f"{kind} is the build {build}, and has no other parameters")
    with _simulator_for(kind):
        from amoeba_sim.netlist.device import open_netlist

        return cast(SimulatedDevice, open_netlist(own, **options))


@contextlib.contextmanager
def _simulator_for(kind: str) -> Iterator[None]:
    """Raise FI_ENOSYS where the block cannot import the simulator."""
    try:
        yield
    except ImportError as error:
        raise fabric_error(
            Errno.FI_ENOSYS, f"the {kind} device needs the simulator: {installation('sim')} ({error})"
        ) from error
