"""``amoeba conformance``: check libfabric's manual pages, or UCX's header, sentence by sentence on a pair of NICs."""

import enum
import functools
import json
from pathlib import Path
from typing import Annotated

import typer
from amoeba.libfabric.objects.constants import Progress
from amoeba.nic.nic import Retransmission
from amoeba_model.impairments import Impairments
from amoeba_model.switch import Switch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amoeba_tools.cli.common import (
    BufferOption,
    ConnectOption,
    DeviceOption,
    ListenOption,
    LossOption,
    NetworkOption,
    RetransmitTimeoutOption,
    SwitchKind,
    SwitchOption,
    TimeoutOption,
    chosen_retransmission,
    interruptible,
    kinds_of_ranks,
    meeting,
    progress_bar,
    switch_of,
    writes,
    writing,
)
from amoeba_tools.cli.spreading import JobsOption, SchedulerOption, engine_for, is_spread, spread_shown
from amoeba_tools.conformance import Check, Report, checks, join_pair, open_pair, results, run, select
from amoeba_tools.conformance import ucp as ucp_kit
from amoeba_tools.conformance.registry import Subject
from amoeba_tools.conformance.report import manual_page
from amoeba_tools.conformance.runner import Fixture, Outcome
from amoeba_tools.conformance.shares import Share, outcomes_of, run_share
from amoeba_tools.spread import Ending, Job, portions

__all__ = ["conformance"]


class Api(enum.StrEnum):
    """API under test."""

    LIBFABRIC = "libfabric"
    UCP = "ucp"


class ProgressModel(enum.StrEnum):
    """Values of the option ``--progress``."""

    MANUAL = "manual"
    AUTO = "auto"

    @property
    def number(self) -> Progress:
        return Progress[f"FI_PROGRESS_{self.name}"]


