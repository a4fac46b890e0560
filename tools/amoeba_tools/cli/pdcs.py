"""``amoeba pdcs``: the target PDCs of a NIC, and their initiators."""

import json
from dataclasses import asdict
from ipaddress import IPv4Address
from typing import Annotated

import typer
from amoeba.devices.devices import open_device
from amoeba.nic.nic import Nic
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import DeviceOption, JsonOption, device_kinds

__all__ = ["pdcs", "print_pdcs"]


def pdcs(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    close: Annotated[int | None, typer.Option(metavar="N", help="Close this PDC first.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the target PDCs of NICs: their initiators, and the time since the last packet.

    A NIC that a program has opened belongs to that program: there, use Nic.target_pdcs.

    Example: amoeba pdcs --device pcie:0000:01:00.0
    """
    for kind in dict.fromkeys(device_kinds(device, None)):
        with open_device(kind) as opened:
            nic = Nic(opened)
            if close is not None:
                nic.target_pdcs.close(close)
            print_pdcs(nic, as_json=as_json)


def print_pdcs(nic: Nic, *, as_json: bool = False) -> None:
    """Print the target PDCs of a NIC that were opened since reset."""
    used = nic.target_pdcs.used()
    if as_json:
        facts = [asdict(pdc) | {"state": pdc.state.name, "ip": str(IPv4Address(pdc.ip))} for pdc in used]
        print(json.dumps({"name": nic.device.name, "target_pdcs": len(nic.target_pdcs), "used": facts}, indent=2))
        return
    table = Table(title=f"{nic.device.name}: {len(used)} of {len(nic.target_pdcs)} target PDCs")
    for title in ("PDC", "state", "initiator", "its entry", "job", "context", "next psn", "silent for"):
        table.add_column(title, justify="left" if title in ("state", "initiator") else "right")
    for pdc in used:
        silent = f"{pdc.silent_cycles / nic.parameters.clock_hz * 1e3:.3g} ms"
        table.add_row(
            str(pdc.number), pdc.state.name, str(IPv4Address(pdc.ip)), str(pdc.spdcid), f"{pdc.job_id:#x}",
            str(pdc.context), f"{pdc.expected_psn:#010x}", silent,
        )  # fmt: skip
    Console().print(table if used else f"{nic.device.name}: all {len(nic.target_pdcs)} target PDCs are free")
