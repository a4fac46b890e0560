"""Checks of UCP, one per sentence of ``ucp.h`` and function, and the functions that register them."""

import functools
from collections.abc import Callable
from typing import Any

from amoeba_tools.conformance.registry import Page

__all__ = ["RELEASE", "Function", "across", "functions"]

RELEASE = "1.12.1"
"""Release of UCX whose ``ucp.h`` gives the sentences and their lines."""
_functions: dict[str, "Function"] = {}


class Function(Page):
    """Registers the checks of one function of the header."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(name, RELEASE)
        self.line = line
        """Line of the declaration in ucp.h, below its comment."""
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
    """Register a check for each of several functions with the same sentence: (function, line, sentence, call).

    The registered function gets the pair and the call.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        for page, line, sentence, call in cases:
            bound = functools.wraps(function)(functools.partial(function, call=call))
            page.says(line, sentence)(bound)
        return function

    return register


def functions() -> tuple[Function, ...]:
    """Return all functions that are registered so far."""
    return tuple(_functions.values())
