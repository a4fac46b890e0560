"""What the commands share: options, consoles, and errors that a person can read."""

import contextlib
import enum
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from amoeba.core.errors import FabricError
from amoeba.devices.bootstrap import Rendezvous
from amoeba.devices.devices import default_build, is_kind, known_kinds
from amoeba.nic.nic import Retransmission
from amoeba.openucx.ucp.status import UcsError
from amoeba_model.device import DeviceError
from amoeba_model.parameters import BUILDS
from amoeba_model.switch import Switch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

__all__ = [
    "BufferOption",
    "BuildOption",
    "ConnectOption",
    "DeviceOption",
    "JsonOption",
    "ListenOption",
    "LossOption",
    "MarkOption",
    "RetransmitTimeoutOption",
    "SwitchKind",
    "SwitchOption",
    "TimeoutOption",
    "check_writable",
    "chosen_retransmission",
    "device_kinds",
    "facts_table",
    "interruptible",
    "kinds_of_ranks",
    "meeting",
    "progress_bar",
    "readable_errors",
    "switch_of",
]


class SwitchKind(enum.StrEnum):
    """What becomes of frames that a switch has no room for."""

    NONE = "none"
    DROP = "drop"
    PAUSE = "pause"


DeviceOption = Annotated[
    list[str],
    typer.Option(
        "--device",
        "-d",
        metavar="KIND[,KIND...]",
        help=f"{known_kinds()}; one, or one per rank, comma-separated.",
    ),
]



def _set_build(context: typer.Context, build: str | None) -> str | None:
    """Open NICs of this build until the command ends."""
    if build is not None:
        if build not in BUILDS:
            raise typer.BadParameter(f"unknown build {build!r}; expected {' or '.join(BUILDS)}")
        context.with_resource(default_build(build))
    return build


BuildOption = Annotated[
    str | None,
    typer.Option(
        "--build",
        metavar="NAME",
        callback=_set_build,
        is_eager=True,
        help=f"Build of simulated NICs: {' or '.join(BUILDS)}; that of AMOEBA_BUILD if absent, else full.",
    ),
]

ListenOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Be rank 0 of several processes: wait here for the others.")
]
ConnectOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Be another rank: join the process that listens there.")
]

TimeoutOption = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long --listen and --connect wait for the others.")
]

LossOption = Annotated[float, typer.Option(min=0, max=1, help="Chance that a frame is lost.")]
RetransmitTimeoutOption = Annotated[
    int | None,
    typer.Option(min=1, help="Cycles without an answer until a NIC sends again; 16384, or more between processes."),
]
SwitchOption = Annotated[
    SwitchKind, typer.Option(help="What joins links: none that ever fills, one that drops frames, or pauses NICs.")
]
BufferOption = Annotated[int, typer.Option(min=1, metavar="BYTES", help="Room of each of the switch's ports.")]
MarkOption = Annotated[
    int | None, typer.Option(min=0, metavar="BYTES", help="Waiting bytes from which on it marks congestion.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def switch_of(kind: SwitchKind, buffer: int, mark: int | None) -> Switch | None:
    """The switch that the options describe. Exits with a usage error where they describe what there is not."""
    if kind is not SwitchKind.NONE:
        return Switch(buffer=buffer, pause=kind is SwitchKind.PAUSE, mark=mark)
    if buffer != Switch.buffer or mark is not None:
        raise typer.BadParameter("without a switch nothing waits", param_hint="--switch")
    return None


def device_kinds(devices: list[str], ranks: int | None, *, hint: str = "--ranks") -> list[str]:
    """One kind per rank: as listed, or the only one repeated. Exits with a usage error where that fails.

    ``hint``: the option that says how many ranks there are.
    """
    kinds = [kind.strip() for entry in devices for kind in entry.split(",")]
    for kind in kinds:
        if not is_kind(kind):
            raise typer.BadParameter(f"{kind!r} is none of {known_kinds()}", param_hint="--device")
    if len(kinds) == 1:
        return kinds * (2 if ranks is None else ranks)
    if ranks not in (None, len(kinds)):
        raise typer.BadParameter(
            f"{len(kinds)} devices are listed for {ranks} rank{'' if ranks == 1 else 's'}", param_hint=hint
        )
    return kinds


def chosen_retransmission(timeout: int | None, limit: int | None = None) -> Retransmission | None:
    """Return the timeouts that the options name; None: they name none, and processes choose what suits them."""
    if timeout is None and limit is None:
        return None
    default = Retransmission()
    return Retransmission(default.timeout if timeout is None else timeout, default.limit if limit is None else limit)


def kinds_of_ranks(devices: list[str], ranks: int | None, listen: str | None, connect: str | None) -> list[str]:
    """The kinds of this process' NICs: one alone if there are several processes. Exits with a usage error."""
    kinds = device_kinds(devices, ranks if listen is None and connect is None else 1)
    if listen is not None and connect is not None:
        raise typer.BadParameter("one process listens, the others connect", param_hint="--connect")
    if connect is not None and ranks is not None:
        raise typer.BadParameter("the process that listens says how many there are", param_hint="--ranks")
    return kinds


@contextlib.contextmanager
def meeting(listen: str | None, connect: str | None, ranks: int, timeout: float) -> Iterator[Rendezvous | None]:
    """The other processes; None if this one is all there is."""
    if listen is not None:
        host, port = _host_and_port(listen, "--listen")
        with Rendezvous.listen(host, port, ranks, timeout=timeout, ready=_announce) as rendezvous:
            yield rendezvous
    elif connect is not None:
        host, port = _host_and_port(connect, "--connect")
        typer.echo(f"connecting to {host}:{port}, for {timeout:g} s at most", err=True)
        with Rendezvous.connect(host, port, timeout=timeout) as rendezvous:
            yield rendezvous
    else:
        yield None


def _announce(host: str, port: int) -> None:
    typer.echo(f"waiting at {host}:{port}", err=True)


def _host_and_port(address: str, option: str) -> tuple[str, int]:
    """The parts of HOST:PORT. Exits with a usage error where there are none."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise typer.BadParameter(f"expected HOST:PORT, got {address!r}", param_hint=option)
    return host, int(port)


def check_writable(*paths: Path | None) -> None:
    """Find out before anything has run, perhaps for minutes, whether these files can be written. Raises OSError."""
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


def facts_table(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    """A row for each fact: its name, and its value or values, one below the other."""
    table = Table(title=title, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in facts:
        table.add_row(name, value)
    return table


def progress_bar(console: Console) -> Progress:
    """A bar with counts and times, which is gone when it is done; none in a pipe, where nobody sees it move."""
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
"""The exit status by which shells know Ctrl-C: 128 and the number of SIGINT."""


@contextlib.contextmanager
def interruptible(done_so_far: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end the command with one line on stderr that says what was done until then."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(f"interrupted: {escape(done_so_far())}", soft_wrap=True)
        raise typer.Exit(_INTERRUPTED) from None


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Turn failures of devices, fabric and UCP into one line on stderr and exit status 1."""
    try:
        yield
    except BrokenPipeError:  # whoever read what is printed has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (FabricError, UcsError, DeviceError, OSError) as error:
        # a path that is broken in its middle can be neither copied nor searched for
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from None
