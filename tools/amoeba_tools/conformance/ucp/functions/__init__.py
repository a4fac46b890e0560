"""One module or more per group of ``ucp.h``; each registers the checks of its functions."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from amoeba_tools.conformance.registry import Check, Page, Unchecked, select_from
from amoeba_tools.conformance.ucp.registry import functions

__all__ = ["MODULES", "checks", "select", "unchecked"]

MODULES = (
    "tag_sends",
    "tag_receives",
    "tag_probes",
    "active_messages",
    "active_message_data",
    "streams",
    "stream_data",
    "rma",
    "atomics",
    "flushes",
    "endpoints",
    "listeners",
    "workers",
    "wakeup",
    "memory",
    "requests",
    "contexts",
    "config",
)
"""In the order in which their checks are listed and run."""


def _pages() -> Iterable[Page]:
    for name in MODULES:
        import_module(f"amoeba_tools.conformance.ucp.functions.{name}")
    return functions()


@cache
def checks() -> tuple[Check, ...]:
    """Return all checks, function by function, as for ``pytest.mark.parametrize("check", checks(), ids=str)``."""
    return tuple(check for page in _pages() for check in page.checks)


@cache
def unchecked() -> tuple[Unchecked, ...]:
    """Return all sentences without a check, function by function."""
    return tuple(sentence for page in _pages() for sentence in page.unchecked)


def select(*patterns: str) -> tuple[Check, ...]:
    """Select the checks whose ids match any of these patterns, such as ``ucp_tag_*.*order*``, or a function by name.

    Raises ValueError for a pattern that matches none.
    """
    return select_from(checks(), *patterns)
