"""The list of UCP's checks: one per sentence of ``ucp.h`` and function, in the order of the header's groups."""

import functools
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

from amoeba.testing.registry import Check, Page, Unchecked, select_from
from amoeba.testing.ucp.functions import MODULES

__all__ = ["RELEASE", "Function", "across", "checks", "select", "unchecked"]

RELEASE = "1.12.1"
"""Of UCX, whose ``ucp.h`` the sentences and their lines are of."""
_functions: dict[str, "Function"] = {}


class Function(Page):
    """Registers the checks of one function of the header."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(name, RELEASE)
        self.line = line
        """Of its declaration, in ucp.h; its comment is above it."""
        if name in _functions:
            raise ValueError(f"{name} is registered twice")
        _functions[name] = self

    def says(self, line: int, sentence: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Register the function as the check of a sentence, which begins in this line of ucp.h."""
        return self(f"line {line}", sentence)

    def silent(self, sentence: str, reason: str) -> None:
        """Register a sentence of the comment above its declaration as one that no check stands for."""
        self.leave(f"above line {self.line}", sentence, reason)


def across(
    *cases: tuple[Function, int, str, Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a check for each of several functions that promise it: (function, line, sentence, how to call).

    What is registered is given the pair and the last of the four.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        for page, line, sentence, call in cases:
            bound = functools.wraps(function)(functools.partial(function, call=call))
            page.says(line, sentence)(bound)
        return function

    return register


def _pages() -> Iterable[Page]:
    for name in MODULES:
        import_module(f"amoeba.testing.ucp.functions.{name}")
    return tuple(_functions.values())


@cache
def checks() -> tuple[Check, ...]:
    """All checks, function by function: what ``pytest.mark.parametrize("check", checks(), ids=str)`` takes."""
    return tuple(check for page in _pages() for check in page.checks)


@cache
def unchecked() -> tuple[Unchecked, ...]:
    """All sentences without a check, function by function."""
    return tuple(sentence for page in _pages() for sentence in page.unchecked)


def select(*patterns: str) -> tuple[Check, ...]:
    """The checks with ids that match any of these: ``ucp_tag_*.*order*``; of a function by its name alone.

    Raises ValueError for a pattern that matches none.
    """
    return select_from(checks(), *patterns)
