"""Programs that were written for libfabric or UCX, on NICs of ours: ``amoeba fi-run``, ``amoeba provider``, ``amoeba
ucx-run`` and ``amoeba libucp``."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from amoeba.apps.launcher import CANNOT_START, NOT_FOUND, launch
from amoeba.cli.common import readable_errors
from amoeba.devices.devices import is_kind, known_kinds
from amoeba.embed.build import build
from amoeba.embed.library import CLibrary
from amoeba.fabric.info import PROVIDER

__all__ = ["fi_run", "libucp", "provider", "ucx_run"]

libucp = typer.Typer(help="UCX's UCP library, for programs that are written in C.", no_args_is_help=True)
provider = typer.Typer(help="libfabric's provider, for programs that are written in C.", no_args_is_help=True)
PASSING_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""Settings of a command whose arguments end with another command: what stands behind its name is that one's."""
CommandArgument = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.")]
KindOption = Annotated[str, typer.Option("--device", "-d", help=f"The NIC of each process: {known_kinds()}.")]
CountOption = Annotated[int, typer.Option("-n", min=1, max=64, help="So many processes at once.")]
HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="This host's address, for NICs on other hosts.")
]


def fi_run(
    command: CommandArgument, device: KindOption = "model", n: CountOption = 1, host: HostOption = None
) -> None:
    """Run a program of libfabric's on NICs of ours, and end as it does: amoeba fi-run mpirun -n 2 ./program

    The provider is built if need be, which takes cc and some seconds. Each process has a NIC of its own.
    """
    with readable_errors():
        environment = {**_of_the_provider(), **of_the_nic(device, host)}
    run(command, environment, n)


@provider.command("build")
def build_() -> None:
    """Build libamoeba-fi.so, and say how programs find it."""
    _tell(_of_the_provider)


def _of_the_provider() -> dict[str, str]:
    """What libfabric is told. Raises FI_ENOSYS if the provider cannot be built here."""
    from amoeba.provider.library import LIBRARY  # with cffi only, an extra

    return {"FI_PROVIDER_PATH": str(_built(LIBRARY).parent), "FI_PROVIDER": PROVIDER}


def ucx_run(
    command: CommandArgument, device: KindOption = "model", n: CountOption = 1, host: HostOption = None
) -> None:
    """Run a program of UCX's on NICs of ours, and end as it does: amoeba ucx-run mpiexec -n 2 ./program

    The library is built if need be, which takes cc and some seconds. Each process has a NIC of its own.
    """
    with readable_errors():
        environment = {**_of_libucp(), **of_the_nic(device, host)}
    run(command, environment, n)


@libucp.command("build")
def build_libucp() -> None:
    """Build libucp.so.0, and say how programs find it."""
    _tell(_of_libucp)


def _of_libucp() -> dict[str, str]:
    """Where programs find the library before the system's. Raises FI_ENOSYS if it cannot be built here."""
    from amoeba.libucp.library import LIBRARY  # with cffi only, an extra

    path = _built(LIBRARY)
    others = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(path.parent), *(each for each in others if each)])}


def _built(library: CLibrary) -> Path:
    """Where the library is, which is built if need be."""
    return build(library, announce=lambda name: typer.echo(f"building {name}", err=True))


def _tell(environment: Callable[[], dict[str, str]]) -> None:
    """Print what programs have to be told, as a shell takes it."""
    with readable_errors():
        told = environment()
    for name, value in told.items():
        print(f"export {name}={shlex.quote(value)}")


def of_the_nic(device: str, host: str | None) -> dict[str, str]:
    """What the process' NIC is told: see :mod:`amoeba.embed.process_nic`. Exits with a usage error."""
    if not is_kind(device):
        raise typer.BadParameter(f"{device!r} is none of {known_kinds()}", param_hint="--device")
    return {"AMOEBA_DEVICE": device, **({} if host is None else {"AMOEBA_HOST": host})}


def run(command: list[str], environment: dict[str, str], count: int) -> None:
    """Run it, and exit with its status."""
    status = launch(command, environment, count)
    if status == NOT_FOUND:
        typer.echo(f"amoeba: there is no program {command[0]}, or it was not found", err=True)
    elif status == CANNOT_START:
        typer.echo(f"amoeba: {command[0]} cannot be started: it is no program, or it may not be", err=True)
    raise typer.Exit(status)
