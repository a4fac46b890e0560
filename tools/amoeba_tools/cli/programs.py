"""Programs written for libfabric or UCX, on Amoeba's NICs.

Commands: ``amoeba fi-run``, ``amoeba provider``, ``amoeba ucx-run`` and ``amoeba libucp``.
"""

import contextlib
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from amoeba.devices.devices import is_kind, known_kinds
from amoeba.devices.linked import linked_parameters
from amoeba.embed.build import build, preloaded
from amoeba.embed.counts import FOLDER
from amoeba.embed.library import CLibrary
from amoeba.embed.process_nic import contexts_setting, process_nic_settings
from amoeba.libfabric.objects.info import PROVIDER

from amoeba_tools.cli.common import NetworkOption
from amoeba_tools.counts import Counts, counting_folder, read_counts
from amoeba_tools.launcher import CANNOT_START, NOT_FOUND, launch
from amoeba_tools.program_settings import OVER_LIBFABRIC, OVER_UCX, unless_set

__all__ = ["fi_run", "libucp", "provider", "ucx_run"]

libucp = typer.Typer(
    help="""Build UCX's UCP library, for programs that are written in C.

    Example: eval "$(amoeba libucp build)"
    """,
    no_args_is_help=True,
)
provider = typer.Typer(
    help="""Build libfabric's provider, for programs that are written in C.

    Example: eval "$(amoeba provider build)"
    """,
    no_args_is_help=True,
)
PASSING_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""Settings of a command whose arguments end with another command: the options behind its name belong to that one."""
CommandArgument = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.")]
KindOption = Annotated[str, typer.Option("--device", "-d", help=f"Kind of each process' NIC: {known_kinds()}.")]
CountOption = Annotated[int, typer.Option("-n", min=1, max=64, help="Number of processes to start.")]
HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="This host's address, for NICs on other hosts.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Omit the final line with the NICs' counts.")]
_MAX_NAME = 60
"""Maximum length of a name in messages."""


def fi_run(
    command: CommandArgument,
    device: KindOption = "model",
    n: CountOption = 1,
    host: HostOption = None,
    network: NetworkOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run a libfabric program on Amoeba's NICs, and exit with its status.

    The first run builds the provider, with cc, in some seconds. Each process has its own NIC.

    MPIs use libfabric, unless your environment chooses otherwise. A final line counts the NICs' operations.

    Example: amoeba fi-run mpirun -n 2 ./program
    """
    settings = unless_set(OVER_LIBFABRIC, os.environ)
    environment = {**settings, **_of_the_provider(), **of_the_nic(device, host)}
    remedy = "does the program use libfabric? One that uses UCX needs amoeba ucx-run"
    run(command, environment, n, None if quiet else _Report("fi-run", "libamoeba-fi.so", remedy))


@provider.command("build")
def build_() -> None:
    """Build libamoeba-fi.so, and print the variables by which programs find the library.

    Example: eval "$(amoeba provider build)"
    """
    _tell(_of_the_provider)


def _of_the_provider() -> dict[str, str]:
    """Return the variables by which libfabric finds the provider. Raises FI_ENOSYS if the build fails."""
    from amoeba.libfabric.provider.library import LIBRARY  # with cffi only, an extra

    return {"FI_PROVIDER_PATH": str(_built(LIBRARY).parent), "FI_PROVIDER": PROVIDER}


