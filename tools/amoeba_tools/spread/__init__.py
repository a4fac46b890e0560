"""Pure jobs, spread over the processors of this machine or of a cluster.

``jobs`` defines jobs, endings and engines. The engines are ``here`` (this process), ``processes`` (of this machine)
and ``cluster`` (dask.distributed, the extra ``cluster``). A job is a call of a module's function with one
argument, both of which can be pickled. A job depends on nothing else, so that it may run on any machine, and
repeatedly.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

from amoeba_tools.spread.here import Here
from amoeba_tools.spread.jobs import Ending, Engine, Job
from amoeba_tools.spread.processes import Processes

__all__ = ["Ending", "Engine", "Job", "open_engine", "portions", "spread"]

_Item = TypeVar("_Item")
_PORTIONS_EACH = 4
"""Jobs for each worker: the last ones of all end at about the same time, and what a job begins with costs little."""


@contextlib.contextmanager
def open_engine(jobs: int | None = None, scheduler: str | None = None) -> Iterator[Engine]:
    """Open an engine: this process, ``jobs`` processes of this machine, or the workers of a dask cluster.

    Parameters
    ----------
    jobs : int, optional
        Number of processes; 1 by default: this process alone.
    scheduler : str, optional
        Address of the cluster's scheduler, such as ``tcp://192.0.2.1:8786``. Any client of a scheduler can run any
        code on its workers: keep the scheduler in a trusted network, or behind dask's TLS (``tls://...``).

    Raises FI_EINVAL for both at once and for less than one process, FI_ENOSYS if dask.distributed is not installed,
    and FI_ECONNREFUSED without scheduler, without workers, or for a worker with another release of Amoeba.
    """
    if scheduler is not None:
        if jobs is not None:
            raise fabric_error(Errno.FI_EINVAL, f"a cluster has its own workers: expected no jobs, got {jobs}")
        from amoeba_tools.spread.cluster import Cluster

        with contextlib.closing(Cluster(scheduler)) as cluster:
            yield cluster
    elif jobs is None or jobs == 1:
        yield Here()
    else:
        yield Processes(jobs)


def spread(
    function: Callable[[Any], Any],
    jobs: Sequence[Job],
    engine: Engine,
    progress: Callable[[Ending], object] | None = None,
) -> list[Ending]:
    """Call ``function(job.argument)`` for every job, and return the endings in the order of the jobs.

    ``progress`` is called with every ending as it comes. A job that raises, or whose worker dies, has an ending that
    reports the failure, and the other jobs continue. KeyboardInterrupt, and errors of ``progress``, end the workers:
    ``progress`` then knows all endings so far.
    """
    endings: list[Ending | None] = [None] * len(jobs)
    with contextlib.closing(engine.run(function, jobs)) as running:
        for ending in running:
            endings[ending.index] = ending
            if progress is not None:
                progress(ending)
    found = [ending for ending in endings if ending is not None]
    assert len(found) == len(jobs)
    return found


def portions(
    items: Sequence[_Item], engine: Engine, weight: Callable[[_Item], int] = lambda item: 1
) -> list[list[_Item]]:
    """Items, in their order, in about as many portions of about the same weight as the engine is kept busy with."""
    total = sum(map(weight, items))
    most = max(1, -(-total // (_PORTIONS_EACH * engine.workers)))
    found: list[list[_Item]] = []
    filled = most
    for item in items:
        if filled >= most:
            found.append([])
            filled = 0
        found[-1].append(item)
        filled += weight(item)
    return found
