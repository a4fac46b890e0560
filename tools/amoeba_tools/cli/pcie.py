"""``amoeba pcie``: which NICs are on PCI Express, and who drives them."""

import json
from typing import Annotated

import typer
from amoeba.devices.pcie.binding import PciDevice, bind, list_devices, unbind
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import JsonOption, readable_errors

__all__ = ["pcie"]

pcie = typer.Typer(
    help="NICs on PCI Express: list them, hand them to vfio-pci, take them back.", no_args_is_help=True
)
_Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="On the PCI bus: 0000:01:00.0.")]


@pcie.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also devices that are no Amoebas.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what is there, with drivers and IOMMU groups."""
    found = [device for device in list_devices() if device.is_amoeba or everything]
    if as_json:
        print(json.dumps([vars(device) for device in found], indent=2))
        return
    table = Table()
    for title in ("address", "driver", "IOMMU group", "use as"):
        table.add_column(title)
    for device in found:
        usable = f"pcie:{device.address}" if device.driver == "vfio-pci" and device.is_amoeba else "-"
        table.add_row(device.address, device.driver or "none", device.group or "none", usable)
    Console().print(table if found else "no Amoeba on the PCI bus")


@pcie.command("bind")
def bind_(
    address: _Address,
    user: Annotated[str | None, typer.Option(help="Who may use it without being root.")] = None,
) -> None:
    """Hand a device to vfio-pci, as root."""
    with readable_errors():
        _say(bind(address, user))


@pcie.command("unbind")
def unbind_(address: _Address) -> None:
    """Take a device from vfio-pci, as root."""
    with readable_errors():
        _say(unbind(address))


def _say(device: PciDevice) -> None:
    print(f"{device.address}: driver {device.driver or 'none'}, IOMMU group {device.group or 'none'}")
