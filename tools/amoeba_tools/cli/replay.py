"""``amoeba replay``: compare a device with recorded results of the real libfabric."""

import fnmatch
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.atomic.matrix import Cell
from amoeba_model.atomic.vectors import CellResult, RecordedCell, check, load
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amoeba_tools.cli.common import (
    DeviceOption,
    JsonOption,
    device_kinds,
    interruptible,
    progress_bar,
)
from amoeba_tools.cli.spreading import JobsOption, SchedulerOption, engine_for, is_spread, spread_shown
from amoeba_tools.replay import EndpointExecutor, ReplayJob, replay_cells
from amoeba_tools.spread import Ending, Job, portions

__all__ = ["replay"]


def replay(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Recording, as in tests/data/README.md.")],
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    cells: Annotated[
        str, typer.Option(help="Cells to replay, such as fetch/FI_SUM/FI_INT64, SUM/INT64, SUM or */FLOAT*.")
    ] = "*",
    vector: Annotated[int, typer.Option(min=1, max=1024, help="Elements per request.")] = 16,
    offset: Annotated[int, typer.Option(min=0, max=63, help="Misalignment of the target, in bytes.")] = 0,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Execute every recorded vector through the endpoint API, and compare. Exit status 1 on any mismatch.

    Example: amoeba replay tests/data/libfabric-1.17-sockets.npz --device rtl --cells SUM/INT64
    """
    kinds = device_kinds(device, 2)
    console = Console(stderr=as_json)
    results: list[CellResult] = []
    failures: list[str] = []
    with interruptible(lambda: _so_far(results)):
        try:
            recorded = [entry for entry in load(file) if _matches(entry.cell, cells)]
        except ValueError as error:
            raise typer.BadParameter(f"{file} is not a recording: {error}", param_hint="FILE") from None
        if not recorded:
            raise typer.BadParameter(f"no cell of {file} matches {cells!r}", param_hint="--cells")
        started = time.perf_counter()
        if is_spread(jobs, scheduler):
            failures = _run_spread(recorded, kinds, vector, offset, console, results, jobs, scheduler)
        else:
            _run(recorded, kinds, vector, offset, console, results)
    seconds = time.perf_counter() - started
    if as_json:
        print(json.dumps([_facts(result) for result in results], indent=2))
    else:
        console.print(_table(results))
    wrong = [result for result in results if result.mismatches]
    for result in wrong[:5]:
        for example in result.examples:
            console.print(escape(f"{result.cell} {example}"), soft_wrap=True)
    vectors, mismatches = sum(result.vectors for result in results), sum(result.mismatches for result in results)
    verdict = "[bold red]" if wrong else "[green]"
    console.print(
        f"{verdict}{len(results)} cells, {vectors:,} vectors, {mismatches:,} mismatches[/] "
        f"on {', '.join(kinds)} in {seconds:.1f} s"
    )
    for failure in failures:
        console.print(f"[bold red]not executed:[/] {escape(failure)}", soft_wrap=True)
    if wrong or failures:
        raise typer.Exit(1)


def _matches(cell: Cell, pattern: str) -> bool:
    """Return whether a pattern selects a cell: by whole name, end of the name, or operation, with or without FI_."""
    names = (cell.form.value, cell.op.name, cell.datatype.name)
    short = tuple(name.removeprefix("FI_") for name in names)
    called = [
        each for form, op, datatype in (names, short) for each in (f"{form}/{op}/{datatype}", f"{op}/{datatype}", op)
    ]
    return any(fnmatch.fnmatchcase(each, pattern) for each in called)


def _so_far(results: list[CellResult]) -> str:
    wrong = [f"{result.cell}: {result.mismatches:,} mismatches" for result in results if result.mismatches]
    vectors = sum(result.vectors for result in results)
    return f"{len(results)} cells, {vectors:,} vectors, {'; '.join(wrong) or '0 mismatches'}"


def _run(
    recorded: list[RecordedCell],
    kinds: list[str],
    vector: int,
    offset: int,
    console: Console,
    results: list[CellResult],
) -> None:
    """Append the result of every cell at once, so that an interrupted run shows the results so far."""
    bar = progress_bar(console)
    with bar:
        task = bar.add_task(f"opening {', '.join(kinds)}", total=sum(len(entry) for entry in recorded))
        with open_cluster(kinds) as fabric, EndpointExecutor(fabric, vector=vector, offset=offset) as executor:
            for entry in recorded:
                bar.update(task, description=str(entry.cell))
                results.append(check(entry, executor))
                bar.advance(task, len(entry))


def _run_spread(
    recorded: list[RecordedCell],
    kinds: list[str],
    vector: int,
    offset: int,
    console: Console,
    results: list[CellResult],
    jobs: int | None,
    scheduler: str | None,
) -> list[str]:
    """Replay on several workers, with ``results`` in order at the end. Return the cells without result, and why."""
    with progress_bar(console) as bar, engine_for(jobs, scheduler) as engine:
        shares = portions(recorded, engine, len)

        def take(ending: Ending) -> None:
            results.extend(ending.result or ())

        endings = spread_shown(
            replay_cells,
            [Job(_span(share), ReplayJob(share, kinds, vector, offset)) for share in shares],
            engine,
            bar,
            weights=[sum(map(len, share)) for share in shares],
            taken=take,
        )
    results[:] = [result for ending in endings for result in ending.result or ()]
    return [f"{ending.name}: {ending.failure}" for ending in endings if ending.failure]


def _span(share: list[RecordedCell]) -> str:
    first, last = share[0].cell, share[-1].cell
    return str(first) if first == last else f"{first} to {last}"


def _table(results: list[CellResult]) -> Table:
    """Return a table with one row per cell; a column per datatype would not fit a terminal."""
    table = Table(title="replay")
    for title in ("form", "operation", "datatype"):
        table.add_column(title)
    for title in ("vectors", "mismatches"):
        table.add_column(title, justify="right")
    for result in results:
        bad = f"[bold red]{result.mismatches:,}[/]" if result.mismatches else "0"
        cell = result.cell
        table.add_row(cell.form.value, cell.op.name, cell.datatype.name, f"{result.vectors:,}", bad)
    return table


def _facts(result: CellResult) -> dict[str, object]:
    return {
        "cell": str(result.cell),
        "vectors": result.vectors,
        "mismatches": result.mismatches,
        "examples": [str(example) for example in result.examples],
    }
