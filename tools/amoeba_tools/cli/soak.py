"""``amoeba soak``: every kind of operation over impaired links, each checked."""

import dataclasses
import json
import shlex
from typing import Annotated

import typer
from amoeba.libfabric.objects.cluster import join_cluster, open_cluster
from amoeba.nic.nic import Retransmission
from amoeba_model.impairments import Impairments
from amoeba_model.switch import Switch
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from amoeba_tools.cli.common import (
    BufferOption,
    ConnectOption,
    DeviceOption,
    JsonOption,
    ListenOption,
    LossOption,
    MarkOption,
    NetworkOption,
    RetransmitTimeoutOption,
    SwitchKind,
    SwitchOption,
    TimeoutOption,
    chosen_retransmission,
    facts_table,
    interruptible,
    kinds_of_ranks,
    meeting,
    progress_bar,
    switch_of,
)
from amoeba_tools.cli.spreading import JobsOption, SchedulerOption, engine_for, is_spread, spread_shown
from amoeba_tools.soak import MAX_WINDOW, SoakJob, SoakResult, run_soak, soak_once
from amoeba_tools.spread import Ending, Job

__all__ = ["soak"]

_SECONDS = 10.0
_SHOWN = 20
"""Maximum number of problems to print."""
_CHANCES = ("loss", "duplication", "reordering", "corruption", "delay")
_FATES = ("lost", "duplicated", "reordered", "corrupted", "delayed", "undeliverable", "dropped", "marked")


