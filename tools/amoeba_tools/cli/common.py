"""Options, consoles and readable errors that the commands share."""

import contextlib
import enum
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from amoeba.core.errors import FabricError
from amoeba.devices.bootstrap import Rendezvous
from amoeba.devices.devices import default_build, is_kind, known_kinds
from amoeba.devices.linked import NETWORKS, default_network
from amoeba.nic.nic import Retransmission
from amoeba_model.parameters import BUILDS, known_builds
from amoeba_model.switch import Switch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from amoeba_tools.plots import FORMATS

__all__ = [
    "BufferOption",
    "BuildOption",
    "ConnectOption",
    "DeviceOption",
    "JsonOption",
    "ListenOption",
    "LossOption",
    "MarkOption",
    "NetworkOption",
    "RetransmitTimeoutOption",
    "SwitchKind",
    "SwitchOption",
    "TimeoutOption",
    "check_writable",
    "chosen_retransmission",
    "connecting",
    "device_kinds",
    "facts_table",
    "interruptible",
    "kinds_of_ranks",
    "meeting",
    "plot_option",
    "progress_bar",
    "switch_of",
    "writes",
    "writing",
]


class SwitchKind(enum.StrEnum):
    """Policy of a switch for frames that arrive while a port's buffer is full."""

    NONE = "none"
    DROP = "drop"
    PAUSE = "pause"


DeviceOption = Annotated[
    list[str],
    typer.Option(
        "--device",
        "-d",
        metavar="KIND[,KIND...]",
        help=f"Device kind: {known_kinds()}. One for all ranks, or a comma-separated list with one per rank.",
    ),
]


def _set_build(context: typer.Context, build: str | None) -> str | None:
    """Open NICs of this build until the command ends."""
    if build is not None:
        if build not in BUILDS:
            raise typer.BadParameter(f"unknown build {build!r}; expected {known_builds()}")
        context.with_resource(default_build(build))
    return build


BuildOption = Annotated[
    str | None,
    typer.Option(
        "--build",
        metavar="NAME",
        callback=_set_build,
        is_eager=True,
        help=f"Build of simulated NICs: {known_builds()}. The default is AMOEBA_BUILD, else full.",
    ),
]



def _set_network(context: typer.Context, network: str | None) -> str | None:
    """Join NICs of several processes by this network until the command ends."""
    if network is not None:
        if network not in NETWORKS:
            raise typer.BadParameter(f"unknown network {network!r}; expected {' or '.join(NETWORKS)}")
        context.with_resource(default_network(network))
    return network


NetworkOption = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="NAME",
        callback=_set_network,
        is_eager=True,
        help="Network between processes: udp, or uet (bare UET). The default is AMOEBA_NETWORK, else udp.",
    ),
]

ListenOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Run as rank 0 of several processes: wait here for the others."),
]
ConnectOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Run as another rank: join the process that listens there.")
]

TimeoutOption = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Maximum time that --listen and --connect wait for the others."),
]

