"""Jobs, their endings, and the interface of engines."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Ending", "Engine", "Job", "attempt"]


@dataclass(frozen=True)
class Job:
    """One call of the function that is spread."""

    name: str
    """For people."""
    argument: Any
    """Can be pickled."""


@dataclass(frozen=True)
class Ending:
    """How a job has ended."""

    index: int
    """Index of the job."""
    name: str
    result: Any = None
    failure: str = ""
    """Why there is no result; empty if there is one."""


class Engine(Protocol):
    """Runs jobs somewhere."""

    @property
    def name(self) -> str:
        """For people: where jobs run."""

    @property
    def workers(self) -> int:
        """How many run at the same time."""

    def run(self, function: Callable[[Any], Any], jobs: Sequence[Job]) -> Generator[Ending]:
        """Yield the endings as they come, one per job. Closing the generator early cancels the other jobs."""


def attempt(function: Callable[[Any], Any], argument: Any) -> tuple[Any, str]:
    """Return the result of a call, or the reason of its failure."""
    try:
        return function(argument), ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, which somebody's script may raise
        return None, f"{type(error).__name__}: {error}"
