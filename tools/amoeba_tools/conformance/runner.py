"""Run checks on a pair, and report their outcomes."""

import contextlib
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from amoeba_tools.conformance.pages import checks
from amoeba_tools.conformance.registry import Check, Subject

__all__ = ["Outcome", "Report", "run"]

Fixture = Callable[[], AbstractContextManager[Subject]]
"""Opens a pair anew."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one check."""

    check: Check
    failure: str
    """Why the sentence does not hold; empty if it does, or was not tried."""
    missing: frozenset[str]
    """Requirements that the pair does not offer, so that the check did not run."""
    seconds: float
    """Host time."""

    @property
    def state(self) -> str:
        return "not offered" if self.missing else "failed" if self.failure else "passed"


@dataclass(frozen=True)
class Report:
    """Outcomes of all checks, in their order."""

    devices: tuple[str, ...]
    """Devices of the initiator's process."""
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed, and one at least was tried."""
        states = {outcome.state for outcome in self.outcomes}
        return "failed" not in states and "passed" in states

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failure)

    def of_page(self, page: str) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.check.page == page)

    @property
    def pages(self) -> tuple[str, ...]:
        """The manual pages of the checks, in their order."""
        return tuple(dict.fromkeys(outcome.check.page for outcome in self.outcomes))


def run(
    subject: Subject | Fixture,
    select: Iterable[Check] | None = None,
    *,
    progress: Callable[[Outcome], object] | None = None,
) -> Report:
    """Run checks one after the other on the same pair.

    Parameters
    ----------
    subject : Pair, or a function that opens one
        A function such as ``open_pair``, or ``functools.partial(open_pair, ["model", "rtl"])``, opens a new pair
        after a failure, so that one failure does not cause others. A given Pair is used to the end, in any state.
    select : iterable of Check, optional
        All checks by default; :func:`~amoeba_tools.conformance.select` chooses some.
    progress : callable, optional
        Called with every outcome as it comes.

    Raises the errors of opening a pair. The outcome of a check holds any Exception that the check raises.
    """
    chosen = checks() if select is None else tuple(select)
    outcomes: list[Outcome] = []
    devices: tuple[str, ...] = ()
    while len(outcomes) < len(chosen):
        with subject() if callable(subject) else contextlib.nullcontext(subject) as pair:
            devices = pair.devices
            for check in chosen[len(outcomes) :]:
                outcomes.append(_outcome(check, pair))
                if progress is not None:
                    progress(outcomes[-1])
                if outcomes[-1].failure and callable(subject):
                    break
    return Report(devices, tuple(outcomes))


def _outcome(check: Check, pair: Subject) -> Outcome:
    if missing := check.missing(pair):
        return Outcome(check, "", missing, 0.0)
    begin, failure = time.monotonic(), ""
    try:
        check.run(pair)
    except Exception as error:  # whatever it is, it is this check's outcome, and the others are still to be done
        failure = f"{type(error).__name__}: {error}"
    return Outcome(check, failure, missing, time.monotonic() - begin)