LossOption = Annotated[float, typer.Option(min=0, max=1, help="Probability that a frame is lost.")]
RetransmitTimeoutOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=2**32 - 1,
        metavar="N",
        help="Cycles without an answer before a NIC retransmits; 16384, or more between processes.",
    ),
]
SwitchOption = Annotated[
    SwitchKind,
    typer.Option(
        help="Switch between the links: none (unlimited buffers), drop (drops frames), pause (pauses NICs)."
    ),
]
BufferOption = Annotated[int, typer.Option(min=1, metavar="BYTES", help="Buffer space of each switch port.")]
MarkOption = Annotated[
    int | None, typer.Option(min=0, metavar="BYTES", help="Queued bytes from which a switch port marks congestion.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def switch_of(kind: SwitchKind, buffer: int, mark: int | None) -> Switch | None:
    """Return the switch that the options describe, or None.

    Exits with a usage error if ``buffer`` or ``mark`` is given without a switch.
    """
    if kind is not SwitchKind.NONE:
        return Switch(buffer=buffer, pause=kind is SwitchKind.PAUSE, mark=mark)
    if buffer != Switch.buffer or mark is not None:
        raise typer.BadParameter("--buffer and --mark need --switch drop or --switch pause", param_hint="--switch")
    return None


def device_kinds(devices: list[str], ranks: int | None, *, hint: str = "--ranks") -> list[str]:
    """Return one device kind per rank: the listed kinds, or a single kind repeated.

    Exits with a usage error for unknown kinds and for a list of the wrong length.
    ``hint``: the option that gives the number of ranks.
    """
    kinds = [kind.strip() for entry in devices for kind in entry.split(",")]
    for kind in kinds:
        if not is_kind(kind):
            raise typer.BadParameter(f"unknown device {kind!r}; expected {known_kinds()}", param_hint="--device")
    if len(kinds) == 1:
        return kinds * (2 if ranks is None else ranks)
    if ranks not in (None, len(kinds)):
        raise typer.BadParameter(
            f"{len(kinds)} devices are listed for {ranks} rank{'' if ranks == 1 else 's'}", param_hint=hint
        )
    return kinds


def chosen_retransmission(timeout: int | None, limit: int | None = None) -> Retransmission | None:
    """Return the timeouts that the options name.

    Returns None if the options name neither timeout nor limit: each process then chooses its own default.
    """
    if timeout is None and limit is None:
        return None
    default = Retransmission()
    return Retransmission(default.timeout if timeout is None else timeout, default.limit if limit is None else limit)


def kinds_of_ranks(devices: list[str], ranks: int | None, listen: str | None, connect: str | None) -> list[str]:
    """Return the kinds of this process' NICs: exactly one if there are several processes.

    Exits with a usage error for options that exclude each other.
    """
    kinds = device_kinds(devices, ranks if listen is None and connect is None else 1)
    if listen is not None and connect is not None:
        raise typer.BadParameter(
            "expected --listen in one process and --connect in the others, got both", param_hint="--connect"
        )
    if connect is not None and ranks is not None:
        raise typer.BadParameter("the process with --listen sets the number of ranks", param_hint="--ranks")
    return kinds


@contextlib.contextmanager
def meeting(listen: str | None, connect: str | None, ranks: int, timeout: float) -> Iterator[Rendezvous | None]:
    """Meet the other processes; yield None if this process runs alone."""
    if listen is not None:
        host, port = _host_and_port(listen, "--listen")
        with Rendezvous.listen(host, port, ranks, timeout=timeout, ready=_announce) as rendezvous:
            yield rendezvous
    elif connect is not None:
        host, port = _host_and_port(connect, "--connect")
        with connecting(host, port, timeout) as rendezvous:
            yield rendezvous
    else:
        yield None


def connecting(host: str, port: int, timeout: float) -> Rendezvous:
    """Join the process that listens at an address, after a line that says for how long this process tries."""
    typer.echo(f"connecting to {host}:{port}, for {timeout:g} s at most", err=True)
    return Rendezvous.connect(host, port, timeout=timeout)


def _announce(host: str, port: int) -> None:
    typer.echo(f"waiting at {host}:{port}", err=True)


def _host_and_port(address: str, option: str) -> tuple[str, int]:
    """Split HOST:PORT. Exits with a usage error for anything else."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise typer.BadParameter(f"expected HOST:PORT, got {address!r}", param_hint=option)
    return host, int(port)


_FORMATS = (".csv", ".fst", ".html", ".json", ".md", ".parquet", ".pcapng", ".pdf", ".png", ".svg", ".vcd")


def writes(*endings: str) -> Callable[[typer.CallbackParam, Path | None], Path | None]:
    """Return the callback of an option whose file has one of these formats.

    A name that ends in another known format is a usage error.
    """

    def check(option: typer.CallbackParam, path: Path | None) -> Path | None:
        if path is not None and path.suffix.lower() in set(_FORMATS) - set(endings):
            expected = " or ".join(endings)
            raise typer.BadParameter(
                f"expected a file name that ends in {expected}, got {str(path)!r}", param_hint=option.opts[0]
            )
        return path

    return check


def plot_option(help: str) -> Any:
    """Make an option for the file of a plot; ``help`` says what the plot shows."""
    return typer.Option(metavar="FILE.svg", callback=writes(*FORMATS), help=f"{help}: .svg, .png or .pdf.")


def check_writable(*paths: Path | None) -> None:
    """Raise OSError unless these files can be written, before the command runs for minutes."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not path.exists():
            path.touch()
            path.unlink()
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Name the file in errors of the block that writes it: errors of a full disk name none."""
    try:
        yield path
    except FabricError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def facts_table(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    """Return a table with a row per fact: the name, and its values one below the other."""
    table = Table(title=title, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in facts:
        table.add_row(name, value)
    return table


def progress_bar(console: Console) -> Progress:
    """Return a bar with counts and times. The bar vanishes at the end; a pipe gets no bar."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


_INTERRUPTED = 130
"""Exit status by which shells know Ctrl-C: 128 plus the number of SIGINT."""


@contextlib.contextmanager
def interruptible(done_so_far: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end the command with one line on stderr that reports the work done so far."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(f"interrupted: {escape(done_so_far())}", soft_wrap=True)
        raise typer.Exit(_INTERRUPTED) from None
