"""Jobs in this process, one after the other."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from amoeba_tools.spread.jobs import Ending, Job, attempt

__all__ = ["Here"]


class Here:
    """This process. A job that ends it ends everything."""

    name = "this process"
    workers = 1

    def run(self, function: Callable[[Any], Any], jobs: Sequence[Job]) -> Generator[Ending]:
        """Endings in the order of the jobs."""
        for index, job in enumerate(jobs):
            yield Ending(index, job.name, *attempt(function, job.argument))
