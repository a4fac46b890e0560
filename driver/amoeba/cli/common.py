"""What the commands share: options, consoles, and errors that a person can read."""

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer
from amoeba_model.device import DeviceError
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from amoeba.devices import DEVICE_KINDS
from amoeba.errors import FabricError

__all__ = ["DeviceOption", "device_kinds", "host_and_port", "progress_bar", "readable_errors"]

DeviceOption = Annotated[
    list[str],
    typer.Option("--device", "-d", help=f"{' or '.join(DEVICE_KINDS)}; one, or one per rank, comma-separated."),
]


def device_kinds(devices: list[str], ranks: int | None) -> list[str]:
    """One kind per rank: as listed, or the only one repeated. Exits with a usage error where that fails."""
    kinds = [kind.strip() for entry in devices for kind in entry.split(",")]
    for kind in kinds:
        if kind not in DEVICE_KINDS:
            raise typer.BadParameter(f"{kind!r} is none of {', '.join(DEVICE_KINDS)}", param_hint="--device")
    if len(kinds) == 1:
        return kinds * (2 if ranks is None else ranks)
    if ranks not in (None, len(kinds)):
        raise typer.BadParameter(f"{len(kinds)} devices are listed for {ranks} ranks", param_hint="--ranks")
    return kinds


def host_and_port(address: str, option: str) -> tuple[str, int]:
    """The parts of HOST:PORT. Exits with a usage error where there are none."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise typer.BadParameter(f"expected HOST:PORT, got {address!r}", param_hint=option)
    return host, int(port)


def progress_bar(console: Console) -> Progress:
    """A bar with counts and times, which is gone when it is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Turn failures of devices and fabric into one line on stderr and exit status 1."""
    try:
        yield
    except (FabricError, DeviceError, OSError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}")
        raise typer.Exit(1) from None
