"""Options and helpers of commands that spread their work over processes or a cluster."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.progress import Progress

from amoeba_tools.spread import Ending, Engine, Job, open_engine, spread

__all__ = ["JobsOption", "SchedulerOption", "engine_for", "is_spread", "spread_shown"]

JobsOption = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Local processes that share the work.")]
SchedulerOption = Annotated[
    str | None,
    typer.Option(metavar="tcp://HOST:PORT", help="Scheduler of a dask cluster that shares the work."),
]


def is_spread(jobs: int | None, scheduler: str | None) -> bool:
    """Return whether work leaves this process."""
    return scheduler is not None or (jobs is not None and jobs > 1)


@contextlib.contextmanager
def engine_for(jobs: int | None, scheduler: str | None) -> Iterator[Engine]:
    """Open the engine that runs the work. Exits with a usage error for both options at once."""
    if jobs is not None and scheduler is not None:
        raise typer.BadParameter("a cluster has its own workers: omit --jobs", param_hint="--scheduler")
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
    """Spread jobs below a progress bar, and call ``taken`` with every ending as it comes.

    ``weights``: progress of the bar per job.
    """
    task = bar.add_task(f"on {engine.name}", total=sum(weights))

    def progress(ending: Ending) -> None:
        taken(ending)
        bar.update(task, advance=weights[ending.index], description=f"on {engine.name}: {ending.name}")

    return spread(function, jobs, engine, progress)
