"""``amoeba explore``: cycles and size of the NICs of a grid."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from amoeba.core.errors import ArgumentError
from amoeba.devices.devices import DEVICE_KINDS
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from amoeba_tools.cli.common import (
    BuildOption,
    JsonOption,
    check_writable,
    facts_table,
    interruptible,
    plot_option,
    progress_bar,
    writes,
    writing,
)
from amoeba_tools.cli.spreading import JobsOption, SchedulerOption, engine_for
from amoeba_tools.explore import AXES, Exploration, Progress, Store, read_axis, read_workload
from amoeba_tools.explore import explore as run_explore
from amoeba_tools.explore.run import AREAS, FAMILIES
from amoeba_tools.plots import check, save

__all__ = ["explore"]

_COLUMNS = {"cycles_per_operation": "cycles/op", "operations_per_second": "op/s", "block_rams": "RAMs"}
_LEFT_OUT = ("operations", "cycles", "operations_per_second", "block", "error")
"""Columns that stand in files, but not on the terminal."""
_ANY_WIDTH = 10_000


def explore(
    axis: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="AXIS=VALUE[,VALUE...]",
            help=f"Axis and its values; repeatable. A single value applies to all NICs. Axes: {', '.join(AXES)}.",
        ),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            "-w",
            metavar="NAME[:OPTION=VALUE...]",
            help="Workload: gups, a test of `amoeba perf`, or a FILE.py with `def workload(fabric)`; repeatable.",
        ),
    ] = None,
    device: Annotated[str, typer.Option("--device", "-d", help=f"Device kind: {' or '.join(DEVICE_KINDS)}.")] = "rtl",
    build: BuildOption = None,
    area: Annotated[
        str, typer.Option(metavar="BLOCK", help=f"Block whose size Yosys measures: {', '.join(AREAS)}, or none.")
    ] = "none",
    family: Annotated[str, typer.Option(help=f"FPGA family: {' or '.join(FAMILIES)}.")] = "ecp5",
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    store: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder that keeps the results. The user's cache if absent.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", callback=writes(".csv"), help="Write the table to this file.")
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", callback=writes(".parquet"), help="Write the table to this file."),
    ] = None,
    plot: Annotated[Path | None, plot_option(help="Draw all NICs and the Pareto front")] = None,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,COLUMN",
            help="Columns to minimise, x then y. If absent: luts, else an axis, and cycles_per_operation.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure workloads on every NIC of a grid of parameters: cycles by RTL, size by Yosys.

    A star marks the Pareto front. Exit status 1 if a measurement fails.

    Results are kept: after an interruption the same command continues.

    Example: amoeba explore --workload gups --set lines=64,256 --plot lines.svg
    """
    console = Console(stderr=as_json)
    done = Progress(0, 0, 0)
    with (
        interruptible(lambda: f"{done.done} of {done.total} results are kept; the same command continues from there"),
    ):
        try:
            axes = dict(read_axis(text) for text in axis or ())
            if len(axes) < len(axis or ()):
                raise typer.BadParameter("expected each axis once", param_hint="--set")
            workloads = [read_workload(text) for text in workload or ()]
            if not workloads and area == "none":
                raise typer.BadParameter(
                    "nothing to measure: expected a --workload, an --area or both", param_hint="-w"
                )
            _check_choice("device", device, DEVICE_KINDS)
            _check_choice("area", area, (*AREAS, "none"))
            _check_choice("family", family, FAMILIES)
        except ArgumentError as error:
            raise typer.BadParameter(str(error.strerror)) from None
        asked = _columns(pareto)
        check_writable(csv, parquet, plot)
        if plot is not None:
            check(plot)
        with progress_bar(Console(stderr=True)) as bar, engine_for(jobs, scheduler) as engine:
            task = bar.add_task(engine.name, total=None)

            def progress(now: Progress) -> None:
                nonlocal done
                done = now
                bar.update(task, total=now.total, completed=now.done, description=now.last or engine.name)

            found = run_explore(
                axes,
                workloads,
                device=device,
                area=None if area == "none" else area,
                family=family,
                store=Store(store),
                engine=engine,
                progress=progress,
            )
        minimised = asked or _minimised(found)
        best = found.front(*minimised) if minimised else []
        if csv is not None:
            with writing(csv):
                found.write_csv(csv)
        if parquet is not None:
            with writing(parquet):
                found.write_parquet(parquet)
        if plot is not None:
            if not minimised:
                raise typer.BadParameter("nothing to draw: expected two columns with numbers", param_hint="--plot")
            with writing(plot):
                save(found.plot(*minimised), plot)
    if as_json:
        print(json.dumps([{**row, "front": row in best} for row in found.rows], indent=2))
    else:
        for shown in _shown(found, best, console):
            console.print(shown)
    console.print(f"{done.total} results, {done.known} of them from earlier runs", soft_wrap=True)
    for row in found.failures:
        place = ", ".join(f"{name} {row[name]}" for name in found.axes)
        console.print(f"[bold red]failed:[/] {escape(place)}: {escape(row['error'])}", soft_wrap=True)
    if found.failures:
        raise typer.Exit(1)


