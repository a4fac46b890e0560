"""One module or more per manual page, named after it; ``page`` in each registers its checks."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from amoeba_tools.conformance.registry import Check, Page, Unchecked, select_from

__all__ = ["MODULES", "checks", "select", "unchecked"]

MODULES = (
    "fi_getinfo",
    "fi_getinfo_nodes",
    "fi_fabric",
    "fi_domain",
    "fi_rma",
    "fi_rma_flags",
    "fi_atomic",
    "fi_atomic_flags",
    "fi_atomic_completions",
    "fi_atomic_operations",
    "fi_atomic_valid",
    "fi_atomic_tagged",
    "fi_endpoint",
    "fi_endpoint_contexts",
    "fi_endpoint_use",
    "fi_cm",
    "fi_endpoint_shared_receives",
    "fi_cq",
    "fi_cq_conditions",
    "fi_cq_targets",
    "fi_cntr",
    "fi_mr",
    "fi_mr_keys",
    "fi_av",
    "fi_av_names",
    "fi_eq",
    "fi_poll",
    "fi_msg",
    "fi_msg_completions",
    "fi_msg_receives",
    "fi_msg_calls",
    "fi_msg_flags",
    "fi_tagged",
    "fi_tagged_searches",
    "fi_tagged_calls",
    "fi_trigger",
    "fi_trigger_messages",
)
"""In the order in which their checks are listed and run."""


@cache
def checks() -> tuple[Check, ...]:
    """Return all checks, page by page, as for ``pytest.mark.parametrize("check", checks(), ids=str)``."""
    return tuple(check for page in _pages() for check in page.checks)


@cache
def unchecked() -> tuple[Unchecked, ...]:
    """Return all sentences without a check, page by page."""
    return tuple(sentence for page in _pages() for sentence in page.unchecked)


def _pages() -> Iterable[Page]:
    return dict.fromkeys(import_module(f"amoeba_tools.conformance.pages.{name}").page for name in MODULES)


def select(*patterns: str) -> tuple[Check, ...]:
    """Select the checks whose ids match any of these patterns, such as ``fi_rma.*``, or a page by its name alone.

    Raises ValueError for a pattern that matches none.
    """
    return select_from(checks(), *patterns)
