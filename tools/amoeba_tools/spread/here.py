"""Jobs in this process, one after the other."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from amoeba_tools.spread.jobs import Ending, Job, attempt

__all__ = ["Here"]


class Here:
    """Engine in this process. A job that ends the process ends all jobs."""

    name = "this process"
    workers = 1

    def run(self, function: Callable[[Any], Any], jobs: Sequence[Job]) -> Generator[Ending]:
        """Yield the endings in the order of the jobs."""
        for index, job in enumerate(jobs):
            yield Ending(index, job.name, *attempt(function, job.argument))