def _check_choice(option: str, given: str, choices: Iterable[str]) -> None:
    if given not in choices:
        raise typer.BadParameter(
            f"unknown {option} {given!r}; expected {', '.join(choices)}", param_hint=f"--{option}"
        )


def _columns(pareto: str | None) -> tuple[str, str] | None:
    """Return the columns that --pareto names, or None without --pareto."""
    if pareto is None:
        return None
    columns = pareto.split(",")
    if len(columns) != 2:
        raise typer.BadParameter(f"expected two columns, got {pareto!r}", param_hint="--pareto")
    return columns[0], columns[1]


def _minimised(found: Exploration) -> tuple[str, str] | None:
    """Return the default columns of the Pareto front; None if fewer than two have numbers."""
    numbers = [name for name in (*found.axes, "luts", "cycles_per_operation") if _has_numbers(found, name)]
    down = "cycles_per_operation" if "cycles_per_operation" in numbers else None
    across = "luts" if "luts" in numbers else next((name for name in numbers if name != down), None)
    if across == "luts" and down is None:  # sizes alone
        return next(((name, "luts") for name in numbers if name != "luts"), None)
    return None if across is None or down is None else (across, down)


def _has_numbers(found: Exploration, name: str) -> bool:
    return any(isinstance(row.get(name), int | float) and not isinstance(row[name], bool) for row in found.rows)


def _shown(found: Exploration, best: list[dict[str, object]], console: Console) -> list[Table]:
    """Return one table, or a list per row if the terminal is too narrow for the table."""
    columns = [name for name in found.columns if name not in _LEFT_OUT]
    whats = dict.fromkeys(str(row[name]) for row in found.rows for name in ("workload", "block") if row.get(name))
    if len({row.get("workload") for row in found.rows}) == 1:
        columns = [name for name in columns if name != "workload"]
    table = Table("", title=f"explore: {', '.join(whats)}")
    for name in columns:
        numbers = any(isinstance(row[name], int | float) for row in found.rows)
        table.add_column(_COLUMNS.get(name, name.replace("_", " ")), justify="right" if numbers else "left")
    for row in found.rows:
        mark = "*" if row in best else "[bold red]![/]" if row["error"] else ""
        table.add_row(mark, *(_cell(row[name]) for name in columns))
    if Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table).maximum <= console.width:
        return [table]
    return [
        facts_table(
            f"{number} of {len(found.rows)}{', on the front' if row in best else ''}",
            [(name.replace("_", " "), _cell(row[name])) for name in columns],
        )
        for number, row in enumerate(found.rows, 1)
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    return escape(str(value))