def soak(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    ranks: Annotated[
        int | None, typer.Option(min=1, max=16, help="Number of ranks, each with a NIC. 2 if absent.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Duration. If absent 10, or until --operations.")
    ] = None,
    operations: Annotated[int | None, typer.Option(min=1, help="Operations per rank.")] = None,
    window: Annotated[int, typer.Option(min=1, max=MAX_WINDOW, help="Outstanding operations per rank.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the operations and of the frames' impairments.")] = 0,
    loss: LossOption = 0,
    duplication: Annotated[float, typer.Option(min=0, max=1, help="Probability that a frame arrives twice.")] = 0,
    reordering: Annotated[
        float, typer.Option(min=0, max=1, help="Probability that later frames overtake a frame.")
    ] = 0,
    corruption: Annotated[
        float, typer.Option(min=0, max=1, help="Probability that bits of a frame are flipped.")
    ] = 0,
    delay: Annotated[int, typer.Option(min=0, help="Maximum extra delay of a frame, in cycles.")] = 0,
    switch: SwitchOption = SwitchKind.NONE,
    buffer: BufferOption = Switch.buffer,
    mark: MarkOption = None,
    incast: Annotated[bool, typer.Option("--incast", help="Direct all operations at rank 0.")] = False,
    retransmit_timeout: RetransmitTimeoutOption = None,
    retransmit_limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=255,
            help="Consecutive timeouts that a peer survives; one more is a failure. 8, or more between processes.",
        ),
    ] = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds without a completion that count as a hang.")] = 60,
    listen: ListenOption = None,
    connect: ConnectOption = None,
    network: NetworkOption = None,
    timeout: TimeoutOption = 60.0,
    runs: Annotated[
        int,
        typer.Option(
            min=1, help="Number of runs, with consecutive seeds from --seed; --jobs or a cluster shares them."
        ),
    ] = 1,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run every kind of operation at once over hostile links, and check each. Exit status 1 on any error.

    With --listen and --connect each rank is a process, on this host or another, with the same options.

    Example: amoeba soak --device model --loss 0.01 --seconds 30
    """
    kinds = kinds_of_ranks(device, ranks, listen, connect)
    joined_by = switch_of(switch, buffer, mark)
    if joined_by is not None and (listen or connect):
        raise typer.BadParameter("a switch joins NICs of one process only", param_hint="--switch")
    if seconds is None and operations is None:
        seconds = _SECONDS
    console = Console(stderr=as_json)
    links = Impairments(
        seed, loss=loss, duplication=duplication, corruption=corruption, reordering=reordering, delay=delay
    )
    named = chosen_retransmission(retransmit_timeout, retransmit_limit)
    timeouts = named or Retransmission()
    if runs > 1 or is_spread(jobs, scheduler):
        if listen is not None or connect is not None:
            raise typer.BadParameter("several runs need all ranks in one process", param_hint="--runs, --jobs")
        job = SoakJob(kinds, links, timeouts, seconds, operations, window, patience, joined_by, incast)
        _soak_often(job, runs, jobs, scheduler, console, as_json)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    completed = 0
    with (
        interruptible(lambda: f"{completed:,} operations were done"),
        shown as live,
        meeting(listen, connect, ranks or 2, timeout) as rendezvous,
    ):
        task = live.add_task(f"opening {', '.join(kinds)}", total=None)
        with (
            open_cluster(kinds, impairments=links, retransmission=timeouts, switch=joined_by)
            if rendezvous is None
            else join_cluster(kinds[0], rendezvous, impairments=links, retransmission=named)
        ) as fabric:
            joining = fabric.network

            def progress(done: int) -> None:
                nonlocal completed
                completed += done
                described = f"{completed:,} operations"
                if joining is not None:
                    described += f", {joining.traffic.sent:,} frames, {joining.traffic.lost:,} lost"
                live.update(task, description=described)

            result = run_soak(
                fabric,
                seconds=seconds,
                operations=operations,
                window=window,
                seed=seed,
                patience=patience,
                rendezvous=rendezvous,
                progress=progress,
                incast=incast,
            )
    again = _reproducer(kinds, window, links, joined_by, incast, timeouts, result) if rendezvous is None else None
    if as_json:
        print(json.dumps(_facts(result, again), indent=2))
    else:
        console.print(_table(result, distributed=rendezvous is not None))
    if not result.passed:
        for problem in result.problems[:_SHOWN]:
            console.print(f"[bold red]wrong:[/] {escape(problem)}", soft_wrap=True)
        if again is not None:
            console.print(f"again: {escape(again)}", soft_wrap=True)
        raise typer.Exit(1)


def _facts(result: SoakResult, again: str | None) -> dict[str, object]:
    return {**dataclasses.asdict(result), "total": result.total, "passed": result.passed, "again": again}


def _soak_often(
    job: SoakJob, runs: int, jobs: int | None, scheduler: str | None, console: Console, as_json: bool
) -> None:
    """Do several runs, each with its own seed. Exit status 1 if any run fails."""
    over: list[Ending] = []
    each = [
        dataclasses.replace(job, links=dataclasses.replace(job.links, seed=job.links.seed + number))
        for number in range(runs)
    ]
    with (
        interruptible(lambda: _so_far(over, runs)),
        progress_bar(console) as bar,
        engine_for(jobs, scheduler) as engine,
    ):
        tasks = [Job(f"seed {one.links.seed}", one) for one in each]
        endings = spread_shown(soak_once, tasks, engine, bar, weights=[1] * runs, taken=over.append)
    facts: list[dict[str, object]] = []
    wrong: list[tuple[int, str, str | None]] = []
    for one, ending in zip(each, endings, strict=True):
        result: SoakResult | None = ending.result
        if result is None:
            wrong.append((one.links.seed, ending.failure, None))
            facts.append({"seed": one.links.seed, "passed": False, "problems": [ending.failure]})
            continue
        again = _reproducer(
            list(one.kinds), one.window, one.links, one.switch, one.incast, one.retransmission, result
        )
        facts.append(_facts(result, again))
        wrong += [(result.seed, problem, again) for problem in result.problems[:1]]
    if as_json:
        print(json.dumps(facts, indent=2))
    total = sum(ending.result.total for ending in endings if ending.result is not None)
    verdict = f"[bold red]{len(wrong)} wrong" if wrong else "[green]each once, verified"
    console.print(f"{runs} runs, {total:,} operations, {verdict}[/]")
    for seed, problem, command in wrong[:_SHOWN]:
        console.print(f"[bold red]seed {seed}:[/] {escape(problem)}", soft_wrap=True)
        if command is not None:
            console.print(f"again: {escape(command)}", soft_wrap=True)
    if wrong:
        raise typer.Exit(1)


def _so_far(over: list[Ending], runs: int) -> str:
    results = [ending.result for ending in over if ending.result is not None]
    wrong = [ending.name for ending in over if ending.result is None or not ending.result.passed]
    operations = sum(result.total for result in results)
    which = f"{': ' if wrong else ''}{', '.join(wrong)}"
    return f"{len(over)} of {runs} runs, {operations:,} operations, {len(wrong)} wrong{which}"


def _reproducer(
    kinds: list[str],
    window: int,
    links: Impairments,
    switch: Switch | None,
    incast: bool,
    retransmission: Retransmission,
    result: SoakResult,
) -> str:
    """Return the command that repeats this run up to its end."""
    words = ["amoeba", "soak", "--device", ",".join(kinds), "--operations", result.posted]
    words += ["--window", window, "--seed", links.seed]
    for name in _CHANCES:
        if value := getattr(links, name):
            words += [f"--{name}", value]
    if switch is not None:
        words += ["--switch", "pause" if switch.pause else "drop", "--buffer", switch.buffer]
        words += [] if switch.mark is None else ["--mark", switch.mark]
    words += ["--incast"] * incast
    for field in dataclasses.fields(retransmission):
        if (value := getattr(retransmission, field.name)) != field.default:
            words += [f"--retransmit-{field.name}", value]
    return shlex.join(map(str, words))


def _table(result: SoakResult, *, distributed: bool) -> Table:
    traffic, counters, total = result.traffic, result.counters, result.total
    cycles = ("cycles per operation", f"{result.cycles / max(total, 1):.0f}")
    verdict = "[green]each once, verified[/]" if result.passed else f"[bold red]{len(result.problems)} wrong[/]"
    facts = (
        ("devices", "\n".join(result.devices)),
        ("operations", f"{total:,}"),
        *((f"  {kind}", f"{count:,}") for kind, count in result.operations.items()),
        ("performed", verdict),
        ("events", f"{counters['EVENTS']:,}"),
        ("messages", f"{counters['MESSAGES_MATCHED'] + counters['MESSAGES_UNEXPECTED']:,}"),
        ("  before their receive", f"{counters['MESSAGES_UNEXPECTED']:,}"),
        ("frames", f"{traffic.sent:,}"),
        *((f"  {fate}", f"{getattr(traffic, fate):,}") for fate in _FATES),
        ("requests sent", f"{counters['REQUESTS_SENT']:,}"),
        ("  again", f"{counters['RETRANSMISSIONS']:,}"),
        ("requests received again", f"{counters['DUPLICATES']:,}"),
        ("timeouts", f"{counters['TIMEOUTS']:,}"),
        ("NACKs", f"{counters['NACKS_RECEIVED']:,}"),
        ("failed peers", f"{counters['FAILED_PDCS']:,}"),
        *(() if distributed else (cycles,)),  # NICs of several processes have independent clocks
        ("host seconds", f"{result.seconds:.2f}"),
        ("operations per host second", f"{total / max(result.seconds, 1e-9):,.0f}"),
    )
    return facts_table("soak", facts)
