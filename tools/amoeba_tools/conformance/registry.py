"""Checks, one per sentence of a manual page, and the pages that register them."""

import fnmatch
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["NEEDS", "Check", "Page", "Subject", "Unchecked", "select_from"]

NEEDS = {
    "rma": "FI_RMA",
    "atomic": "FI_ATOMIC",
    "messages": "FI_MSG",
    "tagged": "FI_TAGGED",
    "triggered": "FI_TRIGGER",
    "fence": "FI_FENCE",
    "source": "FI_SOURCE",
    "scalable": "endpoints of two contexts of either kind",
    "shared_tx": "shared transmit contexts",
    "shared_rx": "shared receive contexts",
    "persistent": "FI_RMA_PMEM",
    "connected": "endpoints of type FI_EP_MSG",
    "int128": "atomics on FI_INT128",
    "long_double": "atomics on FI_LONG_DOUBLE, of this platform's format",
    "wait_fd": "completion queues with FI_WAIT_FD",
    "cut": "a network whose links can be cut",
}
"""Requirements of checks by name, each with a description; :attr:`Pair.offers` lists those that a pair meets."""

Function = Callable[[Any], None]
"""Given the pair that its kit opens."""


class Subject(Protocol):
    """A pair that checks run on: this kit's, or UCP's."""

    @property
    def offers(self) -> frozenset[str]:
        """Names in :data:`NEEDS`."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices of this process."""

    def check(self) -> AbstractContextManager[None]:
        """Close all objects that a check opens."""

    def probe(self) -> None:
        """See that it still works."""


@dataclass(frozen=True)
class Check:
    """One sentence of the manual, and the function that finds out whether it holds."""

    page: str
    version: str
    """libfabric's release that the page was read from."""
    section: str
    sentence: str
    """Paraphrase of the page's sentence."""
    needs: frozenset[str]
    """Names in :data:`NEEDS`; a pair that does not offer them is not asked."""
    function: Function
    """Raises CheckFailedError, or FabricError where none is due, if the sentence does not hold."""

    @property
    def id(self) -> str:
        return f"{self.page}.{self.function.__name__}"

    def missing(self, pair: Subject) -> frozenset[str]:
        """Return the requirements of the check that the pair does not offer."""
        return self.needs - pair.offers

    def run(self, pair: Subject) -> None:
        """Do it, close what it opened, and see that the pair still works.

        Raises CheckFailedError or FabricError if anything of this fails.
        """
        with pair.check():
            self.function(pair)
        pair.probe()

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True)
class Unchecked:
    """A sentence of the manual for which there is no check."""

    page: str
    section: str
    sentence: str
    """Paraphrase of the page's sentence."""
    reason: str
    """Why not; names in backquotes are ids of checks that are about the same."""


class Page:
    """Registers the checks of one manual page: a decorator factory, one per module.

    Raises ValueError for a duplicate name, an unknown requirement, and a check without a docstring.
    """

    def __init__(self, name: str, version: str, needs: Iterable[str] = ()) -> None:
        self.name = name
        self.version = version
        self.needs = frozenset(needs)
        """Requirements of every check of the page."""
        self.checks: list[Check] = []
        self.unchecked: list[Unchecked] = []

    def __call__(self, section: str, sentence: str, needs: Iterable[str] = ()) -> Callable[[Function], Function]:
        """Register the function as the check of a sentence in this section of the page."""

        def register(function: Function) -> Function:
            check = Check(self.name, self.version, section, sentence, self.needs | frozenset(needs), function)
            if unknown := check.needs - set(NEEDS):
                raise ValueError(f"{check.id} needs some of {sorted(NEEDS)}, got {sorted(unknown)}")
            if any(check.id == other.id for other in self.checks):
                raise ValueError(f"{check.id} is registered twice")
            if not function.__doc__:
                raise ValueError(f"{check.id} has no docstring that says how it finds out")
            self.checks.append(check)
            return function

        return register

    def leave(self, section: str, sentence: str, reason: str) -> None:
        """Register a sentence as one that no check stands for."""
        self.unchecked.append(Unchecked(self.name, section, sentence, reason))


def select_from(offered: tuple[Check, ...], *patterns: str) -> tuple[Check, ...]:
    """Return the checks that match any pattern, as in :func:`select`."""
    chosen: set[str] = set()
    for pattern in patterns:
        found = {check.id for check in offered if check.page == pattern or fnmatch.fnmatchcase(check.id, pattern)}
        if not found:
            raise ValueError(f"expected a page or a pattern for ids such as {offered[0].id}, got {pattern!r}")
        chosen |= found
    return tuple(check for check in offered if check.id in chosen)
