"""``amoeba gups``: HPC Challenge RandomAccess, in one process or several."""

import dataclasses
import json
from typing import Annotated

import typer
from amoeba.libfabric.objects.cluster import join_cluster, open_cluster
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import (
    BuildOption,
    ConnectOption,
    DeviceOption,
    JsonOption,
    ListenOption,
    NetworkOption,
    TimeoutOption,
    facts_table,
    interruptible,
    kinds_of_ranks,
    meeting,
    progress_bar,
)
from amoeba_tools.random_access import MAX_LOOKAHEAD, GupsResult, run_gups

__all__ = ["gups"]


def gups(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    build: BuildOption = None,
    ranks: Annotated[
        int | None, typer.Option(min=1, max=32, help="Number of ranks, each with a NIC. 2 if absent.")
    ] = None,
    table_size: Annotated[int, typer.Option(min=1, max=30, help="log2 of the 64-bit words of the whole table.")] = 12,
    updates: Annotated[int | None, typer.Option(min=1, help="Number of updates. 4 per word if absent.")] = None,
    window: Annotated[int, typer.Option(min=1, max=MAX_LOOKAHEAD, help="Outstanding updates per rank.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Start in the random stream. The benchmark starts at 0.")] = 0,
    listen: ListenOption = None,
    connect: ConnectOption = None,
    network: NetworkOption = None,
    timeout: TimeoutOption = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Run HPC Challenge RandomAccess with XOR atomics, and verify the table. Exit status 1 on any error.

    With --listen and --connect each rank is a process, on this host or another; the NICs talk over UDP.

    Example: amoeba gups --device rtl --table-size 8
    """
    kinds = kinds_of_ranks(device, ranks, listen, connect)
    console = Console(stderr=as_json)
    bar = progress_bar(console)
    total, completed = 4 << table_size if updates is None else updates, 0
    with interruptible(lambda: f"{completed:,} of {total:,} updates done, not verified"):
        with bar, meeting(listen, connect, ranks or 2, timeout) as rendezvous:
            opening = bar.add_task(f"opening {', '.join(kinds)}", total=None)
            with open_cluster(kinds) if rendezvous is None else join_cluster(kinds[0], rendezvous) as fabric:
                bar.remove_task(opening)
                task = bar.add_task("updates", total=total if rendezvous is None else total // rendezvous.ranks)

                def progress(done: int) -> None:
                    nonlocal completed
                    completed += done
                    bar.advance(task, done)

                result = run_gups(
                    fabric,
                    table_bits=table_size,
                    updates=updates,
                    window=window,
                    position=seed,
                    rendezvous=rendezvous,
                    progress=progress,
                )
        if as_json:
            print(json.dumps(_facts(result), indent=2))
        else:
            console.print(_table(result))
    if not result.passed:
        raise typer.Exit(1)


def _facts(result: GupsResult) -> dict[str, object]:
    return {
        **dataclasses.asdict(result),
        "faults": [str(fault) for fault in result.faults],
        "cycles_per_update": result.cycles_per_update,
        "gups": result.gups,
        "passed": result.passed,
    }


def _table(result: GupsResult) -> Table:
    speed = (
        ("cycles", f"{result.cycles:,}"),
        ("cycles per update", f"{result.cycles_per_update:.2f}"),
        ("GUPS", f"{result.gups:.4f} at {result.clock_hz / 1e6:g} MHz"),
    )
    verdict = "[green]0, verified[/]" if result.passed else f"[bold red]{result.errors} of {result.table_words}[/]"
    facts = (
        ("ranks", f"{len(result.devices)}"),
        ("devices", "\n".join(result.devices)),
        ("table", f"{result.table_words:,} words of 64 bits"),
        ("updates", f"{result.updates:,}, {result.window} outstanding per rank"),
        ("errors", verdict),
        *((f"refused DMA {index}", str(fault)) for index, fault in enumerate(result.faults)),
        *(() if result.distributed else speed),  # NICs of several processes have independent clocks
        ("host seconds", f"{result.seconds:.2f}"),
    )
    return facts_table("HPC Challenge RandomAccess", facts)
