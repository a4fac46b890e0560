"""``amoeba info``: what a device is and can do, as its own registers say."""

import json
from typing import Annotated

import typer
from amoeba_model.opcodes import Form
from rich.console import Console
from rich.table import Table

from amoeba.cli.common import DeviceOption, device_kinds, readable_errors
from amoeba.constants import Datatype, Op
from amoeba.devices import open_device
from amoeba.nic import Nic

__all__ = ["info"]


def info(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a device is and can do."""
    console = Console()
    for kind in dict.fromkeys(device_kinds(device, None)):
        with readable_errors(), open_device(kind) as opened:
            nic = Nic(opened)
            if as_json:
                print(json.dumps(_facts(nic), indent=2))
            else:
                for table in (_sizes(nic), _blocks(nic), _atomics(nic)):
                    console.print(table)


def _sizes(nic: Nic) -> Table:
    parameters = nic.parameters
    table = Table(title=nic.device.name, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in (
        ("datapath", f"{parameters.data_width} bits per beat"),
        ("clock", f"{parameters.clock_hz / 1e6:g} MHz"),
        ("endpoint contexts", f"{parameters.contexts}"),
        ("keys", f"{parameters.keys}"),
        ("peers", f"{parameters.peers}"),
        ("window per peer", f"{parameters.window} packets"),
        ("payload per frame", f"{parameters.payload} bytes"),
        ("a silent peer is given up after", f"{nic.retransmission.patience(parameters.clock_hz) * 1e3:.3g} ms"),
    ):
        table.add_row(name, value)
    return table


def _blocks(nic: Nic) -> Table:
    table = Table(title="register blocks")
    table.add_column("offset", justify="right")
    table.add_column("block")
    table.add_column("type", justify="right")
    table.add_column("version", justify="right")
    table.add_column("bytes", justify="right")
    for placed in nic.blocks:
        block = placed.block
        table.add_row(
            f"{placed.offset:#07x}", block.name, f"{block.kind:#x}", str(block.version), f"{block.length:#x}"
        )
    return table


def _atomics(nic: Nic) -> Table:
    """Operations that are executed in the same forms on the same datatypes share a row."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for op in Op:
        masks = tuple(nic.atomic_mask(form, op) for form in Form)
        groups.setdefault(masks, []).append(op.name)
    table = Table(title="atomics", show_lines=True)
    for title in ("operations", "forms", "datatypes"):
        table.add_column(title, overflow="fold")
    for masks, names in groups.items():
        by_datatypes: dict[int, list[str]] = {}
        for form, mask in zip(Form, masks, strict=True):
            if mask:
                by_datatypes.setdefault(mask, []).append(form.value)
        for mask, forms in by_datatypes.items():
            datatypes = [datatype.name for datatype in Datatype if mask >> datatype & 1]
            table.add_row(_words(names), " ".join(forms), _words(datatypes))
    return table


def _words(names: list[str]) -> str:
    return " ".join(name.removeprefix("FI_") for name in names)


def _facts(nic: Nic) -> dict[str, object]:
    parameters = nic.parameters
    names = ("data_width", "contexts", "keys", "peers", "window", "payload", "clock_hz")
    return {
        "name": nic.device.name,
        **{name: getattr(parameters, name) for name in names},
        "blocks": {placed.block.name: placed.offset for placed in nic.blocks},
        "atomics": {
            form.value: {
                op.name: [datatype.name for datatype in nic.supported_datatypes(form, op)]
                for op in Op
                if nic.atomic_mask(form, op)
            }
            for form in Form
        },
    }
