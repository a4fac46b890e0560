"""What commands share whose work is spread over processes or over a cluster."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.progress import Progress

from amoeba_tools.spread import Ending, Engine, Job, open_engine, spread

__all__ = ["JobsOption", "SchedulerOption", "engine_for", "is_spread", "spread_shown"]

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes of this machine that share the work.")
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(metavar="tcp://HOST:PORT", help="Scheduler of a dask cluster, whose workers share the work."),
]


def is_spread(jobs: int | None, scheduler: str | None) -> bool:
    """Whether work leaves this process."""
    return scheduler is not None or (jobs is not None and jobs > 1)


@contextlib.contextmanager
def engine_for(jobs: int | None, scheduler: str | None) -> Iterator[Engine]:
    """What runs it. Exits with a usage error for both options at once."""
    if jobs is not None and scheduler is not None:
        raise typer.BadParameter("a cluster has its own workers: without --jobs", param_hint="--scheduler")
    with open_engine(jobs, scheduler) as engine:
        yield engine


def spread_shown(
    function: Callable[[Any], Any],
    jobs: Sequence[Job],
    engine: Engine,
    bar: Progress,
    *,
    weights: Sequence[int],
    taken: Callable[[Ending], object],
) -> list[Ending]:
    """Spread jobs below a bar, which a job's weight moves on; ``taken`` is told every ending as it comes."""
    task = bar.add_task(f"on {engine.name}", total=sum(weights))

    def progress(ending: Ending) -> None:
        taken(ending)
        bar.update(task, advance=weights[ending.index], description=f"on {engine.name}: {ending.name}")

    return spread(function, jobs, engine, progress)
