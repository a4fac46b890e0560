"""The command line's entry point."""

from typing import Annotated

import typer
from amoeba.core.release import RELEASE

from amoeba_tools.cli.conformance import conformance
from amoeba_tools.cli.endpoint import endpoint
from amoeba_tools.cli.explore import explore
from amoeba_tools.cli.gups import gups
from amoeba_tools.cli.info import info
from amoeba_tools.cli.matrix import matrix
from amoeba_tools.cli.node import node
from amoeba_tools.cli.options import Group
from amoeba_tools.cli.pcie import pcie
from amoeba_tools.cli.pdcs import pdcs
from amoeba_tools.cli.perf import perf
from amoeba_tools.cli.programs import PASSING_ON, fi_run, libucp, provider, ucx_run
from amoeba_tools.cli.replay import replay
from amoeba_tools.cli.soak import soak
from amoeba_tools.cli.trace import PROGRAM_FOLLOWS, trace

__all__ = ["app"]

app = typer.Typer(
    cls=Group,
    help="""Amoeba: libfabric's atomics and RMA in hardware. Benchmark, soak, check, trace and inspect any NIC.

    Example: amoeba gups --device model
    """,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _print_release(wanted: bool) -> None:
    if wanted:
        print(f"amoeba {RELEASE}")
        raise typer.Exit


@app.callback()
def _amoeba(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_release, is_eager=True, help="Print the release and end.")
    ] = False,
) -> None:
    pass


_MEASURE, _CHECK, _LOOK, _PROGRAMS, _PCIE = "Measure", "Check", "Look inside", "Programs in C, MPI", "PCI Express"
_BOARDS = "Boards without a host"
"""Panels of the list of commands."""

app.command(rich_help_panel=_MEASURE)(gups)
app.command(rich_help_panel=_MEASURE)(perf)
app.command(rich_help_panel=_MEASURE)(explore)
app.command(rich_help_panel=_LOOK, context_settings=PROGRAM_FOLLOWS)(trace)
app.command(rich_help_panel=_LOOK)(info)
app.command(rich_help_panel=_LOOK)(matrix)
app.command(rich_help_panel=_LOOK)(pdcs)
app.command(rich_help_panel=_CHECK)(replay)
app.command(rich_help_panel=_CHECK)(soak)
app.command(rich_help_panel=_CHECK)(conformance)
app.command("fi-run", rich_help_panel=_PROGRAMS, context_settings=PASSING_ON)(fi_run)
app.add_typer(provider, name="provider", cls=Group, rich_help_panel=_PROGRAMS)
app.command("ucx-run", rich_help_panel=_PROGRAMS, context_settings=PASSING_ON)(ucx_run)
app.add_typer(libucp, name="libucp", cls=Group, rich_help_panel=_PROGRAMS)
app.command(rich_help_panel=_PCIE)(endpoint)
app.add_typer(pcie, name="pcie", cls=Group, rich_help_panel=_PCIE)
app.add_typer(node, name="node", cls=Group, rich_help_panel=_BOARDS)