def ucx_run(
    command: CommandArgument,
    device: KindOption = "model",
    n: CountOption = 1,
    host: HostOption = None,
    network: NetworkOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run a UCX program on Amoeba's NICs, and exit with its status.

    The first run builds the library, with cc, in some seconds. Each process has its own NIC.

    MPIs use UCX, unless your environment chooses otherwise. A final line counts the NICs' operations.

    Example: amoeba ucx-run mpiexec -n 2 ./program
    """
    library = _of_libucp()
    environment = {**unless_set(OVER_UCX, os.environ), **library, **of_the_nic(device, host)}
    path = preloaded(Path(library["LD_LIBRARY_PATH"].split(os.pathsep)[0], "libucp.so.0"))
    remedy = f"a program with its own UCX, such as a Python wheel, needs LD_PRELOAD={path}"
    run(command, environment, n, None if quiet else _Report("ucx-run", path.name, remedy))


@libucp.command("build")
def build_libucp() -> None:
    """Build libucp.so.0, and print the variables by which programs find the library.

    Example: eval "$(amoeba libucp build)"
    """
    _tell(_of_libucp)


def _of_libucp() -> dict[str, str]:
    """Return the variables by which programs find this library first. Raises FI_ENOSYS if the build fails."""
    from amoeba.openucx.libucp.library import LIBRARY  # with cffi only, an extra

    path = _built(LIBRARY)
    others = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(path.parent), *(each for each in others if each)])}


def _built(library: CLibrary) -> Path:
    """Build the library unless an up-to-date build exists, and return its path."""
    return build(library, announce=lambda name: typer.echo(f"building {name}", err=True))


def _tell(environment: Callable[[], dict[str, str]]) -> None:
    """Print the variables as ``export`` lines for a shell."""
    told = environment()
    for name, value in told.items():
        print(f"export {name}={shlex.quote(value)}")


def of_the_nic(device: str, host: str | None) -> dict[str, str]:
    """Return the variables that describe the process' NIC: see :mod:`amoeba.embed.process_nic`.

    Exits with a usage error for an unknown device.
    Raises FI_EINVAL for invalid variables, since a library could only return an error number.
    """
    if not is_kind(device):
        raise typer.BadParameter(f"unknown device {device!r}; expected {known_kinds()}", param_hint="--device")
    told = {"AMOEBA_DEVICE": device, **({} if host is None else {"AMOEBA_HOST": host})}
    _, own, _ = process_nic_settings({**os.environ, **told})
    linked_parameters(device, own, contexts_setting(device))
    return told


class _Report:
    """Final line with the counts of a program's NICs. Exits with a usage error for an unknown ``AMOEBA_COUNT``."""

    def __init__(self, command: str, library: str, remedy: str) -> None:
        form = os.environ.get("AMOEBA_COUNT") or "text"
        if form not in ("json", "text"):
            raise typer.BadParameter(f"expected json or text, got {form[:_MAX_NAME]!r}", param_hint="AMOEBA_COUNT")
        self._json = form == "json"
        self._command, self._library, self._remedy = command, library, remedy

    def tell(self, counts: Counts | None, status: int) -> None:
        """Print one line on standard error, and one more if files were skipped; nothing if the program did not run.

        ``counts``: the counts of all processes, or None if counting failed.
        """
        if counts is None:
            typer.echo("amoeba: nothing was counted: expected a writable temporary folder (TMPDIR)", err=True)
            return
        if not counts.processes and status in (NOT_FOUND, CANNOT_START):
            return
        if counts.strange:
            names = ", ".join(repr(name[:_MAX_NAME]) for name in counts.strange[:3])
            number = len(counts.strange)
            typer.echo(f"amoeba: no counts in {number} file{'s' if number > 1 else ''}, left out: {names}", err=True)
        warning = counts.warning(self._library, self._remedy)
        if self._json:
            line = counts.as_json(self._command, warning)
        else:
            line = f"amoeba: {counts.sentence()}" if warning is None else f"amoeba: warning: {warning}"
        typer.echo(line, err=True)


def run(command: list[str], environment: Mapping[str, str], count: int, report: _Report | None) -> None:
    """Run a command, print its ``report``, if any, and exit with the command's status."""
    with contextlib.nullcontext() if report is None else counting_folder() as folder:
        status = launch(command, {**environment, FOLDER: str(folder or "")}, count)
        if report is not None:
            with contextlib.suppress(OSError):  # standard error may be closed
                report.tell(None if folder is None else read_counts(folder), status)
    if status == NOT_FOUND:
        typer.echo(f"amoeba: program {command[0]} was not found", err=True)
    elif status == CANNOT_START:
        typer.echo(f"amoeba: {command[0]} cannot be started: expected an executable program", err=True)
    raise typer.Exit(status)