def conformance(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    page: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PAGE", help="Manual page, UCP function, or pattern of check ids; repeatable. All if absent."
        ),
    ] = None,
    api: Annotated[
        Api, typer.Option(help="API to check: libfabric (its manual pages) or ucp (UCX's ucp.h).")
    ] = Api.LIBFABRIC,
    loss: LossOption = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed that decides which frames are lost.")] = 0,
    switch: SwitchOption = SwitchKind.NONE,
    buffer: BufferOption = Switch.buffer,
    retransmit_timeout: RetransmitTimeoutOption = None,
    progress: Annotated[
        ProgressModel, typer.Option(help="Progress model: manual (the reader of a queue) or auto (a thread).")
    ] = ProgressModel.MANUAL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=writes(".md", ".json"),
            help="Write all results to this file: JSON for FILE.json, else Markdown.",
        ),
    ] = None,
    listen: ListenOption = None,
    connect: ConnectOption = None,
    network: NetworkOption = None,
    timeout: TimeoutOption = 60.0,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Check two NICs against libfabric's manual pages or UCX's header. Exit status 1 if a check fails.

    The first device is the initiator, the second the target.

    With --listen the target is another process: start it with --connect, and it serves until the last check.

    Example: amoeba conformance --device model --page fi_atomic
    """
    kinds = kinds_of_ranks(device, None, listen, connect)
    if len(kinds) > 2:
        raise typer.BadParameter(
            f"expected at most two devices, initiator and target, got {kinds}", param_hint="--device"
        )
    of_ucp = api is Api.UCP
    if of_ucp and (listen or connect or progress is ProgressModel.AUTO):
        raise typer.BadParameter(
            "UCP's checks run in one process and make their own progress",
            param_hint="--listen, --connect, --progress",
        )
    if is_spread(jobs, scheduler) and (listen or connect):
        raise typer.BadParameter(
            "checks with a target in another process cannot be spread over workers", param_hint="--jobs, --scheduler"
        )
    joined_by = switch_of(switch, buffer, None)
    if joined_by is not None and (listen or connect):
        raise typer.BadParameter("a switch joins NICs of one process only", param_hint="--switch")
    chosen = _chosen(page, of_ucp)
    links, named = Impairments(seed, loss=loss), chosen_retransmission(retransmit_timeout)
    timeouts = named or Retransmission()
    console = Console(stderr=as_json)
    with meeting(listen, connect, 2, timeout) as rendezvous:
        if rendezvous is None:
            fixture = (
                functools.partial(
                    ucp_kit.open_pair, kinds, impairments=links, retransmission=timeouts, switch=joined_by
                )
                if of_ucp
                else functools.partial(
                    open_pair,
                    kinds,
                    impairments=links,
                    retransmission=timeouts,
                    progress=progress.number,
                    switch=joined_by,
                )
            )
            if is_spread(jobs, scheduler):
                report = _run_spread(fixture, chosen, console, jobs, scheduler)
            else:
                report = _run(fixture, chosen, console)
        else:
            with join_pair(
                kinds[0], rendezvous, impairments=links, retransmission=named, progress=progress.number
            ) as pair:
                if pair is None:  # this process was the target
                    return
                report = _run(pair, chosen, console)
    title = f"Conformance of {','.join(kinds)}"
    if of_ucp:
        title += " to ucp.h"
    if rendezvous is not None:
        title += " with a target in another process"
    if loss:
        title += f", {loss:g} of all frames lost (seed {seed})"
    if joined_by is not None:
        title += f", a switch that {'pauses' if joined_by.pause else 'drops'}"
    if progress is ProgressModel.AUTO:
        title += ", automatic progress"
    if output is not None:
        with writing(output):
            as_file = json.dumps(_facts(report), indent=2) if output.suffix == ".json" else results(report, title)
            output.write_text(as_file, encoding="utf-8")
    if as_json:
        print(json.dumps(_facts(report), indent=2))
    else:
        console.print(_table(report, title))
    for outcome in report.failures:
        console.print(f"[bold red]{outcome.check.id}:[/] {escape(outcome.failure)}", soft_wrap=True)
    if not report.passed:
        raise typer.Exit(1)


def _chosen(pages: list[str] | None, of_ucp: bool) -> tuple[Check, ...]:
    """Return the checks of these pages and patterns, or all checks. Exits with a usage error for unknown pages."""
    try:
        if of_ucp:
            return ucp_kit.select(*pages) if pages else ucp_kit.checks()
        return select(*pages) if pages else checks()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--page") from None


def _run(subject: Subject | Fixture, chosen: tuple[Check, ...], console: Console) -> Report:
    outcomes: list[Outcome] = []
    with interruptible(lambda: _so_far(outcomes, len(chosen))), progress_bar(console) as live:
        task = live.add_task("checking", total=len(chosen))

        def progress(outcome: Outcome) -> None:
            outcomes.append(outcome)
            live.advance(task)

        return run(subject, chosen, progress=progress)


def _run_spread(
    fixture: Fixture, chosen: tuple[Check, ...], console: Console, jobs: int | None, scheduler: str | None
) -> Report:
    """Run the checks on several workers, each with its own pair. Checks of a worker that dies count as failed."""
    so_far: list[Outcome] = []
    with (
        interruptible(lambda: _so_far(so_far, len(chosen))),
        progress_bar(console) as bar,
        engine_for(jobs, scheduler) as engine,
    ):
        shares = portions(chosen, engine)

        def take(ending: Ending) -> None:
            so_far.extend(outcomes_of(shares[ending.index], ending.result, ending.failure))

        endings = spread_shown(
            run_share,
            [Job(f"from {share[0].id} on", Share(fixture, tuple(check.id for check in share))) for share in shares],
            engine,
            bar,
            weights=[len(share) for share in shares],
            taken=take,
        )
    devices = next((ending.result.devices for ending in endings if ending.result is not None), ())
    outcomes = [
        outcome
        for share, ending in zip(shares, endings, strict=True)
        for outcome in outcomes_of(share, ending.result, ending.failure)
    ]
    return Report(devices, tuple(outcomes))


def _so_far(outcomes: list[Outcome], total: int) -> str:
    failed = [outcome.check.id for outcome in outcomes if outcome.state == "failed"]
    return f"{len(outcomes)} of {total} checks, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}"


def _facts(report: Report) -> dict[str, object]:
    return {
        "devices": report.devices,
        "passed": report.passed,
        "checks": {outcome.check.id: outcome.state for outcome in report.outcomes},
        "failures": {outcome.check.id: outcome.failure for outcome in report.failures},
        "seconds": sum(outcome.seconds for outcome in report.outcomes),
    }


def _table(report: Report, title: str) -> Table:
    table = Table(title=title, show_footer=True)
    states = [outcome.state for outcome in report.outcomes]
    table.add_column("page", "all")
    table.add_column("checks", str(len(states)), justify="right")
    for name in ("passed", "failed", "not offered"):
        table.add_column(name, str(states.count(name)), justify="right")
    table.add_column("seconds", f"{sum(outcome.seconds for outcome in report.outcomes):.2f}", justify="right")
    for page in report.pages:
        outcomes = report.of_page(page)
        states = [outcome.state for outcome in outcomes]
        failed = states.count("failed")
        table.add_row(
            manual_page(page),
            str(len(states)),
            f"[green]{states.count('passed')}[/]",
            f"[bold red]{failed}[/]" if failed else "0",
            str(states.count("not offered")),
            f"{sum(outcome.seconds for outcome in outcomes):.2f}",
        )
    return table
