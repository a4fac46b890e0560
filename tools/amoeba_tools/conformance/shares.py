"""Checks that run elsewhere: some of them on a pair of their own, in another process or on another host."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from amoeba_tools.conformance import ucp
from amoeba_tools.conformance.pages import checks
from amoeba_tools.conformance.registry import Check
from amoeba_tools.conformance.runner import Fixture, Outcome, run

__all__ = ["Share", "ShareResult", "outcomes_of", "run_share"]


@dataclass(frozen=True)
class Share:
    """Some checks, and how their pair is opened. Can be pickled."""

    fixture: Fixture
    ids: tuple[str, ...]


@dataclass(frozen=True)
class ShareResult:
    """Outcomes of a share. Can be pickled, which a check cannot."""

    devices: tuple[str, ...]
    outcomes: tuple[tuple[str, frozenset[str], float], ...]
    """For each check in order: failure, missing requirements, seconds."""


def run_share(share: Share) -> ShareResult:
    """Open a pair, and run these checks on the pair. Raises the errors of opening a pair."""
    known = _known()
    report = run(share.fixture, [known[name] for name in share.ids])
    told = tuple((outcome.failure, outcome.missing, outcome.seconds) for outcome in report.outcomes)
    return ShareResult(report.devices, told)


def outcomes_of(chosen: Iterable[Check], result: ShareResult | None, failure: str) -> list[Outcome]:
    """Return the outcomes of these checks from the result of their share; all have failed without a result."""
    if result is None:
        return [Outcome(check, failure, frozenset(), 0.0) for check in chosen]
    return [Outcome(check, *told) for check, told in zip(chosen, result.outcomes, strict=True)]


@functools.cache
def _known() -> dict[str, Check]:
    return {check.id: check for check in (*checks(), *ucp.checks())}
