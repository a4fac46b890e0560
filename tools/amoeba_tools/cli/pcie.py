"""``amoeba pcie``: list the NICs on PCI Express, and bind their drivers."""

import json
from typing import Annotated

import typer
from amoeba.devices.pcie.binding import PciDevice, bind, list_devices, unbind
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import JsonOption

__all__ = ["pcie"]

pcie = typer.Typer(
    help="""List the NICs on PCI Express, bind them to vfio-pci, and unbind them.

    Example: amoeba pcie list
    """,
    no_args_is_help=True,
)
_Addresses = Annotated[
    list[str], typer.Argument(metavar="ADDRESS...", help="Addresses on the PCI bus, such as 0000:01:00.0.")
]


@pcie.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also list devices other than Amoeba's.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the NICs with their drivers and IOMMU groups.

    Example: amoeba pcie list --json
    """
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
    addresses: _Addresses,
    user: Annotated[str | None, typer.Option(help="User who may open the NICs without being root.")] = None,
) -> None:
    """Bind devices to vfio-pci. Needs root.

    Example: sudo amoeba pcie bind 0000:01:00.0 --user alice
    """
    for address in addresses:
        _say(bind(address, user))


@pcie.command("unbind")
def unbind_(addresses: _Addresses) -> None:
    """Unbind devices from vfio-pci. Needs root.

    Example: sudo amoeba pcie unbind 0000:01:00.0
    """
    for address in addresses:
        _say(unbind(address))


def _say(device: PciDevice) -> None:
    print(f"{device.address}: driver {device.driver or 'none'}, IOMMU group {device.group or 'none'}")
