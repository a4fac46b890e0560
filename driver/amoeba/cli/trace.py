"""``amoeba trace``: the life of one fetching atomic."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from amoeba_model.wire.render import layers, summary
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from amoeba.apps.capture import write_pcapng
from amoeba.apps.tracing import Traced, trace_fetch_atomic
from amoeba.cli.common import DeviceOption, device_kinds, readable_errors
from amoeba.devices.devices import has_waveforms
from amoeba.fabric.cluster import open_cluster
from amoeba.fabric.fabric import Fabric

__all__ = ["trace"]


def trace(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    pcapng: Annotated[Path | None, typer.Option(help="Write the frames to this file, for Wireshark.")] = None,
    vcd: Annotated[Path | None, typer.Option(help="Write waveforms of the RTL NICs to this file.")] = None,
) -> None:
    """Print the life of one fetching atomic between two NICs, stage by stage, with the frames it causes."""
    kinds = device_kinds(device, 2 if len(device) == 1 and "," not in device[0] else None)
    if vcd is not None and not any(map(has_waveforms, kinds)):
        raise typer.BadParameter("only an RTL NIC has waveforms: add --device rtl", param_hint="--vcd")
    console = Console()
    with readable_errors(), open_cluster(kinds, rtl_options={"waves": vcd is not None}) as fabric:
        with _waveforms(fabric, kinds, vcd):
            traced = trace_fetch_atomic(fabric)
        names = [nic.device.name for nic in fabric.nics]
        console.print(
            f"fetch_atomic(FI_SUM, FI_UINT64) by NIC 0 on memory of NIC {len(names) - 1}: "
            f"found {traced.fetched}, left {traced.stored}"
        )
        for number, name in enumerate(names):
            console.print(f"NIC {number}: {name}")
        console.print(_stages(traced))
        for frame in _frames(traced):
            console.print(frame)
        if pcapng is not None:
            write_pcapng(pcapng, traced.frames, fabric.nics[0].parameters.clock_hz)
            console.print(f"frames: {pcapng}")


@contextlib.contextmanager
def _waveforms(fabric: Fabric, kinds: list[str], vcd: Path | None) -> Iterator[None]:
    """Write the waveform of every RTL NIC: to the file itself if there is one, else one file per NIC."""
    shown: list[Any] = [device for device, kind in zip(fabric.devices, kinds, strict=True) if has_waveforms(kind)]
    if vcd is None:
        shown = []
    for number, device in enumerate(shown):
        assert vcd is not None
        device.start_vcd(vcd if len(shown) == 1 else vcd.with_stem(f"{vcd.stem}-{number}"))
    try:
        yield
    finally:
        for device in shown:
            device.stop_vcd()


def _stages(traced: Traced) -> Table:
    table = Table(title="stages; cycles count from the doorbell", box=SIMPLE)
    for title in ("cycle", "+"):
        table.add_column(title, justify="right")
    for title in ("NIC", "component", "stage", ""):
        table.add_column(title, no_wrap=bool(title))
    before = 0
    for step in traced.steps:
        table.add_row(
            str(step.cycle),
            str(step.cycle - before),
            f"{step.nic}",
            step.component,
            step.event.stage.name.lower().replace("_", " "),
            step.detail,
        )
        before = step.cycle
    return table


def _frames(traced: Traced) -> list[Table]:
    """One table per frame, without the fields that UET reserves."""
    tables = []
    for sender, frame in traced.frames:
        cycle = frame.cycle - traced.doorbell
        table = Table(title=f"frame of {len(frame.data)} bytes, has left NIC {sender} by cycle {cycle}", box=SIMPLE)
        table.add_column("layer")
        table.add_column(summary(frame.data), overflow="fold")
        for layer in layers(frame.data):
            fields = ", ".join(f"{name} {value}" for name, value in layer.fields if not name.startswith("reserved"))
            table.add_row(layer.name, fields)
        tables.append(table)
    return tables
